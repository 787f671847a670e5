"""What is a log as DataFrames? Refs as rows, parsed on executors, reconciled by a window.

refs ──mapInArrow(parse)──► newest per task ──shuffle by key──► window ──► winners
checkpoint pieces ──mapInArrow(read)──► left anti (keys of the winners) ──► the rest
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from engine.actions import files_schema, schema
from engine.config import DISTRIBUTED_ADAPTIVE, DISTRIBUTED_PARALLELISM
from engine.replay.cache import Generation
from engine.replay.executor import (
    HISTORY_SCHEMA,
    keep_partitions,
    parse_actions,
    parse_checkpoint,
    parse_history,
    parse_tail,
    reduced_schema,
)
from engine.replay.heads import read_base
from engine.replay.pieces import RANGE_BYTES, REFS_SCHEMA, Job, Piece
from engine.replay.plan import balanced, parallelism, split
from engine.replay.spark_reconcile import newest, once, untouched
from engine.replay.spark_session import default_parallelism

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.log.paths import TransactionFileRef
    from engine.log.segment import LogSegment
    from engine.replay.predicate import Predicate
    from engine.replay.state import Singles

# The keys of a tail of this many bytes of log, about a quarter of it, are sent to every executor;
# a longer tail's keys are joined by hash.
BROADCAST_TAIL_BYTES: Final = 64 * 1024 * 1024

# No task is made for less of a checkpoint than this.
_LEAST_SHARE_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True)
class ReplayFrames:
    """The DataFrames of one replay. They are lazy: making them reads nothing but a V2 manifest."""

    spark: SparkSession
    segment: LogSegment
    directory: LogDirectory
    config: Config
    count: Callable[[dict[str, int]], None] | None = None
    has_repeats: bool = False

    @cached_property
    def checkpoint(self) -> tuple[list[TransactionFileRef], Singles]:
        """The files that hold the checkpoint's rows, and its single actions."""
        return read_base(self.segment, self.directory, self.config)

    @property
    def tail_pieces(self) -> list[Piece]:
        """The commits and compactions after the checkpoint, large ones cut."""
        return [part for ref in self.segment.tail for part in split(ref, RANGE_BYTES)]

    @property
    def checkpoint_pieces(self) -> list[Piece]:
        """The files of the checkpoint, cut so that every core has its share."""
        files, _ = self.checkpoint
        share = sum(ref.size for ref in files) // self._cores
        size_bytes = min(RANGE_BYTES, max(share, _LEAST_SHARE_BYTES))
        return [
            replace(part, place=place)
            for place, ref in enumerate(files)
            for part in split(ref, size_bytes)
        ]

    @property
    def is_short_tail(self) -> bool:
        """Whether the keys of the tail may be sent to every executor."""
        return sum(ref.size for ref in self.segment.tail) <= BROADCAST_TAIL_BYTES

    def winners(self, fields: tuple[str, ...] | None = None) -> DataFrame:
        """Return the newest action of every key after the checkpoint."""
        return newest(
            self.mapped(self.tail_pieces, partial(parse_tail), fields, self._schema(fields))
        )

    def files(self, fields: tuple[str, ...] | None = None) -> DataFrame:
        """Return the live files: the fields of `add`, and `dvId`."""
        return self._of_kind("add", fields).select("add.*", "dvId")

    def with_untouched(
        self,
        tail: DataFrame,
        fields: tuple[str, ...] | None = None,
        *,
        laid: DataFrame | None = None,
    ) -> DataFrame:
        """Return the winners of the tail, and before them the checkpoint's rows they leave.

        `laid` are the same winners as they are to be spread, where that is not as they are.
        """
        laid = tail if laid is None else laid
        if self.segment.checkpoint is None:
            return laid
        return self._untouched(fields, tail).unionByName(laid)

    def tombstones(self) -> DataFrame:
        """Return the removes that won: the fields of `remove`, and `dvId`."""
        return self._of_kind("remove", None).select("remove.*", "dvId")

    def actions(self) -> DataFrame:
        """Return every VersionedAction of the segment's commits."""
        pieces = [Piece(ref) for ref in self.segment.tail]
        wanted = schema(self.directory.log_format)
        return self.mapped(pieces, partial(parse_actions), None, wanted)

    def history(self) -> DataFrame:
        """Return what each of the segment's commits says of itself."""
        pieces = [Piece(ref) for ref in self.segment.commits]
        return self.mapped(pieces, partial(parse_history), None, HISTORY_SCHEMA)

    def changes(self) -> DataFrame:
        """Return the file actions of the segment's commits, one a row, as they were committed."""
        is_add = F.col("add").isNotNull()
        both = [
            F.coalesce(f"add.{name}", f"remove.{name}").alias(name)
            for name in ("path", "partitionValues", "size", "dataChange")
        ]
        return (
            self.actions()
            .where(is_add | F.col("remove").isNotNull())
            .select(
                "version",
                "ordinal",
                F.when(is_add, F.lit("add")).otherwise(F.lit("remove")).alias("change"),
                *both,
            )
        )

    def _of_kind(self, kind: str, fields: tuple[str, ...] | None) -> DataFrame:
        tail = self.winners(fields)
        found = tail.where(F.col(kind).isNotNull())
        if self.segment.checkpoint is None:
            return found
        rest = self._untouched(fields, tail).where(F.col(kind).isNotNull())
        return rest.unionByName(found)

    def _untouched(self, fields: tuple[str, ...] | None, tail: DataFrame) -> DataFrame:
        """Return the checkpoint's rows whose key no later action names.

        They are not shuffled, unless the tail is long, or the checkpoint holds a key twice.
        """
        rows = self.mapped(
            self.checkpoint_pieces, partial(parse_checkpoint), fields, self._schema(fields)
        )
        if self.segment.tail:
            rows = untouched(rows, tail, is_short=self.is_short_tail)
        return rows if self.is_short_tail and not self.has_repeats else once(rows)

    def mapped(
        self,
        pieces: Sequence[Piece],
        task: partial[Any],
        fields: tuple[str, ...] | None,
        wanted: pa.Schema,
    ) -> DataFrame:
        """Spread pieces over tasks, evenly by bytes, and run `task` on each one's refs."""
        function = partial(task, job=self._job(fields))
        # By this name Spark's plans and its UI call it.
        function.__name__ = function.func.__name__  # type: ignore[attr-defined]
        bins = balanced(pieces, self.tasks(pieces))
        rows = [piece.row(task) for task, members in enumerate(bins) for piece in members]
        refs = self.spark.createDataFrame(pa.Table.from_pylist(rows, REFS_SCHEMA))
        spread = refs.repartitionById(len(bins), F.col("task"))
        return spread.mapInArrow(function, from_arrow_schema(wanted))

    def tasks(self, pieces: Sequence[Piece]) -> int:
        """Return how many tasks read these pieces."""
        if not self.config[DISTRIBUTED_ADAPTIVE]:
            return max(1, self._cores)
        return parallelism(len(pieces), sum(piece.size_bytes for piece in pieces), self._cores)

    @property
    def _cores(self) -> int:
        return self.config[DISTRIBUTED_PARALLELISM] or default_parallelism(self.spark)

    def _job(self, fields: tuple[str, ...] | None) -> Job:
        generation = Generation.of(self.directory.table_url)
        return Job(self.directory, self.config, fields, generation, self.count)

    def _schema(self, fields: tuple[str, ...] | None) -> pa.Schema:
        return reduced_schema(self.directory.log_format, fields)


def live_files(
    frames: ReplayFrames, columns: Sequence[str] | None = None, predicate: Predicate | None = None
) -> DataFrame:
    """Return the live files of a segment as a DataFrame, with `columns` only where given."""
    wanted = files_schema(frames.directory.log_format)
    for name in columns or ():
        if name not in wanted.names:
            raise ValueError(f"unknown column {name!r}; use {', '.join(wanted.names)}")
    needed = None if columns is None else {*columns, *(("partitionValues",) if predicate else ())}
    fields = None if needed is None else tuple(sorted(needed))
    files = frames.files(fields)
    if predicate is not None:
        files = files.mapInArrow(partial(keep_partitions, predicate=predicate), files.schema)
    return files.select(*(wanted.names if columns is None else columns))
