"""Which sidecars of the last V2 checkpoint still hold? Only the others are written again.

A sidecar that holds none of the files that were added or removed since is named once more. What
it says was proven when it was written, and stands in its tags: the sum of all parts is the proof
of the whole. So the work follows what changed, not what is there.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.actions import files_schema, tombstones_schema
from engine.errors import CorruptCheckpointError
from engine.log.paths import SIDECARS, FileKind, TransactionFileRef
from engine.replay.checkpoints import read_checkpoint_file
from engine.replay.files import file_rows
from engine.replay.keys import canonical_paths, dv_ids, fingerprints
from engine.replay.keyset import KeySet
from engine.replay.local import refuse_headless, stream
from engine.replay.rules import FILE_KINDS, STATE_KEYS
from engine.replay.state import LocalState, Singles
from engine.snapshot import complete
from engine.upkeep.checkpoint.laying import WORKERS, Laid, Rows, sidecars
from engine.upkeep.checkpoint.manifest import NEWEST_TAG, ROWS_TAG, Sidecar
from engine.upkeep.checkpoint.rows import Few, content_of_rows, to_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np

    from engine.actions import ActionBatch
    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.log.segment import LogSegment
    from engine.replay.local import Won
    from engine.replay.state import State
    from engine.upkeep.checkpoint.shape import CheckpointPlan
    from engine.upkeep.publish import Staging

# A longer tail is not held here: its checkpoint is written whole, streaming or on Spark.
MOST_TAIL_BYTES: Final = 64 * 1024 * 1024

# More sidecars than these that are not half full are merged.
_MOST_SMALL: Final = 8


@dataclass(frozen=True, slots=True)
class Base:
    """The manifest of a V2 checkpoint that can be built upon."""

    batches: tuple[ActionBatch, ...]
    sidecars: tuple[Sidecar, ...]


def few_of(state: State) -> Few:
    """Return the actions of a state that are not about files."""
    assert state.protocol is not None
    assert state.metadata is not None
    return Few(
        state.protocol,
        state.metadata,
        state.txns.values(),
        state.domains.values(),
        state.skips.values(),
    )


def kept_sidecars(
    segment: LogSegment,
    directory: LogDirectory,
    config: Config,
    plan: CheckpointPlan,
    staging: Staging,
) -> tuple[Laid, tuple[Sidecar, ...], LocalState] | None:
    """Write what changed since the last checkpoint; return it, what is kept, and the state.

    None where the last checkpoint is nothing to build upon, or so much changed that all is better
    written anew. Raises CorruptCheckpointError where a sidecar is not what the manifest says.
    """
    tail_bytes = sum(ref.size for ref in segment.tail)
    base = base_of(segment, directory, plan) if tail_bytes <= MOST_TAIL_BYTES else None
    if base is None or tail_bytes > sum(s.size_bytes for s in base.sidecars):
        return None
    singles = Singles()
    won = list(stream(replace(segment, checkpoint=None), directory, config, singles))
    headed = Singles()
    for batch in base.batches:
        headed.take(batch)
        singles.take(batch)
    refuse_headless(headed, segment)
    _refuse_missing(base.sidecars, directory)
    touched = _keys(won, directory.table_url)

    def holds(sidecar: Sidecar) -> bool:
        return _holds(sidecar, touched, directory)

    there = [sidecar for sidecar in base.sidecars if not _is_over(sidecar, plan)]
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="txlog-sidecar") as pool:
        marks = list(pool.map(holds, there)) if won else [False] * len(there)
    kept = [sidecar for sidecar, mark in zip(there, marks, strict=True) if not mark]
    again = [sidecar for sidecar, mark in zip(there, marks, strict=True) if mark]
    small = [s for s in kept if (content := s.content()) and content.size < plan.max_rows // 2]
    if len(small) > _MOST_SMALL:
        again += small
        kept = [sidecar for sidecar in kept if sidecar not in small]
    rows = _rows(won, again, touched, directory, plan)
    files = tuple(sidecars(rows, staging, plan))
    empty = (
        files_schema(directory.log_format).empty_table(),
        tombstones_schema(directory.log_format).empty_table(),
    )
    state = complete(singles.state(*empty), segment, config)
    assert isinstance(state, LocalState)
    return Laid(plan.shape, files, few_of(state)), tuple(kept), state


def base_of(segment: LogSegment, directory: LogDirectory, plan: CheckpointPlan) -> Base | None:
    """Return the last checkpoint, if its sidecars hold rows as this plan would write them."""
    checkpoint = segment.checkpoint
    if checkpoint is None or checkpoint.kind is not FileKind.CHECKPOINT_V2:
        return None
    wanted = (*FILE_KINDS, *STATE_KEYS, "sidecar")
    batches = tuple(read_checkpoint_file(directory, checkpoint.files[0], wanted=wanted))
    named = [
        Sidecar(
            found["path"],
            found.get("sizeInBytes") or 0,
            found.get("modificationTime") or 0,
            dict(found.get("tags") or {}),
        )
        for batch in batches
        for found in _set(batch, "sidecar")
    ]
    inline = any(_set(batch, kind) for batch in batches for kind in FILE_KINDS)
    if inline or not named or any(s.tags.get(ROWS_TAG) != plan.rows_key for s in named):
        return None
    return Base(batches, tuple(named))


def _set(batch: ActionBatch, kind: str) -> list[dict[str, Any]]:
    column = batch.columns.get(kind)
    if column is None or column.null_count == len(column):
        return []
    found: list[dict[str, Any]] = column.filter(column.is_valid()).to_pylist()
    return found


def _refuse_missing(named: Sequence[Sidecar], directory: LogDirectory) -> None:
    sizes = {f.name: f.size for f in directory.storage.list_from(directory.file(SIDECARS))}
    for sidecar in named:
        if sizes.get(sidecar.path) != sidecar.size_bytes:
            reason = f"{sidecar.path} has {sizes.get(sidecar.path)} bytes, not {sidecar.size_bytes}"
            raise CorruptCheckpointError(f"{SIDECARS}/{sidecar.path}", reason)


def _keys(won: Sequence[Won], root: str) -> KeySet:
    """Return the keys of the files that were added or removed."""
    seen = KeySet()
    for found in won:
        seen.add(*_fingerprints(found.actions, root))
    return seen


def _fingerprints(actions: pa.StructArray, root: str) -> tuple[np.ndarray, np.ndarray]:
    paths = canonical_paths(actions.field("path"), root)
    has_vectors = actions.type.get_field_index("deletionVector") >= 0
    return fingerprints(paths, dv_ids(actions.field("deletionVector")) if has_vectors else None)


def _holds(sidecar: Sidecar, touched: KeySet, directory: LogDirectory) -> bool:
    """Tell whether a sidecar holds one of these files, by its paths and vectors alone."""
    return any(
        touched.contains(part.first, part.second).any()
        for batch in read_checkpoint_file(directory, _ref(sidecar), wanted=FILE_KINDS, fields=())
        for part in file_rows(batch, directory.table_url)
    )


def _is_over(sidecar: Sidecar, plan: CheckpointPlan) -> bool:
    """Tell whether a sidecar holds nothing but tombstones whose time is over."""
    newest = sidecar.tags.get(NEWEST_TAG)
    return newest is not None and int(newest) <= plan.tombstone_cutoff_ms


def _rows(
    won: Sequence[Won],
    again: Sequence[Sidecar],
    touched: KeySet,
    directory: LogDirectory,
    plan: CheckpointPlan,
) -> Iterator[Rows]:
    for found in won:
        rows = to_rows(found.kind, found.actions, plan)
        if rows.num_rows:
            yield rows, content_of_rows(rows)
    for sidecar in again:
        for rows in _untouched(sidecar, touched, directory, plan):
            yield rows, content_of_rows(rows)


def _untouched(
    sidecar: Sidecar, touched: KeySet, directory: LogDirectory, plan: CheckpointPlan
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a sidecar that still count, one kind at a time."""
    ref = _ref(sidecar)
    try:
        source = directory.storage.open_input(directory.file(ref.path), sidecar.size_bytes)
        with pq.ParquetFile(source, page_checksum_verification=True) as parquet:
            for batch in parquet.iter_batches(plan.max_rows):
                found = batch.cast(plan.file_schema)
                for kind in FILE_KINDS:
                    here = found.filter(found.column(kind).is_valid())
                    if here.num_rows:
                        yield _kept(here, kind, touched, directory, plan)
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CorruptCheckpointError(ref.path, f"unreadable Parquet: {reason}") from None


def _kept(
    rows: pa.RecordBatch,
    kind: str,
    touched: KeySet,
    directory: LogDirectory,
    plan: CheckpointPlan,
) -> pa.RecordBatch:
    gone = touched.contains(*_fingerprints(rows.column(kind), directory.table_url))
    rows = rows.filter(pa.array(~gone))
    if kind == "remove":
        times = pc.fill_null(rows.column(kind).field("deletionTimestamp"), 0)
        rows = rows.filter(pc.greater(times, plan.tombstone_cutoff_ms))
    return rows


def _ref(sidecar: Sidecar) -> TransactionFileRef:
    return TransactionFileRef(
        version=0,
        path=f"{SIDECARS}/{sidecar.path}",
        size=sidecar.size_bytes,
        modification_time=sidecar.modification_time,
        kind=FileKind.SIDECAR,
        start_version=0,
    )
