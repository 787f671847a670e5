"""`spark.read.format("txlog")`: a table's log as rows, in batch, in SQL and as a stream.

    register(spark)
    spark.read.format("txlog").option("view", "files").option("versionAsOf", 5).load(path)
    spark.readStream.format("txlog").option("view", "actions").load(path)

Checkpoint rows are read by the tasks, never where the read is planned. The tail after the
checkpoint is reconciled there and must fit; `snapshot.to_spark` is for a tail that does not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema

from engine.actions import conform, files_schema, kinds, nulls, schema, tombstones_schema
from engine.config import MAX_DECOMPRESSED_BYTES, SETTINGS, Config
from engine.errors import ConfigError
from engine.replay.checkpoints import read_checkpoint_file, sidecars
from engine.replay.executor import (
    HISTORY_SCHEMA,
    RANGE_BYTES,
    Piece,
    explained,
    history_batch,
)
from engine.replay.files import file_rows
from engine.replay.keys import canonical_paths, dv_ids, fingerprints
from engine.replay.keyset import KeySet
from engine.replay.local import refuse_headless, replay
from engine.replay.parse import Parser, chunks
from engine.replay.plan import split
from engine.replay.rules import STATE_KEYS
from engine.replay.state import Singles, State
from engine.snapshot import load_snapshot
from engine.table import TableLog, open_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from engine.formats import LogFormat
    from engine.log.listing import LogDirectory
    from engine.log.paths import TransactionFileRef
    from engine.log.segment import Fallback, LogSegment
    from engine.replay import Progress

_ACTIONS_OF: Final = {"files": "add", "tombstones": "remove"}
_VIEWS: Final = ("files", "tombstones", "actions", "history", "skips")
_STREAMED: Final = ("actions", "history")


def register(spark: SparkSession) -> None:
    """Make `format("txlog")` known to a session."""
    spark.dataSource.register(TxlogSource)


class TxlogSource(DataSource):
    """One view of one table's log. Options: view, versionAsOf, timestampAsOf, startingVersion.

    Any setting of txlog is an option too, by its own name; whatever else is given goes to the
    storage.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name to use with `format`."""
        return "txlog"

    def schema(self) -> StructType:
        """Return the rows of the view that was asked for."""
        asked = Asked.of(self.options)
        return from_arrow_schema(_view_schema(asked.view, asked.open().directory.log_format))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of one version."""
        return _Reader(Asked.of(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of commits as they arrive."""
        asked = Asked.of(self.options)
        if asked.view not in _STREAMED:
            raise ConfigError("view", asked.view, f"{' or '.join(_STREAMED)} for a stream")
        return _StreamReader(asked)


@dataclass(frozen=True)
class Asked:
    """What the options of a read ask for."""

    path: str
    view: str
    version: int | None
    timestamp: datetime | None
    starting_version: int | None
    settings: Mapping[str, str]
    storage: Mapping[str, str]

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Asked:
        """Return the options checked; raise ConfigError for the first that is not allowed."""
        # Spark keeps option names in lower case only.
        known = {key.lower(): key for key in SETTINGS}
        rest = {key.lower(): value for key, value in options.items()}
        view = rest.pop("view", "files")
        if view not in _VIEWS:
            raise ConfigError("view", view, ", ".join(_VIEWS))
        version, moment = rest.pop("versionasof", None), rest.pop("timestampasof", None)
        starting = rest.pop("startingversion", None)
        path = rest.pop("path", None)
        if path is None:
            raise ConfigError("path", None, "the table's root, with load(path)")
        return cls(
            path=path,
            view=view,
            version=None if version is None else _version("versionAsOf", version),
            timestamp=None if moment is None else _moment(moment),
            starting_version=None if starting is None else _version("startingVersion", starting),
            settings={known[key]: value for key, value in rest.items() if key in known},
            storage={key: value for key, value in rest.items() if key not in known},
        )

    def open(self) -> TableLog:
        """Open the log."""
        config = Config(options=self.settings)
        return open_log(self.path, config, storage_options=self.storage)


@dataclass
class _Rows(InputPartition):
    """Rows that the planner has already, as an Arrow stream."""

    data: bytes


@dataclass
class _CheckpointPiece(InputPartition):
    """A piece of a checkpoint, and the keys that later commits touched."""

    directory: LogDirectory
    piece: Piece
    kind: str
    touched: bytes


@dataclass
class _Commits(InputPartition):
    """Commits to read whole."""

    directory: LogDirectory
    refs: list[TransactionFileRef]
    view: str
    config: Config


class _Reader(DataSourceReader):
    """Reads one view of one version."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the read."""
        asked, log = self._asked, self._asked.open()
        version = asked.version
        if asked.timestamp is not None:
            version = log.version_at(asked.timestamp)
        if asked.view in _STREAMED:
            return _commit_partitions(log, asked.view, log.earliest_commit(), version)
        if asked.view == "skips":
            state = log.snapshot(version, engine="local").state
            wanted = _view_schema("skips", log.directory.log_format)
            rows = pa.Table.from_pylist([dict(skip) for skip in state.skips.values()], wanted)
            return [_Rows(_to_bytes(rows))]
        return _file_partitions(log, asked.view, version)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one partition on an executor."""
        with explained():
            yield from _read(partition)


class _StreamReader(DataSourceStreamReader):
    """Reads commits as they arrive; an offset is the last version that was read."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    def initialOffset(self) -> dict[str, int]:
        """Begin before the version that was asked for, or before the first that is there."""
        start = self._asked.starting_version
        return {"version": (self._asked.open().earliest_commit() if start is None else start) - 1}

    def latestOffset(
        self, start: dict[str, int] | None = None, limit: object = None
    ) -> dict[str, int]:
        """Return the latest version in the log."""
        return {"version": self._asked.open().latest_version()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Plan the commits after `start` up to `end`."""
        log = self._asked.open()
        return _commit_partitions(log, self._asked.view, start["version"] + 1, end["version"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one partition on an executor."""
        with explained():
            yield from _read(partition)


class _Planner:
    """An engine that replays the tail and leaves the checkpoint's files to the tasks."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []

    def replay(
        self,
        segment: LogSegment,
        directory: LogDirectory,
        config: Config,
        progress: Progress | None = None,
    ) -> tuple[str, State, tuple[Fallback, ...]]:
        """Return the state of the tail alone, with the single actions of the checkpoint."""
        base = Singles()
        refs: list[TransactionFileRef] = []
        for ref in segment.checkpoint.files if segment.checkpoint else ():
            refs.append(ref)
            for batch in read_checkpoint_file(
                directory,
                ref,
                wanted=tuple(STATE_KEYS),
                fields=(),
                limit_bytes=config[MAX_DECOMPRESSED_BYTES],
            ):
                base.take(batch)
                refs += sidecars(batch, ref.version)
        if segment.checkpoint:
            refuse_headless(base, segment)
        self.pieces = [piece for ref in refs for piece in split(ref, RANGE_BYTES)]
        tail = replay(replace(segment, checkpoint=None), directory, config, progress)
        for kind, found in (("protocol", tail.protocol), ("metaData", tail.metadata)):
            if found is not None:
                base.enter(kind, (segment.version, 0), found)
        return "plan", base.state(tail.files, tail.tombstones), ()


def _file_partitions(log: TableLog, view: str, version: int | None) -> list[InputPartition]:
    planner = _Planner()
    snapshot = load_snapshot(
        log.directory, log.listing(version), version, planner.replay, log.config
    )
    state, kind = snapshot.state, _ACTIONS_OF[view]
    tail = state.files if kind == "add" else state.tombstones
    partitions: list[InputPartition] = [_Rows(_to_bytes(tail))] if tail.num_rows else []
    if planner.pieces:
        names = ["path", "dvId"]
        touched = pa.concat_tables([state.files.select(names), state.tombstones.select(names)])
        keys = _to_bytes(touched)
        partitions += [
            _CheckpointPiece(log.directory, piece, kind, keys) for piece in planner.pieces
        ]
    return partitions


def _commit_partitions(
    log: TableLog, view: str, start: int, end: int | None
) -> list[InputPartition]:
    commits = log.commits(start, end)
    return [_Commits(log.directory, refs, view, log.config) for refs in chunks(commits)]


def _read(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    if isinstance(partition, _Rows):
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
    touched = KeySet()
    for batch in pa.ipc.open_stream(partition.touched):
        touched.add(*fingerprints(canonical_paths(batch["path"], root), batch["dvId"]))
    wanted = _view_schema(_VIEWS[0] if kind == "add" else _VIEWS[1], directory.log_format)
    struct = kinds(directory.log_format)[kind]
    row_groups = (piece.slice, piece.slices)
    for batch in read_checkpoint_file(directory, piece.ref, wanted=(kind,), row_groups=row_groups):
        for part in file_rows(batch, root):
            keep = ~touched.contains(part.first, part.second)
            if part.kind != kind or not keep.any():
                continue
            found = conform(part.select(keep), struct)
            at = struct.get_field_index("deletionVector")
            ids = dv_ids(found.field(at)) if at >= 0 else nulls(len(found), pa.string())
            columns = [found.field(i) for i in range(struct.num_fields)]
            yield pa.RecordBatch.from_arrays([*columns, ids], schema=wanted)


def _view_schema(view: str, log_format: LogFormat) -> pa.Schema:
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


def _to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    # A column of nulls is a slice of a large buffer of zeros, and would travel as one.
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _version(key: str, value: str) -> int:
    if not value.isdecimal():
        raise ConfigError(key, value, "a version number")
    return int(value)


def _moment(value: str) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise ConfigError("timestampAsOf", value, "a moment such as 2024-01-31T12:00:00") from None
