"""A walk whose numbers are settled elsewhere: what is to be compared is noted, and told at the end.

The keys of a table are dealt into shares. Whoever has a share runs the notes over it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.upkeep.verify.commits import ODD_ROWS
from engine.upkeep.verify.derived import wrong_singles, wrong_sums
from engine.upkeep.verify.findings import some
from engine.upkeep.verify.ledger import Applied, Sums
from engine.upkeep.verify.reading import Commits, Derived
from engine.upkeep.verify.shares import Answer, Note
from engine.upkeep.verify.surviving import Entries, joined_entries
from engine.upkeep.verify.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine.log.paths import TransactionFileRef
    from engine.log.segment import Checkpoint
    from engine.upkeep.verify.odd import Odd


@dataclass(frozen=True)
class _Checksum:
    """A checksum that waits for the sums of its version, as they are after the note `index`."""

    index: int
    ref: TransactionFileRef
    content: Mapping[str, Any]
    stamp: int | None
    base: int
    base_files: tuple[TransactionFileRef, ...]


class FarWalk(Walk):
    """Walks a log of which it sees everything but the file actions."""

    def __post_init__(self) -> None:
        """Begin without notes."""
        super().__post_init__()
        self.notes: list[Note] = []
        self.ranges: list[tuple[tuple[int, int], Mapping[str, Any]]] = []
        self._files: dict[str, tuple[TransactionFileRef, ...]] = {}
        self._bases: dict[int, tuple[int, tuple[TransactionFileRef, ...]]] = {}
        self._checkpoints: dict[str, Checkpoint] = {}
        self._sums: dict[int, _Checksum] = {}
        self._counted = -1

    def note(self, note: Note) -> None:
        """Write down what is to be done."""
        self._bases[len(self.notes)] = (self.base, self.base_files)
        if note.what in {"commits", "start"}:
            self._counted = len(self.notes)
        self.notes.append(note)

    def enter(self, rows: Entries, versions: tuple[int, int]) -> Applied:
        """Note that commits are entered."""
        self.note(Note("commits", versions=versions, is_known=self.is_known and self.base < 0))
        if not self.is_known:
            self.note(Note("lose"))
        return Applied({}, [], np.empty(0, dtype=np.int64))

    def lose(self) -> None:
        """Note that what was known is lost."""
        super().lose()
        self.note(Note("lose"))

    def start_ledger(self, checkpoint: Checkpoint, read: Derived) -> None:
        """Note that a checkpoint is begun with."""
        self._from(checkpoint, "start")

    def compare_alone(self, checkpoint: Checkpoint, read: Derived) -> None:
        """Note that a checkpoint is looked at by itself."""
        self._from(checkpoint, "alone")

    def compare_checkpoint(
        self, checkpoint: Checkpoint, read: Derived, cutoff_ms: int | None
    ) -> None:
        """Note that a checkpoint is compared."""
        self._from(checkpoint, "checkpoint", cutoff_ms)

    def check_expired(self, checkpoint: Checkpoint, read: Derived) -> None:
        """Note that a checkpoint's old tombstones are counted."""
        self._from(checkpoint, "expired", self.cutoff_ms())

    def compare_compaction(self, ref: TransactionFileRef, read: Derived) -> None:
        """Note that a compaction is compared."""
        self._files[ref.path] = (ref,)
        self.note(Note("compaction", ref.path, (ref.start_version, ref.version)))

    def hold_checksum(
        self, ref: TransactionFileRef, content: Mapping[str, Any], sums: Sums, stamp: int | None
    ) -> None:
        """Compare what is not about files, and note the rest."""
        assert sums is not None
        for message in wrong_singles(content, self.truth()):
            self.unsound("CHECKSUM_DIFFERS", message, ref.path, ref.version)
        self._sums[ref.version] = _Checksum(
            self._counted, ref, content, stamp, self.base, self.base_files
        )

    def check_values(
        self, batches: Any, metadata: Mapping[str, Any] | None, versions: tuple[int, int]
    ) -> None:
        """Note which metaData a range of commits is judged by."""
        if metadata is not None and versions[0] <= versions[1]:
            told = {name: metadata.get(name) for name in ("schemaString", "partitionColumns")}
            self.ranges.append((versions, told))

    def check_twice(self) -> None:
        """Note that files live with several vectors are looked for."""
        self.note(Note("twice"))

    @property
    def sum_versions(self) -> frozenset[int]:
        """The versions whose sums are asked for."""
        return frozenset(self._sums)

    @property
    def sources(self) -> dict[str, tuple[TransactionFileRef, ...]]:
        """The derived files that the notes speak of, by name."""
        return self._files

    def conclude(self, answers: Iterable[Answer]) -> None:
        """Enter what all shares said."""
        odd: dict[tuple[int, int, str], Odd] = {}
        numbers: dict[tuple[int, int], tuple[int, ...]] = {}
        for answer in answers:
            if answer.odd is not None:
                key = (answer.note, answer.version, answer.odd.code)
                odd[key] = odd[key].plus(answer.odd) if key in odd else answer.odd
            else:
                at = (answer.note, answer.version)
                before = numbers.get(at, (0,) * len(answer.numbers))
                numbers[at] = tuple(a + b for a, b in zip(before, answer.numbers, strict=True))
        for (index, version, code), found in sorted(odd.items(), key=lambda item: item[0]):
            self.base, self.base_files = self._bases[index]
            self._odd(self.notes[index], version, code, found)
        for (index, version), counts in numbers.items():
            self._numbers(index, version, counts)
        self.settle()

    def _from(self, checkpoint: Checkpoint, what: str, cutoff_ms: int | None = None) -> None:
        self._files[checkpoint.name] = checkpoint.files
        self._checkpoints[checkpoint.name] = checkpoint
        version = checkpoint.version
        self.note(Note(what, checkpoint.name, (version, version), cutoff_ms))

    def _odd(self, note: Note, version: int, code: str, found: Odd) -> None:
        if note.what == "twice":
            assert found.versions is not None
            self.tell_twice(found.count, found.first, found.second, found.versions)
        elif code in ODD_ROWS:
            assert found.versions is not None
            names = self.names_committed(found.first, found.second, found.versions)
            told = f"{ODD_ROWS[code]}: {some(names, found.count)}"
            self.complain(code, told, self.files.commits[version])
        else:
            self.tell(self._files[note.source], [found])

    def _numbers(self, index: int, version: int, counts: tuple[int, ...]) -> None:
        note = self.notes[index]
        if note.what == "expired":
            self.tell_expired(self._checkpoints[note.source], *counts)
            return
        held = self._sums[version]
        if held.index != index:
            return  # what the commit of a checkpoint's version says without what came before it
        self.base, self.base_files = held.base, held.base_files
        files, size, vectors, low, high = counts
        sums = Sums(files, size, vectors, (low + (high << 32)) % (1 << 64))
        root, log_format = self.directory.table_url, self.directory.log_format
        for message in wrong_sums(held.content, sums, log_format, root):
            self.unsound("CHECKSUM_DIFFERS", message, held.ref.path, version)
        self.check_stamp(held.ref, held.content, held.stamp)


def slim(read: Any) -> Any:
    """Return what was read of a file without its file actions."""
    if isinstance(read, Commits):
        return replace(read, batches=[], rows=joined_entries([]))
    return replace(read, rows=joined_entries([])) if isinstance(read, Derived) else read
