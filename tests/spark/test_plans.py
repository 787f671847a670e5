"""What Spark is asked to do: no more shuffling, parsing and joining than it takes."""

from __future__ import annotations

import logging
import re
import threading
from typing import TYPE_CHECKING, Any

import pytest

from engine import open_log
from engine.replay import spark as spark_engine
from engine.replay import spark_sums
from engine.replay.executor import reduced_schema
from engine.replay.spark import ReplayFrames
from engine.replay.sums import SETTLED
from engine.replay.watch import Watched
from tests.logs import LogBuilder, add, remove

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from engine import Snapshot

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    log = LogBuilder(tmp_path_factory.mktemp("plans"))
    log.start(*(add(f"f{i}", stats='{"numRecords":1}') for i in range(100)))
    log.checkpoint(0)
    log.commit(remove("f1"), add("f2", size=5))
    log.commit(add("g"))
    return open_log(str(log.root)).snapshot(engine="local")


@pytest.fixture(params=["false", "true"], ids=["plain", "adaptive"])
def adaptive(spark: SparkSession, request: pytest.FixtureRequest) -> Any:
    spark.conf.set("spark.sql.adaptive.enabled", request.param)
    yield request.param == "true"
    spark.conf.set("spark.sql.adaptive.enabled", "false")


def final_plan(frame: DataFrame) -> list[tuple[int, str]]:
    """Run a query and return its physical plan as it ran: (depth, operator) line by line."""
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    if "AdaptiveSparkPlan" in plan.nodeName():
        plan = (
            plan.finalPhysicalPlan() if hasattr(plan, "finalPhysicalPlan") else plan.executedPlan()
        )
    lines = []
    for line in plan.toString().splitlines():
        found = re.match(r"^([\s:+\-]*)(?:\*\(\d+\) )?(\w+.*)$", line)
        assert found, line
        lines.append((len(found[1]), found[2]))
    return lines


def above(plan: list[tuple[int, str]], at: int) -> list[str]:
    """Return the operators between a line of a plan and its root."""
    depth, found = plan[at][0], []
    for other, operator in reversed(plan[:at]):
        if other < depth:
            depth = other
            found.append(operator)
    return found


def checkpoint_scan(plan: list[tuple[int, str]]) -> int:
    (at,) = [i for i, (_, operator) in enumerate(plan) if is_scan(operator, "parse_checkpoint")]
    return at


def is_scan(operator: str, function: str) -> bool:
    return operator.startswith("MapInArrow") and function in operator


def test_the_checkpoint_is_never_shuffled(
    spark: SparkSession, snapshot: Snapshot, adaptive: bool
) -> None:
    plan = final_plan(snapshot.to_spark(spark))
    path = above(plan, checkpoint_scan(plan))
    assert path, plan
    assert not [operator for operator in path if "Exchange" in operator or "Window" in operator]
    assert [operator for operator in path if operator.startswith("BroadcastHashJoin")]
    assert "LeftAnti" in " ".join(path)


def test_the_keys_of_a_long_tail_are_joined_by_hash(
    spark: SparkSession, snapshot: Snapshot, adaptive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = sorted(row["path"] for row in snapshot.to_spark(spark, ["path"]).collect())
    monkeypatch.setattr(spark_engine, "BROADCAST_TAIL_BYTES", 0)
    frame = snapshot.to_spark(spark, ["path"])
    plan = final_plan(frame)
    path = above(plan, checkpoint_scan(plan))
    assert [operator for operator in path if operator.startswith("ShuffledHashJoin")], plan
    assert not [operator for _, operator in plan if "BroadcastExchange" in operator]
    assert sorted(row["path"] for row in frame.collect()) == wanted
    assert len(wanted) == 100


@pytest.mark.parametrize("has_checkpoint", [True, False], ids=["checkpoint", "commits only"])
def test_after_a_long_tail_only_sums_come_to_the_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_checkpoint: bool
) -> None:
    log = LogBuilder(tmp_path).start(*(add(f"f{at}", size=3) for at in range(500)))
    if has_checkpoint:
        log.checkpoint(0)
    log.commit(remove("f1"), *(add(f"g{at}", size=4) for at in range(1000)))
    monkeypatch.setattr(spark_engine, "BROADCAST_TAIL_BYTES", 0)
    collected: list[Any] = []
    settled = spark_sums._settled

    def kept(*args: Any, **options: Any) -> Any:
        collected.extend(settled(*args, **options))
        return collected

    monkeypatch.setattr(spark_sums, "_settled", kept)
    found = open_log(str(tmp_path), spark=spark).snapshot(engine="spark")
    assert found.engine == "spark"
    assert found.totals() == open_log(str(tmp_path)).snapshot(engine="local").totals()
    assert found.totals().num_files == 1499
    assert {"files", "singles"} <= set(collected[0].asDict()) <= {*SETTLED.names}
    assert set(found.state.metrics()["phases"]) == {"base", "settle"}
    assert sum(len(row["singles"]) for row in collected) < 2000


