"""Reconciles adds and removes in process: the newest action of each file key, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.actions import (
    ActionBatch,
    conform,
    files_schema,
    kinds,
    nulls,
    tombstones_schema,
)
from engine.replay.keys import SEEDS, Seeds, canonical_paths, dv_ids, fingerprints
from engine.replay.keyset import KeySet
from engine.replay.rules import FILE_KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.formats import LogFormat


@dataclass(frozen=True, slots=True)
class FileRows:
    """The actions of one kind in a batch, and what they are compared by.

    `rows` says where in `column` they stand; the other arrays have one entry for each of them.
    """

    kind: str
    column: pa.StructArray
    rows: np.ndarray
    first: np.ndarray
    second: np.ndarray
    versions: np.ndarray
    ordinals: np.ndarray

    def select(self, keep: np.ndarray) -> pa.StructArray:
        """Return the actions that `keep` marks."""
        if len(self.rows) == len(self.column) and keep.all():
            return self.column
        mask = np.zeros(len(self.column), dtype=bool)
        mask[self.rows[keep]] = True
        return self.column.filter(pa.array(mask))


def file_rows(batch: ActionBatch, root: str, seeds: Seeds = SEEDS) -> list[FileRows]:
    """Return the file actions of a batch with their keys. Pure: fit for any thread."""
    found = []
    for kind in FILE_KINDS:
        column = batch.columns.get(kind)
        if column is None or column.null_count == len(column):
            continue
        here = column.is_valid().to_numpy(zero_copy_only=False)
        paths = canonical_paths(column.field("path"), root)
        has_vectors = column.type.get_field_index("deletionVector") >= 0
        ids = dv_ids(pc.struct_field(column, "deletionVector")) if has_vectors else None
        first, second = fingerprints(paths, ids, seeds)
        versions, ordinals = batch.version.to_numpy(), batch.ordinal.to_numpy()
        arrays = (first, second, versions, ordinals)
        if not here.all():
            arrays = tuple(array[here] for array in arrays)
        found.append(FileRows(kind, column, np.flatnonzero(here), *arrays))
    return found


_Keys = tuple[np.ndarray, np.ndarray]


class FileReconciler:
    """Takes runs of file actions, the newest run first, then the checkpoint; keeps the winners."""

    def __init__(self, log_format: LogFormat) -> None:
        self._format = log_format
        self._seen = KeySet()
        self._oldest: int | None = None
        self._tail: dict[str, list[pa.StructArray]] = {kind: [] for kind in FILE_KINDS}
        self._base: dict[str, list[pa.StructArray]] = {kind: [] for kind in FILE_KINDS}
        self._base_keys: dict[str, list[_Keys]] = {kind: [] for kind in FILE_KINDS}

    def take(self, run: Sequence[FileRows]) -> None:
        """Enter one run: all of it newer than every later run, in any order within."""
        if not run:
            return
        versions = _joined(run, "versions")
        assert self._oldest is None or int(versions.max()) < self._oldest, "runs come newest first"
        self._oldest = int(versions.min())
        for part, keep in zip(run, newest_of_run(run, self._seen), strict=True):
            if keep.any():
                self._tail[part.kind].append(part.select(keep))

    def take_checkpoint(self, run: Sequence[FileRows]) -> None:
        """Enter rows of the checkpoint, after every run; they lose against any of them."""
        for part in run:
            keep = ~self._seen.contains(part.first, part.second)
            if keep.any():
                self._base[part.kind].append(part.select(keep))
                self._base_keys[part.kind].append((part.first[keep], part.second[keep]))

    def settle_checkpoint(self) -> bool:
        """Keep one action of each key of the checkpoint, all of whose rows are in.

        Returns whether any key was there twice.

        A sound checkpoint holds a key once, and this is a look at it. Some writers leave a remove
        beside an add, which counts; of two adds, the first does.
        """
        keys = [entry for kind in FILE_KINDS for entry in self._base_keys[kind]]
        self._base_keys = {kind: [] for kind in FILE_KINDS}
        first = np.concatenate([entry[0] for entry in keys] or [np.empty(0, dtype=np.uint64)])
        ordered = np.sort(first)
        if not (ordered[1:] == ordered[:-1]).any():
            return False
        second = np.concatenate([entry[1] for entry in keys])
        keep = newest(first, second, np.zeros(len(first)), np.arange(len(first))[::-1])
        masks = iter(np.split(keep, np.cumsum([len(entry[0]) for entry in keys])[:-1]))
        for kind in FILE_KINDS:
            self._base[kind] = [rows.filter(pa.array(next(masks))) for rows in self._base[kind]]
        return not bool(keep.all())

    def files(self) -> pa.Table:
        """Return the live files, oldest first."""
        return self._table("add", files_schema(self._format))

    def tombstones(self) -> pa.Table:
        """Return the tombstones, oldest first."""
        return self._table("remove", tombstones_schema(self._format))

    def _table(self, kind: str, schema: pa.Schema) -> pa.Table:
        struct = kinds(self._format)[kind]
        at = struct.get_field_index("deletionVector")
        batches = []
        for actions in self._base[kind] + self._tail[kind][::-1]:
            whole = conform(actions, struct)
            no_vectors = at < 0 or actions.type.get_field_index("deletionVector") < 0
            ids = nulls(len(whole), pa.string()) if no_vectors else dv_ids(whole.field(at))
            columns = [whole.field(i) for i in range(struct.num_fields)]
            batches.append(pa.RecordBatch.from_arrays([*columns, ids], schema=schema))
        return pa.Table.from_batches(batches, schema)


def newest_of_run(run: Sequence[FileRows], seen: KeySet) -> list[np.ndarray]:
    """Return which rows of each part win: the newest of the run whose key was not seen before."""
    if not run:
        return []
    first, second = _joined(run, "first"), _joined(run, "second")
    keep = newest(first, second, _joined(run, "versions"), _joined(run, "ordinals"))
    keep[keep] = seen.add(first[keep], second[keep])
    return np.split(keep, np.cumsum([len(part.rows) for part in run])[:-1])


def first_of_keys(part: FileRows, seen: KeySet) -> np.ndarray:
    """Return which rows of a part are the first of their key, if it was not seen before."""
    count = len(part.rows)
    keep = newest(part.first, part.second, np.zeros(count), np.arange(count)[::-1])
    keep[keep] = seen.add(part.first[keep], part.second[keep])
    return keep


def newest(
    first: np.ndarray, second: np.ndarray, versions: np.ndarray, ordinals: np.ndarray
) -> np.ndarray:
    """Return which rows are the newest of their key, a key being a pair of hashes."""
    keep = np.ones(len(first), dtype=bool)
    rows = _shared(first)
    if len(rows):
        arrays = (array[rows] for array in (first, second, versions, ordinals))
        keep[rows] = _newest_of_shared(*arrays)
    return keep


def _shared(first: np.ndarray) -> np.ndarray:
    """Return the rows that may share their key with another. Most never do; sorting tells."""
    ordered = np.sort(first)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(twice):
        return np.empty(0, dtype=np.int64)
    at = np.searchsorted(twice, first)
    return np.flatnonzero(twice[np.minimum(at, len(twice) - 1)] == first)


def _newest_of_shared(
    first: np.ndarray, second: np.ndarray, versions: np.ndarray, ordinals: np.ndarray
) -> np.ndarray:
    count = len(first)
    order = _ascending(versions, ordinals)
    if order is not None:
        first, second = first[order], second[order]
    codes = pc.dictionary_encode(pa.array(first)).indices.to_numpy()
    last = _last(codes)
    if not (second == second[last[codes]]).all():
        # Two keys share half of their fingerprint: compare whole ones.
        _, codes = np.unique(np.stack([first, second], axis=1), axis=0, return_inverse=True)
        last = _last(codes.ravel())
    keep = np.zeros(count, dtype=bool)
    keep[last if order is None else order[last]] = True
    return keep


def _last(codes: np.ndarray) -> np.ndarray:
    """Return the last row of each code: of several assignments to one place the last stands."""
    last = np.empty(int(codes.max()) + 1, dtype=np.int64)
    last[codes] = np.arange(len(codes))
    return last


def _ascending(versions: np.ndarray, ordinals: np.ndarray) -> np.ndarray | None:
    """Return the order that sorts by (version, ordinal), or None when the rows are in it."""
    step = np.diff(versions)
    if ((step > 0) | ((step == 0) & (np.diff(ordinals) >= 0))).all():
        return None
    return np.lexsort((ordinals, versions))


def _joined(run: Sequence[FileRows], name: str) -> np.ndarray:
    arrays = [getattr(part, name) for part in run]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
