"""What is known of every file key while commits are walked, oldest first: numbers, no text.

A key costs 48 bytes a slot, in tables that are at most half full. Every step gives what it changed,
so that the sums of each single version come out of one pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from engine.upkeep.verify.surviving import Entries

_EMPTY: Final = np.uint64(0)
_ROOM: Final = 2
_COLUMNS: Final = {
    "first": np.uint64,
    "second": np.uint64,
    "file": np.uint64,
    "content": np.uint64,
    "size": np.int64,
    "mark": np.int64,  # the version that spoke last of the key, doubled; odd where it added it
}


@dataclass(slots=True)
class Sums:
    """What the live files of a version add up to."""

    files: int = 0
    size_bytes: int = 0
    vectors: int = 0
    content: int = 0

    def plus(self, files: int, size_bytes: int, vectors: int, content: int) -> Sums:
        """Return these sums after a change."""
        return Sums(
            self.files + files,
            self.size_bytes + size_bytes,
            self.vectors + vectors,
            (self.content + content) % (1 << 64),
        )


@dataclass(frozen=True, slots=True)
class Applied:
    """What some commits did: the sums after each version, and what did not fit.

    `twice` are pairs of rows of one key in one version; `unknown` are removes of what was not
    live.
    """

    after: dict[int, Sums]
    twice: list[tuple[int, int]]
    unknown: np.ndarray


@dataclass
class Ledger:
    """The newest action of each key so far."""

    sums: Sums = field(default_factory=Sums)
    count: int = 0

    def __post_init__(self) -> None:
        self._allocate(1 << 12)

    def apply(self, rows: Entries) -> Applied:
        """Enter the actions of commits, ordered by (version, ordinal)."""
        if not len(rows):
            return Applied({}, [], np.empty(0, dtype=np.int64))
        order, starts = _grouped(rows)
        firsts = order[starts]
        ends = np.append(starts[1:], len(order)) - 1
        lasts = order[ends]
        slots = self._enter(rows.first[firsts], rows.second[firsts])
        before = self._before(rows, order, starts, slots)
        was_live, was_size, was_content = before
        is_add = rows.is_add
        summed = _mixed(rows.first, rows.content)
        changes = (
            is_add.astype(np.int64) - was_live,
            np.where(is_add, rows.size, 0) - was_size,
            np.where(rows.has_vector, is_add.astype(np.int64) - was_live, 0),
            np.where(is_add, summed, _EMPTY) - was_content,
        )
        after = self._advance(rows.versions, changes)
        self._write(slots, rows, lasts)
        return Applied(after, _twice(rows, order, starts), np.flatnonzero(~is_add & ~was_live))

    def keys(self, since: int, *, adds: bool | None = None) -> np.ndarray:
        """Return the slots of the keys last spoken of at `since` or later."""
        found = (self._first != _EMPTY) & (self._mark >= since * 2)
        if adds is not None:
            found &= (self._mark & 1) == int(adds)
        return np.flatnonzero(found)

    def find(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return the slot of each key, -1 for those that are not there."""
        first = _occupied(first)
        found = np.full(len(first), -1, dtype=np.int64)
        rows, slots = np.arange(len(first)), self._home(first)
        while len(rows):
            there = self._first[slots]
            equal = (there == first[rows]) & (self._second[slots] == second[rows])
            found[rows[equal]] = slots[equal]
            on = ~equal & (there != _EMPTY)
            rows, slots = rows[on], (slots[on] + 1) & self._mask
        return found

    def content(self, slots: np.ndarray) -> np.ndarray:
        """Return what must survive of the actions in slots."""
        found: np.ndarray = self._content[slots]
        return found

    def is_add(self, slots: np.ndarray) -> np.ndarray:
        """Return which slots hold a live file."""
        found: np.ndarray = (self._mark[slots] & 1) == 1
        return found

    def sizes(self, slots: np.ndarray) -> np.ndarray:
        """Return the size of adds, and the deletionTimestamp of removes."""
        found: np.ndarray = self._size[slots]
        return found

    def versions(self, slots: np.ndarray) -> np.ndarray:
        """Return which version spoke last of the keys in slots."""
        found: np.ndarray = self._mark[slots] >> 1
        return found

    def fingerprints(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the keys in slots."""
        return self._first[slots], self._second[slots]

    def live_twice(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the paths, as numbers, that are live under several keys, and their slots."""
        live = self.keys(-1, adds=True)
        files, counts = np.unique(self._file[live], return_counts=True)
        doubled = files[counts > 1]
        return doubled, live[np.isin(self._file[live], doubled)]

    def _before(
        self, rows: Entries, order: np.ndarray, starts: np.ndarray, slots: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what each row found: whether its key was live, its size and its sum."""
        count = len(rows)
        live = np.zeros(count, dtype=bool)
        size = np.zeros(count, dtype=np.int64)
        content = np.zeros(count, dtype=np.uint64)
        # Within these commits, what stands before a row is the row before it of the same key.
        own = np.where(rows.is_add, rows.size, 0), rows.is_add
        mixed = np.where(rows.is_add, _mixed(rows.first, rows.content), _EMPTY)
        live[order[1:]] = own[1][order[:-1]]
        size[order[1:]] = own[0][order[:-1]]
        content[order[1:]] = mixed[order[:-1]]
        # For the first of a key it is what was known before.
        firsts = order[starts]
        known = (self._mark[slots] & 1) == 1
        live[firsts] = known
        size[firsts] = np.where(known, self._size[slots], 0)
        content[firsts] = np.where(known, _mixed(self._first[slots], self._content[slots]), _EMPTY)
        return live, size, content

    def _advance(self, versions: np.ndarray, changes: tuple[np.ndarray, ...]) -> dict[int, Sums]:
        edges = np.flatnonzero(np.append(True, versions[1:] != versions[:-1]))
        sums = [np.add.reduceat(change, edges).tolist() for change in changes]
        after: dict[int, Sums] = {}
        for version, *change in zip(versions[edges].tolist(), *sums, strict=True):
            self.sums = self.sums.plus(*change)
            after[version] = self.sums
        return after

    def _write(self, slots: np.ndarray, rows: Entries, lasts: np.ndarray) -> None:
        self._file[slots] = rows.file[lasts]
        self._content[slots] = rows.content[lasts]
        self._size[slots] = rows.size[lasts]
        self._mark[slots] = rows.versions[lasts] * 2 + rows.is_add[lasts]

    def _enter(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return the slot of each key, all of them different; new ones get one."""
        if (self.count + len(first)) * _ROOM > len(self._first):
            self._grow(self.count + len(first))
        first = _occupied(first)
        found = np.empty(len(first), dtype=np.int64)
        rows, slots = np.arange(len(first)), self._home(first)
        while len(rows):
            free = self._first[slots] == _EMPTY
            claims, places = rows[free], slots[free]
            self._first[places] = first[claims]
            self._second[places] = second[claims]
            mine = (self._first[slots] == first[rows]) & (self._second[slots] == second[rows])
            found[rows[mine]] = slots[mine]
            self.count += int((mine & free).sum())
            rows, slots = rows[~mine], (slots[~mine] + 1) & self._mask
        return found

    def _home(self, first: np.ndarray) -> np.ndarray:
        return (first >> np.uint64(7)).astype(np.int64) & self._mask

    def _grow(self, keys: int) -> None:
        slots = len(self._first)
        while slots < keys * _ROOM * 2:
            slots *= 2
        full = np.flatnonzero(self._first != _EMPTY)
        old = {name: getattr(self, f"_{name}")[full] for name in _COLUMNS}
        self._allocate(slots)
        self.count = 0
        places = self._enter(old["first"], old["second"])
        for name in ("file", "content", "size", "mark"):
            getattr(self, f"_{name}")[places] = old[name]

    def _allocate(self, slots: int) -> None:
        self._first = np.zeros(slots, dtype=np.uint64)
        self._second = np.zeros(slots, dtype=np.uint64)
        self._file = np.zeros(slots, dtype=np.uint64)
        self._content = np.zeros(slots, dtype=np.uint64)
        self._size = np.zeros(slots, dtype=np.int64)
        self._mark = np.zeros(slots, dtype=np.int64)
        self._mask = slots - 1


def adds_last(rows: Entries) -> np.ndarray:
    """Return the order in which a checkpoint's rows are entered: of a key, an add counts."""
    return np.lexsort((rows.ordinals, rows.is_add))


def content_sum(rows: Entries) -> int:
    """Return what live files add up to, as `Sums.content` has it."""
    adds = rows.is_add
    return int(_mixed(rows.first[adds], rows.content[adds]).sum(dtype=np.uint64))


def _grouped(rows: Entries) -> tuple[np.ndarray, np.ndarray]:
    """Return an order with the rows of a key together, in their order; and where keys begin."""
    codes = pc.dictionary_encode(pa.array(rows.first)).indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    first, second = rows.first[order], rows.second[order]
    new = np.append(True, first[1:] != first[:-1])
    if (second[1:] != second[:-1])[~new[1:]].any():
        # Two keys share half of their fingerprint: compare whole ones.
        order = np.lexsort((np.arange(len(rows)), rows.second, rows.first))
        first, second = rows.first[order], rows.second[order]
        new = np.append(True, (first[1:] != first[:-1]) | (second[1:] != second[:-1]))
    return order, np.flatnonzero(new)


def _twice(rows: Entries, order: np.ndarray, starts: np.ndarray) -> list[tuple[int, int]]:
    if len(starts) == len(order):
        return []
    inner = np.ones(len(order), dtype=bool)
    inner[starts] = False
    versions = rows.versions[order]
    same = np.flatnonzero(inner[1:] & (versions[1:] == versions[:-1]))
    return [(int(order[at]), int(order[at + 1])) for at in same]


def _mixed(first: np.ndarray, content: np.ndarray) -> np.ndarray:
    mixed: np.ndarray = (_occupied(first) ^ (content >> np.uint64(7))) * (content | np.uint64(1))
    return mixed


def _occupied(first: np.ndarray) -> np.ndarray:
    """Keep the mark of a free slot for free slots."""
    return np.where(first == _EMPTY, np.uint64(1), first)
