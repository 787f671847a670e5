"""Where are the bytes that fsspec reaches? In memory and over the network, with retries."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import re
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import fsspec

from engine.config import MAX_CONCURRENT_READS, STORAGE_MAX_ATTEMPTS
from engine.errors import AlreadyExistsError, ReplayError, StorageError
from engine.storage import FileInfo, Storage
from engine.storage.ranges import buffered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")

# Their `pipe_file(mode="create")` is one conditional request (memory's, under the lock below).
_ATOMIC_CREATE: Final = {"memory", "gs", "gcs", "az", "abfs", "abfss"}
_MEMORY_LOCK: Final = threading.Lock()

_FIRST_DELAY_SECONDS: Final = 0.1
_LONGEST_DELAY_SECONDS: Final = 5.0
_SMALL_FILE_BYTES: Final = 8 * 1024**2
_BLOCK_BYTES: Final = 8 * 1024**2


class RemoteStorage(Storage):
    """Any fsspec file system. S3 has its own, which knows S3's requests."""

    transient: ClassVar[tuple[type[BaseException], ...]] = (
        ConnectionError,
        TimeoutError,
        asyncio.TimeoutError,
    )
    _connection: tuple[int, Any] | None = None

    def root(self, path: str) -> str:
        """Return the path as the file system writes it."""
        try:
            fs = self._fs
        except StorageError as error:  # which knows no more than the scheme
            raise StorageError(self.url(path), error.reason) from error
        return str(fs._strip_protocol(f"{self.scheme}://{path}")).rstrip("/") or "/"

    def url(self, path: str) -> str:
        """Return the path with its scheme, and without a password."""
        return re.sub(r"(?<=://)[^/@]*@", "", f"{self.scheme}://{path.lstrip('/')}")

    def list_from(self, directory: str, name: str = "") -> list[FileInfo]:
        """Return the files of `directory` from `name` on."""
        files = (
            FileInfo(entry["name"], entry["size"] or 0, _modification_time_ms(entry))
            for entry in self._entries(directory)
            if entry["type"] == "file"
        )
        return sorted((file for file in files if file.name >= name), key=lambda file: file.path)

    def list_directories(self, directory: str, name: str = "") -> list[str]:
        """Return the directories of `directory` from `name` on."""
        directories = (e["name"] for e in self._entries(directory) if e["type"] == "directory")
        names = (path.rstrip("/").rpartition("/")[2] for path in directories)
        return sorted(found for found in names if found >= name)

    def size(self, path: str) -> int:
        """Return the size of a file."""
        found = self._retried(path, lambda: self._fs.info(path))
        if found["type"] != "file":
            raise FileNotFoundError(path)
        return int(found["size"])

    def read(self, path: str) -> bytes:
        """Return the whole file."""
        return self._retried(path, lambda: bytes(self._fs.cat_file(path)))

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return a part of the file."""
        end = start + length
        return self._retried(path, lambda: bytes(self._fs.cat_file(path, start=start, end=end)))

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Yield the files in order while the next ones are on their way."""
        yield from self._concurrently(self.read, paths)

    def open_input(self, path: str, size: int | None = None) -> Any:
        """Return an Arrow file: a small one whole in memory, a large one by ranges."""
        import pyarrow as pa

        known_size = self.size(path) if size is None else size
        if known_size <= _SMALL_FILE_BYTES:
            return pa.BufferReader(self.read(path))
        stream = buffered(self, path, known_size, _SMALL_FILE_BYTES)
        return pa.PythonFile(stream, mode="r")

    @contextmanager
    def open_output(self, path: str) -> Iterator[Any]:
        """Upload in blocks; the file appears, whole, with the last of them."""
        import pyarrow as pa

        upload = self._retried(path, lambda: self._fs.open(path, "wb", block_size=_BLOCK_BYTES))
        try:
            file = pa.PythonFile(upload, mode="w")
            yield file
            file.flush()
        except BaseException:
            with suppress(Exception):
                upload.discard()
            raise
        try:
            upload.close()
        except Exception as error:
            raise self._explained(path, error) from error

    def write_new(self, path: str, data: bytes, *, makes_parent: bool = True) -> None:
        """Write by a create that the store itself refuses when the file exists."""
        if self.scheme not in _ATOMIC_CREATE:
            reason = f"txlog knows no atomic way to add a file over {self.scheme}://, only to read"
            raise StorageError(self.url(path), reason)
        lock = _MEMORY_LOCK if self.scheme == "memory" else nullcontext()

        def create() -> None:
            with lock:
                self._fs.pipe_file(path, data, mode="create")

        self._created(path, create, lambda in_doubt: in_doubt and self.read(path) == data)

    def publish(self, staged: str, final: str) -> None:
        """Copy, then drop the staged file."""
        self.write_new(final, self.read(staged))
        self._retried(staged, lambda: self._fs.rm_file(staged))

    def replace(self, path: str, data: bytes) -> None:
        """Write in one request, which stores show whole or not at all."""
        self._retried(path, lambda: self._fs.pipe_file(path, data))

    def delete_many(self, paths: Iterable[str]) -> dict[str, str]:
        """Delete several at once."""

        def delete(path: str) -> str:
            try:
                self._retried(path, lambda: self._fs.rm_file(path))
            except FileNotFoundError:
                return ""
            except StorageError as error:
                return error.reason
            return ""

        return {path: why for path, why in self._concurrently(delete, paths) if why}

    # --- what the stores share -----------------------------------------------------------------

    @property
    def _fs(self) -> Any:
        # A connection does not survive a fork, and Spark's Python workers are forked.
        if self._connection is None or self._connection[0] != os.getpid():
            self._connection = (os.getpid(), self._connect())
        return self._connection[1]

    def _connect(self) -> Any:
        try:
            return fsspec.filesystem(self.scheme, use_listings_cache=False, **self.options)
        except (ImportError, ValueError, OSError, TypeError) as error:
            odd = re.search(r"unexpected keyword argument '(\w+)'", str(error))
            why = f"there is no storage option {odd[1]}" if odd else _first_line(error)
            reason = f"cannot open {self.scheme}://: {why}"
            raise StorageError(f"{self.scheme}://", reason) from error

    def _entries(self, directory: str) -> list[dict[str, Any]]:
        found = self._retried(directory, lambda: self._fs.ls(directory, detail=True))
        if any(e["name"] == directory and e["type"] == "file" and e["size"] for e in found):
            raise FileNotFoundError(directory)
        return [entry for entry in found if entry["name"].rstrip("/") != directory.rstrip("/")]

    def _concurrently(
        self, call: Callable[[str], T], paths: Iterable[str]
    ) -> Iterator[tuple[str, T]]:
        ahead = self.config[MAX_CONCURRENT_READS]
        pool = ThreadPoolExecutor(ahead, thread_name_prefix="txlog-storage")
        waiting: deque[tuple[str, Any]] = deque()
        try:
            for path in paths:
                waiting.append((path, pool.submit(call, path)))
                if len(waiting) >= ahead:
                    first, future = waiting.popleft()
                    yield first, future.result()
            for path, future in waiting:
                yield path, future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _retried(self, path: str, request: Callable[[], T]) -> T:
        for delay in self._delays():
            try:
                return request()
            except Exception as error:
                if delay is None or not self._is_transient(error):
                    raise self._explained(path, error) from error
                self.sleep(delay)
        raise AssertionError("the last delay is None")

    def _created(
        self, path: str, create: Callable[[], None], is_ours: Callable[[bool], bool]
    ) -> None:
        """Run `create` until it is known whether our file or another's has the name.

        `is_ours` looks at the file that is there; it is told whether an earlier try of ours may
        have written it.
        """
        in_doubt = False
        for delay in self._delays():
            try:
                return create()
            except Exception as error:
                failure = self._explained(path, error)
                in_doubt = in_doubt or self._is_transient(error)
                if not self._is_transient(error) and not self._is_conflict(error):
                    raise failure from error
            try:
                if is_ours(in_doubt):
                    return None
                raise AlreadyExistsError(self.url(path))
            except FileNotFoundError:
                if delay is None:
                    raise failure from None
                self.sleep(delay)
        raise AssertionError("the last delay is None")

    def _delays(self) -> Iterator[float | None]:
        for attempt in range(self.config[STORAGE_MAX_ATTEMPTS] - 1):
            longest = min(_FIRST_DELAY_SECONDS * 2**attempt, _LONGEST_DELAY_SECONDS)
            # Jitter, so that writers who failed together do not come back together.
            yield longest * random.uniform(0.5, 1.0)
        yield None

    def _is_transient(self, error: BaseException) -> bool:
        return isinstance(error, self.transient)

    def _is_conflict(self, error: BaseException) -> bool:
        return isinstance(error, FileExistsError)

    def _refusal(self, error: BaseException) -> str | None:
        """Return what the user can do about `error`, where that is known."""
        if isinstance(error, PermissionError):
            return "permission denied; check the credentials in use"
        return None

    def _explained(self, path: str, error: Exception) -> Exception:
        if isinstance(error, ReplayError):
            return error
        if isinstance(error, FileNotFoundError) and self._refusal(error) is None:
            return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.url(path))
        if self._is_transient(error):
            tries = self.config[STORAGE_MAX_ATTEMPTS]
            return StorageError(self.url(path), f"no answer in {tries} tries: {_first_line(error)}")
        return StorageError(self.url(path), self._refusal(error) or _first_line(error))


def _modification_time_ms(entry: dict[str, Any]) -> int:
    names = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")
    modified = next((entry[name] for name in names if entry.get(name) is not None), 0)
    if isinstance(modified, str):
        modified = datetime.fromisoformat(modified.replace("Z", "+00:00"))
    if isinstance(modified, datetime):
        aware = modified if modified.tzinfo else modified.replace(tzinfo=timezone.utc)
        modified = aware.timestamp()
    return int(modified * 1000)


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]
