"""Avro needs a package, which the running session is given half way through this file."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest
from py4j.protocol import Py4JJavaError

from engine.errors import HiveRefusedError, HiveSchemaError
from engine.hive.compact import compact
from engine.hive.model import Options, Swap
from engine.hive.plan import plan
from engine.hive.upkeep import cleanup, rollback

PACKAGE = "org.apache.spark:spark-avro_2.13"
# The release that goes with Spark; and the one before it, while that is not published.
VERSIONS = (pyspark.__version__, "4.1.1")
SERIAL = Options(parallelism=1)


def of(doors):
    return doors.catalog.table("lake", "t")


def test_avro_without_its_package_is_refused_with_the_way_out(lake, doors):
    lake.declare("t", stored="AVRO")
    with pytest.raises(HiveRefusedError, match="spark-avro"):
        plan(doors, of(doors), Options())


@pytest.fixture
def avro(spark):
    for version in VERSIONS:
        try:
            spark.sql(f"ADD JAR ivy://{PACKAGE}:{version}?transitive=false").collect()
        except Py4JJavaError as error:
            assert "not found" in str(error.java_exception), error
        else:
            return
    pytest.skip(f"{PACKAGE} cannot be had from Maven in {' or '.join(VERSIONS)}")


@pytest.mark.slow
def test_avro_keeps_its_codec_and_the_columns_of_evolved_files(avro, spark, lake, doors):
    old = spark.range(4).selectExpr("id", "concat('v', id) AS v")
    new = spark.range(4, 8).selectExpr("id", "concat('v', id) AS v", "id * 10 AS later")
    for rows in (old, old, new):
        append(rows, lake.path("t"))
    lake.declare("t", stored="AVRO", columns="id BIGINT, v STRING, later BIGINT")
    before = lake.rows("t")
    for swap in Swap:
        report = compact(doors, of(doors), Options(swap=swap, parallelism=1))
        assert report.as_json()["files_after"] == 1, report
        assert lake.rows("t") == before
        assert lake.rows(f"`{report.backup}`") == before
        rollback(doors, of(doors))
        assert lake.rows("t") == before
    compact(doors, of(doors), SERIAL)
    (file,) = lake.files("t")
    assert b"deflate" in Path(file).read_bytes()[:2000]
    cleanup(doors, of(doors))
    assert (lake.rows("t"), lake.debris()) == (before, [])

    append(spark.range(2).selectExpr("id", "id AS v"), lake.path("t"))
    with pytest.raises(HiveSchemaError, match="column v"):
        compact(doors, of(doors), SERIAL)
    assert len(lake.files("t")) == 2


@pytest.mark.slow
def test_avro_files_that_each_have_a_nested_field_of_their_own_keep_both(avro, spark, lake, doors):
    for item in ("'a', id, 'x', cast(id AS int)", "'a', id, 'y', concat('y', id)"):
        nested = f"named_struct({item})"
        append(
            spark.range(3).selectExpr(
                "cast(id AS int) AS id", f"{nested} AS s", f"array({nested}) AS l"
            ),
            lake.path("t"),
        )
    append(spark.range(2).selectExpr("1L << 40 AS id", "id AS other"), lake.path("t"))
    inner = "STRUCT<a: BIGINT, x: INT, y: STRING>"
    columns = f"id BIGINT, other BIGINT, s {inner}, l ARRAY<{inner}>"
    lake.declare("t", stored="AVRO", columns=columns)
    before = lake.rows("t")
    assert {row[2].y for row in before if row[2]} == {None, "y0", "y1", "y2"}
    compact(doors, of(doors), SERIAL)
    assert (lake.rows("t"), len(lake.files("t"))) == (before, 1)


def append(rows, folder):
    rows.coalesce(1).write.format("avro").option("compression", "deflate").mode("append").save(
        str(folder)
    )
