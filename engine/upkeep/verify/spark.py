"""How do executors verify a log? Every file is read by them, and every key settled where it meets.

    commits, checkpoints ──mapInArrow(look)──► everything but the file actions ──► the walk's notes
    commits, checkpoints ──mapInArrow(deal)──► shuffle by path ──► mapInArrow(settle) ──► answers

What comes to the driver grows with the number of commits, never with the number of files.
"""

from __future__ import annotations

import pickle
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from engine.replay.parse import chunks
from engine.replay.spark_errors import told
from engine.replay.spark_session import default_parallelism
from engine.replay.travel import explained
from engine.upkeep.verify.far import FarWalk, slim
from engine.upkeep.verify.order import steps
from engine.upkeep.verify.shares import (
    BYTES_SCHEMA,
    COMMITS,
    ROWS_SCHEMA,
    from_batches,
    judge,
    packed,
    settle,
    to_batch,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from engine.log.paths import TransactionFileRef
    from engine.replay.local import Progress

# A share that no file action fell into still has answers to give.
_TASKS_A_CORE: Final = 2


def run_on_spark(walk: FarWalk, spark: SparkSession, progress: Progress | None = None) -> None:
    """Walk a log with the executors of a session."""
    reads = list(steps(walk))
    width = default_parallelism(spark) * _TASKS_A_CORE
    with told():
        seen = _mapped(spark, [step.read for step in reads], _look, BYTES_SCHEMA, width)
        found = {row["item"]: pickle.loads(row["data"]) for row in seen.collect()}
        for index, step in enumerate(reads):
            step.take(found.pop(index))
            if progress:
                progress(step.size)
        walk.finish()
        commits = [list(run) for run in chunks(walk.files.commits.values())]
        work = [partial(judge, walk.reader, refs, walk.ranges) for refs in commits]
        judged = _mapped(spark, work, _complaints, BYTES_SCHEMA, width)
        for row in judged.collect():
            for complaint in pickle.loads(row["data"]):
                ref = walk.files.commits[complaint.version]
                walk.complain(complaint.code, complaint.message, ref)
        walk.conclude(_answers(walk, spark, commits, width))


def _answers(
    walk: FarWalk, spark: SparkSession, commits: Sequence[Sequence[TransactionFileRef]], width: int
) -> Iterator[Any]:
    work: list[Callable[[], Any]] = [
        partial(_rows_of_commits, walk.reader, refs) for refs in commits
    ]
    work += [
        partial(_rows_of_file, walk.reader, name, files) for name, files in walk.sources.items()
    ]
    dealt = _mapped(spark, work, partial(_deal, shares=width), ROWS_SCHEMA, width)
    task = partial(
        _settle,
        notes=tuple(walk.notes),
        sum_versions=walk.sum_versions,
        log_format=walk.directory.log_format,
    )
    spread = dealt.repartitionById(width, F.col("share"))
    settled = spread.mapInArrow(task, from_arrow_schema(BYTES_SCHEMA))
    for row in settled.collect():
        yield from pickle.loads(row["data"])


def _mapped(
    spark: SparkSession,
    work: Sequence[Callable[[], Any]],
    task: Callable[..., Iterator[pa.RecordBatch]],
    schema: pa.Schema,
    width: int,
) -> DataFrame:
    items = [pickle.dumps(item) for item in work]
    table = pa.table({"item": pa.array(range(len(items)), pa.int32()), "data": items})
    refs = spark.createDataFrame(table.cast(BYTES_SCHEMA))
    tasks = max(1, min(width, len(items)))
    spread = refs.repartitionById(tasks, F.col("item") % tasks)
    return spread.mapInArrow(task, from_arrow_schema(schema))


def _items(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Any]]:
    for batch in batches:
        for row in batch.to_pylist():
            yield row["item"], pickle.loads(row["data"])()


def _look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with explained():
        for item, read in _items(batches):
            yield packed(item, slim(read))


def _complaints(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with explained():
        for item, (_, complaints) in _items(batches):
            yield packed(item, complaints)


def _deal(batches: Iterable[pa.RecordBatch], shares: int) -> Iterator[pa.RecordBatch]:
    with explained():
        for _, (source, rows) in _items(batches):
            yield to_batch(rows, source, shares)


def _settle(batches: Iterable[pa.RecordBatch], **asked: Any) -> Iterator[pa.RecordBatch]:
    with explained():
        yield packed(0, list(settle(from_batches(list(batches)), **asked)))


def _rows_of_commits(reader: Any, refs: Sequence[TransactionFileRef]) -> tuple[str, Any]:
    return COMMITS, reader.commits(refs).rows


def _rows_of_file(reader: Any, name: str, files: Any) -> tuple[str, Any]:
    return name, reader.files(files).rows
