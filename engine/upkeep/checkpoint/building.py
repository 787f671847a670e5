"""Where do the rows of a checkpoint come from? From sidecars, memory, Spark or the log itself."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final

from engine.actions import files_schema, tombstones_schema
from engine.errors import DistributedError
from engine.log.segment import Fallback
from engine.replay.choice import choose_engine
from engine.replay.heads import sidecars_of
from engine.replay.local import Won, in_order, stream
from engine.replay.state import LocalState, Singles
from engine.snapshot import complete
from engine.upkeep.checkpoint.incremental import few_of, kept_sidecars
from engine.upkeep.checkpoint.laying import WORKERS, Laid, lay
from engine.upkeep.checkpoint.manifest import Sidecar
from engine.upkeep.checkpoint.rows import Few, content_of_rows, few_rows, to_rows
from engine.upkeep.checkpoint.shape import ROW_GROUP_ROWS, CheckpointPlan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.log.segment import LogSegment
    from engine.replay.content import Content
    from engine.replay.local import Progress
    from engine.replay.state import State
    from engine.snapshot import Snapshot
    from engine.upkeep.checkpoint.laying import Rows
    from engine.upkeep.publish import Staging

_logger: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Made:
    """What was staged for a plan; nothing yet where `laid` is None."""

    plan: CheckpointPlan
    laid: Laid | None
    state: State
    kept: tuple[Sidecar, ...] = ()
    engine: str = "local"
    fallbacks: tuple[Fallback, ...] = ()

    @property
    def content(self) -> Content:
        """What the whole checkpoint says, kept sidecars included."""
        assert self.laid is not None
        found = self.laid.content
        if self.laid.shape.is_v2:
            found += content_of_rows(few_rows(self.laid.few, self.plan))
        return sum((c for c in map(Sidecar.content, self.kept) if c is not None), found)


@dataclass(frozen=True, slots=True)
class Builder:
    """Writes and proves the staged files of one segment, by what is at hand."""

    segment: LogSegment
    directory: LogDirectory
    config: Config
    engine: str = "local"
    known: Snapshot | None = None
    spark: SparkSession | None = None
    progress: Progress | None = None

    def build(self, plan: CheckpointPlan, staging: Staging) -> Made:
        """Return the proven files, from whatever costs least."""
        segment, known = self.segment, self.known
        if plan.shape.is_v2 and segment.checkpoint is not None:
            again = kept_sidecars(segment, self.directory, self.config, plan, staging)
            if again is not None:
                laid, kept, state = again
                return Made(plan, laid, state, kept)
        if known is not None and known.version == segment.version:
            assert isinstance(known.state, LocalState)
            rows = _rows(_won(known.state), plan)
            return Made(plan, lay(rows, lambda: few_of(known.state), staging, plan), known.state)
        engine, skipped = choose_engine(
            self.engine,
            segment,
            self.config,
            has_session=self.spark is not None,
            sidecars=partial(sidecars_of, segment, self.directory, self.config),
        )
        fallbacks: tuple[Fallback, ...] = () if skipped is None else (skipped,)
        if engine == "spark":
            try:
                return self._on_spark(plan, staging)
            except DistributedError as error:
                if self.engine == "spark" and error.is_setup:
                    raise
                reason = f"{error.reason}; written in this process"
                failed = Fallback("engine", "spark", reason)
                fallbacks = (*fallbacks, failed)
                _logger.warning("%s", failed)
                staging.clear()
        return self._here(plan, staging, fallbacks)

    def _here(
        self, plan: CheckpointPlan, staging: Staging, fallbacks: tuple[Fallback, ...]
    ) -> Made:
        singles = Singles()
        won = stream(self.segment, self.directory, self.config, singles, self.progress)
        found: list[LocalState] = []

        def few() -> Few:
            state = complete(_without_files(singles, self.segment), self.segment, self.config)
            assert isinstance(state, LocalState)
            found.append(state)
            return few_of(state)

        laid = lay(_rows(won, plan), few, staging, plan)
        return Made(plan, laid, found[0], fallbacks=fallbacks)

    def _on_spark(self, plan: CheckpointPlan, staging: Staging) -> Made:
        """Let executors write and prove the staged files."""
        if self.spark is None:
            reason = "there is no Spark session; give one with open_log(..., spark=...)"
            raise DistributedError(reason, is_setup=True)
        spark_half = import_module("engine.upkeep.checkpoint.spark")
        watched = import_module("engine.replay.watch").Watched
        with watched(self.spark, self.segment.size_bytes, self.progress):
            laid, state = spark_half.lay_on_spark(
                self.spark, self.segment, self.directory, self.config, plan, staging
            )
        return Made(plan, laid, state, engine="spark")


def _rows(won: Iterator[Won], plan: CheckpointPlan) -> Iterator[Rows]:
    def prepare(found: Won) -> Rows:
        rows = to_rows(found.kind, found.actions, plan)
        return rows, content_of_rows(rows)

    for _, rows in in_order(prepare, won, max(1, WORKERS - 1)):
        if rows[0].num_rows:
            yield rows


def _won(state: LocalState) -> Iterator[Won]:
    """Yield the file actions of a state in memory."""
    for kind, table in (("add", state.files), ("remove", state.tombstones)):
        for batch in table.drop_columns("dvId").to_batches(max_chunksize=ROW_GROUP_ROWS):
            if batch.num_rows:
                yield Won(kind, batch.to_struct_array())


def _without_files(singles: Singles, segment: LogSegment) -> LocalState:
    log_format = segment.log_format
    return singles.state(
        files_schema(log_format).empty_table(), tombstones_schema(log_format).empty_table()
    )
