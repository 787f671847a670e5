"""What of a file action must every copy of it keep? Its key, and the fields that change answers.

A checkpoint may rightly drop or rewrite the rest: statistics, tags, dataChange. An empty partition
value and a null one are the same, and so are a null field and one that is not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.actions import DELETION_VECTOR, conform
from engine.replay.content import hashes
from engine.replay.files import FileRows, file_rows
from engine.replay.keys import SEEDS, canonical_paths, dv_ids, fingerprints

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.actions import ActionBatch
    from engine.replay.keys import Seeds

# Beside the key.
SURVIVING: Final = {
    "add": (
        "size",
        "modificationTime",
        "partitionValues",
        "baseRowId",
        "defaultRowCommitVersion",
        "clusteringProvider",
    ),
    "remove": ("deletionTimestamp",),
}
_VECTOR: Final = ("sizeInBytes", "cardinality")


@dataclass(frozen=True, slots=True)
class Entries:
    """File actions as numbers, a row each, ordered by (version, ordinal).

    `first` and `second` are the key, `file` the path alone; `content` is what must survive.
    `size` is that of an add; of a remove it is its deletionTimestamp.
    """

    first: np.ndarray
    second: np.ndarray
    file: np.ndarray
    content: np.ndarray
    size: np.ndarray
    is_add: np.ndarray
    has_vector: np.ndarray
    versions: np.ndarray
    ordinals: np.ndarray

    def __len__(self) -> int:
        return len(self.first)

    def select(self, keep: np.ndarray) -> Entries:
        """Return the rows that a mask or indices choose."""
        return Entries(*(getattr(self, name)[keep] for name in self.__slots__))


def entries(batches: Iterable[ActionBatch], root: str, seeds: Seeds = SEEDS) -> Entries:
    """Return the file actions of batches. Pure: fit for any thread.

    Under the same seeds, equal keys are equal numbers in every process.
    """
    parts = [
        _entries(rows, root, seeds) for batch in batches for rows in file_rows(batch, root, seeds)
    ]
    joined = joined_entries(parts)
    step = np.diff(joined.versions)
    if ((step > 0) | ((step == 0) & (np.diff(joined.ordinals) >= 0))).all():
        return joined
    return joined.select(np.lexsort((joined.ordinals, joined.versions)))


def joined_entries(parts: Sequence[Entries]) -> Entries:
    """Return entries one after the other."""
    if len(parts) == 1:
        return parts[0]
    kinds = {"size": np.int64, "versions": np.int64, "ordinals": np.int64}
    flags = {"is_add", "has_vector"}
    columns = []
    for name in Entries.__slots__:
        empty = np.empty(0, dtype=bool if name in flags else kinds.get(name, np.uint64))
        columns.append(np.concatenate([getattr(part, name) for part in parts] or [empty]))
    return Entries(*columns)


def contents(actions: pa.StructArray, kind: str) -> np.ndarray:
    """Return a hash of what must survive of each action; the same in every process."""
    have = {member.name for member in actions.type}
    columns, names = [], []
    for name in SURVIVING[kind]:
        if name not in have:
            continue
        column = pc.struct_field(actions, name)
        if name == "partitionValues":
            column = _without_empty(column)
        elif name == "deletionTimestamp":
            column = pc.if_else(pc.equal(column, 0), pa.scalar(None, column.type), column)
        columns.append(column)
        names.append(name)
    if kind == "add" and "deletionVector" in have:
        vector = conform(pc.struct_field(actions, "deletionVector"), DELETION_VECTOR)
        is_there = pc.fill_null(
            pc.not_equal(pc.struct_field(vector, "storageType"), ""),
            False,  # noqa: FBT003
        )
        for name in _VECTOR:
            value = pc.struct_field(vector, name)
            columns.append(pc.if_else(is_there, value, pa.scalar(None, value.type)))
            names.append(name)
    if not columns:
        columns, names = [pa.nulls(len(actions), pa.int64())], ["none"]
    return hashes(pa.StructArray.from_arrays(columns, names))


def _entries(rows: FileRows, root: str, seeds: Seeds) -> Entries:
    kind = rows.kind
    actions = rows.column
    if len(rows.rows) != len(actions):
        actions = actions.filter(actions.is_valid())
    count = len(rows.rows)
    have = {member.name for member in actions.type}
    file, has_vector = rows.first, np.zeros(count, dtype=bool)
    if "deletionVector" in have:
        ids = dv_ids(pc.struct_field(actions, "deletionVector"))
        has_vector = ids.is_valid().to_numpy(zero_copy_only=False)
        if has_vector.any():
            file = fingerprints(canonical_paths(actions.field("path"), root), None, seeds)[0]
    size = np.zeros(count, dtype=np.int64)
    amount = "size" if kind == "add" else "deletionTimestamp"
    if amount in have:
        size = pc.fill_null(pc.struct_field(actions, amount), 0).to_numpy(zero_copy_only=False)
    return Entries(
        first=rows.first,
        second=rows.second,
        file=file,
        content=contents(actions, kind),
        size=size,
        is_add=np.full(count, kind == "add"),
        has_vector=has_vector,
        versions=rows.versions,
        ordinals=rows.ordinals,
    )


def _without_empty(maps: pa.MapArray) -> pa.MapArray:
    """Return partition values with null in the place of empty text, as readers take it."""
    if not pc.any(pc.equal(maps.items, "")).as_py():
        return maps
    items = pc.if_else(pc.equal(maps.items, ""), pa.scalar(None, pa.string()), maps.items)
    offsets = pa.array(maps.offsets.to_numpy())  # Arrow takes no mask beside a slice of offsets
    return pa.MapArray.from_arrays(offsets, maps.keys, items, mask=maps.is_null())
