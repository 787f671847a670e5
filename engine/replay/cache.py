"""Parsed log files, kept for a while where they were parsed.

One cache a process: on an executor, the reused Python workers. A file is known by its full path,
size and modification time, so one that was replaced under its name is not the same file.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.actions import ActionBatch

CAPACITY_FILES: Final = 1000
CAPACITY_BYTES: Final = 256 * 1024 * 1024
TTL_SECONDS: Final = 300.0

# Full path, size, modification time; where the part begins; the fields that were parsed.
FileId = tuple[str, int, int, int, tuple[str, ...] | None]


_DRIVER: Final = uuid.uuid4().hex
_everything = 0


@dataclass(frozen=True, slots=True)
class Generation:
    """Which invalidation a job knows of. Carried by every task, so that it reaches every worker.

    `table` counts the invalidations of one table, `everything` those of all tables. Both only
    grow in a driver; `driver` tells drivers apart.
    """

    driver: str = ""
    table: int = 0
    everything: int = 0

    @classmethod
    def first(cls) -> Generation:
        """Return the generation of a log that was just opened."""
        return cls(_DRIVER, 0, _everything)

    def next(self, *, everywhere: bool) -> Generation:
        """Return the generation after an invalidation of one table, or of all."""
        global _everything  # noqa: PLW0603 - one count a driver, whatever log it came through
        _everything += everywhere
        return Generation(self.driver, self.table + 1, _everything)


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
            known = self._known.get(table)
            if known == generation:
                return
            if known is None or known.driver != generation.driver:
                stale = {table}
            elif generation.everything != known.everything:
                stale = set(self._known)
            else:
                stale = {table}
            self._known[table] = generation
            if known is not None:
                for key in [k for k, entry in self._entries.items() if entry.table in stale]:
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
