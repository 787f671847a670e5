"""How does a version become a checkpoint? Replayed as a stream, written, proven, then published.

The start is always the newest sound checkpoint and what came after it. What goes wrong before
anything is published leaves the log as it was.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from engine.config import STAGING_RETENTION_MS, Config
from engine.errors import (
    CheckpointCorruptionError,
    CheckpointWriteError,
    ReplayError,
)
from engine.log.paths import FileKind
from engine.log.segment import Checkpoint, Fallback, LogSegment, complete_checkpoints
from engine.replay.heads import read_head
from engine.snapshot import complete, load_snapshot
from engine.upkeep.allowed import refuse_checkpoint
from engine.upkeep.checkpoint.building import Builder, Made
from engine.upkeep.checkpoint.found import Told, complete_metadata, hint_to, read_whole, winner
from engine.upkeep.checkpoint.outcome import CheckpointResult
from engine.upkeep.checkpoint.outranking import outranking
from engine.upkeep.checkpoint.placing import TakenError, place
from engine.upkeep.checkpoint.shape import CheckpointPlan, Shape, plan_checkpoint
from engine.upkeep.publish import Staging, move_hint, new_staging, remove_leftovers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from engine.log.listing import Listing, LogDirectory
    from engine.replay.local import Progress
    from engine.replay.state import State
    from engine.snapshot import Snapshot, Watch

_logger: Final = logging.getLogger(__name__)
_TRIES: Final = 4


@dataclass(frozen=True, slots=True)
class Asked:
    """What a checkpoint was asked for: of which version, in which shape, and how."""

    version: int | None = None
    shape: Shape | None = None
    repair: bool = False
    dry_run: bool = False
    engine: str = "local"


def checkpoint(  # noqa: PLR0913
    directory: LogDirectory,
    listing: Listing,
    config: Config,
    asked: Asked,
    *,
    now_ms: int,
    known: Snapshot | None = None,
    spark: SparkSession | None = None,
    progress: Watch | None = None,
) -> CheckpointResult:
    """Write a checkpoint of a version, or of the latest; a sound one that is there is enough.

    `known` is the state of that version, where it is in memory already. With `spark`, a log that
    outgrows this process is written by executors. Raises
    CheckpointCorruptionError where a damaged one has the version, and no repair was asked for;
    CheckpointWriteError, CheckpointValidationError, and what makes the log unreadable.
    """
    work = _Work(directory, listing, config, asked, now_ms)
    work.known, work.spark = known, spark
    for _ in range(_TRIES):
        try:
            return work.run(progress)
        except TakenError as taken:
            # Parts of somebody else: ours get names of their own, which outrank these.
            _logger.info("%s: %s is another's; one part more", directory.url, taken.path)
            work.least_parts += 1
    reason = "other writers took the names of its parts; try again"
    raise CheckpointWriteError(directory.url, asked.version or -1, reason)


class _Work:
    """One attempt, and what it remembers for the next."""

    def __init__(
        self,
        directory: LogDirectory,
        listing: Listing,
        config: Config,
        asked: Asked,
        now_ms: int,
    ) -> None:
        self.directory, self.listing, self.config = directory, listing, config
        self.asked, self.now_ms = asked, now_ms
        self.known: Snapshot | None = None
        self.spark: SparkSession | None = None
        self.least_parts = 1
        self.staging: Staging | None = None
        self.made: Made | None = None
        self.existing: Told | None = None
        self.at_version: frozenset[str] = frozenset()
        self.seconds: dict[str, float] = {}

    def run(self, watch: Watch | None) -> CheckpointResult:
        started = time.perf_counter()
        try:
            found = load_snapshot(
                self.directory,
                self.listing,
                self.asked.version,
                self.build,
                self.config,
                watch,
            )
            result = self.finish(found)
        finally:
            if self.staging is not None:
                self.staging.clear()
        if not self.asked.dry_run:
            safe_age_ms = self.config[STAGING_RETENTION_MS]
            remove_leftovers(self.directory, now_ms=self.now_ms, safe_age_ms=safe_age_ms)
        seconds = {**self.seconds, "total": round(time.perf_counter() - started, 6)}
        return replace(result, seconds=seconds)

    def build(
        self,
        segment: LogSegment,
        directory: LogDirectory,
        config: Config,
        progress: Progress | None = None,
    ) -> tuple[str, State, tuple[Fallback, ...]]:
        """Write the staged files of a segment's version; return its state without the files."""
        self.existing = self.made = None
        at_version = [
            c for c in complete_checkpoints(self.listing.refs) if c.version == segment.version
        ]
        self.at_version = frozenset(found.files[-1].path for found in at_version)
        there = segment.checkpoint
        if there is not None and there.version == segment.version:
            told = read_whole(directory, there, self.listing.refs)
            outranked = any(other.rank > there.rank for other in at_version)
            if not (outranked and self.asked.repair):
                self.existing = told
                return "local", read_head(segment, directory, config), ()
        elif segment.last_commit is None:
            reason = "its commit is not there"
            raise CheckpointWriteError(directory.url, segment.version, reason)
        damaged = [other for other in at_version if there is None or other.rank > there.rank]
        if damaged and not self.asked.repair:
            why = next((f.reason for f in segment.fallbacks if f.path == damaged[0].name), "")
            raise CheckpointCorruptionError(directory.file(damaged[0].name), why)
        started = time.perf_counter()
        state, plan = self.first_plan(segment, damaged)
        if self.asked.dry_run:
            self.made = Made(plan, None, state)
            return "local", state, ()
        made = self.write(segment, plan, progress)
        state = complete(made.state, segment, config)
        exact = self.plan(segment, state, damaged)
        if exact != plan:
            made = self.write(segment, exact, None)
        self.made = made
        self.seconds["build"] = round(time.perf_counter() - started, 6)
        return made.engine, state, made.fallbacks

    def first_plan(
        self, segment: LogSegment, damaged: list[Checkpoint]
    ) -> tuple[State, CheckpointPlan]:
        """Return a plan by what the version most likely says; by what it says where that fails."""
        try:
            state = complete(self.guess(segment), segment, self.config)
            return state, self.plan(segment, state, damaged)
        except ReplayError:
            head = read_head(segment, self.directory, self.config)
            state = complete(head, segment, self.config)
            return state, self.plan(segment, state, damaged)

    def guess(self, segment: LogSegment) -> State:
        """Return the protocol and metaData that the version most likely has, reading little."""
        if self.known is not None:
            return self.known.state
        first = segment.checkpoint is None and segment.tail[:1]
        start = replace(
            segment,
            commits=tuple(ref for ref in first or () if ref.kind is FileKind.COMMIT),
            compactions=tuple(ref for ref in first or () if ref.kind is FileKind.COMPACTION),
        )
        return read_head(start, self.directory, self.config)

    def plan(self, segment: LogSegment, state: State, damaged: list[Checkpoint]) -> CheckpointPlan:
        assert state.protocol is not None
        assert state.metadata is not None
        refuse_checkpoint(segment.version, state.protocol, state.metadata, self.directory)
        plan = plan_checkpoint(
            segment.version,
            state.protocol,
            state.metadata,
            self.directory.log_format,
            self.config,
            now_ms=self.now_ms,
            shape=self.asked.shape,
        )
        plan = replace(plan, least_parts=max(plan.least_parts, self.least_parts))
        return outranking(plan, damaged, has_v2=_has_v2(state))

    def write(self, segment: LogSegment, plan: CheckpointPlan, progress: Progress | None) -> Made:
        """Write and prove staged files in a folder of this run's own."""
        if self.staging is not None:
            self.staging.clear()
        self.staging = new_staging(self.directory, self.now_ms)
        builder = Builder(
            segment,
            self.directory,
            self.config,
            self.asked.engine,
            self.known,
            self.spark,
            progress,
        )
        return builder.build(plan, self.staging)

    def finish(self, found: Snapshot) -> CheckpointResult:
        """Publish what was built."""
        table = self.directory.table_url
        fallbacks, version = found.fallbacks, found.version
        if self.existing is not None:
            told = self.existing
            if not self.asked.dry_run:
                self.catch_up(told)
            name = told.checkpoint.name
            reason = f"version {version} has a sound checkpoint already: {name}"
            return CheckpointResult(
                table, version, told.shape, created=False, reason=reason, files=told.files,
                size_bytes=told.size_bytes, fallbacks=fallbacks,
            )  # fmt: skip
        assert self.made is not None
        made, segment = self.made, found.segment
        if made.laid is None:
            reason = "a dry run: nothing was written"
            return CheckpointResult(
                table, version, made.plan.shape, created=False, reason=reason,
                replaced_bytes=segment.size_bytes, fallbacks=fallbacks,
            )  # fmt: skip
        assert self.staging is not None
        started = time.perf_counter()
        placed = place(made.laid, self.staging, made.plan, made.kept, self.at_version)
        if not placed.is_new:
            return self.second(placed.files[-1], made, fallbacks)
        move_hint(self.directory, placed.hint, checksum=self.has_checksum)
        self.seconds["publish"] = round(time.perf_counter() - started, 6)
        written = sum(file.size_bytes for file in made.laid.files)
        _logger.info(
            "created checkpoint at version %d: %d entries, %.1f MB",
            version, placed.hint["size"], placed.size_bytes / 1e6,
        )  # fmt: skip
        return CheckpointResult(
            table, version, made.laid.shape, created=True, files=placed.files,
            size_bytes=placed.size_bytes, replaced_bytes=segment.size_bytes,
            content=made.content, sidecars_kept=len(made.kept), bytes_written=written,
            fallbacks=fallbacks, engine=made.engine,
        )  # fmt: skip

    def second(self, name: str, made: Made, fallbacks: tuple[Fallback, ...]) -> CheckpointResult:
        """Tell of the checkpoint of a writer who was first, once it says what ours would have."""
        assert made.laid is not None
        told = winner(self.directory, name, made.plan, made.laid.few, made.content)
        self.catch_up(told)
        return CheckpointResult(
            table=self.directory.table_url,
            version=made.plan.version,
            shape=told.shape,
            created=False,
            reason="another writer was first, with the same",
            files=told.files,
            size_bytes=told.size_bytes,
            content=made.content,
            fallbacks=fallbacks,
            engine=made.engine,
        )

    def catch_up(self, told: Told) -> None:
        """Do what the writer of a checkpoint that is there may have died before: tell of it."""
        complete_metadata(told, self.directory, self.now_ms)
        hint = hint_to(told, self.directory, self.now_ms)
        move_hint(self.directory, hint, checksum=self.has_checksum, only_forward=True)

    @property
    def has_checksum(self) -> bool:
        """Whether the hint of this format has a checksum."""
        return self.directory.log_format.checkpoint_directory is None


def _has_v2(state: State) -> bool:
    return "v2Checkpoint" in ((state.protocol or {}).get("readerFeatures") or ())
