"""The eighteen holes of the obvious way: each is first shown on it, then closed here."""

from __future__ import annotations

import os
import shutil
import struct

import pytest
from py4j.protocol import Py4JJavaError

from engine.errors import (
    HiveFailedError,
    HiveFencedError,
    HiveLockedError,
    HiveMismatchError,
    HiveNoRunError,
    HiveRollbackRefusedError,
    HiveSupersededError,
)
from engine.hive import rewrite
from engine.hive.compact import compact
from engine.hive.files import Files
from engine.hive.finish import holding
from engine.hive.journal import Event, Journal
from engine.hive.model import Options, Swap
from engine.hive.plan import plan
from engine.hive.steps import Step
from engine.hive.swap import Doors
from engine.hive.upkeep import cleanup, history, recover, rollback
from tests.hive.naive import Naive

SERIAL = Options(parallelism=1)


@pytest.fixture
def naive(spark):
    return Naive(spark)


@pytest.fixture
def at(doors):
    """Doors that call something right after a step."""

    def make(step, act):
        def hook(happened, unit):
            if happened is step:
                act()

        return Doors(doors.files, doors.catalog, doors.clock, hook)

    return make


def of(doors, name):
    return doors.catalog.table("lake", name)


def extra_file(lake, target, name="zz-late.parquet"):
    """A writer appends two rows."""
    source = next(lake._part("PARQUET", 3).glob("*.parquet"))
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target / name)


def test_01_a_second_rollback_destroys_nothing(lake, doors, naive):
    lake.make("t")
    naive.compact(lake.path("t"))
    naive.rollback(lake.path("t"))
    naive.rollback(lake.path("t"))
    assert naive.rows(lake.path("t")) == 0

    lake.make("u")
    compact(doors, of(doors, "u"), SERIAL)
    rollback(doors, of(doors, "u"))
    assert rollback(doors, of(doors, "u"))["outcome"] == "nothing to do"
    assert lake.count("u") == 6


def test_02_a_rollback_after_an_automatic_one_destroys_nothing(lake, doors, at, naive):
    lake.make("t")
    naive.compact(lake.path("t"))
    naive.rename(naive.old(lake.path("t")), lake.folder / "t_restored")
    shutil.rmtree(lake.path("t"))
    naive.rename(lake.folder / "t_restored", lake.path("t"))
    naive.rollback(lake.path("t"))
    assert naive.rows(lake.path("t")) == 0

    lake.make("u")
    with pytest.raises(HiveFailedError, match="the table is as it was before"):
        compact(at(Step.SET_ASIDE, _fail), of(doors, "u"), SERIAL)
    assert (lake.count("u"), len(lake.files("u"))) == (6, 3)
    with pytest.raises(HiveNoRunError):
        rollback(doors, of(doors, "u"))
    assert lake.count("u") == 6


def test_03_cleanup_deletes_by_the_journal_and_not_by_a_pattern(lake, doors, naive):
    lake.make("t__old_ways")
    naive.cleanup([lake.path("t__old_ways")])
    assert not lake.path("t__old_ways").exists()
    lake.sql("DROP TABLE lake.t__old_ways")

    lake.make("u__old_ways")
    compact(doors, of(doors, "u__old_ways"), SERIAL)
    cleanup(doors, of(doors, "u__old_ways"))
    assert lake.count("u__old_ways") == 6


def test_04_cleanup_after_a_crash_in_the_gap_keeps_the_originals(lake, doors, victim, naive):
    lake.make("t")
    naive.compact(lake.path("t"), in_gap=lambda: naive.cleanup([naive.old(lake.path("t"))]))
    assert not naive.old(lake.path("t")).exists()

    lake.make("u")
    assert victim("compact", "lake.u", die_at="SET_ASIDE")["signal"] == 9
    cleanup(doors, of(doors, "u"))
    assert lake.count("u") == 6


