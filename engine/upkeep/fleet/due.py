"""What is due in a log? Looking reads little; deciding reads nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from engine.config import (
    CHECKPOINT_ENABLED,
    CHECKPOINT_INTERVAL,
    COMPACTION_WRITES,
    DELTA_CHECKPOINT_INTERVAL,
    MAX_DECOMPRESSED_BYTES,
    Config,
)
from engine.errors import MissingSidecarError
from engine.log.listing import list_log
from engine.log.paths import FileKind, parse_path
from engine.log.segment import complete_checkpoints
from engine.replay.checkpoints import read_checkpoint, read_checkpoint_file, sidecars
from engine.replay.heads import read_head
from engine.replay.rules import STATE_KEYS
from engine.snapshot import load_snapshot
from engine.upkeep.cleanup.verdicts import rules_of
from engine.upkeep.compaction.compact import due as compactions_due

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.config import Setting
    from engine.log.listing import Listing, LogDirectory
    from engine.log.paths import TransactionFileRef
    from engine.log.segment import Checkpoint, Fallback, LogSegment
    from engine.replay import Progress
    from engine.replay.state import State


# Less than any checkpoint that is due: compactions and cleanups can wait.
_COMPACTION_URGENCY: Final = 0.5
_CLEANUP_URGENCY: Final = 0.25
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Due:
    """A task whose time has come, and why. 1 is just due; what is more urgent has more."""

    name: str
    reason: str
    urgency: float = 1.0


@dataclass(frozen=True, slots=True)
class Condition:
    """What a log looks like: the files that make its latest version, and what was found damaged.

    `config` holds the table's own properties, and `refs` are all files of the log.
    """

    segment: LogSegment
    config: Config
    protocol: Mapping[str, Any] = field(default_factory=dict)
    refs: tuple[TransactionFileRef, ...] = ()
    fallbacks: tuple[Fallback, ...] = ()

    @property
    def checkpoint_version(self) -> int | None:
        """The version of the newest sound checkpoint."""
        return self.segment.checkpoint.version if self.segment.checkpoint else None

    @property
    def commits(self) -> int:
        """How many versions came after it, or were made where there is none."""
        at = self.checkpoint_version
        return self.segment.version - (-1 if at is None else at)

    @property
    def damaged(self) -> tuple[Fallback, ...]:
        """The checkpoints that readers have to do without, newer than the one they use."""
        at, log_format = self.checkpoint_version, self.segment.log_format
        refs = {
            fallback: parse_path(fallback.path, 0, 0, log_format)
            for fallback in self.fallbacks
            if fallback.what == "checkpoint"
        }
        return tuple(
            fallback for fallback, ref in refs.items() if ref and (at is None or ref.version > at)
        )


def due(found: Condition, *, now_ms: int) -> list[Due]:
    """Return what is due in a log, in the order in which it is to be done."""
    tasks = []
    if found.config[CHECKPOINT_ENABLED]:
        interval = found.config[_interval(found)]
        at = found.checkpoint_version
        since = "and no checkpoint" if at is None else f"since checkpoint {at}"
        if found.damaged:
            tasks.append(Due("checkpoint", f"damaged: {found.damaged[0]}", math.inf))
        elif found.commits >= interval:
            reason = f"{found.commits} commits {since}; one is due every {interval}"
            tasks.append(Due("checkpoint", reason, found.commits / interval))
    if found.config[COMPACTION_WRITES] and not tasks:
        # After a checkpoint there is nothing left to compact.
        ranges = compactions_due(found.refs, found.config)
        if ranges:
            what = ", ".join(f"{tile.start} to {tile.end}" for tile in ranges[:_SHOWN])
            more = f" and {len(ranges) - _SHOWN} more" if len(ranges) > _SHOWN else ""
            reason = f"not compacted: commits {what}{more}"
            tasks.append(Due("compaction", reason, _COMPACTION_URGENCY))
    count, anchor = _past_retention(found, now_ms)
    if count:
        reason = f"{count} commits below checkpoint {anchor} are past their retention"
        tasks.append(Due("cleanup", reason, _CLEANUP_URGENCY))
    return tasks


def _past_retention(found: Condition, now_ms: int) -> tuple[int, int]:
    """Return how many commits a cleanup may find to delete, and below which checkpoint."""
    rules = rules_of(found.config, found.protocol, found.segment.log_format)
    commits = [ref for ref in found.refs if ref.kind is FileKind.COMMIT]
    cutoff_ms = rules.cutoff_ms(now_ms)
    old = max((ref.version for ref in commits if ref.modification_time < cutoff_ms), default=-1)
    kept = found.segment.version - rules.keep_versions
    anchor = max(
        (c.version for c in complete_checkpoints(found.refs) if c.version <= min(old, kept)),
        default=-1,
    )
    if rules.off or anchor < rules.protected_before:
        return 0, anchor
    return sum(ref.version < anchor for ref in commits), anchor


def look(
    directory: LogDirectory, listing: Listing, config: Config, *, deep: bool = False
) -> Condition:
    """Return the condition of a log, reading its head and the ends of its newest checkpoint.

    With `deep`, that checkpoint is read whole. Raises, as a ReplayError, whatever makes the
    latest version unreadable.
    """

    def run(
        segment: LogSegment, place: LogDirectory, settings: Config, _: Progress | None = None
    ) -> tuple[str, State, tuple[Fallback, ...]]:
        if segment.checkpoint is not None:
            _examine(segment.checkpoint, place, settings, deep=deep)
        return "head", read_head(segment, place, settings), ()

    found = load_snapshot(directory, listing, None, run, config)
    table = {**config.table, **found.configuration}
    whole = listing if listing.is_whole else list_log(directory)
    return Condition(
        found.segment, replace(config, table=table), found.protocol, whole.refs, found.fallbacks
    )


def _interval(found: Condition) -> Setting[int]:
    is_delta = found.segment.log_format.checkpoint_directory is None
    return DELTA_CHECKPOINT_INTERVAL if is_delta else CHECKPOINT_INTERVAL


def _examine(
    checkpoint: Checkpoint, directory: LogDirectory, config: Config, *, deep: bool
) -> None:
    """Raise CorruptCheckpointError where a checkpoint is not whole, as far as is looked."""
    limit = config[MAX_DECOMPRESSED_BYTES]
    if deep:
        for _ in read_checkpoint(directory, checkpoint, limit_bytes=limit):
            pass
        return
    for ref in checkpoint.files:
        for batch in read_checkpoint_file(
            directory, ref, wanted=tuple(STATE_KEYS), fields=(), limit_bytes=limit
        ):
            for sidecar in sidecars(batch, ref.version):
                if not directory.storage.exists(directory.file(sidecar.path)):
                    raise MissingSidecarError(
                        sidecar.path, "a sidecar of the checkpoint is missing"
                    )
