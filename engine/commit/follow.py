"""What is the latest version, and what is new since we last looked?

What was read of a log stays; a look lists from the last known version on, and reads the commits
after it. A table that was recreated at the same path is another table: all is forgotten.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from engine.commit.cache import LATEST
from engine.commit.known import Known, View
from engine.commit.newer import Position, Seen, look
from engine.errors import LogGapError, ReplayError
from engine.log.paths import FileKind, TransactionFileRef, commit_name
from engine.replay.commits import commit_actions
from engine.replay.heads import Head
from engine.replay.state import LocalState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine.commit.cache import Caches
    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.replay.lines import LineAction
    from engine.snapshot import Snapshot


class Follower:
    """Keeps up with one log. Safe to use from many threads."""

    def __init__(
        self,
        directory: LogDirectory,
        config: Config,
        caches: Caches,
        load: Callable[[str | None], Snapshot],
        check: Callable[[Snapshot, tuple[TransactionFileRef]], Snapshot],
    ) -> None:
        self.directory, self.config = directory, config
        self._caches, self._load, self._check = caches, load, check
        self._checksum: TransactionFileRef | None = None
        self._known: Known | None = None
        self._looked = float("-inf")
        self._lock = threading.RLock()

    def forget(self) -> None:
        """Begin anew with the next question."""
        with self._lock:
            self._known = None
            self._caches.forget_latest()

    def snapshot(self, max_staleness_ms: int = 0) -> Snapshot:
        """Return the latest state, reading what is new only.

        Within `max_staleness_ms` of the last look, what is known is the answer.
        """
        with self._lock:
            known = self._refreshed(max_staleness_ms, files=True)
            return self._applied(known) if isinstance(known, Known) else known

    def latest_known(self) -> int | None:
        """Return the latest version, where what is known is still true; None where it is not."""
        with self._lock:
            known = self._trusted(files=False)
            try:
                return known.version if known is not None and self._is_caught_up(known) else None
            except ReplayError:
                self.forget()
                return None

    def head(self) -> Head | None:
        """Return the latest protocol and metaData, where they are kept and true; else None."""
        with self._lock:
            known = self._trusted(files=False)
            if known is None or not self._is_caught_up(known):
                return None
            view = known.view(files=False)
            return Head(view.version, view.protocol, view.metadata)

    def in_memory(self, version: int | None) -> Snapshot | None:
        """Return the latest state, if it is `version`'s, and its files are kept and true."""
        with self._lock:
            known = self._trusted(files=True)
            if known is None or not self._is_caught_up(known):
                return None
            is_it = known.base is not None and version in {None, known.version}
            return self._applied(known) if is_it else None

    def properties(self) -> Mapping[str, str] | None:
        """Return the table's properties as they were last known, without a look."""
        with self._lock:
            metadata = self._known and self._known.singles.winner("metaData")
            return metadata.get("configuration") or {} if metadata else None

    def view(self, *, files: bool = False) -> View:
        """Return the latest version as a writer sees it."""
        with self._lock:
            known = self._refreshed(files=files, engine="local")
            assert isinstance(known, Known), "the local engine keeps its state here"
            view = known.view(files=files)
            if view.snapshot is not None:
                self._keep_files(view.snapshot)
            return view

    def wrote(self, version: int, data: bytes) -> None:
        """Take note of our own commit, without reading it back."""
        with self._lock:
            known = self._known
            if known is None or known.version != version - 1:
                return
            self._take(known, _ref(version, len(data), time.time_ns() // 1_000_000), data)
            self._caches.version_list.put(LATEST, Position(version, Seen.ours(data)))

    def commits(self, start: int, end: int) -> list[tuple[int, list[LineAction]]]:
        """Return the actions of an inclusive range of commits."""
        found = []
        for version in range(start, end + 1):
            kept = self._caches.versions.get(version)
            ref, data = kept or (_ref(version, 0, 0), b"")
            if kept is None:
                try:
                    data = self.directory.storage.read(self.directory.file(ref.path))
                except FileNotFoundError:
                    raise LogGapError(self.directory.url, version - 1, end) from None
            found.append((version, commit_actions(self.directory, ref, data, self.config)))
        return found

    # --- how -----------------------------------------------------------------------------------

    def _refreshed(
        self, max_staleness_ms: int = 0, *, files: bool, engine: str | None = None
    ) -> Known | Snapshot:
        known = self._trusted(files=files)
        if known is not None:
            if (time.monotonic() - self._looked) * 1000 < max_staleness_ms:
                return known
            if self._is_caught_up(known):
                return known
        return self._reloaded(engine)

    def _trusted(self, *, files: bool) -> Known | None:
        """Return what is known, where all that is needed of it is kept still."""
        caches, known = self._caches, self._known
        kept = [
            caches.protocol.get(LATEST),
            caches.metadata.get(LATEST),
            caches.version_list.get(LATEST),
        ]
        has_files = (caches.files.get if files else caches.files.peek)(LATEST) is not None
        if known is not None and not has_files:
            known.drop_files()
        if any(found is None for found in kept) or (files and not has_files):
            return None
        return known

    def _is_caught_up(self, known: Known) -> bool:
        """Look, and take in what is new; tell whether what was known is to be built on."""
        now = time.monotonic()
        position = self._caches.version_list.peek(LATEST)
        news = None if position is None else look(self.directory, position, self.config)
        if news is None:
            self.forget()
            return False
        self._caches.version_list.put(LATEST, news.position)
        for ref, data in news.commits:
            self._take(known, ref, data)
            self._caches.version_list.put(LATEST, Position(ref.version, Seen.of(ref)))
        self._checksum = news.checksum or self._checksum
        self._caches.renew_latest()
        self._looked = now
        return True

    def _take(self, known: Known, ref: TransactionFileRef, data: bytes) -> None:
        known.take(ref, data)
        self._caches.versions.put(ref.version, (ref, data), len(data))
        self._keep_head(known)

    def _applied(self, known: Known) -> Snapshot:
        snapshot, checksum = known.applied(), self._checksum
        if checksum is not None:
            self._checksum = None
            if checksum.version == snapshot.version:
                snapshot = known.base = self._check(snapshot, (checksum,))
        self._keep_files(snapshot)
        return snapshot

    def _reloaded(self, engine: str | None) -> Known | Snapshot:
        self.forget()
        self._checksum = None
        now = time.monotonic()
        snapshot = self._load(engine)
        if not isinstance(snapshot.state, LocalState):
            return snapshot
        last = snapshot.segment.last_commit
        known = self._known = Known.of(snapshot, snapshot.state)
        self._looked = now
        position = Position(known.version, Seen.of(last) if last else None)
        self._caches.version_list.put(LATEST, position)
        self._keep_head(known)
        self._keep_files(snapshot)
        return known

    def _keep_head(self, known: Known) -> None:
        caches = self._caches
        for cache, kind in ((caches.protocol, "protocol"), (caches.metadata, "metaData")):
            # A table of the first engines has no protocol action; that is known too.
            now = known.singles.winner(kind) or {}
            if cache.peek(LATEST) is not now:
                cache.put(LATEST, now)

    def _keep_files(self, snapshot: Snapshot) -> None:
        if self._caches.files.peek(LATEST) is not snapshot:
            self._caches.files.put(LATEST, snapshot, size_of(snapshot))


def size_of(snapshot: Snapshot) -> int:
    """Return the bytes that the files and tombstones of a snapshot take."""
    return int(snapshot.state.files.nbytes + snapshot.state.tombstones.nbytes)


def _ref(version: int, size: int, modification_time: int) -> TransactionFileRef:
    name = commit_name(version)
    return TransactionFileRef(version, name, size, modification_time, FileKind.COMMIT, version)
