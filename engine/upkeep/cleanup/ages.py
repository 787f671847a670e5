"""How old are the commits of a log? By their own clocks where they have them, else by their files'.

Deciding only: whoever asks says how the time in a commit is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.log.paths import FileKind
from engine.log.segment import latest_version
from engine.log.timestamps import (
    commit_times,
    in_commit_start,
    version_at,
    version_at_in_commit_time,
)
from engine.upkeep.cleanup.verdicts import Facts, Rules

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine.log.paths import TransactionFileRef

    TimeOf = Callable[[TransactionFileRef], int]


def look(
    refs: Sequence[TransactionFileRef],
    rules: Rules,
    now_ms: int,
    *,
    properties: Mapping[str, str],
    time_of: TimeOf,
) -> Facts:
    """Return which versions are past their retention; `time_of` reads the time in a commit."""
    commits = {ref.version: ref for ref in refs if ref.kind is FileKind.COMMIT}
    latest = latest_version(refs)
    if rules.everything:
        return Facts(latest, latest)
    times = commit_times(list(commits.values()))
    start = in_commit_start(properties)
    cutoff = rules.cutoff_ms(now_ms)
    expired = None
    if start is not None:
        own = [version for version, _ in times if version >= start]
        expired = version_at_in_commit_time(own, cutoff, lambda v: time_of(commits[v]))
    by_files = [entry for entry in times if start is None or entry[0] < start]
    if expired is None:
        expired = version_at(by_files, cutoff)
    moved = {v for v, time in by_files if time != commits[v].modification_time}
    return Facts(latest, expired, frozenset(moved))


def too_young(
    ref: TransactionFileRef,
    rules: Rules,
    now_ms: int,
    *,
    properties: Mapping[str, str],
    time_of: TimeOf,
) -> str:
    """Tell what keeps a commit from being past its retention, whatever its neighbours say.

    Times in commits are to grow from one to the next. Where a writer broke that rule, the search
    for the last commit that is old enough may have passed over one that is not.
    """
    start = in_commit_start(properties)
    if rules.everything or start is None or ref.version < start:
        return ""
    if time_of(ref) <= rules.cutoff_ms(now_ms):
        return ""
    return "the time in its commit is within its retention, though that of a later one is not"
