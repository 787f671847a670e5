"""From the state of one version to that of a later one: only the commits between are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.config import MAX_DECOMPRESSED_BYTES
from engine.replay.checkpoints import ALL_KINDS
from engine.replay.files import FileReconciler, file_rows
from engine.replay.keys import canonical_paths, may_be_absolute
from engine.replay.parse import Parser
from engine.replay.rules import STATE_KEYS
from engine.replay.state import LocalState, Singles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.log.paths import TransactionFileRef

# Every appended commit is a chunk of its own; more than so many small ones are merged.
_MANY_CHUNKS: Final = 128
_SMALL_ROWS: Final = 4096
_BEFORE: Final = (-1, 0)


def advance(
    state: LocalState,
    commits: Sequence[tuple[TransactionFileRef, bytes]],
    directory: LogDirectory,
    config: Config,
) -> LocalState:
    """Return the state after `commits`, which directly follow it, oldest first.

    The given state is left as it is, and what did not change is shared with it. Raises
    UnreadableLogFileError where a commit is not sound.
    """
    parser = Parser(directory.log_format, config[MAX_DECOMPRESSED_BYTES], wanted=ALL_KINDS)
    batches = parser.parse(commits)
    newer, singles = FileReconciler(directory.log_format), singles_of(state)
    newer.take([rows for batch in batches for rows in file_rows(batch, directory.table_url)])
    for batch in batches:
        singles.take(batch)
    files, tombstones = newer.files(), newer.tombstones()
    touched = _Touched([files, tombstones], directory.table_url)
    return singles.state(
        _joined(touched.dropped_from(state.files), files),
        _joined(touched.dropped_from(state.tombstones), tombstones),
        has_repeats=state.has_repeats,
    )


def singles_of(state: LocalState) -> Singles:
    """Return the kinds that are few as a reconciliation that later commits can be entered into."""
    singles = Singles()
    for kind, found in (("protocol", state.protocol), ("metaData", state.metadata)):
        if found is not None:
            singles.enter(kind, _BEFORE, found)
    keyed = {"txn": state.txns, "domainMetadata": state.domains, "mergeskip": state.skips}
    assert {*keyed, "protocol", "metaData"} == set(STATE_KEYS)
    for kind, winners in keyed.items():
        for winner in winners.values():
            singles.enter(kind, _BEFORE, winner)
    return singles


class _Touched:
    """The file keys that newer commits speak of."""

    def __init__(self, tables: Sequence[pa.Table], root: str) -> None:
        self._root = root
        joined = pa.concat_tables([table.select(["path", "dvId"]) for table in tables])
        paths = self._canonical(joined["path"])
        self._paths, self._keys = paths.combine_chunks(), _keys(paths, joined["dvId"])

    def dropped_from(self, table: pa.Table) -> pa.Table:
        """Return `table` without the rows whose key was touched."""
        if not len(self._paths) or not table.num_rows:
            return table
        paths = table["path"]
        same = pc.is_in(paths, value_set=self._paths)
        maybe = pc.or_(same, may_be_absolute(paths, self._root))
        if not pc.any(maybe).as_py():
            return table
        # The path alone does not decide: a new deletion vector is another key.
        rows = np.flatnonzero(maybe.combine_chunks().to_numpy(zero_copy_only=False))
        ids = table["dvId"].take(pa.array(rows))
        found = _keys(self._canonical(paths.take(pa.array(rows))), ids)
        stale = pc.is_in(found, value_set=self._keys).to_numpy(zero_copy_only=False)
        if not stale.any():
            return table
        keep = np.ones(table.num_rows, dtype=bool)
        keep[rows[stale]] = False
        return table.filter(pa.array(keep))

    def _canonical(self, paths: pa.ChunkedArray) -> pa.ChunkedArray:
        chunks = [canonical_paths(chunk, self._root) for chunk in paths.chunks]
        return pa.chunked_array(chunks, pa.string())


def _keys(paths: pa.ChunkedArray, ids: pa.ChunkedArray) -> pa.Array:
    return pc.binary_join_element_wise(
        paths.combine_chunks(), pc.fill_null(ids.combine_chunks(), ""), "\t"
    )


def _joined(older: pa.Table, newer: pa.Table) -> pa.Table:
    if not newer.num_rows:
        return older
    if not older.num_rows:
        return newer
    table = pa.concat_tables([older, newer])
    chunks = table.column(0).chunks
    if len(chunks) <= _MANY_CHUNKS:
        return table
    small = 0
    for chunk in reversed(chunks):
        if len(chunk) >= _SMALL_ROWS:
            break
        small += len(chunk)
    large = table.num_rows - small
    return pa.concat_tables([table.slice(0, large), table.slice(large).combine_chunks()])
