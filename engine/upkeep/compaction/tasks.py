"""What runs on an executor when Spark compacts: plain functions over Arrow, no Spark in them.

Tasks read commits and give the lines that may win, with their keys, to the shuffle; one task writes
the lines that did, and reads the file back before it answers.
"""

from __future__ import annotations

import uuid
import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson
import pyarrow as pa

from engine.actions import conform, kinds
from engine.replay.checkpoints import ALL_KINDS, read_checkpoint_file
from engine.replay.content import Content, content_of
from engine.replay.files import FileRows
from engine.replay.keys import canonical_paths, dv_ids, fingerprints
from engine.replay.keyset import KeySet
from engine.replay.pieces import pieces_of
from engine.replay.reading import chunked
from engine.replay.rules import FILE_KINDS, STATE_KEYS
from engine.replay.travel import explained
from engine.upkeep.compaction.lines import Keys, RunReader, WonSingles
from engine.upkeep.compaction.local import Local, Rows, prove_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.replay.pieces import Job
    from engine.upkeep.compaction.lines import Run
    from engine.upkeep.publish import Staging

# `space` is that of the key: add and remove share one. `kind` is the action's own.
LINES_SCHEMA: Final = pa.schema(
    {
        "version": pa.int64(),
        "ordinal": pa.int64(),
        "space": pa.string(),
        "kind": pa.string(),
        "key": pa.string(),
        "dvId": pa.string(),
        "line": pa.large_binary(),
    }
)
WRITTEN_SCHEMA: Final = pa.schema({"name": pa.string(), "size": pa.int64(), "actions": pa.int64()})
CONTENT_SCHEMA: Final = pa.schema({"kind": pa.string(), "count": pa.int64(), "sum": pa.string()})


