"""Compact an Avro table in a JVM that has spark-avro. Run as a program: PACKAGE FOLDER.

Exits with 3 when the package cannot be had.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from engine.errors import HiveSchemaError
from engine.hive.catalog import Catalog
from engine.hive.compact import compact
from engine.hive.files import Files
from engine.hive.model import Options, Swap
from engine.hive.swap import Doors
from engine.hive.upkeep import cleanup, rollback
from tests.hive.session import hive_session
from tests.hive.tables import Lake


def main(package: str, folder: Path) -> int:
    try:
        with hive_session(folder, **{"spark.jars.packages": package}) as spark:
            spark.sql("CREATE DATABASE lake")
            lake = Lake(spark, folder / "lake")
            doors = Doors(Files(spark), Catalog(spark), lambda: int(time.time() * 1000))
            return tell(spark, lake, doors)
    except RuntimeError as error:
        sys.stderr.write(f"{error}\n")
        return 3


def tell(spark, lake: Lake, doors: Doors) -> int:
    old = spark.range(4).selectExpr("id", "concat('v', id) AS v")
    new = spark.range(4, 8).selectExpr("id", "concat('v', id) AS v", "id * 10 AS later")
    for rows in (old, old, new):
        rows.coalesce(1).write.format("avro").option("compression", "deflate").mode("append").save(
            str(lake.path("t"))
        )
    lake.declare("t", stored="AVRO", columns="id BIGINT, v STRING, later BIGINT")
    before = lake.rows("t")
    for swap in Swap:
        report = compact(doors, doors.catalog.table("lake", "t"), Options(swap=swap, parallelism=1))
        assert report.as_json()["files_after"] == 1, report
        assert lake.rows("t") == before
        assert lake.rows(f"`{report.backup}`") == before
        rollback(doors, doors.catalog.table("lake", "t"))
        assert lake.rows("t") == before
    compact(doors, doors.catalog.table("lake", "t"), Options(parallelism=1))
    (file,) = lake.files("t")
    assert b"deflate" in Path(file).read_bytes()[:2000]
    cleanup(doors, doors.catalog.table("lake", "t"))
    assert (lake.rows("t"), lake.debris()) == (before, [])

    spark.range(2).selectExpr("id", "id AS other").coalesce(1).write.format("avro").mode(
        "append"
    ).save(str(lake.path("t")))
    try:
        compact(doors, doors.catalog.table("lake", "t"), Options(parallelism=1))
    except HiveSchemaError as error:
        assert "other" in str(error)
        assert lake.count("t") == len(before) + 2
        return 0
    raise AssertionError("columns that no file has together were lost")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
