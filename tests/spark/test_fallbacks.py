"""When Spark is not used, and what happens when it fails: the local engine, and the reason."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from engine import Config, open_log
from engine.config import DISTRIBUTED_ENABLED, DISTRIBUTED_MIN_BYTES, DISTRIBUTED_MIN_FILES
from engine.errors import DistributedError, UnreadableLogFileError
from engine.log.paths import commit_name
from engine.replay import spark as spark_engine
from engine.sample import make_sample

pytestmark = pytest.mark.spark

EAGER = {DISTRIBUTED_MIN_FILES.key: 1, DISTRIBUTED_MIN_BYTES.key: 1}


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "events")
    make_sample(path, commits=12, seed=5)
    return path


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, DISTRIBUTED_MIN_BYTES.key),
        ({DISTRIBUTED_MIN_FILES.key: 100}, DISTRIBUTED_MIN_FILES.key),
        ({**EAGER, DISTRIBUTED_ENABLED.key: False}, DISTRIBUTED_ENABLED.key),
    ],
)
def test_auto_stays_local_and_says_why(spark, table, settings, told):
    snapshot = open_log(table, Config(options=settings), spark=spark).snapshot()
    assert snapshot.engine == "local"
    assert any(told in fallback for fallback in snapshot.summary()["fallbacks"])


def test_auto_takes_spark_for_a_log_that_is_large_enough(spark, table):
    snapshot = open_log(table, Config(options=EAGER), spark=spark).snapshot()
    assert (snapshot.engine, snapshot.fallbacks) == ("spark", ())


@pytest.mark.parametrize("asked", ["auto", "spark"])
def test_a_failure_of_spark_falls_back_loudly(spark, table, asked, monkeypatch, caplog):
    def fail(*_: object) -> None:
        raise DistributedError("an executor was lost")

    monkeypatch.setattr(spark_engine.ReplayFrames, "state", fail)
    with caplog.at_level(logging.WARNING):
        snapshot = open_log(table, Config(options=EAGER), spark=spark).snapshot(engine=asked)
    assert snapshot.engine == "local"
    assert "an executor was lost" in snapshot.summary()["fallbacks"][0]
    assert "an executor was lost" in caplog.text
    assert snapshot.totals() == open_log(table).snapshot(engine="reference").totals()


def test_a_cluster_without_txlog_is_told_to_whoever_asked_for_spark(spark, table, monkeypatch):
    def fail(*_: object) -> None:
        raise spark_engine.explained(RuntimeError("ModuleNotFoundError: No module named 'engine'"))

    monkeypatch.setattr(spark_engine.ReplayFrames, "state", fail)
    log = open_log(table, Config(options=EAGER), spark=spark)
    with pytest.raises(DistributedError, match="--py-files"):
        log.snapshot(engine="spark")
    assert log.snapshot(engine="auto").engine == "local"


def test_a_damaged_commit_is_refused_alike_and_is_no_reason_to_fall_back(spark, table):
    commit = Path(table, "_delta_log", commit_name(5))
    commit.write_bytes(commit.read_bytes()[:-20])
    told = set()
    for engine in ("local", "reference", "spark"):
        with pytest.raises(UnreadableLogFileError) as refusal:
            open_log(table, spark=spark).snapshot(engine=engine)
        told.add((refusal.value.code, refusal.value.path, refusal.value.line))
    assert len(told) == 1
