"""What runs on an executor: plain functions from refs to VersionedAction rows, no Spark in them.

A task reads its files newest first, keeps the newest action of each key (`local reduce`) and gives
the rest to the shuffle.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from engine.actions import ActionBatch, conform, nulls, pruned_kinds, schema
from engine.config import MAX_DECOMPRESSED_BYTES, Config
from engine.errors import ReplayError, StorageError, UnreadableLogFileError
from engine.log.paths import FileKind, TransactionFileRef
from engine.replay.cache import PROCESS_CACHE, FileId, Generation
from engine.replay.checkpoints import ALL_KINDS, read_checkpoint_file
from engine.replay.commits import commit_infos
from engine.replay.compression import is_compressed
from engine.replay.files import FileRows, file_rows, newest_of_run
from engine.replay.keys import canonical_paths, dv_ids
from engine.replay.keyset import KeySet
from engine.replay.parse import Parser, chunks
from engine.replay.rules import FILE_KINDS, STATE_KEYS
from engine.replay.state import Singles
from engine.replay.stats import record_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from engine.formats import LogFormat
    from engine.log.listing import LogDirectory
    from engine.replay.predicate import Predicate

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
    }
)

HISTORY_SCHEMA: Final = pa.schema(
    {
        "version": pa.int64(),
        "timestamp": pa.int64(),
        "operation": pa.string(),
        "operationParameters": pa.string(),
        "operationMetrics": pa.string(),
        "engineInfo": pa.string(),
        "txnId": pa.string(),
        "commitInfo": pa.string(),
    }
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A log file, or the part of one that a task reads.

    A JSON file is cut by bytes (`offset`, `length`), a Parquet file by row groups: every
    `slices`-th of them, from the `slice`-th on.
    """

    ref: TransactionFileRef
    offset: int = 0
    length: int = 0
    slice: int = 0
    slices: int = 1

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
        }


@dataclass(frozen=True)
class Job:
    """Everything a task needs to know, small enough to travel with it."""

    directory: LogDirectory
    config: Config
    fields: tuple[str, ...] | None = None
    generation: Generation = field(default_factory=Generation)
    count: Callable[[dict[str, int]], None] | None = None

    @property
    def schema(self) -> pa.Schema:
        """The rows that tasks of this job yield."""
        return reduced_schema(self.directory.log_format, self.fields)


@cache
def reduced_schema(log_format: LogFormat, fields: tuple[str, ...] | None) -> pa.Schema:
    """Return the schema of VersionedActions on their way to the window.

    `kind` is `file` or the kind of a single action, whose JSON is in `single`. `key` is the key's
    text where it is not the action's own path. `numRecords` is told where it was asked for.
    """
    known = pruned_kinds(log_format, fields)
    columns = [
        pa.field("version", pa.int64()),
        pa.field("ordinal", pa.int64()),
        pa.field("kind", pa.string()),
        pa.field("key", pa.string()),
        pa.field("dvId", pa.string()),
        *(pa.field(kind, known[kind]) for kind in FILE_KINDS),
        pa.field("records", pa.int64()),
        pa.field("single", pa.string()),
    ]
    return pa.schema(columns)


def parse_tail(batches: Iterable[pa.RecordBatch], job: Job) -> Iterator[pa.RecordBatch]:
    """Yield the newest file actions of a task's commits, then its newest single actions."""
    with explained():
        seen, singles = KeySet(), Singles()
        for run in _runs(batches, job):
            rows = [part for batch in run for part in file_rows(batch, job.directory.table_url)]
            masks = newest_of_run(rows, seen)
            _count(job, reduced=sum(int(keep.sum()) for keep in masks))
            for part, keep in zip(rows, masks, strict=True):
                if keep.any():
                    yield _file_batch(part, keep, job)
            for batch in run:
                singles.take(batch)
        if (found := _single_batch(singles, job.schema)).num_rows:
            yield found


def parse_checkpoint(batches: Iterable[pa.RecordBatch], job: Job) -> Iterator[pa.RecordBatch]:
    """Yield the file actions of a task's pieces of a checkpoint, as they stand."""
    with explained():
        for piece in _pieces(batches):
            _count(job, files=1, bytes=piece.size_bytes)
            for batch in read_checkpoint_file(
                job.directory,
                piece.ref,
                wanted=FILE_KINDS,
                fields=job.fields,
                row_groups=(piece.slice, piece.slices),
                limit_bytes=job.config[MAX_DECOMPRESSED_BYTES],
            ):
                for part in file_rows(batch, job.directory.table_url):
                    _count(job, actions=len(part.rows))
                    yield _file_batch(part, np.ones(len(part.rows), dtype=bool), job)


def parse_actions(batches: Iterable[pa.RecordBatch], job: Job) -> Iterator[pa.RecordBatch]:
    """Yield every VersionedAction of a task's commits: nothing is reduced."""
    with explained():
        wanted = schema(job.directory.log_format)
        for run in _runs(batches, job):
            for batch in run:
                yield batch.to_record_batch(wanted)


