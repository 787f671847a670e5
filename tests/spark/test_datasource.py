"""`format("txlog")`: every view of a log, as rows, in SQL and as a stream."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest
from chispa import assert_df_equality

from engine import open_log
from engine.datasource import register
from engine.sample import make_sample

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SHAPES = {
    "commits only": {},
    "classic checkpoint": {"checkpoint_every": 10},
    "v2 checkpoint": {"checkpoint_every": 10, "checkpoint_kind": "v2-json"},
    "multi-part checkpoint": {"checkpoint_every": 10, "checkpoint_kind": "multi-part"},
    "compactions": {"checkpoint_every": 20, "compact_every": 5},
}


@pytest.fixture(autouse=True)
def _registered(spark: SparkSession) -> None:
    register(spark)


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "events")
    make_sample(path, commits=24, deletion_vectors=0.2, txns=1, checkpoint_every=10, seed=5)
    return path


def read(spark: SparkSession, path: str, view: str, **options: object) -> DataFrame:
    return spark.read.format("txlog").options(view=view, **options).load(path)


@pytest.mark.parametrize("shape", SHAPES)
def test_files_and_tombstones_are_those_of_the_snapshot(spark, tmp_path, shape):
    path = str(tmp_path / "events")
    make_sample(path, commits=24, deletion_vectors=0.2, seed=5, **SHAPES[shape])
    snapshot = open_log(path).snapshot()
    for view, table in (("files", snapshot.files()), ("tombstones", snapshot.tombstones())):
        assert_df_equality(
            read(spark, path, view).select("path", "dvId", "size"),
            spark.createDataFrame(table.select(["path", "dvId", "size"])),
            ignore_row_order=True,
            ignore_nullable=True,
        )


def test_a_version_and_a_moment_of_the_past(spark, table):
    log = open_log(table)
    assert read(spark, table, "files", versionAsOf=5).count() == log.snapshot(5).files().num_rows
    moments = {c["version"]: c["timestamp"] for c in log.history()}
    moment = datetime.fromtimestamp(moments[7] / 1000, timezone.utc).isoformat()
    then = read(spark, table, "files", timestampAsOf=moment)
    assert (
        then.count()
        == log.snapshot(log.version_at(datetime.fromisoformat(moment))).files().num_rows
    )


def test_actions_and_history_hold_every_commit(spark, table):
    log = open_log(table)
    by_version = {
        row["version"]: row["count"]
        for row in read(spark, table, "actions").groupBy("version").count().collect()
    }
    assert by_version == {v: len(log.commit_actions(v)) for v in range(24)}
    operations = [
        r["operation"] for r in read(spark, table, "history").orderBy("version").collect()
    ]
    assert operations == [c["operation"] for c in log.history()][::-1]


def test_skips_of_an_indextables_log(spark, tmp_path):
    path = str(tmp_path / "index")
    make_sample(path, log_format="indextables", commits=20, skips=0.3, seed=5)
    found = read(spark, path, "skips").select("path", "skipCount").collect()
    skips = open_log(path).snapshot().skips
    assert {(r["path"], r["skipCount"]) for r in found} == {
        (path, skip["skipCount"]) for path, skip in skips.items()
    }
    assert found


def test_sql_reads_a_temporary_view(spark, table):
    spark.sql(f"create or replace temporary view events using txlog options (path '{table}')")
    row = spark.sql("select count(*) as files, sum(size) as bytes from events").collect()[0]
    totals = open_log(table).snapshot().totals()
    assert (row["files"], row["bytes"]) == (totals.num_files, totals.size_bytes)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"view": "nonsense"}, "view='nonsense'"),
        ({"view": "files", "versionAsOf": "soon"}, "versionAsOf='soon'"),
        ({"view": "files", "timestampAsOf": "yesterday"}, "timestampAsOf='yesterday'"),
        ({"view": "skips"}, "delta logs have no skips"),
        ({"view": "files", "versionAsOf": "99"}, "no version 99"),
    ],
)
def test_a_wrong_option_is_told_in_its_own_words(spark, table, options, told):
    with pytest.raises(Exception, match=told):
        spark.read.format("txlog").options(**options).load(table).collect()


def test_a_stream_reads_new_commits_once_and_goes_on_where_it_stopped(spark, tmp_path):
    path, place = tmp_path / "events", str(tmp_path / "checkpoint")
    make_sample(str(path), commits=6, seed=5)
    later = tmp_path / "later"
    make_sample(str(later), commits=9, seed=5)

    def run() -> list[int]:
        seen: list[int] = []
        query = (
            spark.readStream.format("txlog")
            .option("view", "history")
            .load(str(path))
            .writeStream.option("checkpointLocation", place)
            .trigger(availableNow=True)
            .foreachBatch(lambda batch, _: seen.extend(r["version"] for r in batch.collect()))
            .start()
        )
        query.awaitTermination()
        return sorted(seen)

    assert run() == [0, 1, 2, 3, 4, 5]
    for version in (6, 7, 8):
        name = f"{version:020d}.json"
        (path / "_delta_log" / name).write_bytes((later / "_delta_log" / name).read_bytes())
    assert run() == [6, 7, 8]
    assert run() == []


def test_actions_changes_and_history_as_dataframes(spark, table):
    log = open_log(table, spark=spark)
    assert log.actions(spark).count() == sum(len(log.commit_actions(v)) for v in range(24))
    changed = log.changes(spark, 3, 5).groupBy("version", "change").count().collect()
    expected = {
        (v, kind): sum(a.kind == kind for a in log.commit_actions(v))
        for v in (3, 4, 5)
        for kind in ("add", "remove")
    }
    assert {(r["version"], r["change"]): r["count"] for r in changed} == {
        key: count for key, count in expected.items() if count
    }
    assert [r["version"] for r in log.history(spark, limit=3).collect()] == [23, 22, 21]
