"""What do actions say, whatever their order? A count and a sum of hashes for each kind.

Two sets of actions with the same content are the same actions: a row that is missing, doubled or
changed in any field shows, but for one chance in 2^64. A field that is null and one that is not
there are the same, as everywhere in a log. The sums of parts add up to the sum of the whole, so
executors can each tell theirs.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from engine.replay.hashing import hash_strings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

_SEED: Final = np.uint64(0x9E3779B97F4A7C15)
_MODULUS: Final = 1 << 64


@dataclass(frozen=True, slots=True)
class Content:
    """How many actions of each kind, and the sum of their hashes. Kinds that do not occur are out.

    Parts are joined with `+`; equal contents are `==`.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    sums: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Content) -> Content:
        names = {*self.counts, *other.counts}
        return Content(
            {name: self.counts.get(name, 0) + other.counts.get(name, 0) for name in names},
            {name: (self.sums.get(name, 0) + other.sums.get(name, 0)) % _MODULUS for name in names},
        )

    @property
    def size(self) -> int:
        """The number of actions."""
        return sum(self.counts.values())

    def of(self, kinds: Collection[str]) -> Content:
        """Return the part that these kinds make."""
        return Content(
            {name: count for name, count in self.counts.items() if name in kinds},
            {name: total for name, total in self.sums.items() if name in kinds},
        )

    def differences(self, other: Content) -> list[str]:
        """Return what `other` has otherwise, kind by kind, in words; empty where all is the same.

        This is what there should be, `other` what was found.
        """
        told = []
        for name in sorted({*self.counts, *other.counts}):
            wanted, found = self.counts.get(name, 0), other.counts.get(name, 0)
            if wanted != found:
                told.append(f"{name}: {found:,} of {wanted:,} actions")
            elif self.sums.get(name) != other.sums.get(name):
                told.append(f"{name}: {found:,} actions, not all of them the same")
        return told


def content_of(columns: Mapping[str, pa.Array]) -> Content:
    """Return the content of a batch: one column a kind, null where a row is of another kind."""
    counts, sums = {}, {}
    for kind, column in columns.items():
        count = len(column) - column.null_count
        if count:
            counts[kind] = count
            sums[kind] = int(hashes(column).sum(dtype=np.uint64))
    return Content(counts, sums)


def total(contents: Iterable[Content]) -> Content:
    """Return the sum of contents."""
    return sum(contents, Content())


def hashes(array: pa.Array) -> np.ndarray:
    """Return a 64-bit hash of every value; 0 for null."""
    found = _spread(_raw(array))
    if array.null_count:
        found[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return found


def _raw(array: pa.Array) -> np.ndarray:
    kind = array.type
    if pt.is_struct(kind):
        return _structs(array)
    if pt.is_map(kind):
        pairs = _sliced(array, array.keys), _sliced(array, array.items)
        return _sums(array, _spread(hashes(pairs[0]) * _SEED + hashes(pairs[1])))
    if pt.is_list(kind):
        return _lists(array)
    if pt.is_string(kind) or pt.is_binary(kind):
        return hash_strings(array, _SEED)
    if pt.is_large_string(kind) or pt.is_dictionary(kind) or pt.is_decimal(kind):
        return hash_strings(array.cast(pa.string()), _SEED)
    if pt.is_null(kind):
        return np.zeros(len(array), dtype=np.uint64)
    values: np.ndarray = _numbers(array).fill_null(0).to_numpy(zero_copy_only=False)
    return values.view(np.uint64)


def _numbers(array: pa.Array) -> pa.Array:
    """Return numbers, flags, dates and moments as 64 bits each."""
    kind = array.type
    if pt.is_floating(kind):
        return array.cast(pa.float64())
    if pt.is_boolean(kind) or pt.is_date32(kind):
        return array.cast(pa.int8() if pt.is_boolean(kind) else pa.int32()).cast(pa.int64())
    return array.cast(pa.int64())


def _structs(array: pa.StructArray) -> np.ndarray:
    found = np.zeros(len(array), dtype=np.uint64)
    for index, member in enumerate(array.type):
        child = array.field(index)
        if child.null_count == len(child):
            continue
        part = _spread(hashes(child) ^ _name(member.name))
        if child.null_count:
            part[child.is_null().to_numpy(zero_copy_only=False)] = 0
        found += part
    return found


def _lists(array: pa.ListArray) -> np.ndarray:
    starts, ends = _bounds(array)
    inside = np.arange(len(_sliced(array, array.values)), dtype=np.int64)
    places = inside - np.repeat(starts, ends - starts) if len(inside) else inside
    return _sums(array, _spread(hashes(_sliced(array, array.values)) + _spread(places)))


def _sums(array: Any, parts: np.ndarray) -> np.ndarray:
    """Return what the members of each list or map add up to; not 0 for an empty one."""
    starts, ends = _bounds(array)
    running = np.zeros(len(parts) + 1, dtype=np.uint64)
    np.cumsum(parts, out=running[1:])
    summed: np.ndarray = running[ends] - running[starts] + _SEED
    return summed


def _bounds(array: Any) -> tuple[np.ndarray, np.ndarray]:
    offsets = array.offsets.to_numpy().astype(np.int64)
    offsets = offsets - offsets[0]
    return offsets[:-1], offsets[1:]


def _sliced(array: Any, members: pa.Array) -> pa.Array:
    """Return the members that this slice of an array holds."""
    offsets = array.offsets
    return members.slice(offsets[0].as_py(), offsets[-1].as_py() - offsets[0].as_py())


def _spread(values: np.ndarray) -> np.ndarray:
    """Return numbers of which every bit depends on every bit of the given ones."""
    mixed = values.astype(np.uint64) + _SEED
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    spread: np.ndarray = mixed ^ (mixed >> np.uint64(31))
    return spread


@cache
def _name(name: str) -> np.uint64:
    digest = hashlib.md5(name.encode(), usedforsecurity=False).digest()
    return np.uint64(int.from_bytes(digest[:8], "little"))
