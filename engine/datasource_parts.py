"""How is a view of `format("txlog")` read? Planned where the session is, read by the tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from engine.actions import conform, files_schema, kinds, nulls, schema, tombstones_schema
from engine.config import MAX_DECOMPRESSED_BYTES, Config
from engine.errors import ConfigError
from engine.replay.checkpoints import read_checkpoint_file
from engine.replay.executor import HISTORY_SCHEMA, history_batch
from engine.replay.files import file_rows
from engine.replay.heads import read_base
from engine.replay.keys import canonical_paths, dv_ids, fingerprints
from engine.replay.keyset import KeySet
from engine.replay.local import refuse_headless, replay
from engine.replay.parse import Parser, chunks
from engine.replay.pieces import RANGE_BYTES, Piece
from engine.replay.plan import split
from engine.replay.repeats import repeats
from engine.snapshot import load_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.formats import LogFormat
    from engine.log.listing import LogDirectory
    from engine.log.paths import TransactionFileRef
    from engine.log.segment import Fallback, LogSegment
    from engine.replay import Progress
    from engine.replay.state import State
    from engine.table import TableLog

_ACTIONS_OF: Final = {"files": "add", "tombstones": "remove"}


@dataclass
class Rows(InputPartition):
    """Rows that the planner has already, as an Arrow stream."""

    data: bytes


@dataclass
class _CheckpointPiece(InputPartition):
    """A piece of a checkpoint, and the keys that later commits touched."""

    directory: LogDirectory
    piece: Piece
    kind: str
    touched: bytes
    limit_bytes: int


@dataclass
class _Commits(InputPartition):
    """Commits to read whole."""

    directory: LogDirectory
    refs: list[TransactionFileRef]
    view: str
    config: Config


class _Planner:
    """An engine that replays the tail and leaves the checkpoint's files to the tasks."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.touched: list[pa.Table] = []

    def replay(
        self,
        segment: LogSegment,
        directory: LogDirectory,
        config: Config,
        progress: Progress | None = None,
    ) -> tuple[str, State, tuple[Fallback, ...]]:
        """Return the state of the tail, with the single actions of the checkpoint.

        And with its files whose key is there twice: no task sees them all. The keys of all these
        files are `touched`, and the tasks leave them out.
        """
        refs, base = read_base(segment, directory, config)
        if segment.checkpoint:
            refuse_headless(base, segment)
        self.pieces = [piece for ref in refs for piece in split(ref, RANGE_BYTES)]
        tail = replay(replace(segment, checkpoint=None), directory, config, progress)
        for kind, found in (("protocol", tail.protocol), ("metaData", tail.metadata)):
            if found is not None:
                base.enter(kind, (segment.version, 0), found)
        files, tombstones = [tail.files], [tail.tombstones]
        touched = _keys_of(_named(files + tombstones), directory.table_url)
        again = repeats(directory, self.pieces, config, touched)
        if again is not None:
            files.append(again[0])
            tombstones.append(again[1])
        self.touched = _named(files + tombstones)
        return "plan", base.state(pa.concat_tables(files), pa.concat_tables(tombstones)), ()


def file_partitions(log: TableLog, view: str, version: int | None) -> list[InputPartition]:
    """Plan a read of live files or tombstones: the tail is reconciled here, the rest by tasks."""
    planner = _Planner()
    snapshot = load_snapshot(
        log.directory, log.listing(version), version, planner.replay, log.config
    )
    state, kind = snapshot.state, _ACTIONS_OF[view]
    tail = state.files if kind == "add" else state.tombstones
    partitions: list[InputPartition] = [Rows(to_bytes(tail))] if tail.num_rows else []
    if planner.pieces:
        keys, limit = (
            to_bytes(pa.concat_tables(planner.touched)),
            log.config[MAX_DECOMPRESSED_BYTES],
        )
        partitions += [
            _CheckpointPiece(log.directory, piece, kind, keys, limit) for piece in planner.pieces
        ]
    return partitions


def commit_partitions(
    log: TableLog, view: str, start: int, end: int | None
) -> list[InputPartition]:
    """Plan a read of the commits of an inclusive range."""
    commits = log.commits(start, end)
    return [_Commits(log.directory, refs, view, log.config) for refs in chunks(commits)]


def read(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one partition."""
    if isinstance(partition, Rows):
        yield from pa.ipc.open_stream(partition.data)
    elif isinstance(partition, _CheckpointPiece):
        yield from _read_piece(partition)
    elif isinstance(partition, _Commits):
        directory, refs = partition.directory, partition.refs
        if partition.view == "history":
            yield history_batch(directory, refs, partition.config)
            return
        names = {directory.file(ref.path): ref for ref in refs}
        contents = directory.storage.read_many(list(names))
        parser = Parser(directory.log_format, partition.config[MAX_DECOMPRESSED_BYTES])
        for batch in parser.parse((names[path], data) for path, data in contents):
            yield batch.to_record_batch(schema(directory.log_format))


def _read_piece(partition: _CheckpointPiece) -> Iterator[pa.RecordBatch]:
    directory, piece, kind = partition.directory, partition.piece, partition.kind
    root = directory.table_url
    touched = _keys_of(pa.ipc.open_stream(partition.touched), root)
    wanted = view_schema("files" if kind == "add" else "tombstones", directory.log_format)
    struct = kinds(directory.log_format)[kind]
    row_groups = (piece.slice, piece.slices)
    for batch in read_checkpoint_file(
        directory,
        piece.ref,
        wanted=(kind,),
        row_groups=row_groups,
        limit_bytes=partition.limit_bytes,
    ):
        for part in file_rows(batch, root):
            keep = ~touched.contains(part.first, part.second)
            if part.kind != kind or not keep.any():
                continue
            found = conform(part.select(keep), struct)
            at = struct.get_field_index("deletionVector")
            ids = dv_ids(found.field(at)) if at >= 0 else nulls(len(found), pa.string())
            columns = [found.field(i) for i in range(struct.num_fields)]
            yield pa.RecordBatch.from_arrays([*columns, ids], schema=wanted)


def _named(tables: Iterable[pa.Table]) -> list[pa.Table]:
    """Return what tells the files of some tables from others."""
    return [table.select(["path", "dvId"]) for table in tables]


def _keys_of(named: Iterable[pa.Table | pa.RecordBatch], root: str) -> KeySet:
    found = KeySet()
    for files in named:
        for batch in files.to_batches() if isinstance(files, pa.Table) else (files,):
            found.add(*fingerprints(canonical_paths(batch["path"], root), batch["dvId"]))
    return found


def view_schema(view: str, log_format: LogFormat) -> pa.Schema:
    """Return the schema of a view's rows; refuses one that the format does not have."""
    if view == "files":
        return files_schema(log_format)
    if view == "tombstones":
        return tombstones_schema(log_format)
    if view == "actions":
        return schema(log_format)
    if view == "history":
        return HISTORY_SCHEMA
    skip = kinds(log_format).get("mergeskip")
    if skip is None:
        raise ConfigError("view", view, f"another view: {log_format.name} logs have no skips")
    return pa.schema(list(skip))


def to_bytes(table: pa.Table) -> bytes:
    """Return a table as a stream that travels with a task."""
    sink = pa.BufferOutputStream()
    # A column of nulls is a slice of a large buffer of zeros, and would travel as one.
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
