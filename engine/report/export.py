"""What does a replay leave behind? Its state as files that any tool reads, never over others."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

import orjson
import pyarrow.parquet as pq

from engine.errors import AlreadyExistsError, StorageError
from engine.storage import Storage, join, open_storage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine.snapshot import Snapshot

FILES: Final = "files.parquet"
TOMBSTONES: Final = "tombstones.parquet"
SUMMARY: Final = "summary.json"


class Export:
    """The files of one export, refused at birth where one of them exists already.

    The summary is written last: where it is, the others are whole.
    """

    def __init__(self, directory: str, options: Mapping[str, Any] | None = None) -> None:
        self._storage, root = open_storage(directory, options)
        self._paths = {name: join(root, name) for name in (FILES, TOMBSTONES, SUMMARY)}
        for path in self._paths.values():
            if self._storage.exists(path):
                raise AlreadyExistsError(self._storage.url(path))

    @property
    def names(self) -> list[str]:
        """The files that are or will be written, as users write them."""
        return [self._storage.url(path) for path in self._paths.values()]

    def write(self, snapshot: Snapshot, summary: Mapping[str, Any]) -> None:
        """Write the state of a snapshot.

        Raises:
            AlreadyExistsError: one of the files appeared meanwhile. It is left as it is.
            StorageError: the storage refuses.
        """
        contents: dict[str, Callable[[], bytes]] = {
            FILES: lambda: _parquet(snapshot.files()),
            TOMBSTONES: lambda: _parquet(snapshot.tombstones()),
            SUMMARY: lambda: orjson.dumps(
                summary, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
            ),
        }
        for name, content in contents.items():
            _write(self._storage, self._paths[name], content())


class Page:
    """One file, refused at birth where it exists already and is not to be overwritten."""

    def __init__(
        self, url: str, options: Mapping[str, Any] | None = None, *, overwrite: bool = False
    ) -> None:
        self._storage, self._path = open_storage(url, options)
        self._exists = self._storage.exists(self._path)
        if self._exists and not overwrite:
            raise AlreadyExistsError(self.url, "; --overwrite replaces it")

    @property
    def url(self) -> str:
        """Where it is or will be, as users write it."""
        return self._storage.url(self._path)

    def write(self, data: bytes) -> None:
        """Write it. No directory is made for it: a name that was mistyped would make one.

        Raises:
            AlreadyExistsError: it appeared meanwhile. It is left as it is.
            StorageError: the storage refuses.
        """
        if self._exists:
            self._storage.replace(self._path, data)
            return
        try:
            self._storage.write_new(self._path, data, makes_parent=False)
        except FileNotFoundError:
            raise StorageError(self.url, "its directory is not there; make it first") from None


def _write(storage: Storage, path: str, data: bytes) -> None:
    try:
        storage.write_new(path, data)
    except FileNotFoundError:
        raise StorageError(
            storage.url(path), "its directory cannot be made; choose another --output"
        ) from None


def _parquet(table: Any) -> bytes:
    buffer = BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()
