"""A set of file keys that grows a batch at a time, without a loop over keys."""

from __future__ import annotations

from typing import Final

import numpy as np

_EMPTY: Final = np.uint64(0)
_ROOM: Final = 2  # slots a key: at most half of the table is ever full


class KeySet:
    """Open addressing over 128-bit fingerprints: 16 bytes a slot, 32 to 64 bytes a key."""

    def __init__(self, slots: int = 1 << 12) -> None:
        self._allocate(slots)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Enter keys that differ from each other; return which of them are new."""
        if (self._count + len(first)) * _ROOM > len(self._first):
            self._grow(self._count + len(first))
        new = self._enter(_occupied(first), second)
        self._count += int(new.sum())
        return new

    def contains(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return which of the keys are in the set."""
        first = _occupied(first)
        found = np.zeros(len(first), dtype=bool)
        if not self._count:
            return found
        rows = np.arange(len(first))
        slots = self._slots(first)
        while len(rows):
            there = self._first[slots]
            equal = (there == first[rows]) & (self._second[slots] == second[rows])
            found[rows[equal]] = True
            on = ~equal & (there != _EMPTY)
            rows, slots = rows[on], (slots[on] + 1) & self._mask
        return found

    def _enter(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        new = np.zeros(len(first), dtype=bool)
        rows = np.arange(len(first))
        slots = self._slots(first)
        while len(rows):
            there = self._first[slots]
            free = there == _EMPTY
            # Where several rows claim one slot the last of them gets it; all look again.
            claims, places = rows[free], slots[free]
            self._first[places] = first[claims]
            self._second[places] = second[claims]
            mine = (self._first[slots] == first[rows]) & (self._second[slots] == second[rows])
            new[rows[mine & free]] = True
            rows, slots = rows[~mine], (slots[~mine] + 1) & self._mask
        return new

    def _slots(self, first: np.ndarray) -> np.ndarray:
        return (first >> np.uint64(7)).astype(np.int64) & self._mask

    def _grow(self, keys: int) -> None:
        slots = len(self._first)
        while slots < keys * _ROOM:
            slots *= 2
        first, second = self._first, self._second
        full = first != _EMPTY
        self._allocate(slots)
        self._enter(first[full], second[full])

    def _allocate(self, slots: int) -> None:
        self._first = np.zeros(slots, dtype=np.uint64)
        self._second = np.zeros(slots, dtype=np.uint64)
        self._mask = slots - 1


def _occupied(first: np.ndarray) -> np.ndarray:
    """Keep the mark of a free slot for free slots."""
    return np.where(first == _EMPTY, np.uint64(1), first)
