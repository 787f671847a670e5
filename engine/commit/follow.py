"""What is the latest version, and what is new since we last looked?

What was read of a log stays; a look lists from the last known version on, and reads the commits
after it. A table that was recreated at the same path is another table: all is forgotten.
"""

from __future__ import annotations

import hashlib
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from engine.actions import kinds
from engine.config import CACHE_MAX_BYTES, MAX_DECOMPRESSED_BYTES
from engine.errors import LogGapError, LogNotFoundError, ReplayError
from engine.log.paths import FileKind, TransactionFileRef, commit_name, first_name, parse_path
from engine.log.timestamps import in_commit_start
from engine.replay.advance import advance, singles_of
from engine.replay.commits import commit_info_of
from engine.replay.compression import decode
from engine.replay.lines import LineAction, read_line, read_lines
from engine.replay.parse import Parser
from engine.replay.rules import STATE_KEYS
from engine.replay.state import LocalState, Singles
from engine.snapshot import Snapshot, complete

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine.commit.cache import CacheCounts
    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.storage import FileInfo

# Commits that wait to be applied to the files; beyond, they are applied at once.
_WAITING_BYTES: Final = 16 * 1024**2
_FILE_ACTIONS: Final = (b'{"add"', b'{"remove"')


@dataclass(frozen=True, slots=True)
class View:
    """What a writer must know of one version. `snapshot` is there where files were asked for."""

    version: int
    protocol: Mapping[str, Any]
    metadata: Mapping[str, Any]
    txns: Mapping[str, Mapping[str, Any]]
    domains: Mapping[str, Mapping[str, Any]]
    skips: Mapping[str, Mapping[str, Any]]
    in_commit_timestamp: int | None
    snapshot: Snapshot | None = None

    @property
    def configuration(self) -> Mapping[str, str]:
        """The table's properties."""
        return self.metadata.get("configuration") or {}


@dataclass(slots=True)
class _Known:
    """One table as far as it was read: `base` has its files, `waiting` is what came after it."""

    base: Snapshot
    waiting: list[tuple[TransactionFileRef, bytes]]
    singles: Singles
    last: _Seen | None
    in_commit_timestamp: int | None
    waiting_bytes: int = 0

    @property
    def version(self) -> int:
        return self.waiting[-1][0].version if self.waiting else self.base.version


@dataclass(frozen=True, slots=True)
class _Seen:
    """The last known commit: what tells it from a file that took its place.

    Where the storage has a tag it is that: its clock may tick in seconds. Of a commit that we
    wrote the storage's time is not known, and the hash of its bytes stands in for both.
    """

    size: int
    modification_time: int | None
    tag: str = ""


