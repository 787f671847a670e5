"""Which commits came after the last one we know, and is that one still the one we knew?"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from engine.config import CACHE_MAX_BYTES, MAX_DECOMPRESSED_BYTES
from engine.errors import LogNotFoundError
from engine.log.paths import FileKind, TransactionFileRef, first_name, parse_path
from engine.replay.parse import Parser

if TYPE_CHECKING:
    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.storage import FileInfo, Storage

# A file of a version, of one of these kinds, proves that the version was committed.
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


@dataclass(frozen=True, slots=True)
class Seen:
    """A commit's file: what tells it from a file that took its place.

    Where the storage has a tag it is that: its clock may tick in seconds. Of a commit that we
    wrote the storage's time is not known, and the hash of its bytes stands in for both.
    """

    size: int
    modification_time: int | None
    tag: str = ""

    @classmethod
    def of(cls, ref: TransactionFileRef) -> Seen:
        """Return a commit as a listing showed it."""
        return cls(ref.size, ref.modification_time, ref.etag)

    @classmethod
    def ours(cls, data: bytes) -> Seen:
        """Return a commit that we wrote."""
        return cls(len(data), None, _md5(data))

    def is_still(self, file: FileInfo, storage: Storage) -> bool:
        """Tell whether the file that stands there now is this one."""
        if file.size != self.size:
            return False
        if self.tag and file.etag == self.tag:
            return True
        if self.modification_time is None:
            return _md5(storage.read(file.path)) == self.tag
        has_tags = bool(self.tag and file.etag)
        return not has_tags and file.modification_time_ms == self.modification_time


@dataclass(frozen=True, slots=True)
class Position:
    """How far a log was read: the last version, and its commit where that is still there."""

    version: int
    last: Seen | None


@dataclass(frozen=True, slots=True)
class News:
    """What a look found: where we stand, proven anew, and the commits after it, oldest first.

    `checksum` is the one of the last of these commits, where it is there.
    """

    position: Position
    commits: list[tuple[TransactionFileRef, bytes]]
    checksum: TransactionFileRef | None = None


def look(directory: LogDirectory, position: Position, config: Config) -> News | None:
    """List from the last known commit on, and read what is new.

    Returns None where what is known is not to be trusted: the table is another one, or what is
    new cannot be told from its commits alone. Raises LogNotFoundError where there is no log, and
    UnreadableLogFileError where a new commit is not sound.
    """
    storage, log_format = directory.storage, directory.log_format
    foreign = log_format.foreign_state_prefix
    start = first_name(position.version)
    try:
        found, names = (
            storage.list_both(directory.path, start)
            if foreign
            else (storage.list_from(directory.path, start), [])
        )
    except (FileNotFoundError, NotADirectoryError):
        raise LogNotFoundError(directory.table_url) from None
    if foreign and any(name.startswith(foreign) for name in names):
        return None
    last, refs, checksums = _sorted_out(found, directory, position.version)
    if position.last is not None:
        if last is None or not position.last.is_still(last, storage):
            return None
        seen = Seen(last.size, last.modification_time_ms, last.etag)
        position = Position(position.version, seen)
    if not refs:
        return News(position, [])
    wanted = range(position.version + 1, max(refs) + 1)
    if any(v not in refs or refs[v].kind is not FileKind.COMMIT for v in wanted):
        return None
    if sum(ref.size for ref in refs.values()) > config[CACHE_MAX_BYTES]:
        return None
    ordered = [refs[version] for version in wanted]
    try:
        contents = storage.read_many([directory.file(ref.path) for ref in ordered])
        commits = list(zip(ordered, (data for _, data in contents), strict=True))
    except FileNotFoundError:
        return None
    # Nobody builds on a commit that cannot be read, not even who needs none of its files.
    Parser(log_format, config[MAX_DECOMPRESSED_BYTES]).parse(commits)
    return News(position, commits, checksums.get(wanted[-1]))


def _sorted_out(
    found: list[FileInfo], directory: LogDirectory, version: int
) -> tuple[FileInfo | None, dict[int, TransactionFileRef], dict[int, TransactionFileRef]]:
    """Return the file of the last known commit, one that proves each later version, checksums."""
    last, refs, checksums = None, dict[int, TransactionFileRef](), dict[int, TransactionFileRef]()
    for file in found:
        ref = parse_path(
            file.name, file.size, file.modification_time_ms, directory.log_format, file.etag
        )
        if ref is None:
            continue
        if ref.version == version and ref.kind is FileKind.COMMIT:
            last = file
        elif ref.version > version and ref.kind in _PROOFS:
            refs.setdefault(ref.version, ref)
            if ref.kind is FileKind.COMMIT:
                refs[ref.version] = ref
        elif ref.kind is FileKind.CHECKSUM:
            checksums[ref.version] = ref
    return last, refs, checksums


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
