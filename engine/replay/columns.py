"""Many JSON lines -> columns at once, for the lines every engine writes.

Arrow's JSON reader is given the fields seen so far and asked to report any other. New fields that
we know, and new keys of maps, are learned with their right type and the bytes are read again; so
no value is ever typed by guessing, and a field that no file uses costs nothing.

Whatever is not plain (a line of another shape, a null partition value, damage) is handed back, to
be read by `lines`, which is exact and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.types as pt

from engine.actions import PARSED_STATS, REQUIRED, ActionBatch
from engine.replay.plain import NotPlainError, refuse_not_finite, refuse_unsafe

_LEARN_ROUNDS: Final = 8
_SAMPLE_BYTES: Final = 1 << 16
_MAP_KEYS_LIMIT: Final = 2000


class ColumnReader:
    """Reads bodies of JSON lines; remembers the fields it has met."""

    def __init__(self, known: Mapping[str, pa.DataType]) -> None:
        self._known = known
        self._shape = pa.schema([])

    def read(
        self, body: bytes, ends: np.ndarray, versions: np.ndarray, ordinals: np.ndarray
    ) -> tuple[ActionBatch, np.ndarray]:
        """Return the actions of `body`, and which of its rows need the exact reader.

        `ends` are the `line_ends` of `body`; `versions` and `ordinals` tell where each line
        stands. Raises NotPlainError where the bytes are not one plain action a line.
        """
        refuse_unsafe(body, ends)
        table = self._parse(body)
        if table.num_rows != len(versions):
            raise NotPlainError("lines and rows differ")
        raw = {
            name: _one_array(table.column(name))
            for name, kind in zip(table.column_names, table.schema.types, strict=True)
            if not pt.is_null(kind)
        }
        exact = np.zeros(len(versions), dtype=bool)
        free_form = raw.pop("commitInfo", None)
        if free_form is not None:
            exact |= _numpy(free_form.is_valid())
        taken = exact.copy()
        columns = {}
        for kind, array in raw.items():
            here = _numpy(array.is_valid())
            if (taken & here).any():
                raise NotPlainError("one line, two actions")
            taken |= here
            _refuse_missing(kind, array, here)
            columns[kind] = _wire(array, self._known[kind], here, exact)
        keep = None if not exact.any() else pa.array(~exact)
        batch = ActionBatch(pa.array(versions), pa.array(ordinals), columns)
        return (batch if keep is None else _filter(batch, keep)), exact

    def _parse(self, body: bytes) -> pa.Table:
        if not self._shape and len(body) > _SAMPLE_BYTES:
            # What the first lines teach need not be learned by reading all of them again.
            self._learned(body[: body.rfind(b"\n", 0, _SAMPLE_BYTES) + 1] or body)
        return self._learned(body)

    def _learned(self, body: bytes) -> pa.Table:
        """Read lines until nothing that is known of what they hold is new."""
        source = pa.py_buffer(body)
        for _ in range(_LEARN_ROUNDS):
            shape = self._shape
            options = pj.ParseOptions(explicit_schema=shape, unexpected_field_behavior="infer")
            try:
                table = pj.read_json(
                    pa.BufferReader(source),
                    read_options=pj.ReadOptions(use_threads=False, block_size=len(body) + 1),
                    parse_options=options,
                )
                learned = _learn(pa.struct(list(shape)), pa.struct(list(table.schema)), self._known)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise NotPlainError(str(error)) from None
            if learned is None:
                refuse_not_finite(table)
                return table.select([name for name in table.column_names if name in self._known])
            self._shape = pa.schema(list(learned))
        raise NotPlainError("its fields keep changing")


def _learn(shape: pa.StructType, found: pa.StructType, known: object) -> pa.StructType | None:
    """Return `shape` with what `found` adds to it, typed as `known` says; None if nothing new."""
    fields = {field.name: field for field in shape}
    grown = False
    for field in found:
        wanted = _known_type(known, field.name)
        if wanted is None and field.name == PARSED_STATS and pt.is_struct(field.type):
            raise pa.ArrowInvalid("statistics that are not text")
        if wanted is None or pt.is_null(field.type) or _is_free_form(known, wanted):
            continue
        have = fields[field.name].type if field.name in fields else None
        learned = _learn_field(have, field.type, wanted)
        if learned is not None:
            fields[field.name] = pa.field(field.name, learned)
            grown = True
    if len(fields) > _MAP_KEYS_LIMIT:
        raise pa.ArrowInvalid("too many different keys")
    return pa.struct(list(fields.values())) if grown else None


def _learn_field(
    have: pa.DataType | None, found: pa.DataType, wanted: pa.DataType
) -> pa.DataType | None:
    if pt.is_struct(wanted) or pt.is_map(wanted):
        if not pt.is_struct(found):
            raise pa.ArrowInvalid("not an object")
        learned = _learn(have or pa.struct([]), found, wanted)
        if learned is not None:
            return learned
        return pa.struct([]) if have is None else None
    if pt.is_struct(found):
        raise pa.ArrowInvalid("an object where there should be none")
    return wanted if have is None else None


def _is_free_form(known: object, wanted: pa.DataType) -> bool:
    """Whether an action is kept as its text: read exactly, its inferred type is never used."""
    return isinstance(known, Mapping) and pt.is_string(wanted)


def _known_type(known: object, name: str) -> pa.DataType | None:
    if isinstance(known, pa.MapType):
        return known.item_type
    if isinstance(known, pa.StructType):
        index = known.get_field_index(name)
        return known.field(index).type if index >= 0 else None
    assert isinstance(known, Mapping)
    return known.get(name)


def _refuse_missing(kind: str, array: pa.StructArray, here: np.ndarray) -> None:
    name = REQUIRED.get(kind)
    if name is None or not here.any():
        return
    at = array.type.get_field_index(name)
    if at < 0 or pt.is_null(array.type[at].type):
        raise NotPlainError(f"{kind} without {name}")
    lengths = pc.binary_length(array.field(name)).fill_null(0)
    if (_numpy(lengths)[here] == 0).any():
        raise NotPlainError(f"{kind} without {name}")


def _wire(
    array: pa.StructArray, wanted: pa.StructType, here: np.ndarray, exact: np.ndarray
) -> pa.StructArray:
    """Return the struct with its maps made maps; mark in `exact` the rows that cannot tell."""
    names, children = [], []
    for field in array.type:
        index = wanted.get_field_index(field.name)
        if index < 0 or pt.is_null(field.type):
            continue
        child, child_type = array.field(field.name), wanted.field(index).type
        if pt.is_map(child_type):
            inside = here & _numpy(child.is_valid())
            if field.name == "partitionValues":
                exact |= inside & _any_null(child)
            child = _to_map(child, inside)
        elif pt.is_list(child_type) and child.flatten().null_count:
            exact |= here
        elif pt.is_struct(child_type):
            child = _wire(child, child_type, here & _numpy(child.is_valid()), exact)
        names.append(field.name)
        children.append(child)
    return pa.StructArray.from_arrays(children, names=names, mask=pa.array(~here))


def _any_null(array: pa.StructArray) -> np.ndarray:
    nulls = np.zeros(len(array), dtype=bool)
    for index in range(array.type.num_fields):
        child = array.field(index)
        if child.null_count:
            nulls |= _numpy(child.is_null())
    return nulls


def _to_map(array: pa.StructArray, inside: np.ndarray) -> pa.MapArray:
    """Turn a struct of strings into a map of its fields that are not null."""
    rows, width = len(array), array.type.num_fields
    names = pa.array([field.name for field in array.type], pa.string())
    if width == 0:
        counts = np.zeros(rows, dtype=np.int64)
        keys = items = pa.array([], pa.string())
    elif width == 1:
        child = array.field(0)
        valid = inside & _numpy(child.is_valid())
        counts = valid.astype(np.int64)
        items = child if valid.all() else child.filter(pa.array(valid))
        keys = pa.repeat(names[0], len(items))
    else:
        order = (np.arange(rows)[:, None] + np.arange(width)[None, :] * rows).ravel()
        items = pa.concat_arrays([_strings(array.field(i)) for i in range(width)]).take(
            pa.array(order)
        )
        valid = _numpy(items.is_valid()) & np.repeat(inside, width)
        counts = valid.reshape(rows, width).sum(axis=1)
        items = items.filter(pa.array(valid))
        keys = names.take(pa.array(np.tile(np.arange(width), rows)[valid]))
    offsets = np.zeros(rows + 1, dtype=np.int32)
    np.cumsum(counts, out=offsets[1:])
    mask = None if inside.all() else pa.array(~inside)
    return pa.MapArray.from_arrays(pa.array(offsets), keys, _strings(items), mask=mask)


def _strings(array: pa.Array) -> pa.Array:
    return array.cast(pa.string()) if pt.is_null(array.type) else array


def _filter(batch: ActionBatch, keep: pa.Array) -> ActionBatch:
    return ActionBatch(
        batch.version.filter(keep),
        batch.ordinal.filter(keep),
        {kind: column.filter(keep) for kind, column in batch.columns.items()},
    )


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _numpy(array: pa.Array) -> np.ndarray:
    values: np.ndarray = array.to_numpy(zero_copy_only=False)
    return values
