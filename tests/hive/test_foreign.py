"""Directories that are more than the metastore says: a table with a log, a table of others."""

from __future__ import annotations

import pytest

from engine.errors import HiveRefusedError, HiveSupersededError
from engine.hive import logs
from engine.hive.catalog import Catalog
from engine.hive.compact import compact
from engine.hive.files import Files
from engine.hive.inspect import assess, refusal
from engine.hive.model import FileEntry, Listing, Options, Swap, Table, Unit
from engine.hive.plan import plan
from engine.hive.upkeep import cleanup

KEPT = [
    ("_delta_log/0.json", "Delta"),
    ("_transaction_log/0.json", "IndexTables"),
    (".hoodie/hoodie.properties", "Hudi"),
    ("metadata/v1.metadata.json", "Iceberg"),
]


def of(doors):
    return doors.catalog.table("lake", "t")


@pytest.mark.parametrize(("file", "whose"), KEPT)
@pytest.mark.parametrize("shape", ["flat", "one_key"])
def test_a_table_with_a_log_is_refused_whatever_the_metastore_calls_it(
    lake, quickly, shape, file, whose
):
    lake.make("t", shape)
    log = lake.path("t") / file
    log.parent.mkdir()
    log.touch()
    with pytest.raises(HiveRefusedError, match=whose):
        plan(quickly, of(quickly), Options())
    log.unlink()
    log.with_name("readme.txt").touch()
    if whose == "Iceberg":
        plan(quickly, of(quickly), Options())


def test_partitions_of_a_table_with_a_log_are_refused_under_another_root(lake, quickly):
    lake.make("delta", "one_key")
    (lake.path("delta") / "_delta_log").mkdir()
    lake.declare("t", "dt STRING")
    lake.add("t", {"dt": "a"}, lake.path("delta") / "dt=a")
    with pytest.raises(HiveRefusedError, match="_delta_log"):
        plan(quickly, of(quickly), Options())


def test_a_log_is_looked_for_once_and_not_for_each_partition():
    units = [Unit(f"dt={n}", (("dt", str(n)),), f"file:/t/dt={n}") for n in range(500)]
    strays = [Unit("dt=x", (("dt", "x"),), "file:/elsewhere")]
    table = Table("db", "t", "id", "external", "file:/t/", "parquet", ("dt",))
    assert logs.tops(table, units + strays) == ["file:/t"]


@pytest.mark.parametrize("swap", Swap)
def test_originals_that_a_table_of_another_database_reads_are_not_cleaned_up(
    spark, lake, doors, swap
):
    lake.make("t", "one_key")
    spark.sql("CREATE DATABASE IF NOT EXISTS others")
    report = compact(doors, of(doors), Options(swap=swap, parallelism=1))
    kept = lake.path("t") / "dt=a"
    if swap is Swap.RENAME:
        kept = lake.path("t") / f".dt=a__old_{report.run}" / "dt=a"
    before = sorted(kept.glob("*.parquet"))
    spark.sql(f"CREATE EXTERNAL TABLE others.o (id INT) STORED AS PARQUET LOCATION '{kept}'")
    try:
        with pytest.raises(HiveSupersededError, match="is the LOCATION of a table"):
            cleanup(doors, of(doors))
        spark.sql("DROP TABLE others.o")
        assert sorted(kept.glob("*.parquet")) == before
        assert len(before) == 3
        cleanup(doors, of(doors))
    finally:
        spark.sql("DROP DATABASE others CASCADE")
    assert not list(kept.glob("*.parquet"))


def test_all_locations_cost_a_call_a_database_and_none_for_unrelated_partitions(
    spark, lake, doors, monkeypatch
):
    lake.make("t", "one_key")
    spark.sql("CREATE DATABASE others")
    for name, root in (("same", lake.path("t")), ("far", lake.path("far"))):
        spark.sql(
            f"CREATE EXTERNAL TABLE others.{name} (id INT) PARTITIONED BY (dt STRING) "
            f"STORED AS PARQUET LOCATION '{root}'"
        )
        place = lake.path(name) / "dt=q"
        spark.sql(f"ALTER TABLE others.{name} ADD PARTITION (dt='q') LOCATION '{place}'")
    counted = Counted(doors.catalog._external)
    monkeypatch.setattr(doors.catalog, "_external", counted)
    found = doors.catalog.locations("lake", but_not="", partitions=True)
    databases = counted.calls.count("listTables")
    assert (
        databases == counted.calls.count("getTablesByName") == spark.sql("SHOW DATABASES").count()
    )
    assert counted.calls.count("listPartitions") == 2
    assert f"file:{lake.path('same')}/dt=q" in found
    assert f"file:{lake.path('far')}" in found
    assert f"file:{lake.path('far')}/dt=q" not in found
    spark.sql("DROP DATABASE others CASCADE")


def test_a_location_without_a_host_is_the_same_as_with_it(spark, monkeypatch):
    catalog = Catalog(spark)
    assert catalog._location(Storage(spark, "unheard:/x")) == "unheard:/x"
    assert catalog._location(Storage(spark, "/x")) == "file:/x"
    monkeypatch.setattr(Files, "qualify", lambda _, place: f"hdfs://nn/{place.rpartition(':/')[2]}")
    for written, read in (
        ("hdfs:/x", "hdfs://nn/x"),
        ("hdfs://nn/x", "hdfs://nn/x"),
        ("file:/x", "file:/x"),
    ):
        assert catalog._location(Storage(spark, written)) == read


def test_a_partition_with_a_log_of_its_own_is_left_alone():
    listing = Listing((FileEntry("a", 1, 0),) * 2, hidden=(("_delta_log", 0),))
    verdict = assess(Unit("dt=a", (), "file:/t/dt=a"), listing, Options(), now_ms=10)
    assert (verdict.due, "_delta_log" in verdict.reason) == (False, True)


@pytest.mark.parametrize("kind", ["header", "footer"])
def test_text_with_lines_that_are_no_rows_is_refused(kind):
    told = {f"skip.{kind}.line.count": "2"}
    table = Table("db", "t", "id", "external", "file:/t", "text", properties=told)
    assert f"{kind} lines" in refusal(table, Options())
    told[f"skip.{kind}.line.count"] = "0"
    assert refusal(table, Options()) == ""


class Storage:
    """What the metastore says of a directory."""

    def __init__(self, spark, place):
        uri = spark._jvm.java.net.URI(place)
        self._uri = spark._jvm.scala.Option.apply(uri)

    def locationUri(self):
        return self._uri


class Counted:
    """The external catalog, with the names of what was called."""

    def __init__(self, real):
        self._real, self.calls = real, []

    def __getattr__(self, name):
        self.calls.append(name)
        return getattr(self._real, name)
