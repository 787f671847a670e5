"""The engine in the calling process: no JVM, Arrow columns, as many threads as there are cores."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from engine.config import CHECKPOINT_PARALLELISM, MAX_DECOMPRESSED_BYTES, Config
from engine.errors import MissingMetadataError, MissingProtocolError, StorageError
from engine.replay.checkpoints import ALL_KINDS, read_checkpoint, read_checkpoint_file
from engine.replay.files import (
    FileReconciler,
    FileRows,
    file_rows,
    first_of_keys,
    newest_of_run,
)
from engine.replay.keyset import KeySet
from engine.replay.memory import steady_memory
from engine.replay.parse import Parser, chunks
from engine.replay.rules import FILE_KINDS, STATE_KEYS
from engine.replay.state import Singles, State

if TYPE_CHECKING:
    import pyarrow as pa

    from engine.actions import ActionBatch
    from engine.log.listing import LogDirectory
    from engine.log.paths import TransactionFileRef
    from engine.log.segment import LogSegment

Progress = Callable[[int], None]
Item = TypeVar("Item")
Result = TypeVar("Result")


def replay(
    segment: LogSegment,
    directory: LogDirectory,
    config: Config,
    progress: Progress | None = None,
) -> State:
    """Return the reconciled state of a segment. `progress` is told of bytes as they are done."""
    with steady_memory():
        return _replay(segment, directory, config, progress)


def _replay(
    segment: LogSegment,
    directory: LogDirectory,
    config: Config,
    progress: Progress | None,
) -> State:
    files, singles = FileReconciler(directory.log_format), Singles()
    has_repeats = False
    for run in tail_runs(segment, directory, config, progress):
        files.take([rows for prepared in run for rows in prepared.files])
        for prepared in run:
            singles.take(prepared.batch)
    if segment.checkpoint is not None:
        base = Singles()
        for batch in read_checkpoint(
            directory, segment.checkpoint, limit_bytes=config[MAX_DECOMPRESSED_BYTES]
        ):
            files.take_checkpoint(file_rows(batch, directory.table_url))
            base.take(batch)
            singles.take(batch)
        has_repeats = files.settle_checkpoint()
        refuse_headless(base, segment)
        if progress:
            progress(sum(ref.size for ref in segment.checkpoint.files))
    return singles.state(files.files(), files.tombstones(), has_repeats=has_repeats)


@dataclass(frozen=True, slots=True)
class Won:
    """Actions of one kind, `add` or `remove`, that won; all of them set."""

    kind: str
    actions: pa.StructArray


def stream(
    segment: LogSegment,
    directory: LogDirectory,
    config: Config,
    singles: Singles,
    progress: Progress | None = None,
) -> Iterator[Won]:
    """Yield the file actions that win, newest first, holding no more than their keys.

    `singles` takes in the other kinds, and is complete when the last action was yielded. What
    comes is what `replay` finds; a key costs 32 to 64 bytes.
    """
    seen = KeySet()
    for run in tail_runs(segment, directory, config, progress):
        rows = [part for prepared in run for part in prepared.files]
        for prepared in run:
            singles.take(prepared.batch)
        for part, keep in zip(rows, newest_of_run(rows, seen), strict=True):
            if keep.any():
                yield Won(part.kind, _set_only(part.select(keep)))
    if segment.checkpoint is None:
        return
    base = Singles()
    # An add beside a remove of the same key counts, wherever it stands: all adds come first.
    for kind in FILE_KINDS:
        wanted = (kind, *(STATE_KEYS if kind == FILE_KINDS[0] else ()))
        for batch in read_checkpoint(
            directory,
            segment.checkpoint,
            wanted=wanted,
            limit_bytes=config[MAX_DECOMPRESSED_BYTES],
        ):
            if kind == FILE_KINDS[0]:
                base.take(batch)
                singles.take(batch)
            for part in file_rows(batch, directory.table_url):
                if part.kind == kind and (keep := first_of_keys(part, seen)).any():
                    yield Won(kind, _set_only(part.select(keep)))
    refuse_headless(base, segment)
    if progress:
        progress(sum(ref.size for ref in segment.checkpoint.files))


def _set_only(actions: pa.StructArray) -> pa.StructArray:
    return actions.filter(actions.is_valid()) if actions.null_count else actions


@dataclass(frozen=True, slots=True)
class Prepared:
    """A batch and the keys of its file actions."""

    batch: ActionBatch
    files: list[FileRows]


def tail_runs(
    segment: LogSegment,
    directory: LogDirectory,
    config: Config,
    progress: Progress | None = None,
) -> Iterator[list[Prepared]]:
    """Yield the actions of the commits and compactions of a segment, newest files first."""
    parser = Parser(directory.log_format, config[MAX_DECOMPRESSED_BYTES], wanted=ALL_KINDS)

    def parse(refs: list[TransactionFileRef]) -> list[Prepared]:
        json = [ref for ref in refs if ref.is_json]
        try:
            contents = directory.storage.read_many([directory.file(ref.path) for ref in json])
            batches = parser.parse(zip(json, (data for _, data in contents), strict=True))
        except FileNotFoundError as error:
            raise StorageError(
                directory.url, f"{error}: a log file went away while it was read; try again"
            ) from None
        for ref in refs:
            if not ref.is_json:
                batches += read_checkpoint_file(directory, ref, wanted=ALL_KINDS)
        return [Prepared(batch, file_rows(batch, directory.table_url)) for batch in batches]

    workers = max(1, min(config[CHECKPOINT_PARALLELISM], os.cpu_count() or 1))
    newest_first = chunks(reversed(segment.tail))
    for refs, run in in_order(parse, newest_first, workers):
        if progress:
            progress(sum(ref.size for ref in refs))
        yield run


def refuse_headless(base: Singles, segment: LogSegment) -> None:
    """Refuse a checkpoint without protocol or metaData: what else is missing nobody knows."""
    if base.winner("protocol") is None and segment.log_format.default_protocol is None:
        raise MissingProtocolError(segment.directory, segment.version)
    if base.winner("metaData") is None:
        raise MissingMetadataError(segment.directory, segment.version)


def in_order(
    work: Callable[[Item], Result], items: Iterable[Item], workers: int
) -> Iterator[tuple[Item, Result]]:
    """Yield each item with its result, in order, working ahead on a few of them."""
    iterator = iter(items)
    with ThreadPoolExecutor(workers, thread_name_prefix="txlog") as pool:
        ahead: deque[tuple[Item, Future[Result]]] = deque()
        try:
            while True:
                while len(ahead) <= workers and (item := next(iterator, None)) is not None:
                    ahead.append((item, pool.submit(work, item)))
                if not ahead:
                    return
                item, future = ahead.popleft()
                yield item, future.result()
        finally:
            for _, future in ahead:
                future.cancel()
