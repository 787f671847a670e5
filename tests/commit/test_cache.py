"""What is kept: within its bounds, dropped when it is too old, and never a wrong answer."""

from __future__ import annotations

import gc
import shutil
import weakref
from dataclasses import fields, replace
from pathlib import Path

import pytest

from engine import Config, open_log
from engine.commit.cache import Cache, Caches, caches_of
from engine.commit.follow import size_of
from engine.commit.known import Known
from engine.config import SETTINGS
from tests.commit.conftest import file, new_table
from tests.commit.test_refresh import Counted, live
from tests.logs import LogBuilder, add, metadata, protocol, remove
from tests.observe import assert_same, observed

NAMES = ["protocol", "metadata", "versions", "files", "versionList", "checkpoint", "snapshots"]


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def aged(log, **options) -> Time:
    """Give a log empty caches whose time the test tells."""
    clock = Time()
    log._caches = caches_of(Config(options=options), clock)
    log._following = None
    return clock


def figures(log, name: str) -> tuple[int, int]:
    stats = log.cache_stats()["caches"][name]
    return stats["hits"], stats["misses"]


def reads(counted: Counted) -> list[str]:
    return [path for name, path in counted.take()[0] if name == "read"]


# --- a cache -----------------------------------------------------------------------------------


def test_a_cache_is_bounded_in_entries_and_the_least_recently_used_goes_first():
    cache = Cache[str](2, 60)
    for key in "ab":
        cache.put(key, key)
    assert cache.get("a") == "a"
    cache.put("c", "c")
    assert [cache.get(key) for key in "abc"] == ["a", None, "c"]
    assert cache.stats() == {
        "hits": 3, "misses": 1, "hitRate": 0.75, "entries": 2, "bytes": 0,
    }  # fmt: skip


def test_a_cache_is_bounded_in_bytes():
    cache = Cache[str](10, 60, capacity_bytes=100)
    cache.put("a", "a", 60)
    cache.put("b", "b", 60)
    cache.put("whale", "w", 101)
    assert [cache.peek(key) for key in ("a", "b", "whale")] == [None, "b", None]
    cache.put("b", "b", 30)
    assert cache.stats()["bytes"] == 30


def test_a_value_goes_when_it_is_too_old_unless_it_was_renewed():
    clock = Time()
    cache = Cache[str](10, 60, clock=clock)
    cache.put("a", "a", 5)
    cache.put("b", "b", 5)
    clock.now = 50
    cache.renew("a")
    clock.now = 61
    assert (cache.peek("a"), cache.peek("b")) == ("a", None)
    assert cache.stats()["bytes"] == 5
    cache.clear()
    assert cache.peek("a") is None


# --- its settings ------------------------------------------------------------------------------

TTL = {
    "protocol": ("cache.metadata.ttl", "metadata", 30),
    "metadata": ("cache.metadata.ttl", "metadata", 30),
    "versions": ("cache.log.ttl", "version", 5),
    "files": ("cache.filelist.ttl", "fileList", 2),
    "checkpoint": ("cache.checkpoint.ttl", None, 5),
    "snapshots": ("cache.snapshot.ttl", "snapshot", 10),
}


def ttl(name: str, **options) -> float:
    return getattr(caches_of(Config(options=options)), name).ttl_seconds


@pytest.mark.parametrize("name", TTL)
def test_each_cache_has_a_time_of_its_own(name):
    key, old, minutes = TTL[name]
    assert ttl(name) == minutes * 60
    own = {f"spark.indextables.{key}": 7}
    assert ttl(name, **own) == 420
    if old:
        exact = {f"spark.indextables.transaction.cache.{old}.ttl.ms": 1500}
        assert ttl(name, **own, **exact) == 1.5
    every = {"spark.indextables.transaction.cache.expirationSeconds": 9}
    assert ttl(name, **own, **every) == 9


def test_the_list_of_versions_has_the_general_time():
    assert ttl("version_list") == 300
    assert ttl("version_list", **{"spark.indextables.transaction.cache.ttl.ms": 500}) == 0.5
    every = {"spark.indextables.transaction.cache.expirationSeconds": 9}
    assert ttl("version_list", **every) == 9


