"""Which log files are there? One listing, from a version on, as refs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from engine.errors import LogNotFoundError, StorageError, UnsupportedLogFormatError
from engine.formats import FORMATS, LogFormat
from engine.log.hint import Hint, parse_hint
from engine.log.paths import HINT, TransactionFileRef, first_name, parse_path
from engine.log.segment import Fallback
from engine.storage import Storage, join

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class LogDirectory:
    """Where the log of one table is: `root` is the table's, `path` the log directory's."""

    storage: Storage
    root: str
    log_format: LogFormat

    @cached_property
    def path(self) -> str:
        """The log directory, in the storage's own form."""
        return join(self.root, self.log_format.directory)

    @cached_property
    def url(self) -> str:
        """The log directory, as users write it."""
        return self.storage.url(self.path)

    @cached_property
    def table_url(self) -> str:
        """The table's root, as users write it."""
        return self.storage.url(self.root)

    def file(self, name: str) -> str:
        """Return the storage path of a file of the log; refuses names that lead out of it."""
        return join(self.path, name)


@dataclass(frozen=True)
class Listing:
    """Every log file of a directory from `start_version` on."""

    refs: tuple[TransactionFileRef, ...]
    start_version: int
    other_files: int = 0
    fallbacks: tuple[Fallback, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether nothing was left out at the start."""
        return self.start_version == 0


def find_log(
    storage: Storage, root: str, formats: Sequence[LogFormat] = FORMATS
) -> tuple[LogDirectory, Listing]:
    """Return the log of the table at `root`, and what its latest version needs.

    Raises LogNotFoundError where there is none of `formats`, and UnsupportedLogFormatError where
    it is kept in a layout that its commits alone do not tell.
    """
    empty: tuple[LogDirectory, Listing] | None = None
    for log_format in formats:
        directory = LogDirectory(storage, root, log_format)
        try:
            listing = list_latest(directory)
        except LogNotFoundError:
            continue
        if listing.refs:
            return directory, listing
        if listing.other_files or storage.scheme == "file":
            empty = empty or (directory, listing)
    if empty is None:
        raise LogNotFoundError(storage.url(root), _why_none(storage, root))
    return empty


def read_hint(directory: LogDirectory) -> tuple[Hint | None, Fallback | None]:
    """Return the hint, or why the one that is there is of no use."""
    try:
        data = directory.storage.read(directory.file(HINT))
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    except StorageError as error:
        return None, Fallback("hint", HINT, f"{error.reason}; the whole log is listed")
    hint = parse_hint(data)
    if isinstance(hint, str):
        return None, Fallback("hint", HINT, f"{hint}; the whole log is listed")
    return hint, None


def list_log(directory: LogDirectory, start_version: int = 0) -> Listing:
    """List the log files whose name is that of `start_version` or a later one."""
    storage, log_format = directory.storage, directory.log_format
    start = first_name(start_version) if start_version else ""
    below = log_format.checkpoint_directory
    try:
        # Digits sort before every directory's name, so starting late hides none of them.
        files, names = (
            storage.list_both(directory.path, start)
            if below
            else (storage.list_from(directory.path, start), [])
        )
    except (FileNotFoundError, NotADirectoryError):
        raise LogNotFoundError(directory.table_url) from None
    found = [(file.name, file.size, file.modification_time_ms, file.etag) for file in files]
    if below:
        _refuse_foreign_state(directory, names)
        if below in names:
            found += [
                (f"{below}/{file.name}", file.size, file.modification_time_ms, "")
                for file in storage.list_from(directory.file(below), start)
            ]
    parsed = (parse_path(name, size, time, log_format, tag) for name, size, time, tag in found)
    refs = tuple(ref for ref in parsed if ref is not None)
    return Listing(refs, start_version, len(found) - len(refs))


def list_latest(directory: LogDirectory) -> Listing:
    """List what the latest version needs: from the hint on, or everything."""
    hint, fallback = read_hint(directory)
    if hint and hint.layout and hint.layout == directory.log_format.foreign_layout:
        raise UnsupportedLogFormatError(directory.url, f"{hint.layout} ({HINT} says so)")
    listing = list_log(directory, hint.version if hint else 0)
    if hint and not any(
        ref.kind.is_checkpoint and ref.version >= hint.version for ref in listing.refs
    ):
        fallback = Fallback(
            "hint", HINT, f"names checkpoint {hint.version}, not found; the whole log is listed"
        )
        listing = list_log(directory)
    return replace(listing, fallbacks=(fallback,)) if fallback else listing


def _why_none(storage: Storage, root: str) -> str:
    name = root.rpartition("/")[2]
    if any(name == log_format.directory for log_format in FORMATS):
        return "this is the log directory itself; name its parent"
    try:
        is_there = storage.list_directories(root) or storage.list_from(root)
    except FileNotFoundError:
        return "it is a file" if storage.exists(root) else "there is no such path"
    return "" if is_there or storage.scheme == "file" else "nothing is there"


def _refuse_foreign_state(directory: LogDirectory, names: list[str]) -> None:
    prefix = directory.log_format.foreign_state_prefix
    if prefix and any(name.startswith(prefix) for name in names):
        raise UnsupportedLogFormatError(directory.url, f"Avro state ({prefix}*/_manifest.avro)")
