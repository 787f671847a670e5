"""local == spark == the model: on random logs however they are cut, joined and planned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from chispa import assert_df_equality
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from engine import Config, open_log
from engine.replay import spark as spark_engine
from tests.logs import LogBuilder, Shape, add, metadata, protocol, remove
from tests.observe import assert_same, observed
from tests.random_logs import RandomLog, random_logs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FORMATS = ("delta", "indextables")
# Three tasks for any log, however few its files are.
SPREAD = Config(
    options={
        "spark.indextables.transaction.distributed.adaptiveParallelism": False,
        "spark.indextables.transaction.distributed.parallelism": 3,
    }
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("random") / "table"


@st.composite
def ways(draw: st.DrawFn) -> dict[str, Any]:
    """Ways to run one replay, none of which may change its answer."""
    return {
        "RANGE_BYTES": draw(st.sampled_from([100, 700, spark_engine.RANGE_BYTES])),
        "BROADCAST_TAIL_BYTES": draw(st.sampled_from([0, spark_engine.BROADCAST_TAIL_BYTES])),
        "spark.sql.adaptive.enabled": draw(st.booleans()),
        "spark.sql.ansi.enabled": draw(st.booleans()),
        "spark.sql.shuffle.partitions": draw(st.sampled_from([1, 2])),
    }


@settings(max_examples=12, phases=[Phase.explicit, Phase.generate])  # shrinking takes minutes
@given(log=random_logs(), data=st.data(), way=ways())
def test_spark_agrees_with_the_model_and_with_the_local_engine(
    spark: SparkSession, root: Path, log: RandomLog, data: st.DataObject, way: dict[str, Any]
) -> None:
    builder = log.write(root)
    version = data.draw(st.none() | st.integers(log.first, log.latest), label="version")
    with configured(spark, way):
        opened = open_log(str(root), SPREAD, spark=spark)
        snapshot = opened.snapshot(version, engine="spark")
        assert snapshot.engine == "spark", snapshot.fallbacks
        assert_same(observed(snapshot), builder.truth(version))
    local = opened.snapshot(version, engine="local")
    assert snapshot.totals() == local.totals()
    assert snapshot.summary().keys() - {"metrics"} == local.summary().keys()


@pytest.mark.parametrize("log_format", FORMATS)
@pytest.mark.parametrize(
    "way",
    [
        {},
        {"spark.sql.adaptive.enabled": True},
        {"spark.sql.ansi.enabled": False},
        {"BROADCAST_TAIL_BYTES": 0, "spark.sql.shuffle.partitions": 3},
        {"BROADCAST_TAIL_BYTES": 0, "spark.sql.adaptive.enabled": True},
    ],
    ids=str,
)
def test_a_data_frame_of_live_files_is_what_the_local_engine_found(
    spark: SparkSession, tmp_path: Path, log_format: str, way: dict[str, Any]
) -> None:
    log = LogBuilder(tmp_path, log_format)
    log.start(*(add(f"f{i}", partitionValues={"p": str(i)}, tags={"k": None}) for i in range(30)))
    log.commit(remove("f3"), add("f31", stats='{"numRecords":1}'))
    log.checkpoint(1)
    log.commit(remove("f4"), add("f3"), add("f5", size=7))
    snapshot = open_log(str(tmp_path), SPREAD, spark=spark).snapshot(engine="local")
    with configured(spark, way):
        found = snapshot.to_spark(spark)
        wanted = spark.createDataFrame(snapshot.files())
        assert_df_equality(
            found, wanted, ignore_row_order=True, ignore_nullable=True, transforms=[without_maps]
        )
        assert found.count() == 30


# --- document 002's critical cases ----------------------------------------------------------------


@pytest.mark.parametrize("log_format", FORMATS)
def test_versions_that_arrive_out_of_order_are_applied_in_order(
    spark: SparkSession, tmp_path: Path, log_format: str
) -> None:
    log = LogBuilder(tmp_path, log_format).start().filler(99)
    for version in (100, 101, 102):
        log.commit(add("file1", partitionValues={"v": str(version)}))
    log.checkpoint(99)
    opened = open_log(str(tmp_path), SPREAD, spark=spark)
    # The tasks get the largest file first: make that order differ from that of the versions.
    for version, padding in ((102, 300), (100, 200), (101, 100)):
        path = log.commit_path(version)
        path.write_bytes(path.read_bytes() + b"\n" * padding)
    snapshot = opened.snapshot(engine="spark")
    (found,) = snapshot.to_spark(spark).where("path = 'file1'").collect()
    assert found["partitionValues"] == {"v": "102"}
    assert_same(observed(snapshot), log.truth())


@pytest.mark.parametrize("log_format", FORMATS)
def test_a_checkpoint_of_a_thousand_files_and_three_actions(
    spark: SparkSession, tmp_path: Path, log_format: str
) -> None:
    log = LogBuilder(tmp_path, log_format)
    log.start(*(add(f"file{i}.split") for i in range(1, 1001)))
    log.checkpoint(0)
    log.commit(add("file1001.split"))
    log.commit(remove("file500.split"))
    log.commit(add("file1002.split"))
    log.commit_path(0).write_bytes(b"not read: the checkpoint covers it")
    snapshot = open_log(str(tmp_path), SPREAD, spark=spark).snapshot(engine="spark")
    assert snapshot.totals().num_files == 1001
    assert snapshot.state.metrics()["files"] == 4
    assert_same(observed(snapshot), log.truth())


@pytest.mark.parametrize("log_format", FORMATS)
@pytest.mark.parametrize("is_removed_last", [True, False])
@pytest.mark.parametrize("with_checkpoint", [True, False])
def test_remove_and_add_of_one_path_in_one_version_count_in_their_order(
    spark: SparkSession,
    tmp_path: Path,
    log_format: str,
    is_removed_last: bool,
    with_checkpoint: bool,
) -> None:
    log = LogBuilder(tmp_path, log_format).start(add("f", size=1))
    if with_checkpoint:
        log.checkpoint(0)
    both = [remove("f"), add("f", size=2)]
    log.commit(*(both[::-1] if is_removed_last else both))
    snapshot = open_log(str(tmp_path), SPREAD, spark=spark).snapshot(engine="spark")
    assert snapshot.files()["size"].to_pylist() == ([] if is_removed_last else [2])
    assert snapshot.totals().num_tombstones == int(is_removed_last)
    assert_same(observed(snapshot), log.truth())


# --- shapes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log_format", "shape"),
    [
        ("delta", Shape.MULTI_PART),
        ("delta", Shape.V2_JSON_SIDECARS),
        ("delta", Shape.V2_PARQUET_SIDECARS),
        ("indextables", Shape.JSON_LINES),
        ("indextables", Shape.JSON_OBJECT),
        ("indextables", Shape.JSON_PARTS),
    ],
)
def test_a_checkpoint_cut_into_many_pieces_is_read_once(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    log_format: str,
    shape: Shape,
) -> None:
    monkeypatch.setattr(spark_engine, "RANGE_BYTES", 500)
    log = LogBuilder(tmp_path, log_format).start(*(add(f"f{i}") for i in range(200)))
    log.checkpoint(0, shape, parts=3)
    log.commit(remove("f7"), add("f8", size=5))
    snapshot = open_log(str(tmp_path), SPREAD, spark=spark).snapshot(engine="spark")
    assert snapshot.segment.checkpoint is not None
    assert snapshot.totals().num_files == 199
    assert_same(observed(snapshot), log.truth())


@pytest.mark.parametrize("log_format", FORMATS)
def test_sizes_that_add_up_to_more_than_64_bits(
    spark: SparkSession, tmp_path: Path, log_format: str
) -> None:
    log = LogBuilder(tmp_path, log_format).start(*(add(f"f{i}", size=2**62) for i in range(5)))
    assert log.version == 0
    opened = open_log(str(tmp_path), spark=spark)
    for engine in ("local", "spark"):
        snapshot = opened.snapshot(engine=engine)
        assert snapshot.engine == engine
        assert snapshot.totals().size_bytes == 5 * 2**62


def test_one_protocol_and_many_single_actions_are_reconciled_across_tasks(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = LogBuilder(tmp_path)
    log.commit(protocol(), metadata(name="first"), add("f"))
    for version in range(1, 7):
        app = {"appId": f"app-{version % 2}", "version": version}
        domain = {"domain": f"d{version % 3}", "configuration": str(version), "removed": False}
        log.commit({"txn": app}, {"domainMetadata": domain})
    log.commit(metadata(name="last"), {"domainMetadata": {"domain": "d1", "removed": True}})
    snapshot = open_log(str(tmp_path), SPREAD, spark=spark).snapshot(engine="spark")
    assert snapshot.metadata["name"] == "last"
    assert snapshot.txns == {"app-0": 6, "app-1": 5}
    assert snapshot.domains == {"d0": "6", "d2": "5"}


def without_maps(frame: Any) -> Any:
    """Return maps as sorted arrays of their entries: maps have no order, and no equality."""
    from pyspark.sql import functions as F

    return frame.select(
        *(
            F.sort_array(F.map_entries(f.name)).alias(f.name)
            if f.dataType.typeName() == "map"
            else F.col(f.name)
            for f in frame.schema
        )
    )


def configured(spark: SparkSession, way: dict[str, Any]) -> AbstractContextManager[None]:
    """Set session settings, and names of the Spark engine, for a while."""
    from contextlib import contextmanager

    @contextmanager
    def context() -> Iterator[None]:
        before = {name: spark.conf.get(name) for name in way if name.startswith("spark.")}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in way.items():
                if name in before:
                    spark.conf.set(name, value)
                else:
                    patch.setattr(spark_engine, name, value)
            try:
                yield
            finally:
                for name, value in before.items():
                    spark.conf.set(name, value)

    return context()
