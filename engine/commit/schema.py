"""What is a table's schema? Text of Spark's JSON, however it was given; and how it may change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import orjson
import pyarrow as pa
import pyarrow.types as pt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_ARROW: Final[tuple[tuple[Callable[[pa.DataType], bool], str], ...]] = (
    (pt.is_boolean, "boolean"),
    (pt.is_int8, "byte"),
    (pt.is_int16, "short"),
    (pt.is_int32, "integer"),
    (pt.is_int64, "long"),
    (pt.is_float32, "float"),
    (pt.is_float64, "double"),
    (pt.is_string, "string"),
    (pt.is_large_string, "string"),
    (pt.is_binary, "binary"),
    (pt.is_large_binary, "binary"),
    (pt.is_date, "date"),
)


def schema_text(schema: Any) -> str:
    """Return a schema as the log keeps it.

    Takes that text, the object it stands for, a Spark StructType, or an Arrow schema. Raises
    ValueError, with the reason, for anything that is not the schema of a table.
    """
    if isinstance(schema, pa.Schema):
        schema = {"type": "struct", "fields": [_field(field) for field in schema]}
    elif not isinstance(schema, (str, Mapping)) and callable(getattr(schema, "json", None)):
        schema = schema.json()
    try:
        parsed = orjson.loads(schema) if isinstance(schema, str) else schema
        text = orjson.dumps(parsed).decode()
    except (orjson.JSONDecodeError, orjson.JSONEncodeError, TypeError) as error:
        raise ValueError(f"the schema is not JSON: {error}") from None
    _refuse_broken(parsed)
    return text


def column_types(schema_string: str) -> dict[str, Any]:
    """Return the type of each top-level column."""
    return {field["name"]: field.get("type") for field in orjson.loads(schema_string)["fields"]}


def refuse_missing(partition_columns: Sequence[str], schema_string: str) -> None:
    """Raise ValueError where a partition column is not one of the schema, or is named twice."""
    types = column_types(schema_string)
    missing = [name for name in partition_columns if name not in types]
    if missing:
        known = ", ".join(types)
        raise ValueError(
            f"the partition column {', '.join(missing)} is not in the schema; it has {known}"
        )
    if len(set(partition_columns)) != len(partition_columns):
        raise ValueError("a partition column is named twice")
    nested = [name for name in partition_columns if not isinstance(types[name], str)]
    if nested:
        raise ValueError(f"the partition column {nested[0]} is nested; use a plain one")
    if types and len(partition_columns) == len(types):
        raise ValueError("every column is a partition column; leave one for the files")


def refuse_breaking(old: str, new: str) -> None:
    """Raise ValueError where files written under `old` could not be read under `new`.

    Columns may be added, if they may be null, and nothing else.
    """
    before = {field["name"]: field for field in orjson.loads(old)["fields"]}
    after = {field["name"]: field for field in orjson.loads(new)["fields"]}
    if gone := [name for name in before if name not in after]:
        raise ValueError(f"the column {', '.join(gone)} would go; files still hold it")
    for name, field in after.items():
        if name not in before:
            if field.get("nullable") is False:
                raise ValueError(f"the new column {name} must be nullable; older files lack it")
        elif before[name].get("type") != field.get("type"):
            was, now = before[name].get("type"), field.get("type")
            raise ValueError(f"the column {name} would change from {was} to {now}")
        elif before[name].get("nullable") and field.get("nullable") is False:
            raise ValueError(f"the column {name} would no longer be nullable; files may hold nulls")


def _refuse_broken(schema: Any) -> None:
    if not isinstance(schema, Mapping) or schema.get("type") != "struct":
        raise ValueError("the schema is not a struct")
    fields = schema.get("fields")
    if not isinstance(fields, list):
        raise ValueError("the schema has no fields")
    seen: set[str] = set()
    for field in fields:
        name = field.get("name") if isinstance(field, Mapping) else None
        if not isinstance(name, str) or not name or not field.get("type"):
            raise ValueError(f"a field of the schema has no name or no type: {field!r:.80}")
        if name.casefold() in seen:
            raise ValueError(f"the schema has the column {name} twice")
        seen.add(name.casefold())


def _field(field: pa.Field) -> dict[str, Any]:
    kind = _type(field.type, field.name)
    return {"name": field.name, "type": kind, "nullable": field.nullable, "metadata": {}}


def _type(kind: pa.DataType, name: str) -> Any:
    for is_kind, spark in _ARROW:
        if is_kind(kind):
            return spark
    if pt.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if pt.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pt.is_struct(kind):
        return {"type": "struct", "fields": [_field(field) for field in kind]}
    if pt.is_map(kind):
        return {
            "type": "map",
            "keyType": _type(kind.key_type, name),
            "valueType": _type(kind.item_type, name),
            "valueContainsNull": True,
        }
    if pt.is_list(kind) or pt.is_large_list(kind):
        element = _type(kind.value_type, name)
        return {"type": "array", "elementType": element, "containsNull": True}
    raise ValueError(f"the column {name} is of type {kind}, which a table does not have")
