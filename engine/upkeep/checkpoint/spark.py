"""Spark writes a checkpoint: its tasks stage and prove their files, the driver only names them.

    one file      one task reads the log and writes it, as the local engine does
    sidecars      winners of the tail ─┬─► a task each, the tail by age
    parts         rows of the old      ┴─► by hash of the path, a task a part
                  checkpoint, untouched

Nothing that grows with the table comes to the driver. What the tail does not touch is not
shuffled, but for parts, which want it.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from engine.errors import CheckpointValidationError
from engine.replay.local import refuse_headless
from engine.replay.rules import NEWEST, STATE_KEYS
from engine.replay.spark import ReplayFrames
from engine.replay.spark_errors import told
from engine.replay.spark_sums import add_up
from engine.upkeep.checkpoint.laying import Laid
from engine.upkeep.checkpoint.rows import few_rows
from engine.upkeep.checkpoint.shape import Shape
from engine.upkeep.checkpoint.tasks import (
    TOLD_SCHEMA,
    WriteJob,
    entered,
    files_of,
    singles_of,
    write_part,
    write_parts,
    write_sidecars,
    write_whole,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.log.segment import LogSegment
    from engine.replay.state import LocalState, Singles
    from engine.upkeep.checkpoint.shape import CheckpointPlan
    from engine.upkeep.publish import Staging


def lay_on_spark(
    spark: SparkSession,
    segment: LogSegment,
    directory: LogDirectory,
    config: Config,
    plan: CheckpointPlan,
    staging: Staging,
) -> tuple[Laid, LocalState]:
    """Write and prove the staged files of a version; return them, and its state without files.

    Raises CheckpointValidationError where a file, read back, is not what was written, what makes
    the log unreadable, and DistributedError where it is Spark that fails.
    """
    frames = ReplayFrames(spark, segment, directory, config)
    with told():
        job = _job(frames, plan, staging)
        if plan.shape.is_v2:
            return _counted(frames, job, _sidecars)
        # How many parts a bound in bytes makes is known when all is written once.
        if plan.max_bytes or plan.shape.is_json or (parts := _number_of_parts(frames, job)) == 1:
            return _whole(spark, replace(job, segment=segment, singles=()))
        return _counted(frames, job, partial(_parts, parts=parts))


def _counted(
    frames: ReplayFrames,
    job: WriteJob,
    write: Callable[[DataFrame, WriteJob], tuple[Laid, LocalState]],
) -> tuple[Laid, LocalState]:
    """Write the rows that win; refuse other than as many live files as the sums say there are."""
    live = None
    if frames.segment.checkpoint is not None and frames.is_short_tail:
        # What the tail leaves is taken as it stands, unless a key is there twice.
        sums = add_up(frames)
        live = sums.total["files"]
        frames = replace(frames, has_repeats=sums.has_repeats)
    with _rows(frames, by_age=job.plan.shape.is_v2) as rows:
        laid, state = write(rows, job)
    adds = laid.content.counts.get("add", 0)
    if live is not None and live != adds:
        differs = f"add: {adds:,} of {live:,} actions"
        raise CheckpointValidationError(frames.directory.url, job.plan.version, differs)
    return laid, state


@contextmanager
def _rows(
    frames: ReplayFrames, fields: tuple[str, ...] | None = None, *, by_age: bool = False
) -> Iterator[DataFrame]:
    """Give the actions that win: those of the tail, and what is left of the checkpoint.

    With `by_age` the tail's are not where their keys fall, but newest first: so the next commits,
    which mostly touch the youngest files, touch few sidecars.
    """
    tail = frames.winners(fields)
    if frames.segment.checkpoint is None and not by_age:
        yield tail
        return
    # Parsed once: its keys are held against the checkpoint, or its versions dealt out, before its
    # rows are written.
    tail.persist()
    laid = None
    if by_age:
        newest_first = [F.desc(name) for name in NEWEST]
        tasks = frames.tasks(frames.tail_pieces)
        laid = tail.repartitionByRange(tasks, *newest_first).sortWithinPartitions(*newest_first)
    try:
        yield frames.with_untouched(tail, fields, laid=laid)
    finally:
        tail.unpersist()


def _whole(spark: SparkSession, job: WriteJob) -> tuple[Laid, LocalState]:
    (found,) = _run(spark.range(0, 1, 1, 1), write_whole, job)
    singles = entered(singles_of(found))
    files = tuple(files_of(found))
    shape = job.plan.shape
    if len(files) > 1:
        shape = Shape.JSON_PARTS if shape.is_json else Shape.MULTI_PART
    return Laid(shape, files, job.few(singles)), job.state(singles)


def _sidecars(rows: DataFrame, job: WriteJob) -> tuple[Laid, LocalState]:
    found = _run(rows, write_sidecars, job)
    singles = _together(found, job)
    files = tuple(file for row in found for file in files_of(row))
    return Laid(job.plan.shape, files, job.few(singles)), job.state(singles)


def _parts(rows: DataFrame, job: WriteJob, parts: int) -> tuple[Laid, LocalState]:
    """Write parts; the same file is in the same part, whoever writes them."""
    path = F.coalesce(F.col("add.path"), F.col("remove.path"))
    part = F.when(path.isNull(), 0).otherwise(F.pmod(F.hash(path), F.lit(parts)))
    spread = rows.withColumn("part", part.cast("int")).repartitionById(parts, F.col("part"))
    found = {row["part"]: row for row in _run(spread, write_parts, job)}
    singles = _together(list(found.values()), job)
    for number in range(parts):
        if number not in found:
            (found[number],) = write_part((), job, number).to_pylist()
    files = tuple(file for number in range(parts) for file in files_of(found[number]))
    return Laid(Shape.MULTI_PART, files, job.few(singles)), job.state(singles)


def _number_of_parts(frames: ReplayFrames, job: WriteJob) -> int:
    """Return how many parts the rows make; where that depends on their number, count them."""
    plan = job.plan
    least = max(plan.least_parts, 2 if plan.shape is Shape.MULTI_PART else 1)
    if not plan.max_rows:
        return least
    is_kept = F.coalesce("remove.deletionTimestamp", F.lit(0)) > plan.tombstone_cutoff_ms
    is_file = F.col("add").isNotNull() | (F.col("remove").isNotNull() & is_kept)
    single = F.struct("kind", "version", "ordinal", "single")
    with _rows(frames, ("deletionTimestamp",)) as rows:
        counted = rows.agg(
            F.count_if(is_file).alias("files"),
            F.collect_list(F.when(F.col("single").isNotNull(), single)).alias("singles"),
        ).collect()[0]
    singles = entered(job.singles)
    for row in counted["singles"]:
        singles.enter(row["kind"], (row["version"], row["ordinal"]), orjson.loads(row["single"]))
    total = counted["files"] + few_rows(job.few(singles), plan).num_rows
    return int(max(least, -(-total // plan.max_rows)))


def _job(frames: ReplayFrames, plan: CheckpointPlan, staging: Staging) -> WriteJob:
    segment = frames.segment
    _, base = frames.checkpoint
    if segment.checkpoint is not None:
        refuse_headless(base, segment)
    bare = replace(
        segment, checkpoint=None, compactions=(), commits=(), last_commit=None, fallbacks=()
    )
    singles = tuple(
        (kind, position, value) for kind in STATE_KEYS for _, position, value in base.entries(kind)
    )
    return WriteJob(staging, plan, bare, frames.config, singles)


def _run(
    rows: DataFrame,
    function: Callable[..., Iterator[pa.RecordBatch]],
    job: WriteJob,
) -> list[Mapping[str, Any]]:
    task = partial(function, job=job)
    task.__name__ = function.__name__  # type: ignore[attr-defined]
    found = rows.mapInArrow(task, from_arrow_schema(TOLD_SCHEMA)).collect()
    return [row.asDict() for row in found]


def _together(found: Iterable[Mapping[str, Any]], job: WriteJob) -> Singles:
    seen = [single for row in found for single in singles_of(row)]
    return entered([*job.singles, *seen])
