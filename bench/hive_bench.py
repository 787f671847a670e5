"""`python -m bench.hive_bench`: one gigabyte of small files, compacted serially and in parallel.

Prints seconds, speed-up and the peak memory of the driver. Asserts nothing.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from engine.hive.catalog import Catalog
from engine.hive.compact import compact
from engine.hive.files import Files
from engine.hive.model import MIB, Options
from engine.hive.session import hive_session
from engine.hive.swap import Doors
from engine.hive.upkeep import rollback

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HEAP_MB = 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--files", type=int, default=50, help="in each partition")
    parser.add_argument("--rounds", type=int, default=1, help="of serial, then parallel")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="txlog-hive-bench-"))
    try:
        _measure(folder, args.megabytes, args.partitions, args.files, args.rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measure(folder: Path, megabytes: int, partitions: int, files: int, rounds: int) -> None:
    spark = hive_session(
        "bench",
        [
            "spark.master=local[2]",
            f"spark.driver.memory={_HEAP_MB}m",
            "spark.log.level=ERROR",
            "spark.ui.showConsoleProgress=false",
            "spark.sql.shuffle.partitions=2",
            f"spark.sql.warehouse.dir={folder}/warehouse",
            f"spark.driver.extraJavaOptions=-Dderby.system.home={folder}",
            "spark.hadoop.javax.jdo.option.ConnectionURL="
            f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        ],
    )
    rows = megabytes * MIB // 40 // partitions
    for part in range(partitions):
        spark.range(0, rows, 1, files).selectExpr(
            "id", "uuid() AS token", "rand() AS amount", "cast(id % 1000 AS int) AS kind"
        ).write.parquet(str(folder / "t" / f"p={part}"))
    size = sum(file.stat().st_size for file in (folder / "t").rglob("*.parquet"))
    spark.sql(
        "CREATE EXTERNAL TABLE t (id BIGINT, token STRING, amount DOUBLE, kind INT) "
        f"PARTITIONED BY (p INT) STORED AS PARQUET LOCATION '{folder}/t'"
    )
    spark.sql("MSCK REPAIR TABLE t")
    doors = Doors(Files(spark), Catalog(spark), lambda: int(time.time() * 1000))
    print(f"{size / MIB:,.0f} MB in {partitions} partitions of {files} files")
    for parallelism in (1, 2):  # both ways once, so that neither is measured cold
        _compact(doors, Options(where="p < 4", parallelism=parallelism))
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for parallelism in (1, 2) * rounds:
        with _Peak(spark) as peak:
            report = _compact(doors, Options(parallelism=parallelism))
        seconds[parallelism].append(report["seconds"])
        print(
            f"parallelism {parallelism}: {report['seconds']:6.1f} s, "
            f"{report['files_before']} -> {report['files_after']} files, "
            f"gap at most {report['gap_ms_max']} ms, driver: python {peak.python:,} MB, "
            f"jvm {peak.jvm:,} MB, its heap {peak.heap:,} of {_HEAP_MB:,} MB"
        )
    print(f"speed-up {min(seconds[1]) / min(seconds[2]):.2f}")
    spark.stop()


def _compact(doors: Doors, options: Options) -> dict[str, Any]:
    report = compact(doors, doors.catalog.table("default", "t"), options).as_json()
    rollback(doors, doors.catalog.table("default", "t"))
    return report


class _Peak:
    """The largest resident sizes of this process and of its JVM, and its heap, in megabytes."""

    def __init__(self, spark: SparkSession) -> None:
        self.python = self.jvm = self.heap = 0
        self._runtime: Any = spark.sparkContext._jvm.java.lang.Runtime.getRuntime()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        me = psutil.Process()
        while not self._ended.wait(0.2):
            self.python = max(self.python, me.memory_info().rss // MIB)
            used = self._runtime.totalMemory() - self._runtime.freeMemory()
            self.heap = max(self.heap, used // MIB)
            for child in me.children(recursive=True):
                try:
                    if "java" in child.name():
                        self.jvm = max(self.jvm, child.memory_info().rss // MIB)
                except psutil.NoSuchProcess:
                    continue


if __name__ == "__main__":
    main()
