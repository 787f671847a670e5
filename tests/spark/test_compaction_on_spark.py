"""Spark compacts to what this process compacts to, whatever it is given."""

from __future__ import annotations

from typing import Any

import pytest

from engine import Config, open_log
from engine.errors import UnreadableLogFileError
from engine.upkeep.publish import STAGING
from tests.logs import LogBuilder, add, remove, vector
from tests.observe import assert_same, observed

pytestmark = pytest.mark.spark


def table(root, log_format: str) -> LogBuilder:
    log = LogBuilder(root, log_format).start(add("a"), add("b"), add("c d%20e"))
    for number in range(12):
        log.commit(
            {"commitInfo": {"operation": "WRITE"}},
            add(
                f"f{number}", tags={"k": "ü"}, stats='{"numRecords":1}', unknownField=[1, {"x": 2}]
            ),
            remove(f"f{number - 3}"),
            {"txn": {"appId": f"app{number % 3}", "version": number}},
        )
    if log_format == "delta":
        log.commit(add("a", deletionVector=vector("v1")), remove("a"))
        log.commit({"domainMetadata": {"domain": "d", "configuration": "", "removed": True}})
    else:
        skip = {"path": "b", "skipTimestamp": 1, "reason": "r", "operation": "m", "skipCount": 1}
        log.commit({"mergeskip": skip})
    log.commit(remove("b", deletionTimestamp=1), add(str(root / "c d%20e")))
    return log


@pytest.mark.parametrize(
    ("log_format", "suffix"),
    [("delta", "json"), ("indextables", "json"), ("indextables", "parquet")],
)
@pytest.mark.parametrize(
    ("range_bytes", "one_task_bytes"), [(200, 0), (1 << 26, 0), (1 << 26, 1 << 30)]
)
def test_spark_writes_what_this_process_writes(
    spark, tmp_path, monkeypatch, log_format, suffix, range_bytes, one_task_bytes
):
    log = table(tmp_path / "t", log_format)
    monkeypatch.setattr("engine.upkeep.compaction.spark.ONE_TASK_BYTES", one_task_bytes)
    options: dict[str, Any] = {"spark.txlog.compaction.format": suffix}
    monkeypatch.setattr("engine.upkeep.compaction.spark.RANGE_BYTES", range_bytes)
    opened = open_log(str(log.root), Config(options=options), spark=spark)
    (done,) = opened.compact(1, log.version, engine="spark")
    assert (done.status, done.engine) == ("completed", "spark")
    (path,) = log.directory.glob("*.compacted.*")
    assert (path.suffix, path.stat().st_size) == (f".{suffix}", done.file_size)
    assert_same(observed(open_log(str(log.root)).snapshot()), log.truth())
    on_spark = sorted(path.read_bytes().splitlines())
    assert [d.status for d in opened.compact(1, log.version, repair=True)] == ["sound"]
    path.unlink()
    (local,) = opened.compact(1, log.version, engine="local")
    assert local.actions == done.actions
    if suffix == "json":
        assert sorted(path.read_bytes().splitlines()) == on_spark
    assert not log.file(STAGING).exists()


@pytest.mark.parametrize("one_task_bytes", [1, 1 << 30])
@pytest.mark.parametrize(
    "damaged", ['{"add":{"path":"torn","si', '{"add":{"path":"f1","size":1x}}']
)
def test_a_damaged_commit_is_named_by_spark_too(
    spark, tmp_path, monkeypatch, damaged, one_task_bytes
):
    monkeypatch.setattr("engine.upkeep.compaction.spark.ONE_TASK_BYTES", one_task_bytes)
    log = table(tmp_path / "t", "delta")
    log.write(f"{3:020d}.json", damaged.encode())  # and a later commit removes f1
    with pytest.raises(UnreadableLogFileError, match=f"{3:020d}.json"):
        open_log(str(log.root), spark=spark).compact(1, log.version, engine="spark")
    assert not list(log.directory.glob("*.compacted.*"))


def test_large_windows_go_to_spark_and_small_ones_do_not(spark, tmp_path):
    log = table(tmp_path / "t", "delta")
    small = open_log(str(log.root), spark=spark).compact(1, 5)
    options = {
        "spark.indextables.transaction.distributed.minFiles": 2,
        "spark.indextables.transaction.distributed.minBytes": 10,
    }
    large = open_log(str(log.root), Config(options=options), spark=spark).compact(6, 10)
    assert [d.engine for d in small + large] == ["local", "spark"]
