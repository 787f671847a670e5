"""Whose run is it, and what may a journal say? Nothing outside a run's own places is touched."""

from __future__ import annotations

import shutil
from contextlib import suppress

import pytest

from engine.errors import HiveNoRunError, HiveRefusedError, HiveSupersededError, ReplayError
from engine.hive import layout
from engine.hive.compact import compact
from engine.hive.finish import home_of
from engine.hive.journal import Event, Journal
from engine.hive.model import Options, Swap, Table
from engine.hive.plan import plan
from engine.hive.state import plan_body
from engine.hive.upkeep import cleanup, history, recover, rollback
from tests.hive import quick

RUN = "20200101_000000_000abcd"


def of(doors, name="t"):
    return doors.catalog.table("lake", name)


def serially(swap):
    return Options(swap=swap, parallelism=1)


def share(lake, name="other", of="t"):
    lake.sql(
        f"CREATE EXTERNAL TABLE lake.{name} (id INT, v STRING) STORED AS PARQUET "
        f"LOCATION '{lake.path(of)}'"
    )


def plant(doors, table, swap, then=(), **lies):
    """Write a journal as someone could who may write into the table's folder."""
    (unit,) = doors.catalog.units(table)
    body = plan_body(unit, layout.places(unit.location, RUN, swap), (), ())
    journal = Journal(doors.files, f"{home_of(table)}/{RUN}")
    journal.record(Event.RUN, table=table.full_name, swap=swap.value, started_ms=1)
    journal.record(Event.PLANNED, "", **(body | lies))
    for event in then:
        journal.record(event, "", outputs=[], units=[""], force=True)


@pytest.fixture
def precious(lake):
    folder = lake.folder / "precious" / "x"
    folder.mkdir(parents=True)
    (folder / "keep.parquet").write_text("not ours")
    return folder


@pytest.mark.parametrize("swap", Swap)
@pytest.mark.parametrize("which", ["staged", "kept", "live", "dots", "everywhere", "a file"])
def test_a_planted_journal_touches_nothing_outside_the_runs_own_places(
    lake, quickly, precious, swap, which
):
    lake.make("t")
    place = f"file:{precious}"
    places = layout.places(place, RUN, swap)
    moved = {"live": place, "staged": places.staged, "kept": places.kept}
    dots = layout.places(f"{of(quickly).location}/../precious/x", RUN, swap)
    lies = {
        "everywhere": moved,
        "dots": {"live": dots.live, "staged": dots.staged, "kept": dots.kept},
        "a file": {"inputs": [["../precious/x/keep.parquet", 8, 1]]},
    }.get(which, {which: place})
    shells = [layout.parent(moved[key]).removeprefix("file:") for key in ("staged", "kept")]
    theirs = [lake.path(folder) for folder in shells if folder != str(precious.parent)]
    for folder in theirs:
        folder.mkdir()
        (folder / "keep.parquet").write_text("not ours either")
    swapped = (Event.VERIFIED, Event.SWAP, Event.SWAPPED)
    for events in ((), swapped[:2], (*swapped, Event.COMMITTED), (*swapped, Event.PURGE)):
        plant(quickly, of(quickly), swap, events, **lies)
        if which != "everywhere":  # that could be a table which was moved away
            with pytest.raises(HiveRefusedError, match=RUN):
                recover(quickly, of(quickly))
        for command in (rollback, cleanup):
            with suppress(ReplayError):
                command(quickly, of(quickly), force=True)
        shutil.rmtree(lake.folder / ".t.compact")
    assert (precious / "keep.parquet").read_text() == "not ours"
    assert all((folder / "keep.parquet").exists() for folder in theirs)
    assert lake.seen(quickly.catalog, "t") == 6


def test_a_planted_journal_names_no_backup_of_its_own(lake, quickly):
    lake.make("t", "one_key")
    lake.make("victim", "one_key")
    journal = Journal(quickly.files, f"{home_of(of(quickly))}/{RUN}")
    journal.record(Event.RUN, table="lake.t", swap="rename", started_ms=1, backup="victim")
    unit = quickly.catalog.units(of(quickly))[0]
    body = plan_body(unit, layout.places(unit.location, RUN, Swap.RENAME), (), ())
    journal.record(Event.PLANNED, unit.name, **body)
    recover(quickly, of(quickly))
    assert lake.seen(quickly.catalog, "victim") == 12


@pytest.mark.parametrize("swap", Swap)
def test_the_runs_of_a_table_are_not_touched_through_another_on_its_directory(lake, quickly, swap):
    lake.make("t")
    share(lake)
    compact(quickly, of(quickly), serially(swap))
    for force in (False, True):
        with pytest.raises(HiveRefusedError, match=r"lake\.t shares its directory"):
            rollback(quickly, of(quickly, "other"), force=force)
        assert cleanup(quickly, of(quickly, "other"), force=force) == []
    assert lake.seen(quickly.catalog, "t") == 6
    lake.sql("DROP TABLE lake.other")
    assert rollback(quickly, of(quickly))["outcome"] == "rolled back"


