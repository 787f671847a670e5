"""What is measured on Spark: a session on two threads, warm, and nothing parsed yet.

Warm: the operation ran once before, so that neither the JVM nor its workers pay for their start.
What the workers then had cached is dropped.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from bench.child import peak_mb
from bench.logs import ROOT
from engine import Config, open_log
from engine.log.segment import segment_for
from engine.replay.spark import ReplayFrames
from engine.replay.sums import ACTION, FIELDS, lay_checkpoint, sum_tail

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from pyspark.sql import DataFrame

    from engine.replay.pieces import Job

Answer = dict[str, float]
_COMMIT = """
    add STRUCT<path: STRING, size: BIGINT, stats: STRING,
               deletionVector: STRUCT<storageType: STRING, pathOrInlineDv: STRING, offset: INT>>,
    remove STRUCT<path: STRING,
               deletionVector: STRUCT<storageType: STRING, pathOrInlineDv: STRING, offset: INT>>
"""
_FLAT = pa.schema(
    {
        **dict.fromkeys(("first", "second", "version", "ordinal", "size", "records"), pa.int64()),
        "is_add": pa.bool_(),
    }
)


def replay(path: str) -> Generator[None, None, Answer]:
    """Rebuild the latest version: sums and single actions; the files stay on the cluster."""
    return (yield from _warm(path, _replay))


def json_reader(path: str) -> Generator[None, None, Answer]:
    """Ask for the same sums with Spark's own JSON reader and a window over all actions."""
    return (yield from _warm(path, _json_reader))


def full_shuffle(path: str) -> Generator[None, None, Answer]:
    """Send the checkpoint's rows, as few bytes of each, through the window as well."""
    return (yield from _warm(path, _full_shuffle))


def memory(path: str) -> Answer:
    """Rebuild a version; tell what the driver holds: Python's peak, and the heap after a GC."""
    spark = session()
    found = _replay(spark, path)
    return {**found, **_driver_mb(spark)}


def _driver_mb(spark: SparkSession) -> Answer:
    runtime = spark._jvm.java.lang.Runtime.getRuntime()
    for _ in range(3):
        spark._jvm.java.lang.System.gc()
    heap_mb = (runtime.totalMemory() - runtime.freeMemory()) / 1e6
    python_mb = peak_mb()
    spark.stop()
    return {"heap_mb": heap_mb, "python_mb": python_mb, "driver_mb": heap_mb + python_mb}


def compact(path: str) -> Generator[None, None, Answer]:
    """Compact all commits into one file; the session is warm from having done it once."""
    spark = session()
    _compact(spark, path)
    yield
    return _compact(spark, path)


def compact_memory(path: str) -> Answer:
    """Compact all commits into one file; tell what the driver holds."""
    spark = session()
    return {**_compact(spark, path), **_driver_mb(spark)}


def _compact(spark: SparkSession, path: str) -> Answer:
    log = open_log(path, spark=spark)
    (done,) = log.compact(0, log.latest_version(), engine="spark")
    if done.engine != "spark":
        raise RuntimeError(f"compacted by {done.engine}")
    Path(log.directory.file(done.name)).unlink()
    return {"commits": done.commits, "file_mb": done.file_size / 1e6}


def _warm(
    path: str, operation: Callable[[SparkSession, str], Answer]
) -> Generator[None, None, Answer]:
    spark = session()
    operation(spark, path)
    open_log(path).invalidate_caches(everywhere=True)
    yield
    return operation(spark, path)


def _replay(spark: SparkSession, path: str) -> Answer:
    snapshot = open_log(path, spark=spark).snapshot(engine="spark")
    if snapshot.engine != "spark":
        raise RuntimeError(f"not on Spark: {snapshot.fallbacks}")
    totals = snapshot.totals()
    records = totals.num_records or 0
    return {"files": totals.num_files, "bytes": totals.size_bytes, "records": records}


def _json_reader(spark: SparkSession, path: str) -> Answer:
    version = F.substring("_metadata.file_name", 1, 20).cast("long").alias("version")
    lines = spark.read.schema(_COMMIT).json(f"{path}/_delta_log/0*.json").select("*", version)
    vector = F.coalesce("add.deletionVector", "remove.deletionVector")
    key = [F.coalesce("add.path", "remove.path"), vector]
    files = lines.where("add IS NOT NULL OR remove IS NOT NULL")
    window = Window.partitionBy(*key).orderBy(F.desc("version"), F.col("add").isNull())
    won = files.withColumn("rank", F.row_number().over(window)).where(
        "rank = 1 AND add IS NOT NULL"
    )
    records = F.get_json_object("add.stats", "$.numRecords").cast("long")
    return _answer(won, F.col("add.size"), records)


def _full_shuffle(spark: SparkSession, path: str) -> Answer:
    log = open_log(path, spark=spark)
    directory = log.directory
    segment = segment_for(
        log.listing().refs, None, log_format=directory.log_format, directory=directory.url
    )
    frames = ReplayFrames(spark, segment, directory, Config())
    tail = frames.mapped(frames.tail_pieces, partial(flat_tail), FIELDS, _FLAT)
    checkpoint = frames.mapped(frames.checkpoint_pieces, partial(flat_checkpoint), FIELDS, _FLAT)
    newest = Window.partitionBy("first", "second").orderBy(F.desc("version"), F.desc("ordinal"))
    ranked = tail.unionByName(checkpoint).withColumn("rank", F.row_number().over(newest))
    return _answer(ranked.where("rank = 1 AND is_add"), F.col("size"), F.col("records"))


def flat_tail(batches: Iterable[pa.RecordBatch], job: Job) -> Iterator[pa.RecordBatch]:
    return (_flat(batch, "tail") for batch in sum_tail(batches, job, lots=1))


def flat_checkpoint(batches: Iterable[pa.RecordBatch], job: Job) -> Iterator[pa.RecordBatch]:
    return (_flat(batch, "checkpoint") for batch in lay_checkpoint(batches, job, lots=1))


def _flat(batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """Return the actions of a lot as rows."""
    (lot,) = batch.column(name).to_pylist()
    actions = np.frombuffer(lot, dtype=ACTION)
    arrays = [actions[field.name].astype(ACTION[field.name]) for field in _FLAT]
    return pa.RecordBatch.from_arrays(
        [pa.array(a.view("i8") if a.dtype.kind == "u" else a) for a in arrays], schema=_FLAT
    )


def _answer(won: DataFrame, size: Any, records: Any) -> Answer:
    found = won.agg(F.count("*"), F.sum(size), F.sum(records)).first()
    assert found is not None
    return dict(zip(("files", "bytes", "records"), map(int, found), strict=True))


def session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(ROOT)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.memory": "3g",
    }
    builder = SparkSession.builder.master("local[2]").appName("txlog bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
