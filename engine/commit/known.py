"""What is known of a table? Its few facts, its files where they are kept, and what came since."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from engine.actions import files_schema, kinds, tombstones_schema
from engine.log.checksum import CHECKSUM
from engine.log.timestamps import in_commit_start
from engine.replay.advance import advance, singles_of
from engine.replay.commits import commit_info_of, own_time, plain_bytes
from engine.replay.lines import LineAction, read_line
from engine.replay.rules import STATE_KEYS
from engine.replay.state import LocalState, Singles
from engine.snapshot import Snapshot, complete

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.log.paths import TransactionFileRef
    from engine.log.segment import LogSegment
    from engine.replay.state import State

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
class Known:
    """One table as far as it was read: `base` has its files, `waiting` is what came after it.

    Without `base` the few facts are known, and no files.
    """

    directory: LogDirectory
    config: Config
    segment: LogSegment
    version: int
    singles: Singles
    in_commit_timestamp: int | None
    base: Snapshot | None
    waiting: list[tuple[TransactionFileRef, bytes]] = field(default_factory=list)
    waiting_bytes: int = 0

    @classmethod
    def of(cls, snapshot: Snapshot, state: LocalState) -> Known:
        """Return what a snapshot tells."""
        has_clock = in_commit_start(snapshot.configuration) is not None
        return cls(
            directory=snapshot.directory,
            config=snapshot.config,
            segment=snapshot.segment,
            version=snapshot.version,
            singles=singles_of(state),
            in_commit_timestamp=snapshot.in_commit_timestamp() if has_clock else None,
            base=snapshot,
        )

    def take(self, ref: TransactionFileRef, data: bytes) -> None:
        """Take in the next commit."""
        plain = plain_bytes(self.directory, data, ref, self.config)
        for action in _few(plain, ref, self.directory):
            self.singles.enter(action.kind, (ref.version, action.ordinal), action.value)
        self.in_commit_timestamp = own_time(commit_info_of(plain, ref))
        self.version = ref.version
        if self.base is None:
            return
        self.waiting.append((ref, data))
        self.waiting_bytes += len(plain)
        if self.waiting_bytes > _WAITING_BYTES:
            self.applied()

    def drop_files(self) -> None:
        """Keep the few facts only."""
        self.base, self.waiting, self.waiting_bytes = None, [], 0

    def applied(self) -> Snapshot:
        """Return the state with all that was taken in."""
        base = self.base
        assert base is not None, "whoever asks for files has made sure that they are kept"
        if not self.waiting:
            return base
        started = time.perf_counter()
        refs = tuple(ref for ref, _ in self.waiting)
        assert isinstance(base.state, LocalState)
        self.segment = replace(
            base.segment,
            version=refs[-1].version,
            commits=base.segment.commits + refs,
            last_commit=refs[-1],
        )
        state = advance(base.state, self.waiting, self.directory, self.config)
        seconds = {"list": 0.0, "replay": round(time.perf_counter() - started, 6)}
        self.base = replace(
            base,
            segment=self.segment,
            state=complete(state, self.segment, self.config),
            # What a checksum contradicted was the version it stands beside.
            fallbacks=tuple(f for f in base.fallbacks if f.what != CHECKSUM),
            seconds=seconds,
        )
        self.waiting, self.waiting_bytes = [], 0
        return self.base

    def facts(self) -> State:
        """Return the state without its files. Raises what makes a protocol unreadable to us."""
        log_format = self.directory.log_format
        state = self.singles.state(
            files_schema(log_format).empty_table(), tombstones_schema(log_format).empty_table()
        )
        return complete(state, self.segment, self.config)

    def view(self, *, files: bool) -> View:
        """Return this version as a writer sees it."""
        state = self.facts()
        assert state.protocol is not None
        assert state.metadata is not None
        return View(
            version=self.version,
            protocol=state.protocol,
            metadata=state.metadata,
            txns=state.txns,
            domains=state.domains,
            skips=state.skips,
            in_commit_timestamp=self.in_commit_timestamp,
            snapshot=self.applied() if files else None,
        )


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
