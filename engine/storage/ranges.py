"""How is a remote file read in pieces, as a stream that can be sought in?"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.storage import Storage


def buffered(storage: Storage, path: str, size: int, block_bytes: int) -> io.BufferedReader:
    """Return a file whose size is known as a stream that reads blocks ahead."""
    return io.BufferedReader(_RangeFile(storage, path, size), block_bytes)


class _RangeFile(io.RawIOBase):
    """A remote file as a raw stream, each read one retried request."""

    def __init__(self, storage: Storage, path: str, size: int) -> None:
        self._storage, self._path, self._size, self._at = storage, path, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        length = max(0, min(len(buffer), self._size - self._at))
        data = self._storage.read_range(self._path, self._at, length) if length else b""
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
