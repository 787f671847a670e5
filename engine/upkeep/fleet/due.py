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
    Config,
)
from engine.errors import ConfigError
from engine.log.listing import list_log
from engine.log.paths import FileKind, parse_path
from engine.log.segment import complete_checkpoints
from engine.replay.heads import read_head
from engine.snapshot import load_snapshot
from engine.upkeep.cleanup.verdicts import rules_of
from engine.upkeep.compaction.compact import due as compactions_due
from engine.upkeep.fleet.whole import examine_checkpoint, examine_compaction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.config import Setting
    from engine.log.listing import Listing, LogDirectory
    from engine.log.paths import TransactionFileRef
    from engine.log.segment import Fallback, LogSegment
    from engine.replay import Progress
    from engine.replay.state import State


# Less than any checkpoint that is due: the rest can wait, and a verification has no haste at all.
_REPAIR_URGENCY: Final = 0.75
_COMPACTION_URGENCY: Final = 0.5
_CLEANUP_URGENCY: Final = 0.25
_VERIFY_URGENCY: Final = 0.0
# Damage that a checkpoint does not make good where one is due anyway.
_DERIVED: Final = frozenset({"compaction", "hint"})
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


def due(found: Condition, *, now_ms: int, verify: bool = False) -> list[Due]:
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
    broken = [fallback for fallback in found.fallbacks if fallback.what in _DERIVED]
    has_checkpoint = bool(tasks)
    if broken and not has_checkpoint:
        # A new checkpoint has a hint of its own, and nobody reads the compactions before it.
        tasks.append(Due("repair", f"damaged: {broken[0]}", _REPAIR_URGENCY))
    if found.config[COMPACTION_WRITES] and not has_checkpoint:
        # After a checkpoint there is nothing left to compact.
        ranges = compactions_due(found.refs, found.config)
        if ranges:
            what = ", ".join(f"{tile.start} to {tile.end}" for tile in ranges[:_SHOWN])
            more = f" and {len(ranges) - _SHOWN} more" if len(ranges) > _SHOWN else ""
            reason = f"not compacted: commits {what}{more}"
            tasks.append(Due("compaction", reason, _COMPACTION_URGENCY))
    try:
        count, anchor = _past_retention(found, now_ms)
        reason = f"{count} commits below checkpoint {anchor} are past their retention"
    except ConfigError as error:
        # The table is kept up in all other ways, and what is wrong with it is told by the cleanup.
        count, reason = 1, str(error)
    if count:
        tasks.append(Due("cleanup", reason, _CLEANUP_URGENCY))
    if verify:
        tasks.append(Due("verify", "it was asked for", _VERIFY_URGENCY))
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
    if rules.off:
        return 0, anchor
    return sum(ref.version < anchor for ref in commits), anchor


def look(
    directory: LogDirectory, listing: Listing, config: Config, *, deep: bool = False
) -> Condition:
    """Return the condition of a log, reading its head and the ends of its newest checkpoint.

    Of compactions that are in use, the end is looked at. With `deep`, the newest checkpoint and
    those compactions are read whole. Raises, as a ReplayError, whatever makes the
    latest version unreadable.
    """

    def run(
        segment: LogSegment, place: LogDirectory, settings: Config, _: Progress | None = None
    ) -> tuple[str, State, tuple[Fallback, ...]]:
        if segment.checkpoint is not None:
            examine_checkpoint(segment.checkpoint, place, settings, deep=deep)
        for ref in segment.compactions:
            examine_compaction(ref, place, settings, deep=deep)
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
