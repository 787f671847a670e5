"""What do a task's pieces of commits say? Read, cut at line ends, and kept for the next task."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.actions import ActionBatch
from engine.config import MAX_DECOMPRESSED_BYTES
from engine.errors import UnreadableLogFileError
from engine.replay.cache import PROCESS_CACHE
from engine.replay.checkpoints import ALL_KINDS, read_checkpoint_file
from engine.replay.compression import is_compressed
from engine.replay.parse import CHUNK_BYTES, Parser
from engine.replay.pieces import Job, Piece, pieces_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.log.listing import LogDirectory


def runs(batches: Iterable[pa.RecordBatch], job: Job) -> Iterator[list[ActionBatch]]:
    """Yield the actions of a task's files in runs, the newest first."""
    table = job.directory.table_url
    PROCESS_CACHE.enter_generation(table, job.generation)
    parser = Parser(job.directory.log_format, job.config[MAX_DECOMPRESSED_BYTES], job.fields)
    pieces = sorted(
        pieces_of(batches), key=lambda p: (p.ref.version, p.offset, p.slice), reverse=True
    )
    for run in chunked(pieces):
        found: list[ActionBatch] = []
        missing: list[Piece] = []
        hits = 0
        for piece in run:
            cached = PROCESS_CACHE.get(job.file_id(piece))
            if cached is None:
                missing.append(piece)
            else:
                hits += 1
                found += cached
        found += _read(missing, parser, job)
        job.tell(
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
    data = range_bytes(piece, job.directory)
    if not data:
        return []
    try:
        batches = parser.parse([(piece.ref, data)])
    except UnreadableLogFileError:
        # Only the whole file can tell on which line.
        path = job.directory.file(piece.ref.path)
        parser.parse([(piece.ref, job.directory.storage.read(path))])
        raise
    # Any number that grows along the file orders its lines; a line is longer than one byte.
    shift = pa.scalar(piece.offset, pa.int64())
    return [replace(batch, ordinal=pc.add(batch.ordinal, shift)) for batch in batches]


def range_bytes(piece: Piece, directory: LogDirectory) -> bytes:
    """Return the lines that begin inside a range of a file; all of it where it is compressed."""
    storage, path = directory.storage, directory.file(piece.ref.path)
    end = piece.offset + piece.length
    if directory.log_format.compressed_commits and is_compressed(storage.read_range(path, 0, 2)):
        # There are no line ends to cut at: the task of the first range reads it all.
        return b"" if piece.offset else storage.read(path)
    # A line belongs to the range in which the byte after the newline before it lies.
    data = storage.read_range(path, max(piece.offset - 1, 0), piece.length + (piece.offset > 0))
    if piece.offset:
        first = data.find(b"\n") + 1
        data = data[first:] if first else b""
    while data and end < piece.ref.size and not data.endswith(b"\n"):
        more = storage.read_range(path, end, min(1 << 20, piece.ref.size - end))
        cut = more.find(b"\n") + 1
        data += more[:cut] if cut else more
        end += len(more)
        if cut or not more:
            break
    return data


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
    PROCESS_CACHE.put(job.file_id(piece), job.directory.table_url, batches)


def chunked(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Group pieces, in their order, into runs of about 8 MiB; a part of a file goes alone."""
    run: list[Piece] = []
    room = CHUNK_BYTES
    for piece in pieces:
        if run and (piece.is_part or room <= 0):
            yield run
            run, room = [], CHUNK_BYTES
        run.append(piece)
        room -= CHUNK_BYTES if piece.is_part else piece.size_bytes
    if run:
        yield run
