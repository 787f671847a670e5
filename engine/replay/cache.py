"""Parsed log files, kept for a while where they were parsed.

One cache a process: on an executor, the reused Python workers. A file is known by its full path,
size and modification time, so one that was replaced under its name is not the same file.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.actions import ActionBatch

CAPACITY_FILES: Final = 1000
CAPACITY_BYTES: Final = 256 * 1024 * 1024
TTL_SECONDS: Final = 300.0

# Full path, size, modification time; which part of it; the fields that were parsed.
FileId = tuple[str, int, int, tuple[int, ...], tuple[str, ...] | None]

_EVERY_TABLE: Final = ""
_DRIVER: Final = uuid.uuid4().hex
_invalidations: Final[Counter[str]] = Counter()


@dataclass(frozen=True, slots=True)
class Generation:
    """Which invalidation a job knows of. Carried by every task, so that it reaches every worker.

    `everything` counts the invalidations of all tables, `table` those of one. Both only grow in a
    driver, whichever of its logs they came through; `driver` tells drivers apart.
    """

    driver: str = ""
    everything: int = 0
    table: int = 0

    @classmethod
    def of(cls, table: str) -> Generation:
        """Return the generation that a job on `table` belongs to, if it is planned now."""
        return cls(_DRIVER, _invalidations[_EVERY_TABLE], _invalidations[table])

    def is_before(self, other: Generation) -> bool:
        """Tell whether this driver invalidated anything between this generation and `other`."""
        mine, others = (self.everything, self.table), (other.everything, other.table)
        return self.driver == other.driver and mine < others


def invalidate(table: str, *, everywhere: bool) -> None:
    """Begin a new generation of one table, or of all."""
    _invalidations[_EVERY_TABLE if everywhere else table] += 1


@dataclass(slots=True)
class _Entry:
    batches: list[ActionBatch]
    size_bytes: int
    expires: float
    table: str


@dataclass(slots=True)
class FileCache:
    """The most recently used parsed files, bounded in files, bytes and age."""

    capacity_files: int = CAPACITY_FILES
    capacity_bytes: int = CAPACITY_BYTES
    ttl_seconds: float = TTL_SECONDS
    clock: Callable[[], float] = time.monotonic
    _entries: OrderedDict[FileId, _Entry] = field(default_factory=OrderedDict)
    _known: dict[str, Generation] = field(default_factory=dict)
    _size_bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def enter_generation(self, table: str, generation: Generation) -> None:
        """Drop what a newer generation made stale, before a task of it reads anything."""
        with self._lock:
            known = self._known.get(table, generation)
            self._known[table] = generation
            if known == generation:
                return
            if generation.is_before(known):
                # A task that was planned before the invalidation; what is here is newer than that.
                self._known[table] = known
                return
            is_wide = known.everything != generation.everything
            stale = set(self._known) if is_wide else {table}
            for key in [key for key, entry in self._entries.items() if entry.table in stale]:
                self._drop(key)

    def get(self, key: FileId) -> list[ActionBatch] | None:
        """Return the actions of a file, or None when they are not here or too old."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            if entry.expires < self.clock():
                self._drop(key)
                return None
            self._entries.move_to_end(key)
            return entry.batches

    def put(self, key: FileId, table: str, batches: list[ActionBatch]) -> None:
        """Keep the actions of a file, dropping the least recently used ones for room."""
        size = sum(column.nbytes for batch in batches for column in batch.columns.values())
        if size > self.capacity_bytes // 4:
            return
        with self._lock:
            if key in self._entries:
                self._drop(key)
            self._entries[key] = _Entry(batches, size, self.clock() + self.ttl_seconds, table)
            self._size_bytes += size
            while (
                len(self._entries) > self.capacity_files or self._size_bytes > self.capacity_bytes
            ):
                self._drop(next(iter(self._entries)))

    def __len__(self) -> int:
        return len(self._entries)

    def _drop(self, key: FileId) -> None:
        self._size_bytes -= self._entries.pop(key).size_bytes


PROCESS_CACHE: Final = FileCache()
