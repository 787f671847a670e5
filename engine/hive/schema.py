"""Which columns must the rewritten files have? The table's, and whatever else the files hold.

Files may be older or newer than the table: a column the table has and a file lacks is null; a
column a file has and the table lacks is kept, because a later ALTER TABLE would show it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from engine.errors import HiveSchemaError
from engine.hive.reason import first_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrameReader
    from pyspark.sql.types import DataType

_RAW_TEXT: Final = "__CHAR_VARCHAR_TYPE_STRING"
_NESTED: Final = (StructType, ArrayType, MapType)


def union(table: DataType, files: DataType) -> DataType:
    """Return the table's type, with what only the files have added at every depth.

    Names keep the case they have in the files. Where both have a type, the table's stands.
    """
    if isinstance(table, StructType) and isinstance(files, StructType):
        held = {item.name.lower(): item for item in files.fields}
        known = {item.name.lower() for item in table.fields}
        fields = []
        for item in table.fields:
            other = held.get(item.name.lower())
            kind = union(item.dataType, other.dataType) if other else item.dataType
            metadata = {key: v for key, v in (item.metadata or {}).items() if key != _RAW_TEXT}
            fields.append(
                StructField(
                    other.name if other else item.name, kind, nullable=True, metadata=metadata
                )
            )
        fields += [item for item in files.fields if item.name.lower() not in known]
        return StructType(fields)
    if isinstance(table, ArrayType) and isinstance(files, ArrayType):
        return ArrayType(union(table.elementType, files.elementType), containsNull=True)
    if isinstance(table, MapType) and isinstance(files, MapType):
        value = union(table.valueType, files.valueType)
        return MapType(union(table.keyType, files.keyType), value, valueContainsNull=True)
    return table


def merged(reader: DataFrameReader, paths: Sequence[str], table: StructType) -> StructType:
    """Return the union of the table's schema and those of all files.

    Raises:
        HiveSchemaError: two files give one column types that cannot be told from each other.
    """
    found = _merge(reader, list(paths), table)
    if found.fields and all(item.name.startswith("_col") for item in found.fields):
        # Hive of old wrote ORC without names; columns go by position, and there are no others.
        found = StructType([])
    _refuse_twins(found, paths[0])
    whole = union(table, found)
    assert isinstance(whole, StructType)
    return whole


def _merge(reader: DataFrameReader, paths: list[str], table: StructType) -> StructType:
    # Spark merges footers in a distributed job, and refuses when two types conflict. Then the
    # halves are merged alone and joined field by field; of plain types the table's stands.
    try:
        return reader.option("mergeSchema", "true").load(paths).schema
    except (PySparkException, Py4JJavaError) as error:
        if len(paths) == 1:
            raise HiveSchemaError(
                paths[0], f"its schema cannot be read ({first_line(error)})"
            ) from error
    middle = len(paths) // 2
    halves = [_merge(reader, paths[:middle], table), _merge(reader, paths[middle:], table)]
    try:
        joined = _join(halves[0], halves[1], table, "")
    except ValueError as error:
        raise HiveSchemaError(paths[0], str(error)) from error
    assert isinstance(joined, StructType)
    return joined


def _join(one: DataType, other: DataType, table: DataType | None, name: str) -> DataType:
    """Return the type that has every field of both, at every depth.

    Raises:
        ValueError: both are plain and differ, and the table does not say which; or only one is.
    """
    if one == other:
        return one
    if isinstance(one, StructType) and isinstance(other, StructType):
        known = {item.name.lower(): item.dataType for item in getattr(table, "fields", ())}
        fields = {item.name.lower(): item for item in one.fields}
        for item in other.fields:
            key = item.name.lower()
            there = fields.setdefault(key, item)
            whole = f"{name}.{item.name}".strip(".")
            kind = _join(there.dataType, item.dataType, known.get(key), whole)
            fields[key] = StructField(there.name, kind, nullable=True, metadata=there.metadata)
        return StructType(list(fields.values()))
    if isinstance(one, ArrayType) and isinstance(other, ArrayType):
        element = getattr(table, "elementType", None)
        return ArrayType(_join(one.elementType, other.elementType, element, f"{name}[]"))
    if isinstance(one, MapType) and isinstance(other, MapType):
        keys = _join(one.keyType, other.keyType, getattr(table, "keyType", None), f"{name}[key]")
        held = getattr(table, "valueType", None)
        return MapType(keys, _join(one.valueType, other.valueType, held, f"{name}[]"))
    if table is None or any(isinstance(kind, _NESTED) for kind in (one, other, table)):
        raise ValueError(
            f"column {name} is both {one.simpleString()} and {other.simpleString()} in its files, "
            + ("unknown to the table" if table is None else f"{table.simpleString()} in the table")
        )
    return table


def _refuse_twins(kind: DataType, path: str) -> None:
    if isinstance(kind, ArrayType):
        _refuse_twins(kind.elementType, path)
    elif isinstance(kind, MapType):
        _refuse_twins(kind.keyType, path)
        _refuse_twins(kind.valueType, path)
    elif isinstance(kind, StructType):
        seen: set[str] = set()
        for item in kind.fields:
            if item.name.lower() in seen:
                raise HiveSchemaError(path, f"its files spell column {item.name} in two ways")
            seen.add(item.name.lower())
            _refuse_twins(item.dataType, path)
