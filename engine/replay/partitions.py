"""What is a partition value? Text in the log, a type in the schema, a key under column mapping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PHYSICAL_NAME: Final = "delta.columnMapping.physicalName"


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A partition column: its name, its key in partitionValues, and its type in the schema."""

    name: str
    key: str
    type_name: str


@dataclass(frozen=True, slots=True)
class ColumnType:
    """How text becomes comparable, which literals may stand beside it, what one looks like."""

    cast: Callable[[pa.Array], pa.Array]
    forms: frozenset[str]
    example: str


def partition_columns_of(
    schema_string: str, partition_columns: Sequence[str]
) -> list[PartitionColumn]:
    """Return the partition columns with keys and types; raise ValueError for a broken schema."""
    schema = orjson.loads(schema_string)
    if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
        raise ValueError("not a struct")
    fields = {str(f.get("name")): f for f in schema["fields"] if isinstance(f, dict)}
    found = []
    for name in partition_columns:
        field = fields.get(name, {})
        metadata = field.get("metadata")
        key = str(metadata.get(_PHYSICAL_NAME, name)) if isinstance(metadata, dict) else name
        type_name = field.get("type", "string")
        type_name = type_name if isinstance(type_name, str) else "nested"
        found.append(PartitionColumn(name, key, type_name))
    return found


def partition_keys(schema_string: str | None, partition_columns: Sequence[str]) -> list[str]:
    """Return the keys of partition columns in partitionValues; their names, without a schema."""
    try:
        return [
            column.key for column in partition_columns_of(schema_string or "", partition_columns)
        ]
    except ValueError:
        return list(partition_columns)


def type_of(column: PartitionColumn) -> ColumnType:
    """Return the type of a column; raise ValueError where its values are not compared."""
    found = _TYPES.get(column.type_name.partition("(")[0])
    if found is None:
        raise ValueError(f"{column.name} is of type {column.type_name}, which is not compared")
    return found


# Every type is cast to one that Arrow orders as Spark orders the type itself.


def _text(values: pa.Array) -> pa.Array:
    return values


def _exact(values: pa.Array) -> pa.Array:
    # Wide enough for every whole number and every decimal, so that 3 < 3.5 holds for integers.
    return _trimmed(values).cast(pa.decimal256(76, 38))


def _double(values: pa.Array) -> pa.Array:
    return _total_order(_trimmed(values).cast(pa.float64()))


def _float(values: pa.Array) -> pa.Array:
    # 0.1 means the nearest float on both sides, or no file would ever equal it.
    return _total_order(_trimmed(values).cast(pa.float32()).cast(pa.float64()))


def _total_order(floats: pa.Array) -> pa.Array:
    # As bits: NaN equals itself and is the greatest, which IEEE comparison denies; -0.0 is 0.0.
    plain = pc.if_else(pc.is_nan(floats), float("nan"), pc.add(floats, 0.0))
    bits = plain.view(pa.int64())
    return pc.if_else(pc.less(bits, 0), pc.bit_wise_xor(bits, 2**63 - 1), bits)


def _boolean(values: pa.Array) -> pa.Array:
    return _trimmed(values).cast(pa.bool_()).cast(pa.int8())


def _date(values: pa.Array) -> pa.Array:
    return _trimmed(values).cast(pa.date32())


def _timestamp(values: pa.Array) -> pa.Array:
    moments = _moments(values)
    zoned = pc.match_substring_regex(moments, r"(Z|[+-]\d{2}(:?\d{2})?)$")
    utc = pc.binary_join_element_wise(moments, "Z", "")
    return pc.if_else(zoned, moments, utc).cast(pa.timestamp("us", "UTC"))


def _timestamp_ntz(values: pa.Array) -> pa.Array:
    return _moments(values).cast(pa.timestamp("us"))


def _moments(values: pa.Array) -> pa.Array:
    whole = pc.replace_substring_regex(_trimmed(values), r"(\.\d{6})\d+", r"\1")
    return pc.replace_substring_regex(whole, r"^(\d+-\d+-\d+)$", r"\1 00:00:00")


def _trimmed(values: pa.Array) -> pa.Array:
    return pc.utf8_trim_whitespace(values)


_TEXT: Final = ColumnType(_text, frozenset({"text"}), "text in single quotes, such as 'eu'")
_NUMBERS: Final = frozenset({"number", "text"})
_EXACT: Final = ColumnType(_exact, _NUMBERS, "a number, such as 3")
_MOMENTS: Final = frozenset({"text", "timestamp", "date"})
_MOMENT: Final = "a timestamp, such as '2024-01-31 12:00:00'"
_TYPES: Final = {
    "string": _TEXT,
    "binary": _TEXT,
    "char": _TEXT,
    "varchar": _TEXT,
    **dict.fromkeys(("byte", "short", "integer", "long", "decimal"), _EXACT),
    "float": ColumnType(_float, _NUMBERS, "a number, such as 0.5"),
    "double": ColumnType(_double, _NUMBERS, "a number, such as 0.5"),
    "boolean": ColumnType(_boolean, frozenset({"boolean", "text", "flag"}), "true or false"),
    "date": ColumnType(_date, frozenset({"text", "date"}), "a date, such as '2024-01-31'"),
    "timestamp": ColumnType(_timestamp, _MOMENTS, _MOMENT),
    "timestamp_ntz": ColumnType(_timestamp_ntz, _MOMENTS, f"{_MOMENT}, without a zone"),
}
