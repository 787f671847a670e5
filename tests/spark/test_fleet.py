"""Many small tables in one Spark job: a table a task, and a worker that dies costs one table."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from engine import open_log
from engine.config import Config
from engine.upkeep.fleet.maintain import Report, Request, lost, maintain
from engine.upkeep.fleet.spark import catalog_tables, executors
from engine.upkeep.fleet.tables import Target, find_tables
from tests.logs import LogBuilder
from tests.upkeep.fleets import fleet

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]

NOW = 1_700_000_000_000


def now_ms() -> int:
    return NOW


def fatal(table: str, *args: Any, **options: Any) -> Any:
    """Open a table, unless it is one that takes its worker down."""
    if table.endswith("table-007"):
        os._exit(1)
    return open_log(table, *args, **options)


def run(spark: SparkSession, pattern: str, **request: Any) -> Report:
    opened = request.pop("open", open_log)
    asked = Request(opened, now_ms, spark=spark, **request)
    return maintain(find_tables([Target(pattern)]), asked, executors(spark, lost))


def test_sixty_tables_are_kept_up_by_executors_and_broken_ones_are_told(
    tmp_path: Path, spark: SparkSession
) -> None:
    broken = fleet(tmp_path, 60)
    report = run(spark, f"{tmp_path}/*")
    assert (report.count("done"), report.count("failed")) == (55, 5)
    assert {t.table: t.problem.code for t in report.tables if t.problem} == broken
    assert [t.table for t in report.tables] == sorted(t.table for t in report.tables)
    for path in tmp_path.iterdir():
        if str(path) not in broken:
            snapshot = open_log(str(path)).snapshot(engine="local")
            assert snapshot.segment.checkpoint is not None
            assert (snapshot.segment.checkpoint.version, snapshot.version) == (11, 11)
            assert snapshot.totals().num_files == 13
    again = run(spark, f"{tmp_path}/*")
    assert (again.count("nothing due"), again.count("failed")) == (55, 5)


def test_a_table_that_takes_its_worker_down_is_found_and_told(
    tmp_path: Path, spark: SparkSession
) -> None:
    for number in range(9):
        LogBuilder(tmp_path / f"table-{number:03d}").start().filler(10)
    report = run(spark, f"{tmp_path}/*", open=fatal)
    failed = [table for table in report.tables if table.problem]
    assert [(t.table, t.problem.code) for t in failed if t.problem] == [
        (str(tmp_path / "table-007"), "DISTRIBUTED")
    ]
    assert report.count("done") == 8


def test_a_large_table_is_written_by_all_executors_from_the_driver(
    tmp_path: Path, spark: SparkSession
) -> None:
    LogBuilder(tmp_path / "small").start().filler(10)
    LogBuilder(tmp_path / "large").start().filler(30)
    few = {
        "spark.indextables.transaction.distributed.minFiles": 20,
        "spark.indextables.transaction.distributed.minBytes": 1,
    }
    report = run(spark, f"{tmp_path}/*", config=Config(options=few))
    assert {t.table.rpartition("/")[2]: t.done[0].summary["engine"] for t in report.tables} == {
        "large": "spark",
        "small": "local",
    }


def test_the_catalog_tells_its_delta_tables(tmp_path: Path, spark: SparkSession) -> None:
    LogBuilder(tmp_path / "events").start()
    spark.sql("CREATE DATABASE fleet")
    try:
        _external_delta_table(spark, "fleet", "events", str(tmp_path / "events"))
        spark.sql("CREATE TABLE fleet.plain (a INT) USING parquet")
        (target,) = catalog_tables(spark, "fleet")
        assert find_tables([target]).targets[0].table == str(tmp_path / "events")
        assert target in catalog_tables(spark)
    finally:
        spark.sql("DROP DATABASE fleet CASCADE")


def _external_delta_table(spark: SparkSession, database: str, name: str, location: str) -> None:
    """Enter a table as delta-spark does, without it: into the session's external catalog."""
    external = spark._jsparkSession.sharedState().externalCatalog()
    spark.sql(f"CREATE TABLE {database}.{name} (a INT) USING parquet LOCATION '{location}'")
    table = external.getTable(database, name)
    jvm = spark.sparkContext._jvm
    fields = [
        jvm.scala.Some("delta") if at == _place(table, "provider") else table.productElement(at)
        for at in range(table.productArity())
    ]
    external.alterTable(jvm.org.apache.spark.sql.catalyst.catalog.CatalogTable(*fields))


def _place(table: Any, field: str) -> int:
    names = table.productElementNames()
    at = 0
    while names.hasNext():
        if names.next() == field:
            return at
        at += 1
    raise AssertionError(field)
