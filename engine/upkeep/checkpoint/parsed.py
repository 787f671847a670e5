"""Which typed columns hold statistics and partition values, and how does text become them?

Names are physical under column mapping, as the text has them. What is not of its column's type
becomes null, as a try-cast does.
"""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.types as pt

from engine.config import parse_boolean

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PHYSICAL_NAME: Final = "delta.columnMapping.physicalName"
_UTC: Final = pa.timestamp("us", "UTC")
_TYPES: Final = {
    "string": pa.string(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": _UTC,
    "timestamp_ntz": pa.timestamp("us"),
}
_DIGITS: Final = 38
# They have a count of nulls, and neither a minimum nor a maximum.
_UNORDERED: Final = frozenset({"boolean", "binary"})


class _UnknownTypeError(ValueError):
    """A column has a type that we do not know how to write."""


def stats_type(
    schema_string: str, partition_columns: Sequence[str], indexed: int
) -> pa.StructType | None:
    """Return the type of `stats_parsed` for the first `indexed` columns; -1 means all.

    None where a column has a type unknown to us: its statistics are then kept as JSON only.
    """
    try:
        fields = [f for f in _fields(schema_string) if f["name"] not in partition_columns]
        left = [indexed if indexed >= 0 else 1 << 62]
        ordered, counted = _bounds(fields, left)
    except (_UnknownTypeError, KeyError, TypeError):
        return None
    members = [pa.field("numRecords", pa.int64())]
    if ordered:
        members += [pa.field(name, pa.struct(ordered)) for name in ("minValues", "maxValues")]
    if counted:
        members.append(pa.field("nullCount", pa.struct(counted)))
    return pa.struct([*members, pa.field("tightBounds", pa.bool_())])


def partition_type(schema_string: str, partition_columns: Sequence[str]) -> pa.StructType | None:
    """Return the type of `partitionValues_parsed`; None where a type is unknown to us."""
    try:
        fields = {f["name"]: f for f in _fields(schema_string)}
        return pa.struct(
            [
                pa.field(_physical(fields[name]), _leaf(fields[name]["type"]))
                for name in partition_columns
            ]
        )
    except (_UnknownTypeError, KeyError, TypeError):
        return None


def parse_stats(texts: pa.Array, wanted: pa.StructType) -> pa.StructArray:
    """Return statistics as columns; null where the text is null or not an object."""
    try:
        found = _typed(_read_json(texts, _wire(wanted)), wanted)
        assert isinstance(found, pa.StructArray)
    except (pa.ArrowException, ValueError):
        return pa.array([_object(text, wanted) for text in texts.to_pylist()], wanted)
    if not texts.null_count:
        return found
    children = [found.field(index) for index in range(wanted.num_fields)]
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=texts.is_null())


def parse_partitions(maps: pa.MapArray, wanted: pa.StructType) -> pa.StructArray:
    """Return partition values as columns."""
    columns = []
    for field in wanted:
        values = pc.map_lookup(maps, pa.scalar(field.name), "first")
        # Few distinct ones: each is looked at once.
        encoded = pc.dictionary_encode(values)
        distinct = [_partition_value(v, field.type) for v in encoded.dictionary.to_pylist()]
        columns.append(pa.array(distinct, field.type).take(encoded.indices))
    return pa.StructArray.from_arrays(columns, fields=list(wanted))


# --- types -------------------------------------------------------------------------------------


def _fields(schema_string: str) -> list[dict[str, Any]]:
    try:
        found = orjson.loads(schema_string)["fields"]
    except orjson.JSONDecodeError as error:
        raise _UnknownTypeError(str(error)) from None
    if not isinstance(found, list):
        raise _UnknownTypeError(schema_string)
    return found


def _bounds(
    fields: Sequence[dict[str, Any]], left: list[int]
) -> tuple[list[pa.Field], list[pa.Field]]:
    ordered: list[pa.Field] = []
    counted: list[pa.Field] = []
    for field in fields:
        name, kind = _physical(field), field["type"]
        if isinstance(kind, dict) and kind.get("type") == "struct":
            inside = _bounds(kind["fields"], left)
            for found, members in zip((ordered, counted), inside, strict=True):
                if members:
                    found.append(pa.field(name, pa.struct(members)))
            continue
        if left[0] <= 0:
            continue
        left[0] -= 1
        counted.append(pa.field(name, pa.int64()))
        if not isinstance(kind, dict) and kind not in _UNORDERED:
            ordered.append(pa.field(name, _leaf(kind)))
        elif isinstance(kind, dict):
            _refuse_unknown(kind)
    return ordered, counted


