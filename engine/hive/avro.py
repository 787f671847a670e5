"""Which Avro schema reads every file of a directory, and what do their headers say?

Avro reads what the reader's schema names and drops the rest without a word, so the schema must
name every field of every file, at every depth.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError

from engine.errors import HiveSchemaError
from engine.hive.reason import first_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

# The only widenings that change no value.
_WIDER: Final = (({"int", "long"}, "long"), ({"float", "double"}, "double"))
_INNER: Final = {"array": "items", "map": "values"}


def schema_of(spark: SparkSession, paths: Sequence[str]) -> str:
    """Return an Avro schema that has every field of the files at `paths`, nested ones included.

    Raises:
        HiveSchemaError: two files give one field types that no type holds unchanged.
    """
    texts = sorted({_header(spark, path)[0] for path in paths})
    if len(texts) == 1:
        return texts[0]
    try:
        merged = json.dumps(union([json.loads(text) for text in texts], ""))
        jvm: Any = spark.sparkContext._jvm
        getattr(jvm.org.apache.avro, "Schema$Parser")().parse(merged)
    except ValueError as error:
        raise HiveSchemaError(paths[0], str(error)) from error
    except Py4JJavaError as error:
        raise HiveSchemaError(paths[0], f"its files do not add up: {first_line(error)}") from error
    return merged


def codec_of(spark: SparkSession, path: str) -> str:
    """Return the codec of an Avro file."""
    return _header(spark, path)[1]


def union(kinds: Sequence[Any], name: str) -> Any:
    """Return the type that holds every value of the types `kinds` of the field `name` unchanged.

    Raises:
        ValueError: there is none, as far as this can tell.
    """
    kinds = [_bare(kind) for kind in kinds]
    if all(kind == kinds[0] for kind in kinds):
        return kinds[0]
    options = [kind if isinstance(kind, list) else [kind] for kind in kinds]
    held = [[_bare(option) for option in each if option != "null"] for each in options]
    if any(len(each) > 1 for each in held):
        raise _conflict(kinds, name)
    whole = _whole([option for each in held for option in each], name)
    return ["null", whole] if any("null" in each for each in options) else whole


def _whole(kinds: list[Any], name: str) -> Any:
    if all(kind == kinds[0] for kind in kinds):
        return kinds[0]
    if all(isinstance(kind, dict) for kind in kinds):
        (shape, *others) = {kind["type"] for kind in kinds}
        if not others and shape == "record":
            return {**kinds[0], "fields": _fields([kind["fields"] for kind in kinds], name)}
        if not others and shape in _INNER:
            inner = _INNER[shape]
            return {**kinds[0], inner: union([kind[inner] for kind in kinds], f"{name}[]")}
    for narrow, wide in _WIDER:
        if all(isinstance(kind, str) and kind in narrow for kind in kinds):
            return wide
    raise _conflict(kinds, name)


def _fields(records: list[list[dict[str, Any]]], name: str) -> list[dict[str, Any]]:
    held: dict[str, list[dict[str, Any]]] = {}
    for fields in records:
        for field in fields:
            held.setdefault(field["name"], []).append(field)
    if len({key.lower() for key in held}) < len(held):
        raise ValueError(f"its files spell a field of {name or 'the table'} in two ways")
    return [
        _field(found, f"{name}.{key}".strip("."), everywhere=len(found) == len(records))
        for key, found in held.items()
    ]


def _field(found: list[dict[str, Any]], name: str, *, everywhere: bool) -> dict[str, Any]:
    kind = union([field["type"] for field in found], name)
    if everywhere:
        if kind == found[0]["type"]:
            return found[0]
        return {key: value for key, value in found[0].items() if key != "default"} | {"type": kind}
    # Readers of the table see null where a file lacks the field; so must the rewritten one.
    if any(field.get("default") is not None for field in found):
        raise ValueError(f"field {name} has a default, and some files lack it")
    options = kind if isinstance(kind, list) else [kind]
    nullable = ["null", *(option for option in options if option != "null")]
    return {**found[0], "type": nullable, "default": None}


def _bare(kind: Any) -> Any:
    # What Java notes beside a plain type, such as how to hold a string, says nothing of its values.
    if isinstance(kind, dict) and "logicalType" not in kind:
        shape = kind["type"]
        if isinstance(shape, str) and shape not in ("record", "enum", "fixed", *_INNER):
            return shape
    return kind


def _conflict(kinds: Sequence[Any], name: str) -> ValueError:
    told = sorted({json.dumps(kind) for kind in kinds})
    return ValueError(f"column {name} is {' and '.join(told)} in its files")


def _header(spark: SparkSession, path: str) -> tuple[str, str]:
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
