"""What runs on an executor: plain functions from refs to VersionedAction rows, no Spark in them.

A task reads its files newest first, keeps the newest action of each key (`local reduce`) and gives
the rest to the shuffle.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson
import pyarrow as pa

from engine.actions import conform, nulls, pruned_kinds, schema
from engine.config import MAX_DECOMPRESSED_BYTES, Config
from engine.replay.checkpoints import read_checkpoint_file
from engine.replay.commits import commit_infos
from engine.replay.files import FileRows, file_rows, newest_of_run
from engine.replay.keys import canonical_paths, dv_ids
from engine.replay.keyset import KeySet
from engine.replay.pieces import Job, pieces_of
from engine.replay.reading import runs
from engine.replay.rules import FILE_KINDS, STATE_KEYS
from engine.replay.state import Singles
from engine.replay.travel import explained

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.formats import LogFormat
    from engine.log.listing import LogDirectory
    from engine.log.paths import TransactionFileRef
    from engine.replay.predicate import Predicate

# Row groups are numbered from the 32nd bit on, and a file has fewer than 65,536 of them.
_PLACE_BITS: Final = 48

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


@cache
def reduced_schema(log_format: LogFormat, fields: tuple[str, ...] | None) -> pa.Schema:
    """Return the schema of VersionedActions on their way to the window.

    `kind` is `file` or the kind of a single action, whose JSON is in `single`. `key` is the key's
    text where it is not the action's own path.
    """
    known = pruned_kinds(log_format, fields)
    columns = [
        pa.field("version", pa.int64()),
        pa.field("ordinal", pa.int64()),
        pa.field("kind", pa.string()),
        pa.field("key", pa.string()),
        pa.field("dvId", pa.string()),
        *(pa.field(kind, known[kind]) for kind in FILE_KINDS),
        pa.field("single", pa.string()),
    ]
    return pa.schema(columns)


def schema_of(job: Job) -> pa.Schema:
    """Return the schema of the rows that tasks of a job yield."""
    return reduced_schema(job.directory.log_format, job.fields)


def parse_tail(batches: Iterable[pa.RecordBatch], job: Job) -> Iterator[pa.RecordBatch]:
    """Yield the newest file actions of a task's commits, then its newest single actions."""
    with explained():
        singles = Singles()
        for part, keep in newest_of_task(batches, job, singles):
            yield _file_batch(part, keep, job)
        if rows := list(single_rows(singles)):
            yield _single_batch(rows, schema_of(job))


def newest_of_task(
    batches: Iterable[pa.RecordBatch], job: Job, singles: Singles
) -> Iterator[tuple[FileRows, np.ndarray]]:
    """Yield a task's file actions, and which of them are the newest of their key.

    `singles` takes in the other kinds, and is complete after the last of them.
    """
    seen = KeySet()
    for run in runs(batches, job):
        rows = [
            part for batch in run for part in file_rows(batch, job.directory.table_url, job.seeds)
        ]
        masks = newest_of_run(rows, seen)
        job.tell(reduced=sum(int(keep.sum()) for keep in masks))
        for part, keep in zip(rows, masks, strict=True):
            if keep.any():
                yield part, keep
        for batch in run:
            singles.take(batch)


def parse_checkpoint(batches: Iterable[pa.RecordBatch], job: Job) -> Iterator[pa.RecordBatch]:
    """Yield the file actions of a task's pieces of a checkpoint, as they stand."""
    with explained():
        for part in checkpoint_rows(batches, job):
            yield _file_batch(part, np.ones(len(part.rows), dtype=bool), job)


def checkpoint_rows(batches: Iterable[pa.RecordBatch], job: Job) -> Iterator[FileRows]:
    """Yield the file actions of a task's pieces of a checkpoint, with their keys.

    Their ordinals grow along all the files of the checkpoint.
    """
    for piece in pieces_of(batches):
        job.tell(files=1, bytes=piece.size_bytes)
        for batch in read_checkpoint_file(
            job.directory,
            piece.ref,
            wanted=FILE_KINDS,
            fields=job.fields,
            row_groups=(piece.slice, piece.slices),
            limit_bytes=job.config[MAX_DECOMPRESSED_BYTES],
        ):
            for part in file_rows(batch, job.directory.table_url, job.seeds):
                job.tell(actions=len(part.rows))
                yield replace(part, ordinals=part.ordinals + (piece.place << _PLACE_BITS))


def parse_actions(batches: Iterable[pa.RecordBatch], job: Job) -> Iterator[pa.RecordBatch]:
    """Yield every VersionedAction of a task's commits: nothing is reduced."""
    with explained():
        wanted = schema(job.directory.log_format)
        for run in runs(batches, job):
            for batch in run:
                yield batch.to_record_batch(wanted)


def parse_history(batches: Iterable[pa.RecordBatch], job: Job) -> Iterator[pa.RecordBatch]:
    """Yield what each of a task's commits says of itself."""
    with explained():
        refs = [piece.ref for piece in pieces_of(batches)]
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


def _file_batch(part: FileRows, keep: np.ndarray, job: Job) -> pa.RecordBatch:
    """Return the marked rows of one kind, shaped for the shuffle."""
    wanted = schema_of(job)
    actions = part.select(keep)
    count = len(actions)
    raw = actions.field("path")
    canonical = canonical_paths(raw, job.directory.table_url)
    vectors = actions.type.get_field_index("deletionVector")
    columns = {
        "version": pa.array(part.versions[keep]),
        "ordinal": pa.array(part.ordinals[keep]),
        "kind": pa.repeat("file", count),
        "key": nulls(count, pa.string()) if canonical is raw else canonical,
        "dvId": dv_ids(actions.field(vectors)) if vectors >= 0 else nulls(count, pa.string()),
        part.kind: conform(actions, wanted.field(part.kind).type),
    }
    return filled(columns, count, wanted)


def single_rows(singles: Singles) -> Iterator[tuple[int, int, str, str, str]]:
    """Yield (version, ordinal, kind, key, JSON) of each single action that won."""
    for kind in STATE_KEYS:
        for key, (version, ordinal), value in singles.entries(kind):
            yield version, ordinal, kind, key, orjson.dumps(value).decode()


def _single_batch(rows: Sequence[tuple[int, int, str, str, str]], wanted: pa.Schema) -> Any:
    names = ("version", "ordinal", "kind", "key", "single")
    columns = {
        name: pa.array([row[at] for row in rows], wanted.field(name).type)
        for at, name in enumerate(names)
    }
    return filled(columns, len(rows), wanted)


def filled(columns: dict[str, pa.Array], count: int, wanted: pa.Schema) -> pa.RecordBatch:
    """Return columns as a batch of a schema; what is not among them is null."""
    arrays = [columns.get(f.name) for f in wanted]
    whole = [
        nulls(count, f.type) if array is None else array
        for f, array in zip(wanted, arrays, strict=True)
    ]
    return pa.RecordBatch.from_arrays(whole, schema=wanted)
