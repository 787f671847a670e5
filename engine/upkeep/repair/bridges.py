"""May a compaction stand in for commits that are gone? Only if something else bears it out.

It must say whatever those of its commits say that are left, and the state that it leads to must be
the one that a checksum or a checkpoint of its end, or of a later version, tells.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from engine.log.paths import FileKind
from engine.log.segment import Checkpoint
from engine.replay.parse import chunks
from engine.replay.rules import STATE_KEYS
from engine.replay.state import Singles
from engine.upkeep.verify.derived import (
    Truth,
    checkpoint_singles,
    same_single,
    wrong_singles,
    wrong_sums,
)
from engine.upkeep.verify.findings import some
from engine.upkeep.verify.ledger import Ledger, adds_last
from engine.upkeep.verify.odd import odd_in_checkpoint
from engine.upkeep.verify.reading import paths_with

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from engine.log.paths import TransactionFileRef
    from engine.log.segment import LogSegment
    from engine.upkeep.verify.listing import LogFiles
    from engine.upkeep.verify.reading import Derived, Reader


@dataclass(frozen=True)
class Verdict:
    """What bears out the compactions of a segment; or one that is not to be taken, and why."""

    witnesses: tuple[str, ...] = ()
    refused: str = ""
    why: str = ""


def judge(
    reader: Reader, files: LogFiles, segment: LogSegment, unusable: Mapping[str, str]
) -> Verdict:
    """Judge the compactions that a segment reads in the place of commits."""
    commits = {v: ref for v, ref in files.commits.items() if ref.path not in unusable}
    for ref in segment.compactions:
        window = [v for v in range(ref.start_version, ref.version + 1) if v in commits]
        if why := _unlike(reader, ref, [commits[v] for v in window]):
            return Verdict(refused=ref.path, why=why)
    bridges = sorted(segment.compactions, key=lambda ref: ref.version)
    found: list[tuple[int, str]] = []
    for version, name, wrong in _heard(reader, files, segment, commits, unusable):
        suspect = [ref for ref in bridges if ref.version <= version][-1]
        if wrong:
            return Verdict(refused=suspect.path, why=f"{name} says otherwise ({wrong})")
        found.append((version, name))
    last = bridges[-1]
    if not any(version >= last.version for version, _ in found):
        why = (
            "no checksum and no checkpoint of its end or of a later version bears out that it "
            "says what was in the commits that are gone"
        )
        return Verdict(refused=last.path, why=why)
    return Verdict(tuple(name for _, name in found))


def _unlike(reader: Reader, ref: TransactionFileRef, left: Sequence[TransactionFileRef]) -> str:
    """Tell in what a compaction does not say what those of its commits say that are left."""
    read = reader.compaction(ref)
    if read.damage:
        return read.damage
    there = {commit.version for commit in left}
    gone = max(v for v in range(ref.start_version, ref.version + 1) if v not in there)
    every, newest = _State(reader), _State(reader)
    every.enter(left)
    newest.enter(commit for commit in left if commit.version > gone)
    rows = read.rows
    spoken = every.ledger.keys(-1)
    lost = spoken[~np.isin(spoken, every.ledger.find(rows.first, rows.second))]
    if len(lost):
        keys = every.ledger.fingerprints(lost)
        return f"it lacks {every.names(left, *keys)}, of which its commits speak"
    slots = newest.ledger.find(rows.first, rows.second)
    known = slots >= 0
    slots = slots[known]
    other = (newest.ledger.is_add(slots) != rows.is_add[known]) | (
        newest.ledger.content(slots) != rows.content[known]
    )
    if other.any():
        keys = rows.first[known][other], rows.second[known][other]
        return f"it says of {newest.names(left, *keys)} otherwise than its commits"
    for kind in STATE_KEYS:
        said = {key: value for key, _, value in read.singles.entries(kind)}
        for key, (version, _), value in every.singles.entries(kind):
            name = f"{kind} {key}".rstrip()
            if key not in said:
                return f"it lacks {name}, of which its commits speak"
            log_format = reader.directory.log_format
            if version > gone and not same_single(kind, value, said[key], log_format):
                return f"it says of {name} otherwise than its commits"
    return ""


def _heard(
    reader: Reader,
    files: LogFiles,
    segment: LogSegment,
    commits: Mapping[int, TransactionFileRef],
    unusable: Mapping[str, str],
) -> Iterator[tuple[int, str, str]]:
    """Replay a segment, and on; yield each witness after a compaction, and what it denies."""
    witnesses: dict[int, list[TransactionFileRef | Checkpoint]] = {}
    for ref in files.of(FileKind.CHECKSUM):
        witnesses.setdefault(ref.version, []).append(ref)
    for checkpoint in files.checkpoints:
        if checkpoint.name not in unusable:
            witnesses.setdefault(checkpoint.version, []).append(checkpoint)
    tail = list(segment.tail)
    while (after := tail[-1].version + 1) in commits:
        tail.append(commits[after])
    state, is_bridged = _State(reader), False
    if segment.checkpoint is not None:
        state.begin(reader.checkpoint(segment.checkpoint))
    waiting: list[TransactionFileRef] = []
    for ref in tail:
        is_bridge = ref.kind is FileKind.COMPACTION
        is_bridged = is_bridged or is_bridge
        if not is_bridge:
            waiting.append(ref)
        if is_bridge or (is_bridged and ref.version in witnesses):
            state.enter(waiting)
            waiting = []
        if is_bridge:
            state.cross(reader.compaction(ref), ref.version)
        for witness in witnesses.get(ref.version, ()) if is_bridged else ():
            told = state.denied_by(witness)
            if told is not None:
                name = witness.name if isinstance(witness, Checkpoint) else witness.path
                yield ref.version, name, told


@dataclass
class _State:
    """What some files add up to."""

    reader: Reader
    ledger: Ledger = field(default_factory=Ledger)
    singles: Singles = field(default_factory=Singles)

    def begin(self, read: Derived) -> None:
        self.ledger.apply(read.rows.select(adds_last(read.rows)))
        self.singles = read.singles

    def enter(self, commits: Iterable[TransactionFileRef]) -> None:
        for refs in chunks(commits):
            read = self.reader.commits(refs)
            self.ledger.apply(read.rows)
            for one in read.singles:
                if one.kind in STATE_KEYS:
                    self.singles.enter(one.kind, (one.version, one.ordinal), one.value)

    def cross(self, read: Derived, version: int) -> None:
        self.ledger.apply(read.rows.select(adds_last(read.rows)))
        for kind in STATE_KEYS:
            for _, (_, ordinal), value in read.singles.entries(kind):
                self.singles.enter(kind, (version, ordinal), value)

    def names(
        self, commits: Iterable[TransactionFileRef], first: np.ndarray, second: np.ndarray
    ) -> str:
        """Return a few of the paths of some keys."""
        root = self.reader.directory.table_url
        batches = [batch for ref in commits for batch in self.reader.batches(ref)]
        return some(sorted(set(paths_with(batches, root, first, second))), len(first))

    def denied_by(self, witness: TransactionFileRef | Checkpoint) -> str | None:
        """Return what a witness says otherwise; None where it says nothing of the files."""
        directory = self.reader.directory
        truth = Truth.of(directory.log_format, self.singles)
        if isinstance(witness, Checkpoint):
            read = self.reader.checkpoint(witness)
            odd = [one.code for one in odd_in_checkpoint(read.rows, self.ledger, None)]
            odd += [message for _, message in checkpoint_singles(read.singles, truth)]
            return read.damage or "; ".join(odd)
        content = self.reader.checksum(witness)
        if isinstance(content, str) or None in map(content.get, ("numFiles", "tableSizeBytes")):
            return None
        root = directory.table_url
        wrong = [*wrong_sums(content, self.ledger.sums, directory.log_format, root)]
        return "; ".join([*wrong, *wrong_singles(content, truth)])