def test_05_backups_are_told_apart_by_the_journal_and_not_by_a_prefix(lake, doors, naive):
    for name in ("events", "events_2p"):
        lake.make(name)
        compact(doors, of(doors, name), SERIAL)
    assert len(naive.backups("events", lake.tables())) == 2

    assert cleanup(doors, of(doors, "events"))[0]["table"] == "lake.events"
    assert len([name for name in lake.tables() if name.startswith("__bkp_events_2p_")]) == 1
    rollback(doors, of(doors, "events_2p"))
    assert (len(lake.files("events")), len(lake.files("events_2p"))) == (1, 3)
    assert (lake.count("events"), lake.count("events_2p")) == (6, 6)


def test_06_no_column_of_evolved_files_is_lost(lake, doors, spark, naive):
    def evolved(name):
        old, new = (
            spark.range(3).selectExpr("id"),
            spark.range(3).selectExpr(
                "id", "id * 10 AS later", "named_struct('a', 1, 'b', id) AS s", "'x' AS unknown"
            ),
        )
        old.coalesce(1).write.parquet(str(lake.path(name) / "a"))
        new.coalesce(1).write.parquet(str(lake.path(name) / "b"))
        for number, part in enumerate(("a", "b")):
            file = next((lake.path(name) / part).glob("*.parquet"))
            file.rename(lake.path(name) / f"{number}.parquet")
            shutil.rmtree(lake.path(name) / part)
        lake.declare(name, columns="id BIGINT, later BIGINT, s STRUCT<a: INT>")

    evolved("t")
    naive.compact(lake.path("t"))
    assert "later" not in spark.read.parquet(str(lake.path("t"))).columns

    evolved("u")
    before = lake.rows("u")
    compact(doors, of(doors, "u"), SERIAL)
    assert lake.rows("u") == before
    whole = spark.read.parquet(str(lake.path("u")))
    assert [row.unknown for row in whole.where("later = 20").collect()] == ["x"]
    assert whole.where("s.b = 2").count() == 1


def test_07_a_file_appended_before_the_swap_is_carried_over(lake, doors, at, naive):
    lake.make("t")
    naive.compact(lake.path("t"), before_swap=lambda: extra_file(lake, lake.path("t")))
    assert naive.rows(lake.path("t")) == 6

    for swap in Swap:
        name = f"u_{swap.value}"
        lake.make(name)
        writing = at(Step.SWAP_INTENT, lambda n=name: extra_file(lake, lake.path(n)))
        compact(writing, of(doors, name), Options(parallelism=1, swap=swap))
        assert lake.count(name) == 8
        cleanup(doors, of(doors, name))
        assert lake.count(name) == 8


def test_08_a_directory_made_anew_in_the_gap_is_merged_and_not_nested(lake, doors, at, naive):
    lake.make("t")
    naive.compact(lake.path("t"), in_gap=lambda: extra_file(lake, lake.path("t")))
    assert naive.rows(lake.path("t")) == 2

    lake.make("u")
    report = compact(
        at(Step.SET_ASIDE, lambda: extra_file(lake, lake.path("u"))), of(doors, "u"), SERIAL
    )
    assert report.units[0].outcome == "compacted"
    assert lake.count("u") == 8
    cleanup(doors, of(doors, "u"))
    assert (lake.count("u"), lake.debris("u")) == (8, [])


def test_09_the_callers_session_does_not_keep_what_it_saw_in_the_gap(lake, doors, at, spark, naive):
    part = lambda name: lake.path(name) / "dt=a"  # noqa: E731
    lake.make("t", "one_key")
    naive.compact(part("t"), in_gap=lambda: spark.table("lake.t").count())
    assert spark.table("lake.t").count() == 6

    lake.make("u", "one_key")
    seen = []
    looking = at(Step.SET_ASIDE, lambda: seen or seen.append(spark.table("lake.u").count()))
    compact(looking, of(doors, "u"), SERIAL)
    assert seen[0] == 6
    assert spark.table("lake.u").count() == 12


