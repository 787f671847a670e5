"""Which part of the log does a task read? Files, or the parts of them, as rows of a DataFrame."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from engine.log.paths import FileKind, TransactionFileRef
from engine.replay.cache import FileId, Generation
from engine.replay.keys import SEEDS, Seeds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.config import Config
    from engine.log.listing import LogDirectory

# A commit larger than this is cut, at line ends, into ranges that are tasks of their own.
RANGE_BYTES: Final = 64 * 1024 * 1024

REFS_SCHEMA: Final = pa.schema(
    {
        "task": pa.int32(),
        "version": pa.int64(),
        "path": pa.string(),
        "size": pa.int64(),
        "modificationTime": pa.int64(),
        "kind": pa.string(),
        "startVersion": pa.int64(),
        "offset": pa.int64(),
        "length": pa.int64(),
        "slice": pa.int32(),
        "slices": pa.int32(),
        "place": pa.int64(),
    }
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A log file, or the part of one that a task reads.

    A JSON file is cut by bytes (`offset`, `length`), a Parquet file by row groups: this is the
    `slice`-th of `slices` runs of them. `place` is where the file stands among those of its
    checkpoint.
    """

    ref: TransactionFileRef
    offset: int = 0
    length: int = 0
    slice: int = 0
    slices: int = 1
    place: int = 0

    @property
    def size_bytes(self) -> int:
        """About how many bytes the task reads."""
        return self.length or self.ref.size // self.slices

    @property
    def is_part(self) -> bool:
        """Whether the file is cut by bytes."""
        return 0 < self.length < self.ref.size

    def row(self, task: int) -> dict[str, Any]:
        """Return this piece as a row of the refs DataFrame."""
        ref = self.ref
        return {
            "task": task,
            "version": ref.version,
            "path": ref.path,
            "size": ref.size,
            "modificationTime": ref.modification_time,
            "kind": ref.kind.name,
            "startVersion": ref.start_version,
            "offset": self.offset,
            "length": self.length,
            "slice": self.slice,
            "slices": self.slices,
            "place": self.place,
        }


@dataclass(frozen=True)
class Job:
    """Everything a task needs to know, small enough to travel with it.

    `fields` are those of file actions that are read; None is all of them. `seeds` are those of
    the driver's fingerprints, so that the keys of different tasks can be compared.
    """

    directory: LogDirectory
    config: Config
    fields: tuple[str, ...] | None = None
    generation: Generation = field(default_factory=Generation)
    count: Callable[[dict[str, int]], None] | None = None
    seeds: Seeds = SEEDS

    def file_id(self, piece: Piece) -> FileId:
        """Return what a piece, with the fields of this job, is cached under."""
        ref = piece.ref
        place = self.directory.file(ref.path), ref.size, ref.modification_time
        part = piece.offset, piece.length, piece.slice, piece.slices
        return (*place, part, self.fields)

    def tell(self, **counts: int) -> None:
        """Add to what the driver is told of this job."""
        if self.count is not None:
            self.count(counts)


def pieces_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Piece]:
    """Yield the pieces whose rows a task was given."""
    for batch in batches:
        for row in batch.to_pylist():
            ref = TransactionFileRef(
                version=row["version"],
                path=row["path"],
                size=row["size"],
                modification_time=row["modificationTime"],
                kind=FileKind[row["kind"]],
                start_version=row["startVersion"],
            )
            names = ("offset", "length", "slice", "slices", "place")
            yield Piece(ref, *(row[name] for name in names))
