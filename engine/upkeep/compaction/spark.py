"""How does Spark write a compaction? Executors reconcile and one task writes: not the driver.

commits ──mapInArrow(read)──► newest per task ──shuffle by key──► window ──► one task: a file

All lines end up in one task, which copies them faster than a shuffle brings them. So it also
reads and reconciles them, as long as their keys are no burden to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.window import Window

from engine.actions import kinds
from engine.errors import CompactionValidationError
from engine.replay.checkpoints import ALL_KINDS
from engine.replay.content import Content
from engine.replay.pieces import RANGE_BYTES, REFS_SCHEMA, Job, Piece
from engine.replay.plan import split
from engine.replay.rules import FILE_KINDS, NEWEST
from engine.replay.spark import ReplayFrames
from engine.replay.spark_errors import told
from engine.upkeep.compaction.local import Written, staged_ref, window_segment
from engine.upkeep.compaction.tasks import (
    CONTENT_SCHEMA,
    LINES_SCHEMA,
    WRITTEN_SCHEMA,
    content_of_files,
    content_of_winners,
    read_lines,
    write_lines,
    write_rows,
    write_window,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.log.paths import TransactionFileRef
    from engine.log.segment import LogSegment
    from engine.upkeep.publish import Staging


# The commits of a window that one task takes as a whole. Of a line of 500 bytes it holds a key of
# 32 to 64: some 100 MB. Compressed commits count for more, by what JSON commonly shrinks to.
ONE_TASK_BYTES: Final = 1024 * 1024 * 1024
_COMPRESSION: Final = 8


@dataclass(frozen=True)
class OnSpark:
    """Writes compactions on one Spark session."""

    spark: SparkSession
    directory: LogDirectory
    config: Config
    name: str = "spark"

    def write(self, commits: Sequence[TransactionFileRef], staging: Staging, name: str) -> Written:
        """Write the winners of commits, as JSON lines or Parquet by the name, and read them back.

        Raises CompactionValidationError where what is read back is not what was written.
        """
        frames = ReplayFrames(
            self.spark, window_segment(commits, self.directory), self.directory, self.config
        )
        with told():
            if name.endswith(".json"):
                return self._lines(frames, staging)
            return self._rows(frames, staging)

    def _lines(self, frames: ReplayFrames, staging: Staging) -> Written:
        if _text_bytes(frames.segment) <= ONE_TASK_BYTES:
            refs = [Piece(ref).row(0) for ref in frames.segment.commits]
            commits = self.spark.createDataFrame(pa.Table.from_pylist(refs, REFS_SCHEMA))
            return self._written(commits, partial(write_window, job=self._job(), staging=staging))
        pieces = [piece for ref in frames.segment.commits for piece in split(ref, RANGE_BYTES)]
        lines = frames.mapped(pieces, partial(read_lines), None, LINES_SCHEMA)
        order = [F.desc(column) for column in NEWEST]
        window = Window.partitionBy("space", "key", F.coalesce("dvId", F.lit(""))).orderBy(*order)
        won = lines.withColumn("rank", F.row_number().over(window)).where("rank = 1").drop("rank")
        return self._written(won, partial(write_lines, job=self._job(), staging=staging))

    def _rows(self, frames: ReplayFrames, staging: Staging) -> Written:
        winners = frames.winners().persist()
        try:
            wanted = self._content(winners, partial(content_of_winners, job=self._job()))
            if self.directory.storage.scheme == "file":
                written = self._parquet(winners, staging, wanted.size)
            else:
                written = self._written(
                    winners, partial(write_rows, job=self._job(), staging=staging)
                )
        finally:
            winners.unpersist()
        assert written.name is not None
        staged = staged_ref(staging.name(written.name), written.size)
        pieces = split(staged, RANGE_BYTES)
        rows = frames.mapped(pieces, partial(content_of_files), None, CONTENT_SCHEMA)
        if differences := wanted.differences(_total(rows)):
            raise CompactionValidationError(
                self.directory.url, written.name, "; ".join(differences)
            )
        return written

    def _parquet(self, winners: DataFrame, staging: Staging, actions: int) -> Written:
        """Let Spark write one file, one struct column a kind, as checkpoints have them."""
        known = kinds(self.directory.log_format)
        schema = {field.name: field.dataType for field in from_arrow_schema(_struct(known))}
        columns: list[Any] = []
        for kind in (kind for kind in ALL_KINDS if kind in known):
            column = F.col(kind)
            if kind not in FILE_KINDS:
                column = F.when(
                    F.col("kind") == kind, F.from_json("single", schema[kind].simpleString())
                )
            columns.append(column.alias(kind))
        folder = staging.path("_").removesuffix("/_")
        winners.select(*columns).coalesce(1).write.mode("append").parquet(
            self.directory.storage.url(folder)
        )
        files = self.directory.storage.list_from(folder)
        part = next(file for file in files if file.name.startswith("part-"))
        return Written(part.size, actions, part.name)

    def _written(self, rows: DataFrame, write: partial[Any]) -> Written:
        write.__name__ = write.func.__name__  # type: ignore[attr-defined]
        answers = rows.repartition(1).mapInArrow(write, from_arrow_schema(WRITTEN_SCHEMA)).collect()
        (answer,) = answers
        return Written(answer["size"], answer["actions"], answer["name"])

    def _content(self, rows: DataFrame, count: partial[Any]) -> Content:
        count.__name__ = count.func.__name__  # type: ignore[attr-defined]
        return _total(rows.mapInArrow(count, from_arrow_schema(CONTENT_SCHEMA)))

    def _job(self) -> Job:
        return Job(self.directory, self.config)


def _text_bytes(segment: LogSegment) -> int:
    """Return about how much text the commits of a segment are."""
    return segment.size_bytes * (_COMPRESSION if segment.log_format.compressed_commits else 1)


def _struct(known: Any) -> pa.Schema:
    return pa.schema([pa.field(kind, kind_type) for kind, kind_type in known.items()])


def _total(rows: DataFrame) -> Content:
    found = Content()
    for row in rows.collect():
        found += Content({row["kind"]: row["count"]}, {row["kind"]: int(row["sum"])})
    return found
