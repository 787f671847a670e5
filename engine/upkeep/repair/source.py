"""Which state of a damaged log can still be proven, and by which of its files?

A commit leads from the version before it to its own, and a checkpoint starts at its version. That
is what readers go by. Where it ends, a compaction may lead over its whole range, if it is asked for
and borne out. What was found wrong leads nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import NotProvableError
from engine.log.paths import FileKind, TransactionFileRef
from engine.log.segment import Checkpoint, LogSegment
from engine.upkeep.verify.catalogue import RULES
from engine.upkeep.verify.doubts import DISAGREE
from engine.upkeep.verify.findings import some

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from engine.log.listing import LogDirectory
    from engine.upkeep.verify.doubts import Doubt
    from engine.upkeep.verify.listing import LogFiles


@dataclass(frozen=True)
class Source:
    """The files that prove a version, those that were of no use, and the versions given up.

    `witnesses` bear out the compactions among them; `tolerated` is the rule that the checkpoint
    breaks, where there was no better one.
    """

    segment: LogSegment
    ignored: Mapping[str, str]
    lost: Mapping[int, str]
    tolerated: str = ""
    witnesses: tuple[str, ...] = ()

    @property
    def version(self) -> int:
        """The version that is proven."""
        return self.segment.version


def choose_source(
    directory: LogDirectory,
    files: LogFiles,
    unusable: Mapping[str, str],
    version: int | None = None,
    *,
    doubts: Iterable[Doubt] = (),
    tolerated: Mapping[str, str] | None = None,
    with_compactions: bool = False,
) -> Source:
    """Return the newest version that what is usable proves, or `version` itself.

    Versions behind it are given up only where none of their commits can be read: a torn end.
    Checkpoints that are `tolerated` begin what no better one does. `with_compactions`, one that
    can be read stands in for commits that are gone, as it does for no reader: whether it says
    what they said is still to be shown.

    Raises NotProvableError, with what is missing, where a commit that can be read would be lost,
    nothing is proven at all, or all begins with a checkpoint that something contradicts.
    """
    tolerated = tolerated or {}
    commits = {v: ref for v, ref in files.commits.items() if ref.path not in unusable}
    compactions = [
        ref
        for ref in (files.of(FileKind.COMPACTION) if with_compactions else ())
        if ref.size and ref.path not in unusable
    ]
    limit = files.latest if version is None else version
    checkpoints = [
        c
        for c in files.checkpoints
        if c.version <= limit and (c.name not in unusable or c.name in tolerated)
    ]
    ways = _reach(commits, compactions, checkpoints, tolerated, min(limit, files.latest))
    target = max(ways, default=-1)
    if target < 0 or (version is not None and target != version):
        raise NotProvableError(directory.url, _nothing(files, unusable, target, version))
    lost = _lost(files, commits, unusable, target) if version is None else {}
    behind = sorted(v for v in commits if v > target)
    if behind and version is None:
        missing = ", ".join(f"{v} ({why})" for v, why in sorted(lost.items()) if v not in commits)
        raise NotProvableError(
            directory.url,
            f"version {target} is proven, and not what came after it: missing is commit {missing}; "
            f"commits {some([str(v) for v in behind])} would be lost. Restore what is missing, "
            f"or give them up with --version {target}",
        )
    segment = _segment(directory, ways, commits, target)
    start = segment.checkpoint
    if doubt := next((d for d in doubts if start is not None and d.covers(start.version)), None):
        advice = RULES[DISAGREE].advice
        why = f"version {target} is not proven: {doubt.told()}; {advice}"
        raise NotProvableError(directory.url, why)
    ignored = {name: why for name, why in unusable.items() if name not in _names(segment)}
    return Source(segment, ignored, lost, tolerated.get(start.name, "") if start else "")


def _reach(
    commits: Mapping[int, TransactionFileRef],
    compactions: Iterable[TransactionFileRef],
    checkpoints: Iterable[Checkpoint],
    tolerated: Collection[str],
    limit: int,
) -> dict[int, TransactionFileRef | Checkpoint]:
    """Return each version that is proven, and the last file on the best way to it.

    The best way has the fewest compactions, then a start that breaks no rule; among equals a
    commit is preferred to beginning anew at a checkpoint.
    """
    spans: dict[int, list[TransactionFileRef]] = {}
    for ref in compactions:
        spans.setdefault(ref.version, []).append(ref)
    starts: dict[int, Checkpoint] = {}
    for c in sorted(checkpoints, key=lambda c: (c.name not in tolerated, c.rank)):
        starts[c.version] = c
    ways: dict[int, TransactionFileRef | Checkpoint] = {}
    cost = {-1: (0, 0)}
    for version in range(limit + 1):
        choices: list[tuple[tuple[int, int], TransactionFileRef | Checkpoint]] = []
        if version in commits and version - 1 in cost:
            choices.append((cost[version - 1], commits[version]))
        if version in starts:
            choices.append(((0, int(starts[version].name in tolerated)), starts[version]))
        choices += [
            ((before[0] + 1, before[1]), ref)
            for ref in sorted(spans.get(version, ()), key=lambda ref: ref.start_version)
            if (before := cost.get(ref.start_version - 1)) is not None
        ]
        if choices:
            cost[version], ways[version] = min(choices, key=lambda choice: choice[0])
    return ways


def _segment(
    directory: LogDirectory,
    ways: Mapping[int, TransactionFileRef | Checkpoint],
    commits: Mapping[int, TransactionFileRef],
    target: int,
) -> LogSegment:
    tail: list[TransactionFileRef] = []
    at, start = target, None
    while at >= 0:
        way = ways[at]
        if isinstance(way, Checkpoint):
            start = way
            break
        tail.append(way)
        at = way.start_version - 1
    return LogSegment(
        log_format=directory.log_format,
        directory=directory.url,
        version=target,
        checkpoint=start,
        compactions=tuple(ref for ref in tail if ref.kind is FileKind.COMPACTION),
        commits=tuple(ref for ref in tail if ref.kind is FileKind.COMMIT)[::-1],
        last_commit=commits.get(target),
    )


def _lost(
    files: LogFiles,
    commits: Collection[int],
    unusable: Mapping[str, str],
    target: int,
) -> dict[int, str]:
    """Return the versions behind the target, and why they are given up."""
    found = {}
    for version in range(target + 1, files.latest + 1):
        ref = files.commits.get(version)
        if ref is None:
            found[version] = "it is missing"
        elif version not in commits:
            found[version] = unusable[ref.path]
        else:
            found[version] = "what comes before it is not proven"
    return found


def _nothing(files: LogFiles, unusable: Mapping[str, str], target: int, version: int | None) -> str:
    if version is not None and not 0 <= version <= files.latest:
        return f"there is no version {version}; the latest is {files.latest}"
    first = target + 1
    ref = files.commits.get(first)
    why = "is missing" if ref is None else f"cannot be read ({unusable.get(ref.path, '')})"
    damaged = [f"{name} ({unusable[name]})" for name in unusable if "checkpoint" in name]
    starts = (
        f"; no checkpoint is usable: {some(damaged)}" if damaged else "; there is no checkpoint"
    )
    asked = "no version is" if version is None else f"version {version} is not"
    after = "" if any(c.version > target for c in files.checkpoints if not damaged) else starts
    return f"{asked} proven: commit {first} {why}{after}. Restore one of them"


def _names(segment: LogSegment) -> set[str]:
    return {ref.path for ref in segment.files}