def test_10_msck_and_path_readers_do_not_see_the_work_directories(lake, doors, spark, naive):
    lake.make("t", "one_key")
    naive.compact(lake.path("t") / "dt=a")
    lake.sql("MSCK REPAIR TABLE lake.t")
    assert lake.count("t") == 18

    for swap in Swap:
        name = f"u_{swap.value}"
        lake.make(name, "one_key")
        compact(doors, of(doors, name), Options(parallelism=1, swap=swap))
        lake.sql(f"MSCK REPAIR TABLE lake.{name}")
        assert lake.count(name) == 12
        assert spark.read.parquet(str(lake.path(name))).count() == 12


def test_11_escaped_and_null_partition_values_are_compacted(lake, doors, spark):
    lake.declare("t", "dt STRING, n INT")
    for values in ("dt='x/y', n=5", "dt='it''s 50% a=b', n=-1", "dt=NULL, n=6", "dt='z', n=NULL"):
        for number in range(3):
            lake.sql(f"INSERT INTO lake.t PARTITION ({values}) VALUES ({number}, 'v')")
    raw = next(r[0] for r in lake.sql("SHOW PARTITIONS lake.t").collect() if "%2F" in r[0])
    raw = ", ".join(f"{k}='{v}'" for k, v in (p.split("=") for p in raw.split("/")))
    with pytest.raises(Exception, match=r"PARTITIONS_NOT_FOUND|does not exist"):
        lake.sql(f"DESCRIBE FORMATTED lake.t PARTITION ({raw})")

    for swap in Swap:
        before = lake.rows("t")
        report = compact(doors, of(doors, "t"), Options(parallelism=2, swap=swap))
        assert [unit.files_after for unit in report.units] == [1] * 4
        assert (lake.rows("t"), lake.count(report.backup)) == (before, 12)
        rollback(doors, of(doors, "t"))
        assert lake.rows("t") == before


def test_12_a_rollback_does_not_drop_what_was_added_since(lake, doors, naive):
    lake.make("t")
    naive.compact(lake.path("t"))
    extra_file(lake, lake.path("t"))
    naive.rollback(lake.path("t"))
    assert naive.rows(lake.path("t")) == 6

    for swap in Swap:
        for name, more, rows in (("kept", {"keep_new": True}, 8), ("dropped", {"force": True}, 6)):
            table = f"u_{swap.value}_{name}"
            lake.make(table)
            compact(doors, of(doors, table), Options(parallelism=1, swap=swap))
            lake.sql(f"INSERT INTO lake.{table} VALUES (7, 'new'), (8, 'new')").collect()
            with pytest.raises(HiveRollbackRefusedError, match="--keep-new"):
                rollback(doors, of(doors, table))
            rollback(doors, of(doors, table), **more)
            assert lake.count(table) == rows


def test_13_a_changed_value_is_seen_although_counts_agree(lake, doors, spark, naive, monkeypatch):
    spoil = lambda rows: rows.selectExpr("id", "if(id = 1, 'spoilt', v) v")  # noqa: E731
    lake.make("t")
    naive.compact(lake.path("t"), spoil=spoil)
    assert spark.read.parquet(str(lake.path("t"))).where("v = 'spoilt'").count() == 1

    lake.make("u")
    honest = rewrite.Recipe.write
    monkeypatch.setattr(
        rewrite.Recipe, "write", lambda self, rows, *rest: honest(self, spoil(rows), *rest)
    )
    with pytest.raises(HiveMismatchError, match="the table is as it was before"):
        compact(doors, of(doors, "u"), SERIAL)
    assert (len(lake.files("u")), lake.debris("u")) == (3, [])
    assert lake.count("u") == 6
    renamed = lambda self, rows, *rest: honest(self, rows.withColumnRenamed("v", "w"), *rest)  # noqa: E731
    monkeypatch.setattr(rewrite.Recipe, "write", renamed)
    with pytest.raises(HiveMismatchError, match=r"v:string.*w:string"):
        compact(doors, of(doors, "u"), SERIAL)


