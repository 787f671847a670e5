"""Parsed files are kept where they were parsed, within bounds, and dropped when told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from engine import open_log
from engine.actions import ActionBatch
from engine.replay.cache import FileCache, FileId, Generation, invalidate
from tests.logs import LogBuilder, add

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def batches(size: int = 8) -> list[ActionBatch]:
    numbers = pa.array([0] * (size // 8), pa.int64())
    return [ActionBatch(numbers, numbers, {"add": numbers})]


def file_id(name: str, size: int = 1, modified: int = 1) -> FileId:
    return (name, size, modified, (0, 0, 0, 1), None)


def test_a_file_of_another_size_or_time_is_another_file() -> None:
    cache = FileCache()
    cache.put(file_id("a"), "t", batches())
    assert cache.get(file_id("a")) is not None
    assert cache.get(file_id("a", size=2)) is None
    assert cache.get(file_id("a", modified=2)) is None


def test_the_least_recently_used_file_makes_room() -> None:
    cache = FileCache(capacity_files=2)
    for name in "ab":
        cache.put(file_id(name), "t", batches())
    cache.get(file_id("a"))
    cache.put(file_id("c"), "t", batches())
    assert [cache.get(file_id(name)) is not None for name in "abc"] == [True, False, True]


def test_bytes_are_bounded_and_no_file_takes_them_all() -> None:
    cache = FileCache(capacity_bytes=800)
    cache.put(file_id("large"), "t", batches(400))
    assert len(cache) == 0
    for name in "abcdef":
        cache.put(file_id(name), "t", batches(160))
    assert len(cache) == 5


def test_a_file_is_too_old_after_its_time() -> None:
    now = 0.0
    cache = FileCache(ttl_seconds=300, clock=lambda: now)
    cache.put(file_id("a"), "t", batches())
    now = 299
    assert cache.get(file_id("a")) is not None
    now = 301
    assert cache.get(file_id("a")) is None


def test_a_new_generation_drops_one_table_or_all() -> None:
    cache = FileCache()
    one, other = "table-one", "table-other"

    def enter_both() -> list[bool]:
        for table in (one, other):
            cache.enter_generation(table, Generation.of(table))
        found = [cache.get(file_id(table)) is not None for table in (one, other)]
        for table in (one, other):
            cache.put(file_id(table), table, batches())
        return found

    assert enter_both() == [False, False]
    assert enter_both() == [True, True]
    invalidate(one, everywhere=False)
    assert enter_both() == [False, True]
    invalidate(one, everywhere=True)
    assert enter_both() == [False, False]
    assert enter_both() == [True, True]


def test_a_task_planned_before_an_invalidation_does_not_undo_it() -> None:
    cache = FileCache()
    before = Generation.of("t")
    invalidate("t", everywhere=False)
    after = Generation.of("t")
    cache.enter_generation("t", after)
    cache.put(file_id("a"), "t", batches())
    cache.enter_generation("t", before)
    assert cache.get(file_id("a")) is not None
    cache.enter_generation("t", after)
    assert cache.get(file_id("a")) is not None


def test_another_driver_begins_anew() -> None:
    cache = FileCache()
    cache.enter_generation("t", Generation("driver-1", 0, 5))
    cache.put(file_id("a"), "t", batches())
    cache.enter_generation("t", Generation("driver-2", 0, 0))
    assert cache.get(file_id("a")) is None


@pytest.mark.spark
def test_a_second_read_hits_and_one_after_an_invalidation_does_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    LogBuilder(tmp_path).start().filler(4)
    log = open_log(str(tmp_path), spark=spark)

    def read() -> tuple[int, int]:
        metrics = log.snapshot(engine="spark").state.metrics()
        return metrics["cacheHits"], metrics["cacheMisses"]

    # One task: it may run in either of two workers, so a few reads fill both.
    assert read() == (0, 5)
    assert (5, 0) in [read() for _ in range(4)]
    log.invalidate_caches()
    assert read() == (0, 5)
    stats = log.cache_stats()
    assert stats["hits"] % 5 == 0
    assert stats["hits"] + stats["misses"] == 30
    assert stats["hitRate"] == stats["hits"] / 30
    # Through any log of the table, and for frames as well.
    frame = open_log(str(tmp_path)).snapshot(engine="local").to_spark(spark)
    assert frame.count() == 4


@pytest.mark.spark
def test_a_replaced_file_is_read_anew(spark: SparkSession, tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path).start()
    builder.commit(add("one"))
    log = open_log(str(tmp_path), spark=spark)
    for second, name in enumerate(["one", "other", "third"]):
        builder.commits.pop()
        builder.commit(add(name))
        builder.modified(1, 1_700_000_000_000 + second * 1000)
        for _ in range(2):
            found = log.snapshot(engine="spark").files()["path"].to_pylist()
            assert found == [name]
