"""The obvious way to compact a directory, as most scripts do it: what each hole is shown on.

Rename aside, rename in place, find things by their names, trust counts. Never used by txlog.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path


class Naive:
    def __init__(self, spark, stamp: str = "1") -> None:
        self.spark, self.stamp = spark, stamp
        self.backup_reads: dict[Path, Path] = {}
        self.fs = spark._jvm.org.apache.hadoop.fs.Path("/").getFileSystem(
            spark._jsc.hadoopConfiguration()
        )

    def old(self, live: Path) -> Path:
        return Path(f"{live}__old_{self.stamp}")

    def staged(self, live: Path) -> Path:
        return Path(f"{live}__compact_tmp_{self.stamp}")

    def compact(
        self, live: Path, *, before_swap=None, in_gap=None, spoil=None, point_backup=None
    ) -> None:
        self.backup_reads[live] = live
        before = self.spark.read.parquet(str(live)).count()
        rows = self.spark.read.parquet(str(live))
        (spoil(rows) if spoil else rows).coalesce(1).write.parquet(str(self.staged(live)))
        assert self.spark.read.parquet(str(self.staged(live))).count() == before
        if before_swap:
            before_swap()
        self.rename(live, self.old(live))
        with contextlib.suppress(OSError):  # logged, and forgotten
            if point_backup:
                point_backup()
            self.backup_reads[live] = self.old(live)
        if in_gap:
            in_gap()
        self.rename(self.staged(live), live)

    def rename(self, source: Path, target: Path) -> None:
        path = self.spark._jvm.org.apache.hadoop.fs.Path
        self.fs.rename(path(str(source)), path(str(target)))

    def rollback(self, live: Path) -> None:
        shutil.rmtree(live, ignore_errors=True)
        if self.old(live).exists():
            self.rename(self.old(live), live)

    def rollback_by_backup(self, live: Path) -> str:
        if "__old_" in str(self.backup_reads[live]):
            self.rollback(live)
        return "rolled back"

    def cleanup(self, locations: list[Path]) -> None:
        for location in locations:
            if "__old_" in str(location):
                shutil.rmtree(location, ignore_errors=True)

    def backups(self, table: str, tables: list[str]) -> list[str]:
        return [name for name in tables if name.startswith(f"__bkp_{table}_")]

    def rows(self, live: Path) -> int:
        files = [str(f) for f in live.glob("*.parquet")] if live.exists() else []
        return self.spark.read.parquet(*files).count() if files else 0
