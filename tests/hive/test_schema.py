"""No column is lost, however deep: of what files together hold, the rewritten ones hold all."""

from __future__ import annotations

import pytest

from engine.errors import HiveSchemaError
from engine.hive import avro
from engine.hive.compact import compact
from engine.hive.model import Options

SERIAL = Options(parallelism=1)


def of(doors):
    return doors.catalog.table("lake", "t")


def write(spark, lake, kind, *files):
    """Write a file of two rows for each list of expressions."""
    for expressions in files:
        rows = spark.range(2).selectExpr(*expressions).coalesce(1)
        rows.write.mode("append").format(kind).save(str(lake.path("t")))


def nested(kind, other):
    inner = f"named_struct('a', cast(id AS {kind}), '{other}', concat('{other}', id))"
    return ["id", f"{inner} AS s", f"array({inner}) AS l", f"map('k', {inner}) AS m"]


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_fields_beside_a_nested_type_conflict_are_all_kept(spark, lake, doors, kind):
    write(spark, lake, kind, nested("int", "x"), nested("bigint", "y"))
    inner = "STRUCT<a: BIGINT>"
    columns = f"id BIGINT, s {inner}, l ARRAY<{inner}>, m MAP<STRING, {inner}>"
    lake.declare("t", stored=kind.upper(), columns=columns)
    before = lake.rows("t")
    compact(doors, of(doors), SERIAL)
    assert (lake.rows("t"), len(lake.files("t"))) == (before, 1)
    whole = spark.read.format(kind).load(str(lake.path("t")))
    for path in ("s", "l[0]", "m['k']"):
        found = [tuple(row) for row in whole.selectExpr(f"{path}.x", f"{path}.y").collect()]
        assert sorted(found, key=repr) == [("x0", None), ("x1", None), (None, "y0"), (None, "y1")]


@pytest.mark.parametrize(
    ("one", "other", "column"),
    [
        ("named_struct('a', 1, 'z', 1) AS s", "named_struct('a', 1, 'z', 'q') AS s", "s.z"),
        ("named_struct('z', 1) AS s", "named_struct('z', array(1)) AS s", "s.z"),
        ("array(named_struct('z', 1)) AS s", "array(named_struct('z', 'q')) AS s", r"s\[\].z"),
    ],
)
def test_a_nested_column_that_no_type_fits_stops_the_run(spark, lake, doors, one, other, column):
    write(spark, lake, "parquet", ["id", one], ["id", other])
    lake.declare("t", columns="id BIGINT")
    with pytest.raises(HiveSchemaError, match=column):
        compact(doors, of(doors), SERIAL)
    assert (lake.count("t"), len(lake.files("t")), lake.debris()) == (4, 2, [])


def record(name, **fields):
    listed = [{"name": key, "type": kind} for key, kind in fields.items()]
    return {"type": "record", "name": name, "fields": listed}


def test_an_avro_union_has_the_fields_of_every_record_at_every_depth():
    one = record("t", id="int", s=["null", record("s", a="int", x="int")])
    other = record("t", id="long", s=record("s", a="int", y={"type": "string", "avro.java": "q"}))
    whole = avro.union([one, other], "")
    identifier, held = whole["fields"]
    assert identifier["type"] == "long"
    assert held["type"][0] == "null"
    fields = {field["name"]: field["type"] for field in held["type"][1]["fields"]}
    assert fields == {"a": "int", "x": ["null", "int"], "y": ["null", "string"]}


@pytest.mark.parametrize(
    ("kinds", "reason"),
    [
        (["int", "string"], "column c is"),
        (["long", "double"], "column c is"),  # a long may have more digits
        ([["int", "string"], "int"], "column c is"),
        ([{"type": "array", "items": "int"}, "int"], "column c is"),
        ([record("r", z="int"), record("r", z="string")], "column c.z"),
        ([record("r", z="int"), record("r", Z="int")], "in two ways"),
        (
            [
                record("r"),
                {"type": "record", "fields": [{"name": "z", "type": "int", "default": 7}]},
            ],
            "c.z has a default",
        ),
    ],
)
def test_avro_types_that_no_type_holds_unchanged_are_refused(kinds, reason):
    with pytest.raises(ValueError, match=reason):
        avro.union(kinds, "c")