def test_14_modes_of_directories_and_files_are_kept(lake, doors, naive):
    def closed(name):
        lake.make(name)
        lake.path(name).chmod(0o2770)
        for file in lake.path(name).iterdir():
            file.chmod(0o640)
        return lake.path(name)

    live = closed("t")
    naive.compact(live)
    assert live.stat().st_mode & 0o777 != 0o770

    live = closed("u")
    compact(doors, of(doors, "u"), SERIAL)
    assert live.stat().st_mode & 0o777 == 0o770
    assert {file.stat().st_mode & 0o777 for file in live.glob("*.parquet")} == {0o640}


def test_14b_acls_are_kept(lake, doors):
    lake.make("t")
    # user::rwx user:1234:r-x group::--- mask::r-x other::---, as the kernel stores it
    entries = ((1, 7, -1), (2, 5, 1234), (4, 0, -1), (16, 5, -1), (32, 0, -1))
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    kinds = ("system.posix_acl_access", "system.posix_acl_default")
    try:
        for kind in kinds:
            os.setxattr(lake.path("t"), kind, acl)
    except OSError:
        pytest.skip("this file system keeps no ACLs")
    compact(doors, of(doors, "t"), SERIAL)
    assert [os.getxattr(lake.path("t"), kind) for kind in kinds] == [acl, acl]
    (file,) = lake.files("t")
    assert "system.posix_acl_access" not in os.listxattr(file), "as the originals had none"


def test_15_statistics_are_fresh_after_the_swap(lake, doors, spark, naive):
    def size(name):
        found = lake.sql(f"DESCRIBE EXTENDED lake.{name} PARTITION (dt='a')").collect()
        return next(row[1] for row in found if row[0] == "Partition Statistics")

    for name in ("t", "u"):
        lake.make(name, "one_key")
        lake.sql(f"ANALYZE TABLE lake.{name} PARTITION (dt) COMPUTE STATISTICS")
    stale = size("t")
    naive.compact(lake.path("t") / "dt=a")
    assert size("t") == stale

    compact(doors, of(doors, "u"), SERIAL)
    now = sum(file.stat().st_size for file in (lake.path("u") / "dt=a").glob("*.parquet"))
    assert size("u") == f"{now} bytes, 6 rows"


def test_16_two_runs_at_once_are_kept_apart_and_the_older_is_fenced(lake, doors, at, naive):
    lake.make("n")
    with pytest.raises(Py4JJavaError, match="does not exist"):
        naive.compact(lake.path("n"), before_swap=lambda: naive.rollback(lake.path("n")))
    assert naive.rows(lake.path("n")) == naive.rows(naive.old(lake.path("n"))) == 0

    lake.make("t")
    table = of(doors, "t")
    with (
        holding(doors, table, "compact") as held,
        pytest.raises(HiveLockedError, match="--break-lock"),
    ):
        compact(doors, table, SERIAL)
    assert held.lock.epoch == 1

    def other_run():
        recover(doors, table, break_lock=True)

    with pytest.raises(HiveFencedError):
        compact(at(Step.VERIFIED, other_run), table, SERIAL)
    assert (lake.count("t"), len(lake.files("t")), lake.debris("t")) == (6, 3, [])


def test_16b_a_journal_taken_over_accepts_nothing_from_its_old_owner(doors, tmp_path):
    mine = Journal(doors.files, f"file:{tmp_path}/run")
    mine.record(Event.RUN, swap="rename")
    Journal(doors.files, f"file:{tmp_path}/run", 1).record(Event.RECOVER)
    with pytest.raises(HiveFencedError):
        mine.record(Event.SWAP, "u")