def _refuse_unknown(kind: Any) -> None:
    """Refuse a nested type that holds one we do not know."""
    if not isinstance(kind, dict):
        _leaf(kind)
        return
    for field in kind.get("fields") or ():
        _refuse_unknown(field["type"])
    for part in ("elementType", "keyType", "valueType"):
        if part in kind:
            _refuse_unknown(kind[part])


def _physical(field: dict[str, Any]) -> str:
    return str((field.get("metadata") or {}).get(_PHYSICAL_NAME, field["name"]))


def _leaf(name: Any) -> pa.DataType:
    text = str(name)
    if text.startswith(("char(", "varchar(")):
        return pa.string()
    if text == "decimal" or text.startswith("decimal("):
        inside = text[8:-1] or "10,0"
        precision, _, scale = inside.partition(",")
        if (
            precision.strip().isdecimal()
            and scale.strip().isdecimal()
            and int(precision) <= _DIGITS
        ):
            return pa.decimal128(int(precision), int(scale))
    if text not in _TYPES:
        raise _UnknownTypeError(text)
    return _TYPES[text]


# --- the fast way: all rows at once ------------------------------------------------------------


def _wire(kind: pa.DataType) -> pa.DataType:
    """Return the type as JSON has it: dates and moments are text."""
    if pt.is_struct(kind):
        return pa.struct([pa.field(f.name, _wire(f.type)) for f in kind])
    return pa.string() if pt.is_temporal(kind) else kind


def _read_json(texts: pa.Array, wanted: pa.DataType) -> pa.StructArray:
    lines = pc.fill_null(texts, "{}") if texts.null_count else texts
    if pc.any(pc.match_substring_regex(lines, r"[\r\n]|^\s*[^{\s]|^\s*$")).as_py():
        raise ValueError("not one object a line")
    data = _joined(lines)
    table = pj.read_json(
        pa.py_buffer(data),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pj.ParseOptions(
            explicit_schema=pa.schema(list(wanted)), unexpected_field_behavior="ignore"
        ),
    )
    if table.num_rows != len(texts):
        raise ValueError("not one object a line")
    return table.combine_chunks().to_struct_array().combine_chunks()


def _joined(lines: pa.Array) -> bytes:
    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    text = pc.binary_join(whole.cast(pa.list_(pa.binary())), b"\n")[0]
    return bytes(text.as_py())


def _typed(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pt.is_struct(wanted):
        children = [
            _typed(pc.struct_field(array, [index]), field.type)
            for index, field in enumerate(wanted)
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)
    return array.cast(wanted)


# --- the exact way: value by value -------------------------------------------------------------


def _object(text: str | None, wanted: pa.StructType) -> dict[str, Any] | None:
    try:
        found = orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return None
    value = _value(found, wanted)
    return value if isinstance(value, dict) else None


def _value(value: Any, wanted: pa.DataType) -> Any:
    if pt.is_struct(wanted):
        if not isinstance(value, dict):
            return None
        return {field.name: _value(value.get(field.name), field.type) for field in wanted}
    if value is None or isinstance(value, (dict, list)):
        return None
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    if not isinstance(value, str) and (pt.is_string(wanted) or pt.is_temporal(wanted)):
        return None
    return _scalar(text, wanted)


def _partition_value(text: str | None, wanted: pa.DataType) -> Any:
    # An empty text stands for null in every type, as the protocol says.
    return None if not text else _scalar(text, wanted)


def _scalar(text: str, wanted: pa.DataType) -> Any:
    convert = next(convert for test, convert in _CONVERT if test(wanted))
    try:
        found = convert(text.strip() if not pt.is_string(wanted) else text)
        pa.scalar(found, wanted)
    except (ValueError, OverflowError, InvalidOperation, pa.ArrowException):
        return None
    return found


def _moment(text: str) -> datetime:
    found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def _local_moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "")).replace(tzinfo=None)


_CONVERT: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[str], Any]], ...]] = (
    (pt.is_string, str),
    (pt.is_binary, str.encode),
    (pt.is_boolean, parse_boolean),
    (pt.is_integer, int),
    (pt.is_floating, float),
    (pt.is_decimal, Decimal),
    (pt.is_date, date.fromisoformat),
    (lambda kind: pt.is_timestamp(kind) and kind.tz is not None, _moment),
    (pt.is_timestamp, _local_moment),
)
