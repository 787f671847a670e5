"""What was asked before? Older versions, kept for a while, and how often that helped."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.snapshot import Snapshot

CACHES: Final = ("protocol", "metadata", "versions", "files", "versionList", "snapshots")


@dataclass(slots=True)
class CacheCounts:
    """Hits and misses, cache by cache."""

    _hits: Counter[str] = field(default_factory=Counter)
    _misses: Counter[str] = field(default_factory=Counter)

    def hit(self, *names: str) -> None:
        """Count an answer that was known."""
        self._hits.update(names)

    def miss(self, *names: str) -> None:
        """Count an answer that had to be read."""
        self._misses.update(names)

    def stats(self) -> dict[str, dict[str, Any]]:
        """Return hits, misses and the hit rate of every cache."""
        return {name: rated(self._hits[name], self._misses[name]) for name in CACHES}


def rated(hits: int, misses: int) -> dict[str, Any]:
    """Return the three figures of one cache."""
    rate = hits / (hits + misses) if hits + misses else 0.0
    return {"hits": hits, "misses": misses, "hitRate": rate}


@dataclass(slots=True)
class VersionCache:
    """The most recently asked versions, bounded in number, bytes and age."""

    capacity: int
    capacity_bytes: int
    ttl_seconds: float
    clock: Callable[[], float] = time.monotonic
    _entries: OrderedDict[int, tuple[Snapshot, int, float]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, version: int) -> Snapshot | None:
        """Return a version that is here and not too old."""
        with self._lock:
            entry = self._entries.pop(version, None)
            if entry is None or entry[2] < self.clock():
                return None
            self._entries[version] = entry
            return entry[0]

    def put(self, snapshot: Snapshot) -> None:
        """Keep a version, dropping the least recently used ones for room."""
        size = snapshot.state.files.nbytes + snapshot.state.tombstones.nbytes
        if size > self.capacity_bytes:
            return
        with self._lock:
            expires = self.clock() + self.ttl_seconds
            self._entries[snapshot.version] = (snapshot, size, expires)
            while len(self._entries) > self.capacity or self.size_bytes > self.capacity_bytes:
                self._entries.popitem(last=False)

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size_bytes(self) -> int:
        """The bytes of all that is kept."""
        return sum(size for _, size, _ in self._entries.values())
