"""Where are the bytes? One door to the local disk, to memory, to S3 and to what else fsspec knows.

A path is plain text in the storage's own form: `/data/table` on disk, `bucket/table` on S3.
A missing file or directory is `FileNotFoundError`; whatever else the storage refuses, or does not
answer after retries, is a `StorageError` of one line that says what to do.
"""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.config import Config
from engine.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file as a listing shows it. `etag` is empty where the storage has none."""

    path: str
    size: int
    modification_time_ms: int
    etag: str = ""

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


class Storage(ABC):
    """The files of one scheme, and nothing about what they mean.

    Safe to use from many threads, and cheap to send to an executor, which connects anew.
    """

    def __init__(
        self,
        scheme: str,
        options: Mapping[str, Any],
        config: Config,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.scheme, self.options, self.config, self.sleep = scheme, options, config, sleep

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.scheme, dict(self.options), self.config, self.sleep)

    @abstractmethod
    def root(self, path: str) -> str:
        """Return what follows the scheme of a URL as a path of this storage."""

    @abstractmethod
    def url(self, path: str) -> str:
        """Return `path` as users and Spark write it. Never holds a secret."""

    @abstractmethod
    def list_from(self, directory: str, name: str = "") -> list[FileInfo]:
        """Return the files right inside `directory` whose name is `name` or sorts after it, sorted.

        Raises:
            FileNotFoundError: there is no such directory. An object store cannot tell that from
                an empty one, and returns an empty list.
        """

    @abstractmethod
    def list_directories(self, directory: str, name: str = "") -> list[str]:
        """Return the names of the directories right inside `directory`, from `name` on, sorted.

        Raises:
            FileNotFoundError: as for `list_from`.
        """

    def list_both(self, directory: str, name: str = "") -> tuple[list[FileInfo], list[str]]:
        """Return what `list_from` and `list_directories` do, in one listing where that is one."""
        return self.list_from(directory, name), self.list_directories(directory, name)

    @abstractmethod
    def size(self, path: str) -> int:
        """Return the size of a file in bytes, or raise FileNotFoundError."""

    @abstractmethod
    def read(self, path: str) -> bytes:
        """Return the whole file, or raise FileNotFoundError."""

    @abstractmethod
    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return up to `length` bytes from `start`; fewer at the end of the file."""

    @abstractmethod
    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Yield each path with its bytes, in the order given, a bounded number of files ahead.

        Raises:
            FileNotFoundError: when the turn of a missing file comes.
        """

    @abstractmethod
    def open_input(self, path: str, size: int | None = None) -> Any:
        """Return a seekable Arrow file. Giving the `size`, when it is known, saves a request."""

    @abstractmethod
    def open_output(self, path: str) -> AbstractContextManager[Any]:
        """Write a file piece by piece, through an Arrow file: for staged files only.

        It is whole and durable when the block ends. When the block fails it is dropped; a
        process that dies may leave a part of it under this name on a local disk.
        """

    @abstractmethod
    def write_new(self, path: str, data: bytes, *, makes_parent: bool = True) -> None:
        """Write a file that must not exist yet: whole or not at all, and durable on return.

        Without `makes_parent` its directory must be there, where directories are more than names.

        After a failure that leaves the outcome open (a timeout, a reset connection) the file is
        looked at: ours is a success, another's is `AlreadyExistsError`, none is tried again.

        Raises:
            AlreadyExistsError: someone else's file has this name. It is left as it is.
            FileNotFoundError: its directory was to be there, and is not.
        """

    @abstractmethod
    def publish(self, staged: str, final: str) -> None:
        """Give the finished file `staged` its final name; the staged name is gone afterwards.

        Raises:
            AlreadyExistsError: another file has the final name. Both are left as they are.
        """

    @abstractmethod
    def replace(self, path: str, data: bytes) -> None:
        """Write a file over whatever has its name; readers see the old or the new, never a mix.

        For hints only: nothing else in a log is ever overwritten.
        """

    @abstractmethod
    def delete_many(self, paths: Iterable[str]) -> dict[str, str]:
        """Delete files; return those that could not be deleted, each with its reason.

        A file that is gone already is as good as deleted.
        """

    def remove_directory(self, path: str) -> None:  # noqa: B027
        """Remove a directory if it is empty. Where directories are but names, nothing is to do."""

    def unfinished(self, directory: str) -> list[FileInfo]:
        """Return what writes of ours that died left right inside `directory`."""
        return []

    def exists(self, path: str) -> bool:
        """Return whether there is a file at `path`."""
        try:
            self.size(path)
        except FileNotFoundError:
            return False
        return True


def open_storage(
    url: str,
    options: Mapping[str, Any] | None = None,
    config: Config | None = None,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[Storage, str]:
    """Return the storage of `url` and the path of `url` inside it.

    A path without a scheme is local. `options` go to the fsspec file system; for S3 the names of
    s3fs, of deltalake's storage options and of Hadoop's `fs.s3a.*` all work.

    Raises:
        StorageError: there is no path, as where a shell variable is not set, the scheme is unknown,
            or the package for it is not installed.
    """
    if not url.strip():
        raise StorageError("''", "the path is empty; name a place")
    scheme, path = _split(url)
    storage_type = _storage_type(scheme, url)
    storage = storage_type(scheme, options or {}, config or Config(), sleep)
    return storage, storage.root(path)


def join(directory: str, name: str) -> str:
    """Return the path of `name` inside `directory`.

    Raises:
        StorageError: the name would lead out of the directory. Names come from log files too.
    """
    if "\0" in name or any(part in {"", ".", ".."} for part in name.split("/")):
        raise StorageError(directory, f"{name!r} is not the name of a file inside it")
    return f"{directory.rstrip('/')}/{name}"


def _split(url: str) -> tuple[str, str]:
    if match := re.match(r"file:(?://(?:localhost)?(?=/))?", url):
        return "file", url[match.end() :]
    if match := re.match(r"([a-zA-Z][a-zA-Z0-9+.-]*)://", url):
        return match[1].lower(), url[match.end() :]
    return "file", url


def _storage_type(scheme: str, url: str) -> type[Storage]:
    # Each is imported when it is first used: fsspec, s3fs and botocore are slow to load.
    if scheme == "file":
        from engine.storage.local import LocalStorage

        return LocalStorage
    try:
        if scheme in {"s3", "s3a"}:
            from engine.storage.s3 import S3Storage

            return S3Storage
        from engine.storage.remote import RemoteStorage
    except ImportError as error:
        extra = "pip install 'txlog-engine[s3]'"
        raise StorageError(url, f"{scheme}:// needs {error.name}; {extra}") from error
    return RemoteStorage
