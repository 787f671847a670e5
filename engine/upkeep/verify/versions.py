"""Which versions can be read, what is in the way of the others, and what truly helps?

This can be said when the walk is over: until then nobody knows which checkpoints are of use.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from engine.log.paths import FileKind
from engine.upkeep.verify.catalogue import DERIVED, RESTORE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from engine.log.paths import TransactionFileRef
    from engine.log.segment import Checkpoint
    from engine.upkeep.verify.findings import Finding, Findings
    from engine.upkeep.verify.listing import LogFiles


@dataclass(frozen=True)
class Versions:
    """The versions of a log, by those of its files that are of use.

    `unusable` has the files that nobody should read; `tolerated`, those of them that readers take
    all the same.
    """

    files: LogFiles
    unusable: Collection[str]
    tolerated: Collection[str] = ()

    def check(self, found: Findings) -> None:
        """Enter what is missing, and give each finding of damage the advice that is true of it."""
        self._check_start(found)
        newest = max((c.version for c in self._checkpoints), default=-1)
        for start, end in self.missing:
            if start == end == newest and end == self.files.latest:
                continue  # cleaned up to the checkpoint itself
            which = f"commit {start} is" if start == end else f"commits {start} to {end} are"
            code = "OLD_GAP" if end <= newest else "GAP"
            found.add(code, f"{which} missing", version=start)
        found.advise(self._advice)

    @cached_property
    def missing(self) -> list[tuple[int, int]]:
        """The inclusive ranges of versions, up to the latest, that have no commit.

        What lies before the first commit, and the last checkpoint before that, is not missing: it
        was cleaned up.
        """
        commits, latest = self.files.commits, self.files.latest
        begin = min(commits, default=latest)
        starts = [c.version for c in self._checkpoints if c.version <= begin]
        if starts:
            begin = max(starts)
            begin += begin not in commits  # a checkpoint stands in for its own commit
        return _ranges(version for version in range(begin, latest + 1) if version not in commits)

    @cached_property
    def readable(self) -> set[int]:
        """The versions that a reader comes to: from a start, over commits without a gap."""
        return self._reached({})

    @cached_property
    def _provable(self) -> int:
        """The newest version that a repair may come to, which also tries compactions; or -1."""
        spans: dict[int, list[int]] = {}
        for ref in self.files.of(FileKind.COMPACTION):
            if ref.size and ref.path not in self.unusable:
                spans.setdefault(ref.version, []).append(ref.start_version)
        return max(self._reached(spans), default=-1)

    @cached_property
    def _checkpoints(self) -> list[Checkpoint]:
        return [
            c
            for c in self.files.checkpoints
            if c.name not in self.unusable or c.name in self.tolerated
        ]

    @cached_property
    def _commits(self) -> dict[int, TransactionFileRef]:
        return {v: ref for v, ref in self.files.commits.items() if ref.path not in self.unusable}

    def _reached(self, spans: Mapping[int, list[int]]) -> set[int]:
        starts = {c.version for c in self._checkpoints}
        reached = {-1}
        for version in range(self.files.latest + 1):
            if (
                version in starts
                or (version in self._commits and version - 1 in reached)
                or any(start - 1 in reached for start in spans.get(version, ()))
            ):
                reached.add(version)
        return reached - {-1}

    def _check_start(self, found: Findings) -> None:
        if 0 in self.files.commits or self._checkpoints:
            return
        first = min(self.files.commits, default=self.files.latest)
        message = f"the log begins with version {first}, and no checkpoint can be read"
        found.add("NO_START", message, version=first)

    def _advice(self, finding: Finding) -> str:
        if finding.advice == RESTORE:
            is_start = finding.code == "NO_START"
            return self._way_out("the first commits, or a checkpoint" if is_start else "it")
        if finding.advice != DERIVED or finding.version is None or self._can_be_made(finding):
            return finding.advice
        wanted = f"it, or the commits that lead to version {finding.version}"
        if self.files.latest in self.readable:
            return f"the newest version does not need it; to mend it, restore {wanted}"
        return self._way_out(wanted)

    def _can_be_made(self, finding: Finding) -> bool:
        """Tell whether commits prove what a derived file must say."""
        ref = next((ref for ref in self.files.refs if ref.path == finding.path), None)
        if ref is not None and ref.kind is FileKind.COMPACTION:
            wanted = range(ref.start_version, ref.version + 1)
            return ref.version in self.readable and all(v in self._commits for v in wanted)
        return finding.version in self.readable or finding.code.startswith("HINT_")

    def _way_out(self, wanted: str) -> str:
        newest = max(self.readable, default=-1)
        if self._provable > newest:
            return f"restore {wanted}; or txlog repair --to looks whether a compaction stands in"
        if newest < 0:
            return f"restore {wanted}: until then no version can be read, nor repaired"
        if any(version > newest for version in self._commits):
            return (
                f"restore {wanted}, or give up what came after version {newest}: "
                f"txlog repair --to TARGET --version {newest}"
            )
        return RESTORE


def _ranges(versions: Iterable[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for version in versions:
        if ranges and ranges[-1][1] == version - 1:
            ranges[-1] = (ranges[-1][0], version)
        else:
            ranges.append((version, version))
    return ranges