def test_a_table_that_was_renamed_takes_its_runs_along(lake, quickly):
    lake.make("t")
    compact(quickly, of(quickly), serially(Swap.LOCATION))
    lake.sql("ALTER TABLE lake.t RENAME TO lake.u")
    lake.make("t2")
    assert rollback(quickly, of(quickly, "u"))["outcome"] == "rolled back"
    assert (lake.seen(quickly.catalog, "u"), lake.debris()) == (6, [])


def test_rewritten_files_that_another_table_reads_are_not_rolled_back(lake, quickly):
    lake.make("t", "one_key")
    compact(quickly, of(quickly), serially(Swap.LOCATION))
    lake.declare("other", "dt STRING")
    place = quickly.catalog.units(of(quickly))[0].location.removeprefix("file:")
    lake.add("other", {"dt": "a"}, place)
    with pytest.raises(HiveSupersededError, match="is the LOCATION of another table"):
        rollback(quickly, of(quickly))
    assert lake.seen(quickly.catalog, "other") == 6


def test_a_name_in_capitals_is_the_same_table(lake, doors):
    lake.make("t")
    assert compact(doors, of(doors, "T"), serially(Swap.LOCATION)).units[0].files_after == 1
    assert cleanup(doors, of(doors, "t"))[0]["outcome"] == "cleaned up"
    lake.make("u")
    compact(doors, of(doors, "u"), serially(Swap.RENAME))
    assert rollback(doors, of(doors, "U"))["outcome"] == "rolled back"
    compact(doors, of(doors, "U"), serially(Swap.RENAME))
    assert cleanup(doors, of(doors, "U"))[0]["outcome"] == "cleaned up"
    assert (lake.count("t"), lake.count("u"), lake.debris()) == (6, 6, [])


def test_a_refused_table_gets_no_lock(lake, doors):
    lake.sql("CREATE VIEW lake.v AS SELECT 1 AS one")
    lake.declare("s", stored="SEQUENCEFILE")
    for name, why in (("v", "a view"), ("s", "SequenceFile")):
        with pytest.raises(HiveRefusedError, match=why):
            compact(doors, of(doors, name), Options())
    assert not [path for path in lake.folder.iterdir() if path.name != "s"]
    with pytest.raises(HiveRefusedError, match="no directory of its own"):
        history(doors, of(doors, "v"))
    lake.sql("DROP VIEW lake.v")


@pytest.mark.parametrize("location", ["", "file:/", "file:///", "s3a://bucket", "hdfs://h:8020/"])
def test_a_table_at_the_top_of_a_file_system_has_no_home(location):
    with pytest.raises(HiveRefusedError, match="no directory of its own"):
        home_of(Table("lake", "t", "id", "external", location, "parquet"))


def test_a_rollback_run_again_does_not_go_one_run_further_back(lake, quickly, victim):
    lake.make("t")
    first = compact(quickly, of(quickly), serially(Swap.RENAME))
    for end in ("by itself", "by recovery"):
        quick.append(of(quickly).location)
        compact(quickly, of(quickly), serially(Swap.RENAME))
        if end == "by itself":
            assert rollback(quickly, of(quickly))["outcome"] == "rolled back"
        else:
            assert victim("rollback", "lake.t", die_at="TAKEN_OUT", quickly=True)["signal"] == 9
        for force in (False, True):
            assert rollback(quickly, of(quickly), force=force)["outcome"] == "nothing to do"
        assert lake.seen(quickly.catalog, "t") == 8
        (lake.path("t") / "zz-late.parquet").unlink()
    assert rollback(quickly, of(quickly), run=first.run)["outcome"] == "rolled back"
    assert (lake.seen_files(quickly.catalog, "t"), lake.debris()) == (3, [])
    with pytest.raises(HiveNoRunError):
        rollback(quickly, of(quickly), run="20200101_000000_000abcd")


def test_a_partition_where_rename_is_a_copy_is_never_renamed(lake, quickly, monkeypatch):
    lake.make("t", "one_key")
    far = f"file:{lake.path('t')}/dt=a"
    monkeypatch.setattr(
        type(quickly.files), "renames_atomically", lambda self, path: not path.startswith(far)
    )
    planned = plan(quickly, of(quickly), Options())
    assert planned.swap is Swap.RENAME
    assert [unit.name for unit, _ in planned.taken] == ["dt=b"]
    assert [why for _, _, why in planned.left] == [
        "a rename is a copy where it lies; compact it with --swap location"
    ]
    with pytest.raises(HiveRefusedError, match="--swap location"):
        plan(quickly, of(quickly), Options(swap=Swap.RENAME))
    assert len(plan(quickly, of(quickly), Options(swap=Swap.LOCATION)).taken) == 2


def test_azure_renames_in_one_step_only_where_the_name_space_is_hierarchical(spark, quickly):
    files = type(quickly.files)
    path = "abfss://box@account.dfs.core.windows.net/t"
    setting = "fs.azure.account.hns.enabled"
    assert not files(spark).renames_atomically(path)
    for key in (setting, f"{setting}.account.dfs.core.windows.net"):
        spark.conf.set(key, "true")
        try:
            assert files(spark).renames_atomically(path)
        finally:
            spark.conf.unset(key)
