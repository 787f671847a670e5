"""The story in one minute: three tables of tiny files, analyzed, compacted, rolled back, cleaned.

    python -m engine.hive.demo [FOLDER]

Works in a folder of its own, with a metastore of its own, and removes both at the end unless a
folder was named.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.markup import escape

from engine.errors import HiveFailedError
from engine.hive import show, upkeep
from engine.hive.catalog import Catalog
from engine.hive.compact import compact
from engine.hive.files import Files
from engine.hive.fingerprint import fingerprint
from engine.hive.inspect import human
from engine.hive.model import Options
from engine.hive.plan import plan
from engine.hive.session import hive_session
from engine.hive.swap import Doors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

DATES: Final = ("2026-02-23", "2026-02-24", "2026-02-25")
# Name, partition keys, the directories, files in each, rows in all: the design document's three.
TABLES: Final[tuple[tuple[str, str, tuple[str, ...], int, int], ...]] = (
    ("flat", "", ("",), 500, 300_000),
    ("events", "date STRING", tuple(f"date={date}" for date in DATES), 200, 300_000),
    (
        "events_2p",
        "date STRING, ref STRING",
        tuple(f"date={date}/ref={ref}" for date in DATES for ref in "ABC"),
        100,
        450_000,
    ),
)


def main(argv: Sequence[str]) -> int:
    """Tell the story on the terminal; return 0 when every table ended as promised."""
    folder = Path(argv[0]) if argv else Path(tempfile.mkdtemp(prefix="txlog-hive-"))
    spark = _start(folder)
    try:
        return tell(spark, folder / "lake", Console())
    finally:
        spark.stop()
        if not argv:
            shutil.rmtree(folder, ignore_errors=True)


def tell(spark: SparkSession, folder: Path, console: Console) -> int:
    """Run the story in a session; return 0 when every table ended as promised."""
    doors = Doors(Files(spark), Catalog(spark), lambda: int(time.time() * 1000))
    spark.sql("CREATE DATABASE IF NOT EXISTS demo")
    kept = True
    for name, keys, folders, files, rows in TABLES:
        table = f"demo.{name}"
        console.rule(f"{table}: {files * len(folders)} files, {rows:,} rows")
        _make(spark, folder, name, keys, folders, files, rows)
        before = fingerprint(spark.table(table))

        console.print(f"\n[bold]txlog hive analyze {table}[/]")
        planned = plan(doors, doors.catalog.table("demo", name), Options())
        verdicts = [verdict for _, verdict in planned.taken]
        show.analysis(console, table, verdicts, Options())

        console.print(f"\n[bold]txlog hive compact {table}[/]")
        report = compact(doors, doors.catalog.table("demo", name), Options()).as_json()
        show.run(console, report)
        backup = fingerprint(spark.table(f"demo.`{report['backup']}`"))
        same = fingerprint(spark.table(table)) == before == backup
        console.print(f"{before.label}: {'the same in' if same else 'NOT in'} table and backup")
        kept = kept and same and report["files_after"] == len(folders)

        found = doors.catalog.table("demo", name)
        if name == "events":
            console.print(f"\n[bold]txlog hive rollback {table}[/]")
            done = upkeep.rollback(doors, found)
            console.print(
                f"{done['outcome']}: {len(done['units'])} partitions have their files back"
            )
        else:
            console.print(f"\n[bold]txlog hive cleanup {table}[/]")
            for done in upkeep.cleanup(doors, found):
                console.print(
                    escape(
                        f"{done['outcome']}: {done['files']:,} files, {human(done['bytes'])} freed"
                    )
                )
        kept = kept and fingerprint(spark.table(table)) == before
        show.history(console, table, upkeep.history(doors, found))
    console.rule("every table holds what it held" if kept else "[red]something differs[/]")
    return 0 if kept else 1


def _start(folder: Path) -> SparkSession:
    """Start Spark; what it says of itself goes to a file beside the tables."""
    folder.mkdir(parents=True, exist_ok=True)
    spoken, terminal = folder / "spark.log", os.dup(2)
    with spoken.open("wb") as log:
        os.dup2(log.fileno(), 2)
        try:
            return hive_session("txlog hive demo", _settings(folder))
        except HiveFailedError:
            os.write(terminal, spoken.read_bytes())
            raise
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)


def _make(
    spark: SparkSession,
    folder: Path,
    name: str,
    keys: str,
    folders: Sequence[str],
    files: int,
    rows: int,
) -> None:
    each = rows // len(folders)
    for number, part in enumerate(folders):
        spark.range(number * each, (number + 1) * each, 1, files).selectExpr(
            "id", "concat('event-', id % 97) AS name", "cast(id AS double) / 7 AS amount"
        ).write.mode("append").parquet(f"{folder / name}/{part}")
    partitioned = f"PARTITIONED BY ({keys})" if keys else ""
    spark.sql(f"DROP TABLE IF EXISTS demo.{name}")
    spark.sql(
        f"CREATE EXTERNAL TABLE demo.{name} (id BIGINT, name STRING, amount DOUBLE) {partitioned} "
        f"STORED AS PARQUET LOCATION '{folder / name}'"
    )
    if keys:
        spark.sql(f"MSCK REPAIR TABLE demo.{name}")


def _settings(folder: Path) -> list[str]:
    return [
        "spark.master=local[2]",
        "spark.log.level=OFF",
        "spark.sql.shuffle.partitions=2",
        f"spark.sql.warehouse.dir={folder}/warehouse",
        f"spark.driver.extraJavaOptions=-Dderby.system.home={folder}",
        "spark.hadoop.javax.jdo.option.ConnectionURL="
        f"jdbc:derby:;databaseName={folder}/metastore;create=true",
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