def parse_history(batches: Iterable[pa.RecordBatch], job: Job) -> Iterator[pa.RecordBatch]:
    """Yield what each of a task's commits says of itself."""
    with explained():
        refs = [piece.ref for piece in _pieces(batches)]
        yield history_batch(job.directory, refs, job.config)


def history_batch(
    directory: LogDirectory, refs: Iterable[TransactionFileRef], config: Config
) -> pa.RecordBatch:
    """Return the commitInfo of commits as rows; its text is whole in `commitInfo`."""
    rows = []
    for ref, info in commit_infos(directory, refs, config):
        stamp = info.get("inCommitTimestamp", info.get("timestamp"))
        row: dict[str, Any] = {name: _text(info.get(name)) for name in HISTORY_SCHEMA.names}
        row["version"] = ref.version
        row["timestamp"] = stamp if isinstance(stamp, int) else ref.modification_time
        row["commitInfo"] = _text(info)
        rows.append(row)
    return pa.RecordBatch.from_pylist(rows, HISTORY_SCHEMA)


def _text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else orjson.dumps(value).decode()


def keep_partitions(
    batches: Iterable[pa.RecordBatch], predicate: Predicate
) -> Iterator[pa.RecordBatch]:
    """Yield the live files whose partition values fulfil a condition."""
    for batch in batches:
        table = predicate.filter(pa.Table.from_batches([batch]))
        yield from table.to_batches()


def _runs(batches: Iterable[pa.RecordBatch], job: Job) -> Iterator[list[ActionBatch]]:
    """Yield the actions of a task's files in runs, the newest first."""
    table = job.directory.table_url
    PROCESS_CACHE.enter_generation(table, job.generation)
    parser = Parser(job.directory.log_format, job.config[MAX_DECOMPRESSED_BYTES], job.fields)
    pieces = sorted(_pieces(batches), key=lambda p: (p.ref.version, p.offset), reverse=True)
    for run in _chunked(pieces):
        found: list[ActionBatch] = []
        missing: list[Piece] = []
        hits = 0
        for piece in run:
            cached = PROCESS_CACHE.get(_file_id(piece, job))
            if cached is None:
                missing.append(piece)
            else:
                hits += 1
                found += cached
        found += _read(missing, parser, job)
        _count(
            job,
            files=len(run),
            bytes=sum(piece.size_bytes for piece in run),
            actions=sum(map(len, found)),
            cacheHits=hits,
            cacheMisses=len(missing),
        )
        yield found


def _read(pieces: Sequence[Piece], parser: Parser, job: Job) -> list[ActionBatch]:
    """Read and parse files that are not in the cache, and put them there."""
    directory = job.directory
    whole = {directory.file(p.ref.path): p for p in pieces if not p.is_part and p.ref.is_json}
    contents = directory.storage.read_many(list(whole))
    batches = parser.parse((whole[path].ref, data) for path, data in contents)
    by_version = _by_version(batches)
    for piece in whole.values():
        _remember(piece, by_version.get(piece.ref.version, []), job)
    for piece in pieces:
        if piece.is_part:
            parsed = _read_range(piece, parser, job)
        elif not piece.ref.is_json:
            parsed = list(
                read_checkpoint_file(
                    directory,
                    piece.ref,
                    wanted=ALL_KINDS,
                    fields=job.fields,
                    row_groups=(piece.slice, piece.slices),
                )
            )
        else:
            continue
        _remember(piece, parsed, job)
        batches += parsed
    return batches


def _read_range(piece: Piece, parser: Parser, job: Job) -> list[ActionBatch]:
    """Parse the lines that begin inside a range of a file."""
    storage, path = job.directory.storage, job.directory.file(piece.ref.path)
    end = piece.offset + piece.length
    if job.directory.log_format.compressed_commits and is_compressed(
        storage.read_range(path, 0, 2)
    ):
        # There are no line ends to cut at: the task of the first range reads it all.
        return [] if piece.offset else parser.parse([(piece.ref, storage.read(path))])
    # A line belongs to the range in which the byte after the newline before it lies.
    data = storage.read_range(path, max(piece.offset - 1, 0), piece.length + (piece.offset > 0))
    if piece.offset:
        first = data.find(b"\n") + 1
        data = data[first:] if first else b""
    if not data:
        return []
    while end < piece.ref.size and not data.endswith(b"\n"):
        more = storage.read_range(path, end, min(1 << 20, piece.ref.size - end))
        cut = more.find(b"\n") + 1
        data += more[:cut] if cut else more
        end += len(more)
        if cut or not more:
            break
    try:
        batches = parser.parse([(piece.ref, data)])
    except UnreadableLogFileError:
        # Only the whole file can tell on which line.
        parser.parse([(piece.ref, storage.read(path))])
        raise
    # Any number that grows along the file orders its lines; a line is longer than one byte.
    shift = pa.scalar(piece.offset, pa.int64())
    return [replace(batch, ordinal=pc.add(batch.ordinal, shift)) for batch in batches]


