"""How long may a minimum or a maximum be? Long ones are cut, and still tell what a file may hold.

A cut maximum is not rounded up: it is less than what it was cut from. `may_hold` knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from engine.actions import STRING_MAP

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_BOUNDS: Final = ("minValues", "maxValues")
_TEXT: Final = frozenset({"string", "binary"})


def uncut_columns(metadata: Mapping[str, Any]) -> frozenset[str]:
    """Return the columns of a table whose bounds stay whole.

    Those are the partition columns, and all that is not text: a number cut short is another
    number.
    """
    fields = orjson.loads(metadata.get("schemaString") or "{}").get("fields") or ()
    typed = {field["name"] for field in fields if field.get("type") not in _TEXT}
    return frozenset({*(metadata.get("partitionColumns") or ()), *typed})


def truncate_statistics(
    adds: pa.StructArray, uncut: Collection[str], max_length: int
) -> pa.StructArray:
    """Return add actions whose `minValues` and `maxValues` have at most `max_length` characters.

    A value of which nothing is left is dropped. The columns named in `uncut` stay as they are,
    and so does every other field; a format without these fields has nothing to cut.
    """
    fields = list(adds.type)
    children = [pc.struct_field(adds, [index]) for index in range(len(fields))]
    for index, field in enumerate(fields):
        if field.name in _BOUNDS:
            children[index] = _cut(children[index], uncut, max_length)
    mask = adds.is_null() if adds.null_count else None
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def may_hold(files: pa.Table, column: str, value: str) -> pa.ChunkedArray:
    """Return which files may hold `value` in a column of text, by their bounds, cut or not.

    A file that does not tell its bounds may hold anything.
    """
    low, high = (pc.map_lookup(files[name], pa.scalar(column), "first") for name in _BOUNDS)
    # A maximum that the value begins with may have been cut from something greater.
    beginnings = pa.array([value[:end] for end in range(len(value) + 1)], pa.string())
    reaches = pc.or_(pc.greater_equal(high, value), pc.is_in(high, value_set=beginnings))
    starts = pc.less_equal(low, value)
    return pc.and_(pc.fill_null(starts, fill_value=True), pc.fill_null(reaches, fill_value=True))


def _cut(maps: pa.MapArray, uncut: Collection[str], max_length: int) -> pa.MapArray:
    # A slice shares its children with the whole array: only its own part is worth the work.
    first, last = maps.offsets[0].as_py(), maps.offsets[-1].as_py()
    keys, items = maps.keys.slice(first, last - first), maps.items.slice(first, last - first)
    whole = pc.is_in(keys, value_set=pa.array(sorted(uncut), pa.string()))
    short = pc.if_else(whole, items, pc.utf8_slice_codeunits(items, 0, max_length))
    keep = pc.or_(whole, pc.fill_null(pc.not_equal(short, ""), fill_value=True))
    kept = np.concatenate(([0], np.cumsum(keep.to_numpy(zero_copy_only=False))))
    offsets = kept[maps.offsets.to_numpy() - first]
    absent = np.append(maps.is_null().to_numpy(zero_copy_only=False), False)
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32(), mask=absent), keys.filter(keep), short.filter(keep)
    ).cast(STRING_MAP)
