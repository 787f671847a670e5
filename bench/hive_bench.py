"""What is measured of plain Hive tables: `txlog hive compact`, serially and in parallel.

A session of its own on two threads and a heap of one gigabyte, with a metastore of its own. Warm
means that the whole table was compacted once before, just so, and rolled back.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.child import peak_mb

if TYPE_CHECKING:
    from collections.abc import Generator

    from pyspark.sql import SparkSession

    from bench.child import Found
    from bench.logs import Prepare
    from engine.hive.swap import Doors

_HEAP_MB = 1024
_ROW_BYTES = 37
_LETTERS = 16


@dataclass(frozen=True)
class Shape:
    """A table of small Parquet files: so many in each of its partitions, and its size in MB."""

    partitions: int
    files: int
    megabytes: int


def small_files(partitions: int, files: int, megabytes: int) -> Prepare:
    """Return how to make the files of a table, without a metastore or Spark."""
    shape = Shape(partitions, files, megabytes)

    def prepare(data: Path) -> Path:
        table = data / f"hive-{partitions}x{files}-{megabytes}mb"
        if not table.exists():
            made = table.with_suffix(".unfinished")
            _make(made, shape)
            made.rename(table)
        return table

    return prepare


def parallel(path: str) -> Generator[None, None, Found]:
    """Compact a table, two partitions at once."""
    return (yield from _warm(path, parallelism=2))


def serial(path: str) -> Generator[None, None, Found]:
    """Compact the same table one partition after the other; each may use both threads."""
    return (yield from _warm(path, parallelism=1))


def memory(path: str) -> Found:
    """Compact a table once; tell Python's peak, the heap's, and what the heap holds afterwards."""
    spark, doors = _open(path)
    found = _compact(doors, parallelism=2)
    factory: Any = spark._jvm.java.lang.management.ManagementFactory
    pools = [pool for pool in factory.getMemoryPoolMXBeans() if pool.getType().name() == "HEAP"]
    peak = sum(pool.getPeakUsage().getUsed() for pool in pools) / 1e6
    for _ in range(3):
        spark._jvm.java.lang.System.gc()
    heap = sum(pool.getUsage().getUsed() for pool in pools) / 1e6
    python = peak_mb()
    spark.stop()
    told = {"heap_peak_mb": peak, "heap_mb": heap, "python_mb": python, "heap_limit_mb": _HEAP_MB}
    return {**found, **told, "driver_mb": heap + python}


def _warm(path: str, *, parallelism: int) -> Generator[None, None, Found]:
    from engine.hive.upkeep import rollback

    spark, doors = _open(path)
    _compact(doors, parallelism)
    rollback(doors, doors.catalog.table("default", "t"))
    yield
    found = _compact(doors, parallelism)
    spark.stop()
    return found


def _compact(doors: Doors, parallelism: int) -> Found:
    from engine.hive.compact import compact
    from engine.hive.model import Options

    table = doors.catalog.table("default", "t")
    done = compact(doors, table, Options(parallelism=parallelism)).as_json()
    found = {key: done[key] for key in ("files_after", "rows", "gap_ms_max")}
    return {"files": done["files_before"], **found}


def _open(path: str) -> tuple[SparkSession, Doors]:
    """Start a session beside the data, which is a copy of ours, and declare the table."""
    from engine.hive.catalog import Catalog
    from engine.hive.files import Files
    from engine.hive.session import hive_session
    from engine.hive.swap import Doors

    home = Path(path).parent
    spark = hive_session(
        "txlog bench",
        [
            "spark.master=local[2]",
            f"spark.driver.memory={_HEAP_MB}m",
            "spark.sql.shuffle.partitions=2",
            f"spark.sql.warehouse.dir={home}/warehouse",
            f"spark.driver.extraJavaOptions=-Dderby.system.home={home}",
            "spark.hadoop.javax.jdo.option.ConnectionURL="
            f"jdbc:derby:;databaseName={home}/metastore;create=true",
        ],
    )
    spark.sql(
        "CREATE EXTERNAL TABLE t (id BIGINT, token STRING, amount DOUBLE, kind INT) "
        f"PARTITIONED BY (p INT) STORED AS PARQUET LOCATION '{path}'"
    )
    spark.sql("MSCK REPAIR TABLE t")
    return spark, Doors(Files(spark), Catalog(spark), lambda: int(time.time() * 1000))


def _make(folder: Path, shape: Shape) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(8)
    rows = shape.megabytes * 1_000_000 // _ROW_BYTES // shape.partitions // shape.files
    ends = pa.py_buffer(np.arange(0, (rows + 1) * _LETTERS, _LETTERS, dtype=np.int32))
    for partition in range(shape.partitions):
        place = folder / f"p={partition}"
        place.mkdir(parents=True, exist_ok=True)
        for number in range(shape.files):
            letters = pa.py_buffer(random.integers(97, 123, rows * _LETTERS, dtype=np.uint8))
            columns = {
                "id": np.arange(rows) + number * rows,
                "token": pa.Array.from_buffers(pa.string(), rows, [None, ends, letters]),
                "amount": random.random(rows),
                "kind": random.integers(0, 1000, rows, dtype=np.int32),
            }
            pq.write_table(pa.table(columns), place / f"part-{number:05d}.parquet")