def _by_version(batches: Sequence[ActionBatch]) -> dict[int, list[ActionBatch]]:
    """Cut batches into the parts that belong to one file each, sharing their memory."""
    parts: dict[int, list[ActionBatch]] = {}
    for batch in batches:
        versions = batch.version.to_numpy()
        if not len(versions):
            continue
        bounds = np.flatnonzero(np.diff(versions)) + 1
        starts, ends = [0, *bounds.tolist()], [*bounds.tolist(), len(versions)]
        for start, end in zip(starts, ends, strict=True):
            parts.setdefault(int(versions[start]), []).append(
                ActionBatch(
                    batch.version.slice(start, end - start),
                    batch.ordinal.slice(start, end - start),
                    {k: column.slice(start, end - start) for k, column in batch.columns.items()},
                )
            )
    return parts


def _remember(piece: Piece, batches: list[ActionBatch], job: Job) -> None:
    PROCESS_CACHE.put(_file_id(piece, job), job.directory.table_url, batches)


def _file_id(piece: Piece, job: Job) -> FileId:
    ref = piece.ref
    place = job.directory.file(ref.path), ref.size, ref.modification_time
    part = piece.offset, piece.length, piece.slice, piece.slices
    return (*place, part, job.fields)


def _chunked(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Group a task's pieces, in their order; a part of a file goes alone."""
    waiting: list[Piece] = []
    for piece in [*pieces, None]:
        if piece is not None and not piece.is_part:
            waiting.append(piece)
            continue
        by_ref = {p.ref.path: p for p in waiting}
        for refs in chunks([p.ref for p in waiting]):
            yield [by_ref[ref.path] for ref in refs]
        waiting = []
        if piece is not None:
            yield [piece]


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[Piece]:
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
            yield Piece(ref, row["offset"], row["length"], row["slice"], row["slices"])


def _file_batch(part: FileRows, keep: np.ndarray, job: Job) -> pa.RecordBatch:
    """Return the marked rows of one kind, shaped for the shuffle."""
    wanted = job.schema
    actions = part.select(keep)
    count = len(actions)
    raw = actions.field("path")
    canonical = canonical_paths(raw, job.directory.table_url)
    vectors = actions.type.get_field_index("deletionVector")
    with_records = job.fields is None or "stats" in job.fields or "numRecords" in job.fields
    records = nulls(count, pa.int64())
    if part.kind == "add" and with_records:
        name = "numRecords" if "numRecords" in actions.type.names else "stats"
        if name in actions.type.names:
            table = pa.table({name: actions.field(name)})
            records = record_counts(table).combine_chunks()
    columns = {
        "version": pa.array(part.versions[keep]),
        "ordinal": pa.array(part.ordinals[keep]),
        "kind": pa.repeat("file", count),
        "key": nulls(count, pa.string()) if canonical is raw else canonical,
        "dvId": dv_ids(actions.field(vectors)) if vectors >= 0 else nulls(count, pa.string()),
        part.kind: conform(actions, wanted.field(part.kind).type),
        "records": records,
    }
    return _batch(columns, count, wanted)


def _single_batch(singles: Singles, wanted: pa.Schema) -> pa.RecordBatch:
    rows = [
        (version, ordinal, kind, key, orjson.dumps(value).decode())
        for kind in STATE_KEYS
        for key, (version, ordinal), value in singles.entries(kind)
    ]
    names = ("version", "ordinal", "kind", "key", "single")
    columns = {
        name: pa.array([row[at] for row in rows], wanted.field(name).type)
        for at, name in enumerate(names)
    }
    return _batch(columns, len(rows), wanted)


def _batch(columns: dict[str, pa.Array], count: int, wanted: pa.Schema) -> pa.RecordBatch:
    arrays = [columns.get(f.name) for f in wanted]
    filled = [
        nulls(count, f.type) if array is None else array
        for f, array in zip(wanted, arrays, strict=True)
    ]
    return pa.RecordBatch.from_arrays(filled, schema=wanted)


def _count(job: Job, **counts: int) -> None:
    if job.count is not None:
        job.count(counts)


# --- errors travel as text, and become errors again on the driver ------------------------------

MARK: Final = "txlog-error: "


class ExecutorError(Exception):
    """Carries a ReplayError through Spark, which keeps only an exception's text."""


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turn a ReplayError into one that survives the way to the driver."""
    try:
        yield
    except FileNotFoundError as error:
        told = "a log file went away while it was read; try again"
        raise _travelling(StorageError(error.filename or str(error), told)) from None
    except ReplayError as error:
        raise _travelling(error) from None


def _travelling(error: ReplayError) -> ExecutorError:
    fields = {k: v for k, v in vars(error).items() if isinstance(v, (str, int, type(None)))}
    told = {"type": type(error).__name__, "message": str(error), "fields": fields}
    return ExecutorError(MARK + orjson.dumps(told).decode())