def test_the_tail_is_parsed_once_and_the_log_says_what_was_done(
    spark: SparkSession, snapshot: Snapshot, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_log(snapshot.directory.table_url, spark=spark)
    with caplog.at_level(logging.INFO, logger="engine.replay.spark_state"):
        found = log.snapshot(engine="spark")
    metrics = found.state.metrics()
    (line,) = [r.getMessage() for r in caplog.records if r.name == "engine.replay.spark_state"]
    assert line == f"{snapshot.directory.table_url} at version 2: {metrics}"
    assert found.summary()["metrics"] == metrics
    assert set(metrics["phases"]) == {"base", "tail", "checkpoint"}
    assert 0 < sum(metrics["phases"].values()) <= metrics["seconds"] + 0.01
    assert metrics["files"] == 3
    assert metrics["actions"] == 103
    assert metrics["reduced"] == 3
    assert metrics["shuffleBytes"] > 0
    assert metrics["seconds"] > 0


@pytest.mark.parametrize("columns", [[], ["path"], ["path", "size"]])
def test_only_what_is_asked_for_is_parsed(
    spark: SparkSession,
    snapshot: Snapshot,
    monkeypatch: pytest.MonkeyPatch,
    columns: list[str],
) -> None:
    jobs = []
    make = ReplayFrames._job

    def job(self: ReplayFrames, fields: tuple[str, ...] | None) -> Any:
        jobs.append(fields)
        return make(self, fields)

    monkeypatch.setattr(ReplayFrames, "_job", job)
    frame = snapshot.to_spark(spark, columns)
    assert frame.columns == columns
    assert frame.count() == 100
    assert set(jobs) == {tuple(columns)}
    parsed = reduced_schema(snapshot.directory.log_format, tuple(columns)).field("add").type
    assert set(parsed.names) == {"path", "deletionVector", *columns}


def test_a_column_that_is_not_there_is_refused(spark: SparkSession, snapshot: Snapshot) -> None:
    with pytest.raises(ValueError, match="unknown column 'sise'; use path, "):
        snapshot.to_spark(spark, ["sise"])


def test_partitions_are_chosen_on_the_cluster(spark: SparkSession, tmp_path: Path) -> None:
    from tests.logs import metadata, protocol

    log = LogBuilder(tmp_path)
    log.commit(
        protocol(),
        metadata("p"),
        *(add(f"p={i % 3}/f{i}", partitionValues={"p": str(i % 3)}) for i in range(9)),
    )
    snapshot = open_log(str(tmp_path)).snapshot()
    frame = snapshot.to_spark(spark, ["path"], where="p = '1'")
    wanted = sorted(snapshot.files("p = '1'")["path"].to_pylist())
    assert sorted(row["path"] for row in frame.collect()) == wanted
    assert len(wanted) == 3


def test_the_users_job_group_is_left_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    LogBuilder(tmp_path).start()
    context = spark.sparkContext
    context.setJobGroup("mine", "my own work")
    try:
        open_log(str(tmp_path), spark=spark).snapshot(engine="spark")
        assert context.getLocalProperty("spark.jobGroup.id") == "mine"
        assert context.getLocalProperty("spark.job.description") == "my own work"
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
        context.setLocalProperty("spark.job.description", None)


def test_progress_tells_bytes_and_never_more_than_there_are(
    spark: SparkSession, snapshot: Snapshot
) -> None:
    told: list[int] = []
    log = open_log(snapshot.directory.table_url, spark=spark)
    found = log.snapshot(engine="spark", progress=lambda segment: told.append)
    assert found.engine == "spark"
    assert all(step > 0 for step in told)
    assert sum(told) == found.segment.size_bytes


def test_progress_is_told_on_the_way_and_the_rest_only_of_what_was_done(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    heard = threading.Event()

    def hear(step: int) -> None:
        told.append(step)
        heard.set()

    monkeypatch.setattr(Watched, "_fraction", lambda _: 0.4)
    with Watched(spark, 1000, hear):
        assert heard.wait(30)
        assert told == [400]
    assert told == [400, 600]
    with pytest.raises(OSError, match="lost"), Watched(spark, 1000, hear):
        raise OSError("lost")
    assert sum(told[2:]) < 1000
