"""When Spark is not used, why; and what is refused on every engine alike."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from engine import Config, ReplayError, open_log
from engine.errors import DistributedError
from engine.replay import spark_sums
from engine.replay.spark_errors import explained, told
from tests.logs import LogBuilder, add, metadata, protocol

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DISTRIBUTED = "spark.indextables.transaction.distributed"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, f"6 log files are fewer than {DISTRIBUTED}.minFiles"),
        ({"minFiles": 3}, f"bytes of log are fewer than {DISTRIBUTED}.minBytes"),
        ({"minFiles": 3, "minBytes": 1, "enabled": False}, f"{DISTRIBUTED}.enabled is false"),
        ({"minFiles": 3, "minBytes": 1}, None),
    ],
    ids=["few files", "few bytes", "disabled", "large enough"],
)
def test_auto_says_why_spark_is_not_used(
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    options: dict[str, Any],
    reason: str | None,
) -> None:
    LogBuilder(tmp_path).start().filler(5)
    config = Config(options={f"{DISTRIBUTED}.{name}": value for name, value in options.items()})
    with caplog.at_level(logging.INFO, "engine.replay.engines"):
        snapshot = open_log(str(tmp_path), config, spark=spark).snapshot(engine="auto")
    told_of = [text for text in snapshot.summary()["fallbacks"] if "spark" in text]
    if reason is None:
        assert snapshot.engine == "spark"
        assert told_of == []
    else:
        assert snapshot.engine == "local"
        assert len(told_of) == 1
        assert reason in told_of[0]
        assert reason in caplog.text


def test_what_the_session_was_configured_with_counts(spark: SparkSession, tmp_path: Path) -> None:
    LogBuilder(tmp_path).start().filler(5)
    keys = {f"{DISTRIBUTED}.minFiles": "3", f"{DISTRIBUTED}.minBytes": "1"}
    for key, value in keys.items():
        spark.conf.set(key, value)
    try:
        assert open_log(str(tmp_path), spark=spark).snapshot().engine == "spark"
        nearer = Config(options={f"{DISTRIBUTED}.minFiles": 100})
        assert open_log(str(tmp_path), nearer, spark=spark).snapshot().engine == "local"
    finally:
        for key in keys:
            spark.conf.unset(key)


@pytest.mark.parametrize("asked", ["auto", "spark"])
def test_a_failure_of_spark_falls_back_loudly(
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    asked: str,
) -> None:
    LogBuilder(tmp_path).start().filler(5)
    monkeypatch.setattr(spark_sums, "sum_tail", broken)
    config = Config(options={f"{DISTRIBUTED}.minFiles": 3, f"{DISTRIBUTED}.minBytes": 1})
    snapshot = open_log(str(tmp_path), config, spark=spark).snapshot(engine=asked)
    assert snapshot.engine == "local"
    assert snapshot.totals().num_files == 5
    (fallback,) = snapshot.summary()["fallbacks"]
    assert "RuntimeError: the disk of this executor is full" in fallback
    assert "\n" not in fallback
    assert fallback in caplog.text


def broken(batches: object, job: object, lots: int) -> object:
    raise RuntimeError("the disk of this executor is full")


def test_executors_without_txlog_are_told_to_who_asked_for_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LogBuilder(tmp_path).start().filler(5)
    # Workers of their own: the environment is part of what makes a worker reusable.
    monkeypatch.setitem(spark.sparkContext.environment, "PYTHONPATH", "")
    monkeypatch.setitem(spark.sparkContext.environment, "PYTHONSAFEPATH", "1")
    monkeypatch.setattr(spark_sums, "sum_tail", unknown)
    config = Config(options={f"{DISTRIBUTED}.minFiles": 3, f"{DISTRIBUTED}.minBytes": 1})
    log = open_log(str(tmp_path), config, spark=spark)
    with pytest.raises(DistributedError, match="ship it with --py-files") as caught:
        log.snapshot(engine="spark")
    assert "\n" not in str(caught.value)
    snapshot = log.snapshot(engine="auto")
    assert snapshot.engine == "local"
    assert "ship it with --py-files" in snapshot.summary()["fallbacks"][0]


def unknown(batches: object, job: object, lots: int) -> object:
    raise ModuleNotFoundError("No module named 'engine'")


def damaged(tmp_path: Path, what: str) -> None:
    log = LogBuilder(tmp_path)
    if what == "no protocol":
        log.commit(metadata(), add("f"))
    elif what == "no metaData":
        log.commit(protocol(), add("f"))
    elif what == "newer reader":
        log.commit(protocol(reader=99), metadata(), add("f"))
    else:
        log.start().filler(4)
    if what == "gap":
        log.commit_path(2).unlink()
    elif what == "half a line":
        path = log.commit_path(3)
        path.write_bytes(path.read_bytes()[:-20])
    elif what == "wrong type":
        log.commit({"add": {"path": "x", "size": "many"}})
    elif what == "sidecar gone":
        from tests.logs import Shape

        for path in log.checkpoint(2, Shape.V2_JSON_SIDECARS)[1:]:
            path.unlink()
        log.clean_up(3)


@pytest.mark.parametrize(
    "what",
    [
        "no protocol",
        "no metaData",
        "newer reader",
        "gap",
        "half a line",
        "wrong type",
        "sidecar gone",
    ],
)
def test_a_wrong_log_is_refused_alike_and_is_no_reason_to_fall_back(
    spark: SparkSession, tmp_path: Path, what: str
) -> None:
    damaged(tmp_path, what)
    told_of: dict[str, tuple[str, str, dict[str, Any]]] = {}
    for engine in ("local", "spark", "reference"):
        with pytest.raises(ReplayError) as caught:
            open_log(str(tmp_path), spark=spark).snapshot(engine=engine)
        told_of[engine] = caught.value.code, type(caught.value).__name__, vars(caught.value)
        assert "\n" not in str(caught.value)
    assert told_of["spark"] == told_of["local"]
    assert told_of["reference"][0] == told_of["local"][0]


@pytest.mark.parametrize("shape", ["classic", "v2"])
def test_a_damaged_checkpoint_is_routed_around_on_spark_too(
    spark: SparkSession, tmp_path: Path, shape: str
) -> None:
    from tests.logs import Shape

    log = LogBuilder(tmp_path).start().filler(4)
    kind = Shape.CLASSIC if shape == "classic" else Shape.V2_PARQUET_SIDECARS
    path = log.checkpoint(2, kind)[-1]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    log.checkpoint(1)
    snapshot = open_log(str(tmp_path), spark=spark).snapshot(engine="spark")
    assert snapshot.engine == "spark"
    assert snapshot.segment.checkpoint is not None
    assert snapshot.segment.checkpoint.version == 1
    assert len(snapshot.fallbacks) == 1
    assert snapshot.totals().num_files == 4


def test_a_file_deleted_between_listing_and_reading_is_one_clear_line(
    spark: SparkSession, tmp_path: Path
) -> None:
    builder = LogBuilder(tmp_path).start().filler(4)
    log = open_log(str(tmp_path), spark=spark)
    actions = log.actions(spark)
    log = open_log(str(tmp_path), spark=spark)
    builder.commit_path(2).unlink()
    with pytest.raises(ReplayError, match=r"00002\.json.*went away while it was read") as caught:
        log.snapshot(engine="spark")
    assert caught.value.code == "STORAGE"
    assert "\n" not in str(caught.value)
    with pytest.raises(ReplayError, match="went away"), told():
        actions.count()


def test_a_trace_of_the_jvm_becomes_its_first_reason() -> None:
    error = explained(
        RuntimeError(
            "An error occurred while calling o1.collectToPython.\n"
            ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed\n"
            "\tat org.apache.spark.scheduler.DAGScheduler.abort(DAGScheduler.scala:1)\n"
        )
    )
    assert isinstance(error, DistributedError)
    assert "Job aborted due to stage failure" in str(error)
    assert "\n" not in str(error)


def test_a_checksum_that_contradicts_is_told_of_on_spark_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = LogBuilder(tmp_path).start(add("a", size=10))
    beside = log.commit_path(0).with_suffix(".crc")
    beside.write_text('{"numFiles": 7, "tableSizeBytes": 10}')
    found = open_log(str(tmp_path), spark=spark).snapshot(engine="spark")
    assert found.engine == "spark"
    (fallback,) = found.fallbacks
    assert "numFiles is 7 in it, 1 in the log" in fallback.reason
