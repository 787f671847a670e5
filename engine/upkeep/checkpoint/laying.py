"""How are the rows of a version laid out in staged files? One way for each shape.

Each way takes a stream of rows and holds no more of them than a row group. What comes back is
proven: every file was read back, and says what was written.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.errors import CheckpointValidationError, UnreadableLogFileError
from engine.log.paths import FileKind, TransactionFileRef
from engine.replay.compression import encode
from engine.replay.content import Content, content_of, total
from engine.replay.parse import Parser
from engine.upkeep.checkpoint.parts import part_numbers
from engine.upkeep.checkpoint.rows import few_rows, to_lines
from engine.upkeep.checkpoint.shape import ROW_GROUP_ROWS, CheckpointPlan, Shape
from engine.upkeep.checkpoint.staged import StagedFile, parquet_rows, proven, refuse_other

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.upkeep.checkpoint.rows import Few
    from engine.upkeep.publish import Staging

T = TypeVar("T")

# Rows of file actions, and their content.
Rows = tuple[pa.RecordBatch, Content]

WORKERS: Final = min(4, os.cpu_count() or 1)
_GRADES: Final = 3


@dataclass(frozen=True, slots=True)
class Laid:
    """The proven files of a checkpoint, in the order of their parts; `few` is part of the first.

    Of a V2 checkpoint these are the sidecars, and `few` is still to be written.
    """

    shape: Shape
    files: tuple[StagedFile, ...]
    few: Few
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def content(self) -> Content:
        """What all of them say together."""
        return total(file.content for file in self.files)


def lay(
    rows: Iterator[Rows], few: Callable[[], Few], staging: Staging, plan: CheckpointPlan
) -> Laid:
    """Write rows of file actions as staged files. `few` is asked for when the rows are at an end.

    Raises CheckpointValidationError where a file, read back, is not what was written.
    """
    if plan.shape.is_v2:
        return Laid(plan.shape, tuple(sidecars(rows, staging, plan)), few())
    if plan.shape.is_json:
        return _lay_lines(rows, few, staging, plan)
    laid = _lay_whole(rows, few, staging, plan)
    parts = _parts(laid.files[0], plan)
    if parts == 1:
        return laid
    split = _split(laid.files[0], parts, staging, plan)
    staging.directory.storage.delete_many([staging.path(laid.files[0].name)])
    return Laid(Shape.MULTI_PART, tuple(split), laid.few)


def graded(largest: int, number: int) -> int:
    """Return how many rows a sidecar has: the newest few are smaller than the others.

    Files that go are mostly young ones: a small sidecar is soon written again.
    """
    return max(1, largest >> max(0, _GRADES - number))


def sidecars(
    rows: Iterator[Rows], staging: Staging, plan: CheckpointPlan, first: int = 0
) -> Iterator[StagedFile]:
    """Write rows to sidecars, newest first, adds apart from removes."""
    written: list[tuple[str, Content, int | None]] = []
    waiting: dict[str, list[pa.RecordBatch]] = {"add": [], "remove": []}
    counts = dict.fromkeys(waiting, 0)
    made = dict.fromkeys(waiting, 0)

    def close(kind: str) -> None:
        name = f"{first + len(written)}.parquet"
        with _staged(staging, name, plan.file_schema, plan.codec) as file:
            for batch in waiting[kind]:
                file.write(batch)
        written.append(
            (name, file.content, _newest(waiting["remove"]) if kind == "remove" else None)
        )
        waiting[kind], counts[kind] = [], 0
        made[kind] += 1

    for batch, _ in rows:
        kind = "add" if batch.column("add").null_count == 0 else "remove"
        at = 0
        while at < batch.num_rows:
            room = graded(plan.max_rows, made[kind]) - counts[kind]
            piece = batch.slice(at, room)
            waiting[kind].append(piece)
            counts[kind] += piece.num_rows
            at += piece.num_rows
            if piece.num_rows == room:
                close(kind)
    for kind in waiting:
        if counts[kind]:
            close(kind)

    def prove(entry: tuple[str, Content, int | None]) -> StagedFile:
        name, content, newest = entry
        return replace(proven(staging, name, content, plan), newest_deletion=newest)

    with ThreadPoolExecutor(WORKERS, thread_name_prefix="txlog-proof") as pool:
        yield from pool.map(prove, written)


def _newest(removes: Iterable[pa.RecordBatch]) -> int:
    times = (pc.max(batch.column("remove").field("deletionTimestamp")) for batch in removes)
    return max(time.as_py() or 0 for time in times)


def _lay_whole(
    rows: Iterator[Rows], few: Callable[[], Few], staging: Staging, plan: CheckpointPlan
) -> Laid:
    name = "0.parquet"
    with _staged(staging, name, plan.row_schema, plan.codec) as file:
        for _ in behind(lambda pair: file.write(*pair), rows):
            pass
        file.flush()  # what is asked for alone stands alone
        last = few()
        file.write(few_rows(last, plan))
    return Laid(Shape.CLASSIC, (proven(staging, name, file.content, plan, WORKERS),), last)


def _parts(whole: StagedFile, plan: CheckpointPlan) -> int:
    """Return how many parts the rows of a whole file are to have."""
    by_rows = -(-whole.rows // plan.max_rows) if plan.max_rows else 1
    by_size = -(-whole.size_bytes // plan.max_bytes) if plan.max_bytes else 1
    return max(by_rows, by_size, 2 if plan.shape is Shape.MULTI_PART else 1, plan.least_parts)


def _split(
    whole: StagedFile, parts: int, staging: Staging, plan: CheckpointPlan
) -> list[StagedFile]:
    """Write the rows of a proven file again as parts; what is not about files is in the first."""
    names = [f"part-{number}.parquet" for number in range(parts)]
    source = staging.directory.storage.open_input(staging.path(whole.name))
    with ExitStack() as stack:
        writers = [
            stack.enter_context(_staged(staging, name, plan.row_schema, plan.codec))
            for name in names
        ]
        parquet = stack.enter_context(pq.ParquetFile(source))
        for batch in parquet.iter_batches(max(1024, ROW_GROUP_ROWS // parts)):
            for number, piece in _by_part(batch, parts):
                writers[number].write(piece)
    refuse_other(staging.directory, plan.version, whole.content, total(w.content for w in writers))
    pairs = zip(names, writers, strict=True)
    return [proven(staging, name, writer.content, plan) for name, writer in pairs]


def _by_part(batch: pa.RecordBatch, parts: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    numbers = np.zeros(batch.num_rows, dtype=np.int64)
    for kind in ("add", "remove"):
        column = batch.column(kind)
        here = column.is_valid().to_numpy(zero_copy_only=False)
        if here.any():
            paths = column.filter(pa.array(here)).field("path")
            numbers[here] = part_numbers(paths, parts)
    for number in np.unique(numbers):
        yield int(number), batch.filter(pa.array(numbers == number))


def _lay_lines(
    rows: Iterator[Rows], few: Callable[[], Few], staging: Staging, plan: CheckpointPlan
) -> Laid:
    """Write JSON lines, in parts of up to `max_rows`; the last one written is the first part."""
    least = 2 if plan.shape is Shape.JSON_PARTS or plan.least_parts > 1 else 1
    files: list[StagedFile] = []
    waiting: list[pa.RecordBatch] = []

    def close() -> None:
        files.append(_write_lines(waiting, f"{len(files)}.json", staging, plan))
        waiting.clear()

    for batch, _ in rows:
        at = 0
        while at < batch.num_rows:
            if plan.max_rows and sum(map(len, waiting)) >= plan.max_rows:
                close()
            room = plan.max_rows - sum(map(len, waiting)) if plan.max_rows else batch.num_rows
            waiting.append(batch.slice(at, room))
            at += room
    last = few()
    others = few_rows(last, plan)
    if len(files) + 1 < least:
        if not waiting:  # no part may be empty
            waiting.append(others.slice(1))
            others = others.slice(0, 1)
        close()
    waiting.insert(0, others)
    close()
    shape = Shape.JSON_PARTS if len(files) > 1 else Shape.JSON
    return Laid(shape, tuple(files[::-1]), last)


def _write_lines(
    batches: Iterable[pa.RecordBatch], name: str, staging: Staging, plan: CheckpointPlan
) -> StagedFile:
    lines = [to_lines(batch) for batch in batches]
    text = "".join(f"{line}\n" for part in lines for line in part.to_pylist())
    encoded = encode(text.encode(), *plan.line_codec)
    with staging.directory.storage.open_output(staging.path(name)) as sink:
        sink.write(encoded.data)
    wanted = total(content_of(_columns(batch)) for batch in batches)
    return proven_lines(staging, name, wanted, plan)


def proven_lines(staging: Staging, name: str, wanted: Content, plan: CheckpointPlan) -> StagedFile:
    """Return a staged file of JSON lines, if it says what it should."""
    data = staging.directory.storage.read(staging.path(name))
    kind = FileKind.CHECKPOINT_JSON_PART
    ref = TransactionFileRef(plan.version, name, len(data), 0, kind, plan.version)
    try:
        batches = Parser(plan.log_format).parse([(ref, data)])
    except UnreadableLogFileError as error:
        url = staging.directory.url
        raise CheckpointValidationError(url, plan.version, error.reason) from None
    found = total(content_of(batch.columns) for batch in batches)
    refuse_other(staging.directory, plan.version, wanted, found)
    return StagedFile(name, len(data), wanted)


@contextmanager
def _staged(staging: Staging, name: str, schema: pa.Schema, codec: str) -> Iterator[Any]:
    with (
        staging.directory.storage.open_output(staging.path(name)) as sink,
        parquet_rows(sink, schema, codec) as writer,
    ):
        yield writer


def _columns(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def behind(work: Callable[[T], object], items: Iterator[T], ahead: int = 2) -> Iterator[T]:
    """Do the work on one thread, a few items behind; yield each item when it is done."""
    with ThreadPoolExecutor(1, thread_name_prefix="txlog-write") as pool:
        waiting: deque[tuple[T, Future[object]]] = deque()
        for item in items:
            waiting.append((item, pool.submit(work, item)))
            if len(waiting) > ahead:
                done, future = waiting.popleft()
                future.result()
                yield done
        for done, future in waiting:
            future.result()
            yield done
