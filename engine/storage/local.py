"""Where are the bytes on disk? Plain system calls: a log of 20,000 files lists in milliseconds."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import uuid
from typing import TYPE_CHECKING, Any, Final

from engine.errors import AlreadyExistsError, StorageError
from engine.storage import FileInfo, Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


_logger: Final = logging.getLogger(__name__)
_TEMP: Final = re.compile(r"\..+\.[0-9a-f]{32}\.tmp")


class LocalStorage(Storage):
    """The local disk, and network disks mounted on it."""

    def root(self, path: str) -> str:
        """Return the absolute path: an executor may have another working directory."""
        return os.path.abspath(os.path.expanduser(path))

    def url(self, path: str) -> str:
        """Return the path itself."""
        return path

    def list_from(self, directory: str, name: str = "") -> list[FileInfo]:
        """Return the files of `directory` from `name` on."""
        found = []
        with _explained(directory), os.scandir(directory) as entries:
            for entry in entries:
                if entry.name >= name and entry.is_file():
                    # Another process may delete while we look.
                    with contextlib.suppress(FileNotFoundError):
                        stat = entry.stat()
                        modified_ms = stat.st_mtime_ns // 1_000_000
                        found.append(FileInfo(entry.path, stat.st_size, modified_ms))
        found.sort(key=lambda file: file.path)
        return found

    def list_directories(self, directory: str, name: str = "") -> list[str]:
        """Return the directories of `directory` from `name` on."""
        with _explained(directory), os.scandir(directory) as entries:
            return sorted(e.name for e in entries if e.name >= name and e.is_dir())

    def size(self, path: str) -> int:
        """Return the size of a file."""
        with _explained(path):
            return os.stat(path).st_size

    def read(self, path: str) -> bytes:
        """Return the whole file."""
        # Spelled out, because a log has tens of thousands: half the time of a file object.
        try:
            descriptor = os.open(path, os.O_RDONLY)
            try:
                size = os.fstat(descriptor).st_size
                data = os.read(descriptor, size)
                while len(data) < size and (more := os.read(descriptor, size - len(data))):
                    data += more
                return data
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _explanation(path, error) from error

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return a part of the file."""
        with _explained(path), open(path, "rb", buffering=0) as file:
            return os.pread(file.fileno(), length, start)

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Yield the files one after the other: a thread costs more than a read from disk."""
        for path in paths:
            yield path, self.read(path)

    def open_input(self, path: str, size: int | None = None) -> Any:
        """Return an Arrow file that reads without a copy through Python."""
        import pyarrow as pa

        with _explained(path):
            return pa.OSFile(path, "rb")

    @contextlib.contextmanager
    def open_output(self, path: str) -> Iterator[Any]:
        """Write straight to disk."""
        import pyarrow as pa

        with _explained(path):
            _make_parent(path)
            try:
                with pa.OSFile(path, "wb") as file:
                    yield file
                _sync(path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(path)
                raise

    def write_new(self, path: str, data: bytes, *, makes_parent: bool = True) -> None:
        """Write a temp file and link it to its name: link never overwrites, and is atomic.

        Once it has its name it is written, whatever happens after.
        """
        with _explained(path):
            temp = _write_temp(path, data, makes_parent=makes_parent)
            try:
                _link(temp, path)
            finally:
                # A leftover is hidden from readers; a failure here is not one of the write.
                with contextlib.suppress(OSError):
                    os.unlink(temp)
            _sync_name(path, lambda: self.read(path) == data)

    def publish(self, staged: str, final: str) -> None:
        """Link the staged file to its final name, then drop the staged one."""
        with _explained(final):
            _sync(staged)
            _make_parent(final)
            size = os.stat(staged).st_size
            _link(staged, final)
            with contextlib.suppress(OSError):
                os.unlink(staged)
            _sync_name(final, lambda: os.stat(final).st_size == size)

    def replace(self, path: str, data: bytes) -> None:
        """Write a temp file and rename it over its name."""
        with _explained(path):
            temp = _write_temp(path, data, makes_parent=True)
            try:
                os.replace(temp, path)
            except BaseException:
                os.unlink(temp)
                raise
            _sync_directory(path)

    def delete_many(self, paths: Iterable[str]) -> dict[str, str]:
        """Delete the files one by one."""
        failed = {}
        for path in paths:
            try:
                os.unlink(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                failed[path] = _reason(error)
        return failed

    def unfinished(self, directory: str) -> list[FileInfo]:
        """Return the temp files of `write_new` and `replace` that nobody linked or renamed."""
        try:
            return [file for file in self.list_from(directory) if _TEMP.fullmatch(file.name)]
        except FileNotFoundError:
            return []

    def remove_directory(self, path: str) -> None:
        """Remove it, unless something is in it or it is gone."""
        with contextlib.suppress(OSError):
            os.rmdir(path)


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _explanation(path, error) from error


def _explanation(path: str, error: OSError) -> Exception:
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return FileNotFoundError(error.errno, error.strerror, path)
    return StorageError(path, _reason(error))


def _reason(error: OSError) -> str:
    if error.errno in {errno.EACCES, errno.EPERM}:
        return "permission denied; ask for access, or run as a user who has it"
    if error.errno == errno.ENOSPC:
        return "no space left on the disk; nothing was written under this name"
    return (error.strerror or str(error)).lower()


def _write_temp(path: str, data: bytes, *, makes_parent: bool) -> str:
    # Hidden, and without a log file's suffix: every reader of a log ignores it.
    directory, name = os.path.split(path)
    temp = os.path.join(directory, f".{name}.{uuid.uuid4().hex}.tmp")
    if makes_parent:
        _make_parent(path)
    try:
        with open(temp, "xb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
            os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temp)
        raise
    return temp


def _link(source: str, path: str) -> None:
    try:
        os.link(source, path)
    except FileExistsError:
        # A network disk may answer a repeated link with "exists" for the link it just made.
        if not os.path.samefile(source, path):
            raise AlreadyExistsError(path) from None
    except OSError as error:
        # Where the answer was lost on the way, the name tells.
        with contextlib.suppress(OSError):
            if os.path.samefile(source, path):
                return
        if error.errno in {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}:
            reason = "this file system has no hard links, and so no safe way to add a log file"
            raise StorageError(path, reason) from error
        raise


def _make_parent(path: str) -> None:
    parent = os.path.dirname(path)
    if not os.path.isdir(parent):
        try:
            os.makedirs(parent, exist_ok=True)
        except FileNotFoundError:
            # What it had made of the way was empty still, and another process removed it.
            os.makedirs(parent, exist_ok=True)
        _sync_directory(parent)


def _sync_name(path: str, is_ours: Callable[[], bool]) -> None:
    """Make the new name durable; where the disk fails at that, the file under it decides."""
    try:
        _sync_directory(path)
    except OSError as error:
        if not is_ours():
            raise
        reason = "written, but its directory could not be synced"
        _logger.warning("%s: %s: %s", path, reason, _reason(error))


def _sync_directory(path: str) -> None:
    _sync(os.path.dirname(path))


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