def test_capacities_come_from_the_settings():
    found = caches_of(Config())
    sizes = {f.name: getattr(found, f.name).capacity for f in fields(Caches)}
    assert sizes == {
        "protocol": 100, "metadata": 100, "files": 50, "version_list": 1,
        "versions": 1000, "checkpoint": 200, "snapshots": 100,
    }  # fmt: skip
    options = {
        "spark.indextables.cache.log.size": 3,
        "spark.indextables.transaction.cache.snapshot.capacity": 4,
        "spark.txlog.cache.maxBytes": "1m",
    }
    assert options.keys() <= SETTINGS.keys()
    found = caches_of(Config(options=options))
    assert (found.versions.capacity, found.snapshots.capacity) == (3, 4)
    assert found.checkpoint.capacity_bytes == 1024**2


# --- the latest version ------------------------------------------------------------------------


def test_hit_rates_are_told_and_the_executors_figures_kept(log):
    log.snapshot()
    log.snapshot()
    stats = log.cache_stats()
    assert {"hits", "misses", "hitRate"} <= set(stats)
    assert list(stats["caches"]) == NAMES
    for name in ("protocol", "metadata", "files", "versionList"):
        assert figures(log, name) == (1, 1), name
    assert stats["caches"]["files"]["entries"] == 1
    assert stats["caches"]["files"]["bytes"] == size_of(log.snapshot())


def test_a_commit_keeps_the_head_and_brings_the_files_up_to_date(log):
    log.snapshot()
    counted = Counted(log)
    log.add_files([file("a")])
    log.remove_files(["a"])
    assert live(log.snapshot()) == []
    assert f"{0:020d}.json" not in reads(counted)
    for name in ("protocol", "metadata", "files", "versionList"):
        assert figures(log, name)[1] == 1, f"{name} was read once"


def test_an_append_asks_for_no_files(log):
    log.snapshot()
    before = figures(log, "files")
    log.add_files([file("a")])
    assert figures(log, "files") == before


def test_files_too_old_are_read_again_and_what_else_is_known_is_kept(log):
    clock = aged(log)
    log.add_files([file("a")])
    log.snapshot()
    clock.now = 119
    log.snapshot()
    clock.now = 238
    assert live(log.snapshot()) == ["a"]
    assert figures(log, "files") == (3, 0), "every look renews them"
    clock.now = 238 + 121
    counted = Counted(log)
    log.add_files([file("b")])
    assert f"{0:020d}.json" not in reads(counted), "an append needs the head only"
    assert live(log.snapshot()) == ["a", "b"]
    assert f"{0:020d}.json" in reads(counted)
    assert_same(observed(log.snapshot()), observed(open_log(log.directory.table_url).snapshot()))


def test_files_too_old_take_no_memory_while_a_writer_appends(log):
    clock = aged(log)
    kept = weakref.ref(log.snapshot())
    assert kept() is not None
    clock.now = 121
    log.add_files([file("a")])
    gc.collect()
    assert kept() is None
    known = Known.of(log.snapshot(), log.snapshot().state)
    known.drop_files()
    for version in (2, 3):
        ref = replace(log.commits()[1], version=version)
        known.take(ref, Path(log.directory.file(ref.path)).read_bytes())
    assert (known.version, known.waiting) == (3, [])


def test_a_head_too_old_is_read_again(log):
    options = {"spark.indextables.transaction.cache.ttl.ms": 10**9}
    clock = aged(log, **options)
    log.add_files([file("a")])
    clock.now = 30 * 60 + 1
    counted = Counted(log)
    log.add_files([file("b")])
    assert f"{0:020d}.json" in reads(counted)
    assert figures(log, "metadata") == (0, 2)


def test_a_list_of_versions_too_old_is_made_anew(log):
    clock = aged(log)
    log.add_files([file("a")])
    clock.now = 301
    counted = Counted(log)
    log.add_files([file("b")])
    assert f"{0:020d}.json" in reads(counted)


def test_the_head_is_answered_from_what_is_kept(log):
    log.snapshot()
    log.update_metadata(name="mine")
    counted = Counted(log)
    assert log.head().metadata["name"] == "mine"
    assert set(reads(counted)) <= {f"{1:020d}.json"}
    open_log(log.directory.table_url).update_metadata(name="yours")
    assert log.head().metadata["name"] == "yours"
    assert log.head().version == 2