class Follower:
    """Keeps up with one log. Safe to use from many threads."""

    def __init__(
        self, directory: LogDirectory, config: Config, load: Callable[[str | None], Snapshot]
    ) -> None:
        self.directory, self.config = directory, config
        self._load = load
        self._known: _Known | None = None
        self._looked = float("-inf")
        self._lock = threading.RLock()

    def forget(self) -> None:
        """Begin anew with the next question."""
        with self._lock:
            self._known = None

    def snapshot(self, counts: CacheCounts, max_staleness_ms: int = 0) -> Snapshot:
        """Return the latest state, reading what is new only.

        Within `max_staleness_ms` of the last look, what is known is the answer.
        """
        with self._lock:
            known = self._refreshed(counts, max_staleness_ms)
            return known if isinstance(known, Snapshot) else self._applied(known)

    def latest_known(self) -> int | None:
        """Return the latest version, where what is known is still true; None where it is not."""
        with self._lock:
            if self._known is None:
                return None
            try:
                newer = self._newer(self._known)
            except ReplayError:
                newer = None
            if newer is None:
                self._known = None
                return None
            for ref, data in newer:
                self._take(self._known, ref, data)
            return self._known.version

    def view(self, counts: CacheCounts, *, files: bool = False) -> View:
        """Return the latest version as a writer sees it."""
        with self._lock:
            known = self._refreshed(counts, engine="local")
            assert isinstance(known, _Known), "the local engine keeps its state here"
            snapshot = self._applied(known) if files else None
            singles = known.singles
            state = complete(
                singles.state(known.base.state.files, known.base.state.tombstones),
                known.base.segment,
                self.config,
            )
            assert state.protocol is not None
            assert state.metadata is not None
            return View(
                version=known.version,
                protocol=state.protocol,
                metadata=state.metadata,
                txns=state.txns,
                domains=state.domains,
                skips=state.skips,
                in_commit_timestamp=known.in_commit_timestamp,
                snapshot=snapshot,
            )

    def wrote(self, version: int, data: bytes) -> None:
        """Take note of our own commit, without reading it back."""
        with self._lock:
            known = self._known
            if known is None or known.version != version - 1:
                return
            self._take(known, _ref(version, len(data), time.time_ns() // 1_000_000), data)
            known.last = _Seen(len(data), None, _md5(data))

    def commits(self, start: int, end: int) -> list[tuple[int, list[LineAction]]]:
        """Return the actions of an inclusive range of commits."""
        with self._lock:
            known = self._known
            held = {ref.version: data for ref, data in known.waiting} if known else {}
        found = []
        for version in range(start, end + 1):
            ref = _ref(version, 0, 0)
            data = held.get(version)
            if data is None:
                try:
                    data = self.directory.storage.read(self.directory.file(ref.path))
                except FileNotFoundError:
                    raise LogGapError(self.directory.url, version - 1, end) from None
            lines = read_lines(self._plain(ref, data), ref, kinds(self.directory.log_format))
            found.append((version, list(lines)))
        return found

    # --- looking -------------------------------------------------------------------------------

    def _refreshed(
        self, counts: CacheCounts, max_staleness_ms: int = 0, engine: str | None = None
    ) -> _Known | Snapshot:
        known = self._known
        now = time.monotonic()
        if known is not None and (now - self._looked) * 1000 < max_staleness_ms:
            counts.hit("versionList")
            return known
        newer = None if known is None else self._newer(known)
        if known is None or newer is None:
            counts.miss("files", "metadata", "protocol", "versionList")
            return self._reloaded(now, engine)
        counts.miss("versionList")
        counts.hit("files", "metadata", "protocol")
        for ref, data in newer:
            counts.miss("versions")
            self._take(known, ref, data)
        self._looked = now
        return known

    def _reloaded(self, now: float, engine: str | None) -> _Known | Snapshot:
        self._known = None
        snapshot = self._load(engine)
        if not isinstance(snapshot.state, LocalState):
            return snapshot
        last = snapshot.segment.last_commit
        has_clock = in_commit_start(snapshot.configuration) is not None
        self._looked = now
        self._known = _Known(
            base=snapshot,
            waiting=[],
            singles=singles_of(snapshot.state),
            last=_Seen(last.size, last.modification_time, last.etag) if last else None,
            in_commit_timestamp=snapshot.in_commit_timestamp() if has_clock else None,
        )
        return self._known

    def _newer(self, known: _Known) -> list[tuple[TransactionFileRef, bytes]] | None:
        """Return the commits after the last known one; None where that is not to be trusted."""
        storage, directory = self.directory.storage, self.directory
        foreign = directory.log_format.foreign_state_prefix
        start = first_name(known.version)
        try:
            found, names = (
                storage.list_both(directory.path, start)
                if foreign
                else (storage.list_from(directory.path, start), [])
            )
        except (FileNotFoundError, NotADirectoryError):
            raise LogNotFoundError(directory.table_url) from None
        refs: dict[int, TransactionFileRef] = {}
        last = None
        for file in found:
            ref = parse_path(
                file.name, file.size, file.modification_time_ms, directory.log_format, file.etag
            )
            if ref is not None and ref.version == known.version and ref.kind is FileKind.COMMIT:
                last = file
            elif ref is not None and ref.version > known.version and ref.kind in _PROOFS:
                refs.setdefault(ref.version, ref)
                if ref.kind is FileKind.COMMIT:
                    refs[ref.version] = ref
        if foreign and any(name.startswith(foreign) for name in names):
            return None
        if known.last is not None:
            if last is None or not self._is_same(known.last, last):
                return None
            known.last = _Seen(last.size, last.modification_time_ms, last.etag)
        if not refs:
            return []
        wanted = range(known.version + 1, max(refs) + 1)
        if any(v not in refs or refs[v].kind is not FileKind.COMMIT for v in wanted):
            return None
        if sum(ref.size for ref in refs.values()) > self.config[CACHE_MAX_BYTES]:
            return None
        ordered = [refs[version] for version in wanted]
        paths = [directory.file(ref.path) for ref in ordered]
        try:
            contents = [data for _, data in storage.read_many(paths)]
        except FileNotFoundError:
            return None
        newer = list(zip(ordered, contents, strict=True))
        # Nobody builds on a commit that cannot be read, not even who needs none of its files.
        Parser(directory.log_format, self.config[MAX_DECOMPRESSED_BYTES]).parse(newer)
        return newer

    def _is_same(self, last: _Seen, file: FileInfo) -> bool:
        if file.size != last.size:
            return False
        if last.tag and file.etag == last.tag:
            return True
        if last.modification_time is None:
            return _md5(self.directory.storage.read(file.path)) == last.tag
        has_tags = bool(last.tag and file.etag)
        return not has_tags and file.modification_time_ms == last.modification_time

    # --- taking in -----------------------------------------------------------------------------

    def _take(self, known: _Known, ref: TransactionFileRef, data: bytes) -> None:
        plain = self._plain(ref, data)
        actions = _few(plain, ref, self.directory)
        for action in actions:
            known.singles.enter(action.kind, (ref.version, action.ordinal), action.value)
        stamp = commit_info_of(plain, ref).get("inCommitTimestamp")
        known.in_commit_timestamp = stamp if isinstance(stamp, int) else None
        known.last = _Seen(ref.size, ref.modification_time, ref.etag)
        known.waiting.append((ref, data))
        known.waiting_bytes += len(plain)
        if known.waiting_bytes > _WAITING_BYTES:
            self._applied(known)

    def _applied(self, known: _Known) -> Snapshot:
        if not known.waiting:
            return known.base
        started = time.perf_counter()
        base, refs = known.base, tuple(ref for ref, _ in known.waiting)
        assert isinstance(base.state, LocalState)
        segment = replace(
            base.segment,
            version=refs[-1].version,
            commits=base.segment.commits + refs,
            last_commit=refs[-1],
        )
        state = advance(base.state, known.waiting, self.directory, self.config)
        seconds = {"list": 0.0, "replay": round(time.perf_counter() - started, 6)}
        known.base = replace(
            base, segment=segment, state=complete(state, segment, self.config), seconds=seconds
        )
        known.waiting, known.waiting_bytes = [], 0
        return known.base

    def _plain(self, ref: TransactionFileRef, data: bytes) -> bytes:
        if not self.directory.log_format.compressed_commits:
            return data
        return decode(data, ref.path, self.config[MAX_DECOMPRESSED_BYTES])


_PROOFS: Final = frozenset(
    {
        FileKind.COMMIT,
        FileKind.COMPACTION,
        FileKind.CHECKPOINT,
        FileKind.CHECKPOINT_PART,
        FileKind.CHECKPOINT_V2,
        FileKind.CHECKPOINT_JSON,
    }
)


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _ref(version: int, size: int, modification_time: int) -> TransactionFileRef:
    name = commit_name(version)
    return TransactionFileRef(version, name, size, modification_time, FileKind.COMMIT, version)


def _few(data: bytes, ref: TransactionFileRef, directory: LogDirectory) -> Sequence[LineAction]:
    """Return the actions of a commit but for its file actions and its commitInfo."""
    every = kinds(directory.log_format)
    known = {kind: every[kind] for kind in STATE_KEYS if kind in every}
    found = (
        read_line(line, ref, ordinal, known)
        for ordinal, line in enumerate(data.split(b"\n"))
        if line.strip() and not line.startswith(_FILE_ACTIONS)
    )
    return [action for action in found if action is not None]
