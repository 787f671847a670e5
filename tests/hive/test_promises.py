"""What the issue promises beside safety: few calls, the order the table asks for, a demo."""

from __future__ import annotations

import io

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from engine.hive import demo
from engine.hive.compact import compact
from engine.hive.model import Options
from engine.hive.plan import plan
from tests.hive.test_foreign import Counted


def test_all_partitions_of_a_table_cost_one_catalog_call(lake, doors, monkeypatch):
    lake.make("t", "one_key")
    for number in range(5):
        lake.add("t", {"dt": f"n{number}"}, lake.path("t") / "dt=a")
    table = doors.catalog.table("lake", "t")
    counted = Counted(doors.catalog._external)
    monkeypatch.setattr(doors.catalog, "_external", counted)
    planned = plan(doors, table, Options())
    assert len(planned.taken) + len(planned.left) == 7
    assert counted.calls == ["listPartitions"]


def test_rows_come_in_the_order_that_the_tables_ddl_asks_for(spark, lake, doors):
    for start in (5, 0):
        rows = spark.range(start, start + 5).selectExpr("cast(9 - id AS int) AS id", "'v' AS v")
        rows.coalesce(1).write.mode("append").parquet(str(lake.path("t")))
    lake.sql(
        "CREATE EXTERNAL TABLE lake.t (id INT, v STRING) CLUSTERED BY (v) SORTED BY (id) "
        f"INTO 1 BUCKETS STORED AS PARQUET LOCATION '{lake.path('t')}'"
    )
    table = doors.catalog.table("lake", "t")
    assert table.sort_columns == ("id",)
    compact(doors, table, Options(parallelism=1))
    (file,) = lake.files("t")
    assert pq.read_table(file)["id"].to_pylist() == list(range(10))


@pytest.mark.slow
def test_the_demo_tells_its_story_on_small_tables(spark, tmp_path, monkeypatch):
    small = [(name, keys, places[:2], 3, 12) for name, keys, places, *_ in demo.TABLES]
    monkeypatch.setattr(demo, "TABLES", small)
    console = Console(record=True, width=120, file=io.StringIO())
    try:
        assert demo.tell(spark, tmp_path / "lake", console) == 0
    finally:
        spark.sql("DROP DATABASE demo CASCADE")
    said = console.export_text()
    for words in ("demo.flat: 3 files", "demo.events_2p: 6 files", "rolled back: 2 partitions"):
        assert words in said
    assert "every table holds what it held" in said
