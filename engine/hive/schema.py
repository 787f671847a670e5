"""Which columns must the rewritten files have? The table's, and whatever else the files hold.

Files may be older or newer than the table: a column the table has and a file lacks is null; a
column a file has and the table lacks is kept, because a later ALTER TABLE would show it again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from engine.errors import HiveSchemaError
from engine.hive.reason import first_line

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import DataFrameReader, SparkSession
    from pyspark.sql.types import DataType

_RAW_TEXT: Final = "__CHAR_VARCHAR_TYPE_STRING"


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


def avro_schema(spark: SparkSession, paths: Sequence[str]) -> str:
    """Return the one Avro schema among those of the files that has every column of all of them.

    Raises:
        HiveSchemaError: no file has all columns.
    """
    texts = {_avro_header(spark, path)[0] for path in paths}
    fields = {
        text: {field["name"] for field in json.loads(text).get("fields", [])} for text in texts
    }
    every = set().union(*fields.values())
    whole = sorted(text for text, names in fields.items() if names == every)
    if not whole:
        raise HiveSchemaError(
            paths[0], f"no file has all of the columns {', '.join(sorted(every))}"
        )
    if len(texts) == 1:
        return whole[0]
    schema = json.loads(whole[0])
    schema["fields"] = [_optional(item, fields.values()) for item in schema["fields"]]
    return json.dumps(schema)


def avro_codec(spark: SparkSession, path: str) -> str:
    """Return the codec of an Avro file."""
    return _avro_header(spark, path)[1]


def _optional(item: dict[str, Any], files: Collection[set[str]]) -> dict[str, Any]:
    # Avro fills a column that a file lacks only when the column has a default.
    if "default" in item or all(item["name"] in names for names in files):
        return item
    kind = item["type"]
    options = list(kind) if isinstance(kind, list) else [kind]
    return {**item, "type": ["null", *(o for o in options if o != "null")], "default": None}


def _avro_header(spark: SparkSession, path: str) -> tuple[str, str]:
    jvm: Any = spark.sparkContext._jvm
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    source = jvm.org.apache.avro.mapred.FsInput(jvm.org.apache.hadoop.fs.Path(path), conf)
    reader = jvm.org.apache.avro.file.DataFileReader(
        source, jvm.org.apache.avro.generic.GenericDatumReader()
    )
    try:
        return str(reader.getSchema().toString()), str(reader.getMetaString("avro.codec") or "null")
    finally:
        reader.close()


def _merge(reader: DataFrameReader, paths: list[str], table: StructType) -> StructType:
    # Spark merges footers in a distributed job, and refuses when two types conflict. Then the
    # halves are merged alone: a conflict on a column of the table is settled by the table.
    try:
        return reader.option("mergeSchema", "true").load(paths).schema
    except (PySparkException, Py4JJavaError) as error:
        if len(paths) == 1:
            raise HiveSchemaError(
                paths[0], f"its schema cannot be read ({first_line(error)})"
            ) from error
    middle = len(paths) // 2
    halves = [_merge(reader, paths[:middle], table), _merge(reader, paths[middle:], table)]
    known = {item.name.lower(): item for item in table.fields}
    joined: dict[str, StructField] = {}
    for item in (item for half in halves for item in half.fields):
        there = joined.setdefault(item.name.lower(), item)
        if there.dataType != item.dataType and item.name.lower() not in known:
            raise HiveSchemaError(
                paths[0],
                f"column {item.name}, unknown to the table, is both "
                f"{there.dataType.simpleString()} and {item.dataType.simpleString()} in its files",
            )
    return StructType(list(joined.values()))


def _refuse_twins(schema: StructType, path: str) -> None:
    seen: set[str] = set()
    for item in schema.fields:
        if item.name.lower() in seen:
            raise HiveSchemaError(path, f"its files spell column {item.name} in two ways")
        seen.add(item.name.lower())
