"""The plain sequential replay: one action after the other, one dict. Slow, and the truth.

For debugging (`--engine reference`) and for the tests, which hold the other engines against it.
It shares the names of files and the reading of one line with them, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from engine.actions import files_schema, kinds, tombstones_schema
from engine.config import MAX_DECOMPRESSED_BYTES, Config
from engine.errors import UnreadableLogFileError
from engine.replay.checkpoints import read_checkpoint
from engine.replay.compression import decode
from engine.replay.keys import canonical_path, dv_id
from engine.replay.lines import read_lines
from engine.replay.local import refuse_headless
from engine.replay.rules import FILE_KINDS, STATE_KEYS
from engine.replay.state import Singles, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.log.listing import LogDirectory
    from engine.log.paths import TransactionFileRef
    from engine.log.segment import LogSegment

Action = tuple[str, dict[str, Any]]


def replay(
    segment: LogSegment,
    directory: LogDirectory,
    config: Config,
    progress: Callable[[int], None] | None = None,
) -> State:
    """Return the reconciled state of a segment, the slow way."""
    live: dict[tuple[str, str | None], dict[str, Any]] = {}
    dead: dict[tuple[str, str | None], dict[str, Any]] = {}
    singles = Singles()
    place = 0
    for ref, actions in _files(segment, directory, config):
        base = Singles()
        for kind, value in actions:
            place += 1
            if kind in FILE_KINDS:
                key = _key(value, directory.table_url)
                # A sound checkpoint holds a key once. In another an add counts, and the first.
                if ref.kind.is_checkpoint and (key in live or (kind == "remove" and key in dead)):
                    continue
                live.pop(key, None)
                dead.pop(key, None)
                (live if kind == "add" else dead)[key] = value
            elif kind in STATE_KEYS:
                singles.enter(kind, (0, place), value)
                base.enter(kind, (0, place), value)
        if ref.kind.is_checkpoint:
            refuse_headless(base, segment)
        if progress:
            progress(ref.size)
    log_format = directory.log_format
    return singles.state(
        _table(live, files_schema(log_format)), _table(dead, tombstones_schema(log_format))
    )


def _files(
    segment: LogSegment, directory: LogDirectory, config: Config
) -> Iterator[tuple[TransactionFileRef, Iterator[Action]]]:
    limit = config[MAX_DECOMPRESSED_BYTES]
    if segment.checkpoint:
        yield segment.checkpoint.files[0], _checkpoint(segment, directory, limit)
    for ref in segment.tail:
        yield ref, _file(ref, directory, limit)


def _checkpoint(segment: LogSegment, directory: LogDirectory, limit: int) -> Iterator[Action]:
    assert segment.checkpoint is not None
    for batch in read_checkpoint(directory, segment.checkpoint, limit_bytes=limit):
        for kind, column in batch.columns.items():
            for value in column.to_pylist(maps_as_pydicts="lossy"):
                if value is not None and kind in kinds(directory.log_format):
                    yield kind, value


def _file(ref: TransactionFileRef, directory: LogDirectory, limit: int) -> Iterator[Action]:
    data = directory.storage.read(directory.file(ref.path))
    if not ref.is_json:
        try:
            rows = pq.read_table(pa.BufferReader(data)).to_pylist(maps_as_pydicts="lossy")
        except (pa.ArrowException, OSError, ValueError) as error:
            raise UnreadableLogFileError(ref.path, f"unreadable Parquet: {error!s:.200}") from None
        for row in rows:
            yield from ((kind, value) for kind, value in row.items() if value is not None)
        return
    if directory.log_format.compressed_commits:
        data = decode(data, ref.path, limit)
    for action in read_lines(data, ref, kinds(directory.log_format)):
        value = action.value
        yield action.kind, orjson.loads(value) if isinstance(value, str) else value


def _key(value: dict[str, Any], root: str) -> tuple[str, str | None]:
    return canonical_path(value["path"], root), dv_id(value.get("deletionVector"))


def _table(actions: dict[tuple[str, str | None], dict[str, Any]], schema: pa.Schema) -> pa.Table:
    rows = [{**value, "dvId": vector} for (_, vector), value in actions.items()]
    return pa.Table.from_pylist(rows, schema)
