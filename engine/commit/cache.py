"""What is kept of what was read, for how long, and how often did that help?"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from engine import config as settings

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from engine.commit.newer import Position
    from engine.config import Config, Setting
    from engine.log.paths import TransactionFileRef
    from engine.replay.state import LocalState
    from engine.snapshot import Snapshot

V = TypeVar("V")

# The one key of what there is only one of: the table as it is now.
LATEST: Final = "latest"


@dataclass(slots=True)
class _Entry(Generic[V]):
    value: V
    size_bytes: int
    expires: float


@dataclass(slots=True)
class Cache(Generic[V]):
    """The most recently used values, bounded in number, bytes and age. Safe in many threads."""

    capacity: int
    ttl_seconds: float
    capacity_bytes: int | None = None
    clock: Callable[[], float] = time.monotonic
    hits: int = 0
    misses: int = 0
    _entries: OrderedDict[Hashable, _Entry[V]] = field(default_factory=OrderedDict)
    _size_bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: Hashable) -> V | None:
        """Return a value that is here and not too old, and count whether it was."""
        found = self.peek(key)
        if found is None:
            self.misses += 1
        else:
            self.hits += 1
        return found

    def peek(self, key: Hashable) -> V | None:
        """Return a value that is here and not too old."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            if entry.expires < self.clock():
                self._drop(key)
                return None
            self._entries.move_to_end(key)
            return entry.value

    def put(self, key: Hashable, value: V, size_bytes: int = 0) -> None:
        """Keep a value, dropping the least recently used ones for room."""
        with self._lock:
            if key in self._entries:
                self._drop(key)
            if self.capacity_bytes is not None and size_bytes > self.capacity_bytes:
                return
            self._entries[key] = _Entry(value, size_bytes, self.clock() + self.ttl_seconds)
            self._size_bytes += size_bytes
            while len(self._entries) > self.capacity or self._is_too_large():
                self._drop(next(iter(self._entries)))

    def renew(self, key: Hashable) -> None:
        """Begin the age of a value anew: it was found to be true still."""
        with self._lock:
            if key in self._entries:
                self._entries[key].expires = self.clock() + self.ttl_seconds

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._entries.clear()
            self._size_bytes = 0

    def stats(self) -> dict[str, Any]:
        """Return hits, misses, the hit rate, and what is kept."""
        kept = {"entries": len(self._entries), "bytes": self._size_bytes}
        return {**rated(self.hits, self.misses), **kept}

    def _drop(self, key: Hashable) -> None:
        self._size_bytes -= self._entries.pop(key).size_bytes

    def _is_too_large(self) -> bool:
        return self.capacity_bytes is not None and self._size_bytes > self.capacity_bytes


def rated(hits: int, misses: int) -> dict[str, Any]:
    """Return the three figures of one cache."""
    rate = hits / (hits + misses) if hits + misses else 0.0
    return {"hits": hits, "misses": misses, "hitRate": rate}


@dataclass(frozen=True, slots=True)
class Caches:
    """What one open log keeps.

    The latest state is held by `protocol`, `metadata`, `files` and `version_list`: a look at the
    storage that finds it true renews them. The others hold what never changes, and a commit
    leaves them alone: commits, states at checkpoints, older versions.
    """

    protocol: Cache[Mapping[str, Any]]
    metadata: Cache[Mapping[str, Any]]
    files: Cache[Snapshot]
    version_list: Cache[Position]
    versions: Cache[tuple[TransactionFileRef, bytes]]
    checkpoint: Cache[LocalState]
    snapshots: Cache[Snapshot]

    def stats(self) -> dict[str, dict[str, Any]]:
        """Return the figures of every cache, by its documented name."""
        return {
            "protocol": self.protocol.stats(),
            "metadata": self.metadata.stats(),
            "versions": self.versions.stats(),
            "files": self.files.stats(),
            "versionList": self.version_list.stats(),
            "checkpoint": self.checkpoint.stats(),
            "snapshots": self.snapshots.stats(),
        }

    def forget_latest(self) -> None:
        """Drop what depends on which version is the latest."""
        for cache in (self.protocol, self.metadata, self.files, self.version_list):
            cache.clear()

    def forget_older(self) -> None:
        """Drop what is true of a version for as long as the table is the same."""
        for cache in (self.versions, self.checkpoint, self.snapshots):
            cache.clear()

    def renew_latest(self) -> None:
        """The latest state was looked at, and is true."""
        for cache in (self.protocol, self.metadata, self.files, self.version_list):
            cache.renew(LATEST)


def caches_of(config: Config, clock: Callable[[], float] = time.monotonic) -> Caches:
    """Return empty caches as the settings bound them."""
    most = config[settings.CACHE_MAX_BYTES]
    about = _seconds(config, settings.CACHE_METADATA_TTL, settings.CACHE_METADATA_TTL_MS)
    files = _seconds(config, settings.CACHE_FILES_TTL, settings.CACHE_FILES_TTL_MS)
    log = _seconds(config, settings.CACHE_LOG_TTL, settings.CACHE_LOG_TTL_MS)
    older = _seconds(config, settings.CACHE_SNAPSHOT_TTL, settings.CACHE_SNAPSHOT_TTL_MS)
    general = config[settings.CACHE_EXPIRATION_SECONDS] or config[settings.CACHE_TTL_MS] / 1000
    few = config[settings.CACHE_METADATA_SIZE]
    return Caches(
        protocol=Cache(few, about, clock=clock),
        metadata=Cache(few, about, clock=clock),
        files=Cache(
            config[settings.CACHE_FILES_CAPACITY] or config[settings.CACHE_FILES_SIZE],
            files,
            clock=clock,
        ),
        version_list=Cache(1, general, clock=clock),
        versions=Cache(
            config[settings.CACHE_LOG_CAPACITY] or config[settings.CACHE_LOG_SIZE],
            log,
            most,
            clock,
        ),
        checkpoint=Cache(
            config[settings.CACHE_CHECKPOINT_SIZE],
            _seconds(config, settings.CACHE_CHECKPOINT_TTL, None),
            most,
            clock,
        ),
        snapshots=Cache(
            config[settings.CACHE_SNAPSHOT_CAPACITY] or config[settings.CACHE_SNAPSHOT_SIZE],
            older,
            most,
            clock,
        ),
    )


def _seconds(config: Config, minutes: Setting[int], exact: Setting[int] | None) -> float:
    """Return how long a cache keeps: the old setting for all of them goes before its own."""
    if every := config[settings.CACHE_EXPIRATION_SECONDS]:
        return every
    if exact is not None and config[exact]:
        return config[exact] / 1000
    return config[minutes] * 60
