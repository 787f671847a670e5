"""Run by test_cluster.py in a process of its own: a cluster of two executors on this machine.

    python -m tests.spark.cluster DIRECTORY      prints one JSON object: scenario -> what it found

The directory holds a table for each scenario.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from pyspark.sql import SparkSession

from engine import Config, open_log
from engine.replay import spark_sums, sums
from tests.spark.fixtures import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.table import TableLog

CONFIG = Config(
    options={
        "spark.indextables.transaction.distributed.adaptiveParallelism": False,
        "spark.indextables.transaction.distributed.parallelism": 4,
    }
)


def main(directory: str) -> None:
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("txlog cluster")
    for name, value in {
        **SETTINGS,
        "spark.executor.memory": "512m",
        "spark.task.maxFailures": "8",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        wait_for_executors(spark)
        found = {
            scenario: run(spark, open_log(f"{directory}/{scenario}", CONFIG, spark=spark))
            for scenario, run in SCENARIOS.items()
        }
        sys.stdout.write(json.dumps(found) + "\n")
    finally:
        spark.stop()


def result(log: TableLog) -> dict[str, Any]:
    snapshot = log.snapshot(engine="spark")
    summary = snapshot.summary()
    names = ("engine", "fallbacks", "numFiles", "sizeInBytes", "numTombstones", "txns", "metrics")
    return {name: summary.get(name) for name in names}


def plain(spark: SparkSession, log: TableLog) -> dict[str, Any]:
    """The state and the files, and how many processes had a part in it."""
    found = result(log)
    files = log.snapshot(engine="spark").files().num_rows
    pids = spark.range(8, numPartitions=8).mapInArrow(parent_pid, "pid long").distinct().count()
    return {**found, "files": files, "executors": pids}


def parent_pid(batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow as pa

    for _ in batches:
        executor_pid = psutil.Process().parent().ppid()
        time.sleep(0.3)
        yield pa.RecordBatch.from_pydict({"pid": [executor_pid]})


def killed(spark: SparkSession, log: TableLog) -> dict[str, Any]:
    """The same with one executor killed while its tasks run."""
    marks = Path(os.environ["TXLOG_TEST_MARKS"])
    spark_sums.sum_tail = slow_parse
    victim: list[int] = []

    def kill() -> None:
        while not any(marks.iterdir()):
            time.sleep(0.05)
        ours = [
            child.pid
            for child in psutil.Process().children(recursive=True)
            if child.name() == "java"
            and "CoarseGrainedExecutorBackend" in " ".join(child.cmdline())
        ]
        (parent, *_) = [int(mark.name) for mark in marks.iterdir()]
        assert parent in ours
        os.kill(parent, signal.SIGKILL)
        victim.append(parent)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    found = result(log)
    killer.join(timeout=10)
    return {**found, "killed": len(victim)}


def slow_parse(batches: Iterable[Any], job: Any, lots: int) -> Iterator[Any]:
    """Tell in which executor this runs, and give whoever kills it the time to."""
    marks = Path(os.environ["TXLOG_TEST_MARKS"])
    first = not any(marks.iterdir())
    (marks / str(psutil.Process().parent().ppid())).touch()
    if first:
        time.sleep(3)
    yield from sums.sum_tail(batches, job, lots)


def cached(spark: SparkSession, log: TableLog) -> dict[str, Any]:
    """What repeated reads find in the executors' caches."""

    def hits() -> dict[str, int]:
        metrics = log.snapshot(engine="spark").state.metrics()
        return {name: metrics.get(name, 0) for name in ("cacheHits", "cacheMisses")}

    first = hits()
    again = [hits() for _ in range(4)]
    log.invalidate_caches()
    invalidated = hits()
    warm = [hits() for _ in range(4)]
    log.invalidate_caches(everywhere=True)
    everywhere = hits()
    stats = log.cache_stats()
    # The newest commit is replaced by another of the same name, and of the same size.
    newest = sorted(Path(log.directory.url).glob("*.json"))[-1]
    data = newest.read_bytes()
    newest.write_bytes(data.replace(b'"size":100', b'"size":900'))
    os.utime(newest, ns=(10**18, 10**18))
    changed = log.snapshot(engine="spark")
    return {
        "first": first,
        "again": again,
        "invalidated": invalidated,
        "warm": warm,
        "everywhere": everywhere,
        "stats": stats,
        "changed": changed.totals().size_bytes,
        "misses": changed.state.metrics()["cacheMisses"],
    }


def wait_for_executors(spark: SparkSession) -> None:
    deadline = time.monotonic() + 120
    context = spark.sparkContext._jsc.sc()
    while context.getExecutorMemoryStatus().size() < 3:  # the driver counts
        assert time.monotonic() < deadline, "the executors did not come"
        time.sleep(0.1)


SCENARIOS: dict[str, Callable[[SparkSession, TableLog], dict[str, Any]]] = {
    "plain": plain,
    "cached": cached,
    "killed": killed,  # last: it leaves one executor less
}

if __name__ == "__main__":
    main(*sys.argv[1:])
