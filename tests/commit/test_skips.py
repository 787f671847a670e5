"""Files that an operation failed on: counted, left in peace for a while, and live all the time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from engine import Config, open_log
from engine.commit.transaction import Clock
from engine.errors import InvalidCommitError, UnsupportedActionError
from tests.commit.conftest import content, file, new_table, paths

HOUR = 3_600_000


@pytest.fixture
def splits(tmp_path):
    log = new_table(tmp_path / "splits", "indextables")
    log.add_files([file("a"), file("b")])
    log.clock = Clock(now_ms=lambda: 1_000_000)
    return log


def at(log, now_ms: int) -> None:
    log.clock = Clock(now_ms=lambda: now_ms)


def test_a_skip_cools_down_for_a_day_and_then_the_file_is_tried_again(splits):
    splits.skip("a", "footer is corrupt", "merge")
    (skip,) = splits.skipped_files()
    assert (skip["path"], skip["reason"], skip["operation"]) == ("a", "footer is corrupt", "merge")
    assert (skip["skipTimestamp"], skip["skipCount"]) == (1_000_000, 1)
    assert splits.files_in_cooldown() == {"a": 1_000_000 + 24 * HOUR}
    assert (splits.in_cooldown("a"), splits.in_cooldown("b")) == (True, False)
    left = splits.without_cooldown(splits.snapshot().files())
    assert left["path"].to_pylist() == ["b"]
    at(splits, 1_000_000 + 24 * HOUR)
    assert splits.files_in_cooldown() == {}
    assert splits.without_cooldown(splits.snapshot().files()).num_rows == 2


def test_a_skipped_file_stays_live(splits):
    splits.skip("a", "corrupt")
    assert paths(splits) == ["a", "b"]


def test_skips_are_counted_up_whoever_wrote_the_last(splits, interloper):
    splits.skip("a", "once", cooldown=timedelta(hours=1))
    open_log(splits.directory.table_url).skip("a", "twice")
    splits.skip("b", "another file")
    splits.skip("a", "thrice")
    interloper(splits, lambda other: other.skip("a", "meanwhile"))
    splits.skip("a", "last")
    counts = {skip["path"]: skip["skipCount"] for skip in splits.skipped_files()}
    assert counts == {"a": 5, "b": 1}


def test_a_longer_cooldown_goes_on_under_a_shorter_one(splits):
    splits.skip("a", "corrupt", cooldown=timedelta(hours=48))
    splits.skip("a", "still", cooldown=timedelta(hours=1))
    assert splits.files_in_cooldown() == {"a": 1_000_000 + 48 * HOUR}
    splits.checkpoint()
    assert open_log(splits.directory.table_url).snapshot().skips["a"]["skipCount"] == 2
    at(splits, 1_000_000 + 48 * HOUR)
    assert splits.files_in_cooldown() == {}
    splits.skip("a", "again", cooldown=timedelta(hours=1))
    assert splits.files_in_cooldown() == {"a": 1_000_000 + 49 * HOUR}


def test_the_cooldown_comes_from_the_call_or_from_the_settings(splits):
    splits.skip("a", "x", cooldown=timedelta(minutes=5))
    assert splits.files_in_cooldown() == {"a": 1_000_000 + 300_000}
    key = "spark.indextables.skippedFiles.cooldownDuration"
    log = open_log(splits.directory.table_url, Config(options={key: 2}))
    at(log, 1_000_000)
    log.skip("b", "x")
    assert log.files_in_cooldown()["b"] == 1_000_000 + 2 * HOUR


def test_tracking_may_be_off(splits):
    key = "spark.indextables.skippedFiles.trackingEnabled"
    log = open_log(splits.directory.table_url, Config(options={key: False}))
    before = content(splits)
    done = log.skip("a", "x")
    assert (done.is_new, key in done.reason) == (False, True)
    assert content(splits) == before


def test_a_path_outside_the_table_is_not_skipped(splits):
    with pytest.raises(InvalidCommitError, match="does not name a file inside"):
        splits.skip("../a", "x")


def test_a_delta_log_has_no_skips_and_says_so(delta):
    before = content(delta)
    for call in (
        lambda: delta.skip("a", "x"),
        delta.skipped_files,
        lambda: delta.in_cooldown("a"),
        lambda: delta.without_cooldown(delta.snapshot().files()),
    ):
        with pytest.raises(UnsupportedActionError, match="a delta log has no skipped") as raised:
            call()
        assert "committed" not in str(raised.value)
        assert raised.value.code == "UNSUPPORTED_ACTION"
    assert content(delta) == before
