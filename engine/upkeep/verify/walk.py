"""One pass over the commits, oldest first, and at each version what was derived from it compared.

Where the commits are broken, by a gap or by damage, nothing after it can be proven from them; the
next checkpoint that can be read is taken for what it says, and the walk goes on from there.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.config import CHECKPOINT_PARALLELISM, TOMBSTONE_RETENTION_MS
from engine.errors import ConfigError
from engine.replay.local import Progress, in_order
from engine.replay.state import Singles
from engine.upkeep.verify.actions import partition_complaints
from engine.upkeep.verify.catalogue import ERROR, RULES
from engine.upkeep.verify.derived import Truth, wrong_singles, wrong_sums
from engine.upkeep.verify.doubts import AGAINST_BASE, DISAGREE, TOLERATED, Doubt, settled
from engine.upkeep.verify.findings import Findings, some
from engine.upkeep.verify.ledger import Applied, Ledger, Sums, adds_last
from engine.upkeep.verify.odd import Odd, odd_alone, odd_in_checkpoint, odd_in_compaction
from engine.upkeep.verify.order import steps
from engine.upkeep.verify.reading import Derived, Reader, paths_with

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine.actions import ActionBatch
    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.log.paths import TransactionFileRef
    from engine.log.segment import Checkpoint
    from engine.upkeep.verify.listing import LogFiles
    from engine.upkeep.verify.surviving import Entries


@dataclass
class Walk:
    """The state of the pass: what is known at `version`, if anything is.

    `base` is the version of the checkpoint that was taken for granted, -1 where all is proven.
    `unusable` are files that nobody should read any more, and why: commits by their own name,
    checkpoints by that of their first file. `doubts` are what contradicts the checkpoint that was
    taken for granted: nobody knows which of the two is wrong, so neither is unusable; `denied` has
    those that are, too. `protocols` and `metadata` (the last) are all that were ever seen.
    """

    directory: LogDirectory
    config: Config
    files: LogFiles
    found: Findings
    now_ms: int
    deep: bool = False
    ledger: Ledger = field(default_factory=Ledger)
    singles: Singles = field(default_factory=Singles)
    version: int = -1
    base: int = -1
    is_known: bool = True
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    unusable: dict[str, str] = field(default_factory=dict)
    doubts: list[Doubt] = field(default_factory=list)
    protocols: list[Mapping[str, Any]] = field(default_factory=list)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.reader = Reader(self.directory, self.config, stats=self.deep)
        self.base_files: tuple[TransactionFileRef, ...] = ()
        self.named: set[str] = set()
        self.last_time: int | None = None
        self.denied: list[Doubt] = []
        self._codes: dict[str, set[str]] = defaultdict(set)

    def run(self, progress: Progress | None = None) -> None:
        """Walk the whole log."""
        workers = max(1, min(self.config[CHECKPOINT_PARALLELISM], os.cpu_count() or 1))
        for step, read in in_order(lambda step: step.read(), steps(self), workers):
            step.take(read)
            if progress:
                progress(step.size)
        self.finish()
        self.settle()

    def check_expired(self, checkpoint: Checkpoint, read: Derived) -> None:
        """Count the tombstones of a checkpoint that are past retention."""
        removes = read.rows.select(~read.rows.is_add)
        self.tell_expired(checkpoint, int((removes.size <= self.cutoff_ms()).sum()), len(removes))

    def tell_expired(self, checkpoint: Checkpoint, old: int, of: int) -> None:
        """Enter that a checkpoint carries tombstones past retention, if it does."""
        if old:
            message = f"{old:,} of {of:,} tombstones are past retention"
            self.found.add(
                "TOMBSTONES_EXPIRED", message, path=checkpoint.name, version=checkpoint.version
            )

    def compare_checksum(
        self, ref: TransactionFileRef, content: Any, sums: Sums | None, stamp: int | None
    ) -> None:
        """Hold a checksum file against the sums of its version, where they are known."""
        self.counts["checksums"] += 1
        if isinstance(content, str):
            self.found.add("UNREADABLE_CHECKSUM", content, path=ref.path, version=ref.version)
            self.unusable[ref.path] = content
        elif sums is not None and self.is_known:
            self.hold_checksum(ref, content, sums, stamp)

    def check_stamp(
        self, ref: TransactionFileRef, content: Mapping[str, Any], stamp: int | None
    ) -> None:
        """Hold the time in a checksum against its commit's, which needs no older file.

        A checksum that is in doubt for the rest of what it says stays a witness.
        """
        said = content.get("inCommitTimestampOpt")
        if said is None or stamp is None or said == stamp:
            return
        message = f"inCommitTimestampOpt is {said}; the commit says {stamp}"
        if any(doubt.later == ref.path for doubt in self.doubts):
            self.found.add("CHECKSUM_DIFFERS", message, path=ref.path, version=ref.version)
        else:
            self.wrong("CHECKSUM_DIFFERS", message, ref.path, ref.version)

    # --- what the numbers say: here, or wherever a subclass lets them be settled -----------------

    def hold_checksum(
        self, ref: TransactionFileRef, content: Mapping[str, Any], sums: Sums, stamp: int | None
    ) -> None:
        """Hold what a checksum says against what is known of its version."""
        root, log_format = self.directory.table_url, self.directory.log_format
        for message in (
            *wrong_sums(content, sums, log_format, root),
            *wrong_singles(content, self.truth()),
        ):
            self.unsound("CHECKSUM_DIFFERS", message, ref.path, ref.version)
        self.check_stamp(ref, content, stamp)

    def enter(self, rows: Entries, versions: tuple[int, int]) -> Applied:
        """Enter the file actions of an inclusive range of commits."""
        assert versions[0] >= 0
        return self.ledger.apply(rows) if self.is_known else Ledger().apply(rows)

    def start_ledger(self, checkpoint: Checkpoint, read: Derived) -> None:
        """Begin anew with the files of a checkpoint."""
        assert checkpoint.files
        self.ledger = Ledger()
        self.ledger.apply(read.rows.select(adds_last(read.rows)))

    def compare_alone(self, checkpoint: Checkpoint, read: Derived) -> None:
        """Look for files that a checkpoint has twice."""
        self.tell(checkpoint.files, odd_alone(read.rows))

    def compare_checkpoint(
        self, checkpoint: Checkpoint, read: Derived, cutoff_ms: int | None
    ) -> None:
        """Hold the files of a checkpoint against those of its version."""
        self.tell(checkpoint.files, odd_in_checkpoint(read.rows, self.ledger, cutoff_ms))

    def compare_compaction(self, ref: TransactionFileRef, read: Derived) -> None:
        """Hold the files of a compaction against those of its commits."""
        self.tell((ref,), odd_in_compaction(read.rows, self.ledger, ref.start_version))

    def check_values(
        self,
        batches: list[ActionBatch],
        metadata: Mapping[str, Any] | None,
        versions: tuple[int, int],
    ) -> None:
        """Judge the partition values of an inclusive range of commits by their metaData."""
        if metadata is None or versions[0] > versions[1]:
            return
        commits = self.files.commits
        for complaint in partition_complaints(batches, metadata, versions):
            self.complain(complaint.code, complaint.message, commits[complaint.version])

    def check_twice(self) -> None:
        """Look for files that are live with several deletion vectors."""
        doubled, slots = self.ledger.live_twice()
        if len(doubled):
            few = slots[:50]
            keys = self.ledger.fingerprints(few)
            self.tell_twice(len(doubled), *keys, self.ledger.versions(few))

    # --- helpers -------------------------------------------------------------------------------

    def lose(self) -> None:
        """Forget what was known: from here on the commits alone do not tell the state."""
        self.is_known = False
        self.ledger, self.singles = Ledger(), Singles()
        self.last_time = None

    def truth(self) -> Truth:
        """Return what the commits say at this version, beside the files."""
        return Truth.of(self.directory.log_format, self.singles)

    def cutoff_ms(self) -> int:
        """Return the time before which a tombstone may be gone."""
        configuration = (self.singles.winner("metaData") or {}).get("configuration") or {}
        try:
            return self.now_ms - replace(self.config, table=configuration)[TOMBSTONE_RETENTION_MS]
        except ConfigError:  # what a table has there is not ours to judge
            return self.now_ms - TOMBSTONE_RETENTION_MS.default

    def tell(self, files: tuple[TransactionFileRef, ...], odd: Iterable[Odd]) -> None:
        """Enter what is wrong with the file actions of a derived file, a few of them by name."""
        for one in odd:
            message = one.told(self._names(one, files))
            self.unsound(one.code, message, files[0].path, files[0].version)

    def _names(self, odd: Odd, files: tuple[TransactionFileRef, ...]) -> list[str]:
        """Read again what has some keys, for their paths."""
        if odd.versions is None:
            batches = self.reader.derived_batches(files)
            return sorted(set(paths_with(batches, self.directory.table_url, odd.first, odd.second)))
        return self.names_committed(odd.first, odd.second, odd.versions)

    def names_committed(
        self, first: np.ndarray, second: np.ndarray, versions: np.ndarray
    ) -> list[str]:
        """Return the paths of keys, from the commits that spoke last of them."""
        commits, root = self.files.commits, self.directory.table_url
        names: set[str] = set()
        for version in np.unique(versions).tolist():
            if version == self.base:
                batches = list(self.reader.derived_batches(self.base_files))
            else:
                batches = self.reader.batches(commits[version])
            names.update(paths_with(batches, root, first, second))
        return sorted(names)

    def unsound(self, code: str, message: str, path: str, version: int) -> None:
        """Enter what a comparison found wrong with a derived file.

        What contradicts no more than a checkpoint that was taken for granted is in doubt.
        """
        if self.base >= 0 and code in AGAINST_BASE:
            doubt = Doubt(self.base_files[0].path, self.base, path, version, message)
            self.doubts.append(doubt)
        else:
            self.wrong(code, message, path, version)

    def wrong(self, code: str, message: str, path: str, version: int) -> None:
        """Enter a finding about a derived file, which is of no use where it is an error."""
        self.found.add(code, message, path=path, version=version)
        if RULES[code].severity == ERROR:
            self.unusable.setdefault(path, message)
            self._codes[path].add(code)

    @property
    def tolerated(self) -> dict[str, str]:
        """Those of the unusable files that break a rule and are read all the same, and why."""
        return {path: self.unusable[path] for path, codes in self._codes.items()
                if codes <= TOLERATED}  # fmt: skip

    def settle(self) -> None:
        """Enter the doubts that are left, now that it is known what is wrong by itself."""
        useless = self.unusable.keys() - self.tolerated
        self.denied = settled(self.doubts, useless, and_later=False)
        self.doubts = settled(self.doubts, useless)
        for doubt in self.doubts:
            path, version = doubt.later, doubt.later_version
            self.found.add(DISAGREE, doubt.told(), path=path, version=version)

    def remember(self, kind: str, value: Mapping[str, Any] | None) -> None:
        """Keep what tells whose table this is, whatever is lost later."""
        if kind == "metaData" and value is not None:
            self.metadata = value
        elif kind == "protocol" and value is not None and value not in self.protocols:
            self.protocols.append(value)

    def complain(self, code: str, message: str, ref: TransactionFileRef) -> None:
        """Enter a finding about a commit."""
        self.found.add(code, message, path=ref.path, version=ref.version)

    def finish(self) -> None:
        """Look at what only the end of the log tells."""
        for name in sorted(set(self.files.sidecars) - self.named):
            if not name.startswith("."):
                message = "no checkpoint that can be read names it"
                self.found.add("ORPHAN_SIDECAR", message, path=f"_sidecars/{name}")
        if not self.is_known:
            return
        if self.singles.winner("protocol") is None and (
            self.directory.log_format.default_protocol is None
        ):
            self.found.add("NO_PROTOCOL", f"up to version {self.version}", version=self.version)
        if self.singles.winner("metaData") is None:
            self.found.add("NO_METADATA", f"up to version {self.version}", version=self.version)
        self.check_twice()

    def tell_twice(
        self, count: int, first: np.ndarray, second: np.ndarray, versions: np.ndarray
    ) -> None:
        """Enter that files are live with several deletion vectors."""
        names = self.names_committed(first, second, versions)
        message = f"live under several deletion vectors: {some(names, count)}"
        self.found.add("FILE_LIVE_TWICE", message, version=self.version)