def read_lines(batches: Iterable[pa.RecordBatch], job: Job) -> Iterator[pa.RecordBatch]:
    """Yield the newest line of each key of a task's commits."""
    with explained():
        reader, seen, singles = RunReader(job.directory, job.config), KeySet(), WonSingles()
        pieces = sorted(
            pieces_of(batches), key=lambda piece: (piece.ref.version, piece.offset), reverse=True
        )
        for some in chunked(pieces):
            run = reader.read(some)
            singles.take(run.singles)
            for part, keep in run.won(seen):
                yield _line_batch(run, part, keep, job.directory.table_url)
        rest = singles.in_order()
        if rest:
            rows = [(*s.position, s.kind, s.kind, s.key, None, s.line + b"\n") for s in rest]
            columns = zip(*rows, strict=True)
            arrays = [
                pa.array(list(values), f.type)
                for values, f in zip(columns, LINES_SCHEMA, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=LINES_SCHEMA)


def write_lines(
    batches: Iterable[pa.RecordBatch], job: Job, staging: Staging
) -> Iterator[pa.RecordBatch]:
    """Write the lines that come under a new staged name, read them back, and tell of it.

    A task that runs twice writes two files; the answer names the one that counts.
    """
    with explained():
        name = f"{uuid.uuid4().hex}.json"
        keys, crc, size = Keys(), 0, 0
        with job.directory.storage.open_output(staging.path(name)) as file:
            for batch in batches:
                lines = batch.column(batch.schema.get_field_index("line"))
                data = b"".join(memoryview(line.as_buffer()) for line in lines)
                file.write(data)
                crc, size = zlib.crc32(data, crc), size + len(data)
                _take(keys, batch)
        prove_lines(job.directory, job.config, staging.name(name), size, keys, crc)
        yield _answer(name, size, keys.size)


def write_window(
    batches: Iterable[pa.RecordBatch], job: Job, staging: Staging
) -> Iterator[pa.RecordBatch]:
    """Compact the commits that come, all of the window's, as a process on its own would."""
    with explained():
        name = f"{uuid.uuid4().hex}.json"
        commits = sorted((p.ref for p in pieces_of(batches)), key=lambda ref: ref.version)
        written = Local(job.directory, job.config).write(commits, staging, name)
        yield _answer(name, written.size, written.actions)


def write_rows(
    batches: Iterable[pa.RecordBatch], job: Job, staging: Staging
) -> Iterator[pa.RecordBatch]:
    """Write winners as Parquet under a new staged name, where Spark itself has no way there."""
    with explained():
        name = f"{uuid.uuid4().hex}.parquet"
        path, actions = staging.path(name), 0
        with job.directory.storage.open_output(path) as file:
            rows = Rows(file, job.directory.log_format)
            for batch in batches:
                for kind, column in _columns(batch, job).items():
                    rows.write(kind, column)
                    actions += len(column)
            rows.close()
        yield _answer(name, job.directory.storage.size(path), actions)


def content_of_winners(batches: Iterable[pa.RecordBatch], job: Job) -> Iterator[pa.RecordBatch]:
    """Yield what the winners of a task say."""
    with explained():
        found = Content()
        for batch in batches:
            found += content_of(_columns(batch, job))
        yield _content_batch(found)


def content_of_files(batches: Iterable[pa.RecordBatch], job: Job) -> Iterator[pa.RecordBatch]:
    """Yield what a task's pieces of a staged Parquet file say."""
    with explained():
        found = Content()
        for piece in pieces_of(batches):
            for batch in read_checkpoint_file(
                job.directory,
                piece.ref,
                wanted=ALL_KINDS,
                row_groups=(piece.slice, piece.slices),
            ):
                found += content_of(batch.columns)
        yield _content_batch(found)


def _answer(name: str, size: int, actions: int) -> pa.RecordBatch:
    row = {"name": name, "size": size, "actions": actions}
    return pa.RecordBatch.from_pylist([row], WRITTEN_SCHEMA)


def _line_batch(run: Run, part: FileRows, keep: np.ndarray, root: str) -> pa.RecordBatch:
    actions = part.select(keep)
    count = len(actions)
    versions, ordinals = part.versions[keep], part.ordinals[keep]
    has_vectors = actions.type.get_field_index("deletionVector") >= 0
    ids = dv_ids(actions.field("deletionVector")) if has_vectors else pa.nulls(count, pa.string())
    arrays = [
        pa.array(versions),
        pa.array(ordinals),
        pa.repeat("file", count),
        pa.repeat(part.kind, count),
        canonical_paths(actions.field("path"), root),
        ids,
        run.text.array(run.text.rows(versions, ordinals)),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=LINES_SCHEMA)


def _take(keys: Keys, batch: pa.RecordBatch) -> None:
    found = batch.column(batch.schema.get_field_index("kind"))
    kinds_here = np.array(found.to_pylist(), dtype=object)
    paths = batch.column(batch.schema.get_field_index("key"))
    ids = batch.column(batch.schema.get_field_index("dvId"))
    for kind in set(kinds_here):
        here = pa.array(kinds_here == kind)
        count = int((kinds_here == kind).sum())
        if kind not in FILE_KINDS:
            keys.counts[kind] = keys.counts.get(kind, 0) + count
            continue
        first, second = fingerprints(paths.filter(here), ids.filter(here))
        nothing = np.zeros(count, np.int64)
        keys.take(FileRows(kind, None, np.arange(count), first, second, nothing, nothing))


def _columns(batch: pa.RecordBatch, job: Job) -> dict[str, pa.Array]:
    """Return the actions of a batch of winners, kind by kind, without the rows of other kinds."""
    known = kinds(job.directory.log_format)
    columns: dict[str, pa.Array] = {}
    for kind in FILE_KINDS:
        column = batch.column(batch.schema.get_field_index(kind))
        if column.null_count < len(column):
            columns[kind] = conform(column.filter(column.is_valid()), known[kind])
    names = batch.column(batch.schema.get_field_index("kind")).to_pylist()
    texts = batch.column(batch.schema.get_field_index("single"))
    singles: dict[str, list[Any]] = {}
    for name, text in zip(names, texts, strict=True):
        if name in STATE_KEYS:
            singles.setdefault(name, []).append(orjson.loads(text.as_py()))
    return columns | {kind: pa.array(rows, known[kind]) for kind, rows in singles.items()}


def _content_batch(found: Content) -> pa.RecordBatch:
    rows = [
        {"kind": kind, "count": count, "sum": str(found.sums[kind])}
        for kind, count in found.counts.items()
    ]
    return pa.RecordBatch.from_pylist(rows, CONTENT_SCHEMA)
