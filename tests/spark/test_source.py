"""`spark.read.format("txlog")`, its stream, and the DataFrames of a log."""

from __future__ import annotations

import gzip
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from chispa import assert_df_equality

from engine import open_log
from engine.config import MAX_DECOMPRESSED_BYTES
from engine.datasource import TxlogSource, register
from engine.datasource_parts import read as read_partition
from engine.errors import CorruptCheckpointError, VersionNotFoundError
from engine.sample import make_sample
from tests.logs import LogBuilder, Shape, add, remove

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

FORMATS = ("delta", "indextables")
SHAPES: dict[str, dict[str, Any]] = {
    "commits only": {},
    "classic checkpoint": {"checkpoint_every": 10},
    "v2 checkpoint": {"checkpoint_every": 10, "checkpoint_kind": "v2-json"},
    "multi-part checkpoint": {"checkpoint_every": 10, "checkpoint_kind": "multi-part"},
    "compactions": {"checkpoint_every": 20, "compact_every": 5},
}
SKIP = {"path": "bad", "skipTimestamp": 1, "reason": "corrupt", "retryAfter": 2, "skipCount": 1}


@pytest.fixture(scope="module")
def source(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark


@pytest.fixture(scope="module", params=FORMATS)
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LogBuilder:
    log = LogBuilder(tmp_path_factory.mktemp("source"), request.param)
    info = {"commitInfo": {"timestamp": 5, "operation": "WRITE", "operationMetrics": {"n": "1"}}}
    log.start(*(add(f"f{i}", partitionValues={"p": str(i)}) for i in range(20)))
    log.commit(info, remove("f1"), add("f2", size=7))
    shape = Shape.V2_PARQUET_SIDECARS if request.param == "delta" else Shape.CLASSIC
    log.checkpoint(1, shape)
    extra = [{"mergeskip": SKIP}] if request.param == "indextables" else []
    log.commit(info, remove("f3"), add("f1"), *extra)
    for version in range(3):
        log.modified(version, 1_700_000_000_000 + version * 60_000)
    return log


def read(spark: SparkSession, log: LogBuilder, view: str, **options: Any) -> DataFrame:
    reader = spark.read.format("txlog").option("view", view)
    return reader.options(**options).load(str(log.root))


@pytest.mark.parametrize("view", ["files", "tombstones"])
@pytest.mark.parametrize("version", [None, 1])
def test_files_and_tombstones_are_those_of_the_snapshot(
    source: SparkSession, log: LogBuilder, view: str, version: int | None
) -> None:
    from tests.spark.test_agreement_on_spark import without_maps

    snapshot = open_log(str(log.root)).snapshot(version, engine="local")
    table = snapshot.files() if view == "files" else snapshot.tombstones()
    options = {} if version is None else {"versionAsOf": version}
    found = read(source, log, view, **options)
    assert_df_equality(
        found,
        source.createDataFrame(table),
        ignore_row_order=True,
        ignore_nullable=True,
        transforms=[without_maps],
    )
    assert found.count() == table.num_rows


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_of_a_log_is_read_by_its_partitions(tmp_path: Path, shape: str) -> None:
    path = str(tmp_path / "events")
    make_sample(path, commits=24, deletion_vectors=0.2, seed=5, **SHAPES[shape])
    snapshot = open_log(path).snapshot()
    for view, table in (("files", snapshot.files()), ("tombstones", snapshot.tombstones())):
        source = TxlogSource({"path": path, "view": view})
        reader = source.reader(source.schema())
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
        key = [("path", "ascending"), ("dvId", "ascending")]
        assert pa.Table.from_batches(batches).sort_by(key) == table.combine_chunks().sort_by(key)
        assert table.num_rows


def test_a_moment_is_the_version_that_was_the_latest_then(
    source: SparkSession, log: LogBuilder
) -> None:
    found = read(source, log, "files", timestampAsOf="2023-11-14T22:14:30")
    assert found.count() == open_log(str(log.root)).snapshot(1).totals().num_files


def test_every_action_and_what_each_commit_says_of_itself(
    source: SparkSession, log: LogBuilder
) -> None:
    opened = open_log(str(log.root))
    actions = read(source, log, "actions")
    total = sum(map(len, log.commits)) - 2  # commitInfo says nothing of the state
    assert {actions.count(), opened.actions(source).count()} <= {total, total + 2}
    assert actions.schema == opened.actions(source).schema
    history = read(source, log, "history").select("version", "operation", "operationMetrics")
    wanted = [(2, "WRITE", '{"n":"1"}'), (1, "WRITE", '{"n":"1"}'), (0, None, None)]
    assert [tuple(row) for row in history.orderBy("version", ascending=False).collect()] == wanted
    own = opened.history(source, limit=2).select("version", "operation", "operationMetrics")
    assert [tuple(row) for row in own.collect()] == wanted[:2]
    changes = opened.changes(source, 1, 2).select("version", "change", "path").collect()
    assert sorted(map(tuple, changes)) == [
        (1, "add", "f2"),
        (1, "remove", "f1"),
        (2, "add", "f1"),
        (2, "remove", "f3"),
    ]
    with pytest.raises(VersionNotFoundError, match="commit 3"):
        opened.changes(source, 1, 3)


def test_skips_are_rows_where_the_format_has_them(source: SparkSession, log: LogBuilder) -> None:
    if log.log_format == "indextables":
        (found,) = read(source, log, "skips").collect()
        assert {name: found[name] for name in SKIP} == SKIP
    else:
        with pytest.raises(Exception, match="delta logs have no skips"):
            read(source, log, "skips").collect()


def test_a_temporary_view_answers_sql(source: SparkSession, log: LogBuilder) -> None:
    options = f"path '{log.root}', versionAsOf 0"
    source.sql(f"CREATE OR REPLACE TEMPORARY VIEW live USING txlog OPTIONS ({options})")
    assert source.sql("SELECT count(*), sum(size) FROM live").first() == (20, 2000)


def test_a_cleaned_log_shows_what_is_left(source: SparkSession, tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).start().filler(4)
    log.checkpoint(3)
    log.clean_up(3)
    versions = {row["version"] for row in read(source, log, "actions").collect()}
    assert versions == {3, 4}
    assert read(source, log, "files").count() == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"view": "fils"}, "view='fils'.*files, tombstones, actions, history, skips"),
        ({"versionAsOf": "-1"}, "versionAsOf='-1'.*a version number"),
        ({"versionAsOf": "99"}, "99"),
        ({"timestampAsOf": "yesterday"}, "timestampAsOf='yesterday'.*2024-01-31T12:00:00"),
        ({"spark.txlog.read.maxDecompressedBytes": "lots"}, "maxDecompressedBytes.*64m or 1g"),
    ],
)
def test_a_wrong_option_is_named_with_what_is_allowed(
    source: SparkSession, log: LogBuilder, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        source.read.format("txlog").options(**options).load(str(log.root)).collect()


def test_a_table_that_is_not_there_is_told(source: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="no transaction log here"):
        source.read.format("txlog").load(str(tmp_path)).collect()


# --- streams -------------------------------------------------------------------------------------


@pytest.mark.parametrize("log_format", FORMATS)
def test_a_stream_follows_new_commits_and_goes_on_after_a_restart(
    source: SparkSession, tmp_path: Path, log_format: str
) -> None:
    log = LogBuilder(tmp_path / "table", log_format).start(add("f0"))
    progress, output = str(tmp_path / "progress"), str(tmp_path / "output")

    def start(**trigger: bool) -> Any:
        stream = source.readStream.format("txlog").option("view", "actions").load(str(log.root))
        chosen = stream.where("add IS NOT NULL").select("version", "add.path")
        writer = chosen.writeStream.format("parquet").option("checkpointLocation", progress)
        return (writer.trigger(**trigger) if trigger else writer).start(output)

    def paths() -> list[str]:
        return [row["path"] for row in source.read.parquet(output).orderBy("version").collect()]

    query = start()
    try:
        query.processAllAvailable()
        assert paths() == ["f0"]
        log.commit(add("f1"))
        query.processAllAvailable()
        assert paths() == ["f0", "f1"]
    finally:
        query.stop()
    log.commit(add("f2"))
    log.commit(add("f3"))
    start(availableNow=True).awaitTermination()
    assert paths() == ["f0", "f1", "f2", "f3"]


def test_a_stream_starts_where_it_is_told_and_only_follows_commits(
    source: SparkSession, tmp_path: Path
) -> None:
    log = LogBuilder(tmp_path).start().filler(4)
    reader = source.readStream.format("txlog").option("view", "history")
    stream = reader.option("startingVersion", 3).load(str(log.root))
    query = stream.writeStream.format("memory").queryName("late").start()
    try:
        query.processAllAvailable()
        found = source.table("late").select("version").orderBy("version").collect()
        assert [row["version"] for row in found] == [3, 4]
    finally:
        query.stop()
    with pytest.raises(Exception, match="actions or history for a stream"):
        query = source.readStream.format("txlog").load(str(log.root)).writeStream
        query.format("noop").start().processAllAvailable()


def test_a_stream_told_to_start_later_waits_and_never_goes_back(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).start().filler(2)
    options = {"path": str(tmp_path), "view": "history", "startingVersion": "5"}
    source = TxlogSource(options)
    reader = source.streamReader(source.schema())
    begun = reader.initialOffset()
    assert begun == {"version": 4}
    assert reader.latestOffset(begun, None) == begun
    assert reader.latestOffset() == begun
    assert list(reader.partitions(begun, begun)) == []
    log.filler(4)
    latest = reader.latestOffset(begun, None)
    assert latest == {"version": 6}
    rows = [b for part in reader.partitions(begun, latest) for b in reader.read(part)]
    assert pa.Table.from_batches(rows)["version"].to_pylist() == [5, 6]


def test_the_checkpoint_keeps_to_the_bound_on_what_may_unpack(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path, "indextables").start(*(add(f"f{at}") for at in range(2000)))
    (written,) = log.checkpoint(0, Shape.JSON_LINES)
    written.write_bytes(b"\x01\x01" + gzip.compress(written.read_bytes()))
    path = str(tmp_path)
    source = TxlogSource({"path": path})
    (wide,) = source.reader(source.schema()).partitions()
    assert wide.limit_bytes == open_log(path).config[MAX_DECOMPRESSED_BYTES]
    narrow = replace(wide, limit_bytes=1000)
    with pytest.raises(CorruptCheckpointError, match="unpacks to more than 1000 bytes"):
        list(read_partition(narrow))