def test_17_where_rename_is_a_copy_nothing_is_renamed(lake, doors, naive, monkeypatch):
    lake.make("n")
    seen = []

    def copy_and_delete(source, target):
        target.mkdir()
        for file in sorted(source.iterdir()):
            file.rename(target / file.name)
            seen.append(naive.rows(lake.path("n")))
        source.rmdir()

    monkeypatch.setattr(naive, "rename", copy_and_delete)
    naive.compact(lake.path("n"))
    assert 0 < min(rows for rows in seen if rows) < 6, (
        "a part of the table, for as long as it takes"
    )

    assert not doors.files.renames_atomically("s3a://bucket/table")
    lake.make("t", "one_key")
    monkeypatch.setattr(Files, "renames_atomically", lambda self, path: False)
    assert plan(doors, of(doors, "t"), SERIAL).swap is Swap.LOCATION
    renames = []
    honest = Files.rename
    monkeypatch.setattr(
        Files, "rename", lambda self, *pair: (renames.append(pair), honest(self, *pair))
    )
    compact(doors, of(doors, "t"), SERIAL)
    assert (renames, lake.count("t")) == ([], 12)
    assert lake.location("t", "dt='a'").startswith(f"{lake.path('t')}/.dt=a__compact_")


def test_18_a_backup_that_cannot_follow_fails_the_run_and_undoes_it(
    lake, doors, naive, monkeypatch
):
    lake.make("n")
    naive.compact(lake.path("n"), point_backup=_fail)
    assert naive.rollback_by_backup(lake.path("n")) == "rolled back"
    assert len(lake.files("n")) == 1, "nothing was: the originals lie there for ever"

    lake.make("t", "one_key")
    monkeypatch.setattr(type(doors.catalog), "point_backup", lambda *_: _fail())
    with pytest.raises(HiveFailedError, match="the table is as it was before"):
        compact(doors, of(doors, "t"), SERIAL)
    assert (lake.count("t"), len(lake.files("t")), lake.debris("t")) == (12, 6, [])
    assert [record["outcome"] for record in history(doors, of(doors, "t"))] == ["aborted"]


def test_an_overwritten_partition_supersedes_its_originals(lake, doors):
    for swap in Swap:
        name = f"t_{swap.value}"
        lake.make(name, "one_key")
        compact(doors, of(doors, name), Options(parallelism=1, swap=swap))
        lake.sql(f"INSERT OVERWRITE lake.{name} PARTITION (dt='a') VALUES (1, 'new')").collect()
        with pytest.raises(HiveSupersededError):
            rollback(doors, of(doors, name))
        with pytest.raises(HiveSupersededError, match="--force"):
            cleanup(doors, of(doors, name))
        rollback(doors, of(doors, name), partitions=["dt=b"])
        assert lake.count(name) == 7
        cleanup(doors, of(doors, name), force=True)
        assert (lake.count(name), lake.debris()) == (7, [])


def test_a_failure_restores_every_partition_of_the_run(lake, doors, at):
    lake.make("t", "one_key")
    swapped = []

    def fail_on_the_second():
        swapped.append(1)
        if len(swapped) == 2:
            _fail()

    with pytest.raises(HiveFailedError):
        compact(at(Step.PUT_IN_PLACE, fail_on_the_second), of(doors, "t"), SERIAL)
    assert (len(lake.files("t")), lake.count("t"), lake.debris()) == (6, 12, [])


def test_a_writer_that_overwrites_meanwhile_wins(lake, doors, at):
    lake.make("t", "one_key")
    seen = []

    def overwrite():
        if not seen:
            seen.append(1)
            lake.sql("INSERT OVERWRITE lake.t PARTITION (dt='a') VALUES (1, 'new')").collect()

    report = compact(at(Step.VERIFIED, overwrite), of(doors, "t"), SERIAL)
    assert [unit.outcome for unit in report.units] == [
        "left alone: a writer changed it meanwhile",
        "compacted",
    ]
    assert lake.count("t") == 7


def _fail():
    raise OSError("the disk is on fire")