# --- what does not change ----------------------------------------------------------------------


def test_older_versions_are_kept(log):
    for n in range(3):
        log.add_files([file(f"f{n}")])
    log.snapshot(1)
    counted = Counted(log)
    assert log.snapshot(1) is log.snapshot(1)
    assert set(reads(counted)) <= {f"{3:020d}.json"}
    assert figures(log, "snapshots") == (2, 1)


def test_older_versions_are_kept_for_who_never_asked_for_the_latest(log):
    for n in range(3):
        log.add_files([file(f"f{n}")])
    reader = open_log(log.directory.table_url)
    first = reader.snapshot(1)
    assert reader.snapshot(1) is first
    where, log_format = log.directory.root, log.directory.log_format.name
    shutil.rmtree(where)
    again = new_table(where, log_format)
    for n in range(3):
        again.add_files([file(f"another-{n}")])
    assert live(reader.snapshot(1)) == ["another-0"]


def test_a_commit_leaves_older_versions_alone(log):
    log.add_files([file("a")])
    log.add_files([file("b")])
    kept = log.snapshot(1)
    log.add_files([file("c")])
    assert log.snapshot(1) is kept


def test_a_commit_that_was_read_is_not_read_again(log):
    log.add_files([file("a")])
    reader = open_log(log.directory.table_url)
    actions = reader.commit_actions(1)
    counted = Counted(reader)
    assert reader.commit_actions(1) == actions
    assert reads(counted) == []
    assert figures(reader, "versions") == (1, 1)


def test_winners_are_not_read_twice(log, interloper):
    log.snapshot()
    interloper(log, lambda other: other.add_files([file("theirs")]))
    counted = Counted(log)
    log.commit([{"remove": {"path": "x", "dataChange": True}}])
    assert reads(counted).count(f"{1:020d}.json") == 1
    assert figures(log, "versions")[0] == 1


def checkpointed(tmp_path) -> str:
    builder = LogBuilder(tmp_path / "cp")
    builder.commit(protocol(), metadata(), *(add(f"f{n}") for n in range(20)))
    for n in range(1, 9):
        builder.commit(add(f"g{n}"), remove(f"f{n}"))
        if n == 3:
            builder.checkpoint(3)
    return str(tmp_path / "cp")


def test_a_checkpoint_is_read_once_for_all_versions_after_it(tmp_path):
    log = open_log(checkpointed(tmp_path))
    opened = []
    open_input = log.directory.storage.open_input
    log.directory.storage.open_input = lambda path, *rest: (
        opened.append(path) or open_input(path, *rest)
    )
    for version in (7, 3, 5, 4, 6, 2):
        fresh = open_log(log.directory.table_url).snapshot(version, engine="reference")
        assert_same(observed(log.snapshot(version)), observed(fresh))
    assert len(opened) == 1
    assert figures(log, "checkpoint") == (4, 1)


def test_a_checkpoint_that_was_replaced_is_read_again(tmp_path):
    where = checkpointed(tmp_path)
    log = open_log(where)
    log.snapshot(5)
    (path,) = (tmp_path / "cp" / "_delta_log").glob("*.checkpoint.parquet")
    path.write_bytes(path.read_bytes()[:100])
    damaged = log.snapshot(6)
    assert damaged.fallbacks
    assert_same(observed(damaged), observed(open_log(where).snapshot(6, engine="reference")))


def test_a_checkpoint_too_old_or_too_large_is_read_again(tmp_path):
    log = open_log(checkpointed(tmp_path))
    clock = aged(log)
    log.snapshot(5)
    clock.now = 301
    log.snapshot(6)
    assert figures(log, "checkpoint") == (0, 2)
    aged(log, **{"spark.txlog.cache.maxBytes": 10})
    log.snapshot(5)
    log.snapshot(6)
    assert figures(log, "checkpoint") == (0, 2)
    assert log.cache_stats()["caches"]["checkpoint"]["bytes"] == 0


def test_invalidating_forgets_everything(tmp_path):
    log = open_log(checkpointed(tmp_path))
    log.snapshot()
    log.snapshot(5)
    log.commit_actions(4)
    log.invalidate_caches()
    assert {s["entries"] for s in log.cache_stats()["caches"].values()} == {0}
    assert log.snapshot(5).version == 5
