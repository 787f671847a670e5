"""How are rows written to a staged Parquet file, and what does the file say when read back?

Rows are held back only until they make a row group. The content of what was written is summed up
on the way; `read_back` sums up what is in the file, by its own bytes and nothing else.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from engine.errors import CheckpointValidationError
from engine.replay.content import Content, total
from engine.upkeep.checkpoint.rows import content_of_rows, widened
from engine.upkeep.checkpoint.shape import ROW_GROUP_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.log.listing import LogDirectory
    from engine.upkeep.checkpoint.shape import CheckpointPlan
    from engine.upkeep.publish import Staging

# What a reader skips row groups by; of other columns nobody asks.
_STATISTICS: Final = (
    *("add.path", "remove.path", "remove.deletionTimestamp", "txn.appId", "metaData.id"),
    *("protocol.minReaderVersion", "domainMetadata.domain", "sidecar.path", "mergeskip.path"),
)
# Columns in which every value is another: a dictionary would only be built to be dropped.
_UNIQUE: Final = frozenset({"add.path", "add.stats", "remove.path", "add.size", "remove.size"})
_CODECS: Final = {"none": "NONE", "lz4": "LZ4"}


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file of a run that is written and proven. `name` is its name in the run's folder.

    Of a sidecar of tombstones, `newest_deletion` is the time of the newest.
    """

    name: str
    size_bytes: int
    content: Content
    newest_deletion: int | None = None

    @property
    def rows(self) -> int:
        """How many actions it holds."""
        return self.content.size

    @property
    def adds(self) -> int:
        """How many live files it holds."""
        return self.content.counts.get("add", 0)


@dataclass(slots=True)
class RowWriter:
    """Writes rows to one Parquet file, a row group at a time."""

    parquet: pq.ParquetWriter
    rows: int = 0
    content: Content = field(default_factory=Content)
    _waiting: list[pa.RecordBatch] = field(default_factory=list)
    _waiting_rows: int = 0

    def write(self, rows: pa.RecordBatch, content: Content | None = None) -> None:
        """Take rows in any columns of the file's schema; `content` is theirs, if it is known."""
        if not rows.num_rows:
            return
        self.content += content_of_rows(rows) if content is None else content
        self.rows += rows.num_rows
        self._waiting.append(widened(rows, self.parquet.schema))
        self._waiting_rows += rows.num_rows
        if self._waiting_rows >= ROW_GROUP_ROWS:
            self.flush()

    def flush(self) -> None:
        """End the row group."""
        if self._waiting:
            table = pa.Table.from_batches(self._waiting)
            self._waiting, self._waiting_rows = [], 0
            self.parquet.write_table(table, row_group_size=table.num_rows)


@contextmanager
def parquet_rows(sink: Any, schema: pa.Schema, codec: str) -> Iterator[RowWriter]:
    """Write rows into an Arrow file; the Parquet file is whole when the block ends."""
    leaves = list(_leaves(schema))
    with pq.ParquetWriter(
        sink,
        schema,
        compression=_CODECS.get(codec, codec),
        use_dictionary=[leaf for leaf in leaves if leaf not in _UNIQUE],
        write_statistics=[leaf for leaf in leaves if leaf in _STATISTICS],
        write_page_checksum=True,
        store_schema=False,
    ) as parquet:
        writer = RowWriter(parquet)
        yield writer
        writer.flush()


def proven(
    staging: Staging, name: str, wanted: Content, plan: CheckpointPlan, workers: int = 1
) -> StagedFile:
    """Return the staged file, if it says what it should. Raises CheckpointValidationError."""
    directory = staging.directory
    path = staging.path(name)
    try:
        found = read_back(directory, path, workers)
        size = directory.storage.size(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointValidationError(directory.url, plan.version, reason) from None
    refuse_other(directory, plan.version, wanted, found)
    return StagedFile(name, size, wanted)


def refuse_other(directory: LogDirectory, version: int, wanted: Content, found: Content) -> None:
    """Raise CheckpointValidationError where two contents differ."""
    if differences := wanted.differences(found):
        raise CheckpointValidationError(directory.url, version, "; ".join(differences))


def read_back(directory: LogDirectory, path: str, workers: int = 1) -> Content:
    """Return what a Parquet file says, every column of it, checksums of its pages checked.

    Raises whatever Arrow or the storage raise for a file that cannot be read whole.
    """

    def read(first: int) -> Content:
        source = directory.storage.open_input(path)
        with pq.ParquetFile(source, page_checksum_verification=True) as parquet:
            groups = range(first, parquet.num_row_groups, workers)
            return total(_content(parquet, group) for group in groups)

    if workers == 1:
        return read(0)
    with ThreadPoolExecutor(workers, thread_name_prefix="txlog-proof") as pool:
        return total(pool.map(read, range(workers)))


def _content(parquet: pq.ParquetFile, group: int) -> Content:
    found = Content()
    for batch in parquet.iter_batches(ROW_GROUP_ROWS, [group], use_threads=False):
        for column in batch.columns:
            column.validate(full=True)
        found += content_of_rows(batch)
    return found


def _leaves(schema: pa.Schema) -> Iterator[str]:
    def inside(path: str, kind: pa.DataType) -> Iterator[str]:
        if pa.types.is_struct(kind):
            for member in kind:
                yield from inside(f"{path}.{member.name}", member.type)
        elif pa.types.is_map(kind):
            yield from inside(f"{path}.key_value.key", kind.key_type)
            yield from inside(f"{path}.key_value.value", kind.item_type)
        elif pa.types.is_list(kind):
            yield from inside(f"{path}.list.element", kind.value_type)
        else:
            yield path

    for column in schema:
        yield from inside(column.name, column.type)
