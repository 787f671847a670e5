"""A writer, another run or an interrupt comes at the worst moment; no row is lost or doubled."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from pathlib import Path

import pytest

from engine.errors import (
    AlreadyExistsError,
    HiveFailedError,
    HiveFencedError,
    HiveLockedError,
    HiveRefusedError,
    HiveSupersededError,
    ReplayError,
)
from engine.hive import local
from engine.hive.compact import compact
from engine.hive.files import Files
from engine.hive.lock import acquire
from engine.hive.model import Options, Swap
from engine.hive.plan import plan
from engine.hive.steps import Step
from engine.hive.swap import Doors
from engine.hive.upkeep import cleanup, history, recover, rollback
from tests.hive import quick


@pytest.fixture
def at(quickly):
    """Doors that call something the first time a step of a unit is done."""

    def make(acts):
        left = dict(acts)

        def hook(step, unit):
            if act := left.pop((step, unit), None):
                act()

        return Doors(quickly.files, quickly.catalog, quickly.clock, hook)

    return make


def of(doors, name="t"):
    return doors.catalog.table("lake", name)


def place(doors, unit):
    """Where readers find one unit of the table."""
    found = next(u for u in doors.catalog.units(of(doors)) if u.name == unit)
    return Path(found.location.removeprefix("file:"))


def overwrite(folder):
    """A writer replaces all that a directory holds by two rows."""
    shutil.rmtree(folder)
    quick.append(str(folder))


def serially(swap):
    return Options(swap=swap, parallelism=1)


def fail():
    raise OSError("the disk is on fire")


@pytest.mark.parametrize("swap", Swap)
def test_a_failure_does_not_undo_what_a_writer_did_to_a_partition_already_swapped(
    lake, quickly, at, swap
):
    lake.make("t", "one_key")
    doors = at(
        {
            (Step.SWAPPED, "dt=a"): lambda: overwrite(place(quickly, "dt=a")),
            (Step.WRITTEN, "dt=b"): fail,
        }
    )
    with pytest.raises(HiveFailedError, match="as it was before, but for dt=a"):
        compact(doors, of(doors), serially(swap))
    assert lake.seen(quickly.catalog, "t") == 2 + 6
    assert recover(quickly, of(quickly)) == []
    with pytest.raises(HiveSupersededError):
        rollback(quickly, of(quickly))
    cleanup(quickly, of(quickly), force=True)
    assert (lake.seen(quickly.catalog, "t"), lake.debris()) == (2 + 6, [])


@pytest.mark.parametrize("swap", Swap)
def test_a_rollback_killed_before_its_first_act_does_not_undo_a_later_overwrite(
    lake, quickly, victim, swap
):
    lake.make("t", "one_key")
    compact(quickly, of(quickly), serially(swap))
    assert victim("rollback", "lake.t", die_at="UNDO_INTENT", quickly=True)["signal"] == 9
    overwrite(place(quickly, "dt=a"))
    assert [item["now"] for item in recover(quickly, of(quickly))] == ["committed"]
    assert lake.seen(quickly.catalog, "t") == 2 + 6


def test_originals_replaced_during_a_location_swap_are_what_readers_see(lake, quickly, at):
    lake.make("t", "one_key")
    originals = place(quickly, "dt=a")
    doors = at({(Step.REPOINTED, "dt=a"): lambda: overwrite(originals)})
    report = compact(doors, of(doors), serially(Swap.LOCATION))
    assert [unit.outcome.partition(":")[0] for unit in report.units] == ["left alone", "compacted"]
    assert place(quickly, "dt=a") == originals
    assert lake.seen(quickly.catalog, "t") == 2 + 6


def test_a_merge_that_fails_half_way_leaves_no_row_twice(lake, quickly, at):
    lake.make("t")
    doors = at(
        {
            (Step.SET_ASIDE, ""): lambda: quick.append(of(quickly).location),
            (Step.MERGED_FILE, ""): fail,
        }
    )
    with pytest.raises(HiveFailedError, match="as it was before"):
        compact(doors, of(doors), serially(Swap.RENAME))
    assert (lake.seen(quickly.catalog, "t"), len(lake.files("t")), lake.debris()) == (8, 4, [])


@pytest.mark.parametrize("swap", Swap)
@pytest.mark.parametrize("begun", ["_temporary", ".hive-staging_1", "sub"])
def test_a_writer_that_began_after_the_plan_keeps_its_directory(lake, quickly, at, swap, begun):
    lake.make("t", "one_key")
    theirs = [lake.path("t") / unit / begun for unit in ("dt=a", "dt=b")]
    doors = at(
        {
            (Step.UNIT_PLANNED, "dt=a"): theirs[1].mkdir,  # before that one is rewritten
            (Step.SWAP_INTENT, "dt=a"): theirs[0].mkdir,  # and after this one was
        }
    )
    report = compact(doors, of(doors), serially(swap))
    assert [unit.outcome.partition(":")[0] for unit in report.units] == ["left alone"] * 2
    assert [folder.is_dir() for folder in theirs] == [True, True]
    shutil.rmtree(theirs[0])
    shutil.rmtree(theirs[1])
    assert (lake.seen(quickly.catalog, "t"), len(lake.files("t")), lake.debris()) == (12, 6, [])


def test_nothing_goes_back_while_a_worker_still_goes_forward(lake, quickly):
    lake.make("t", "one_key")
    alone = threading.Event()

    def interrupted(step, unit):
        if step is Step.SWAP_INTENT and not alone.is_set():
            alone.set()
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)  # long enough for a main thread that does not wait

    doors = Doors(quickly.files, quickly.catalog, quickly.clock, interrupted)
    with pytest.raises(KeyboardInterrupt):
        compact(doors, of(doors), Options(parallelism=2))
    assert (lake.seen(quickly.catalog, "t"), len(lake.files("t")), lake.debris()) == (12, 6, [])
    assert history(quickly, of(quickly))[-1]["outcome"] == "aborted"


def test_a_journal_deleted_half_way_is_no_run_any_more(lake, quickly, monkeypatch):
    lake.make("t")
    compact(quickly, of(quickly), serially(Swap.LOCATION))
    (lake.path("t") / "_notes").mkdir()  # so that the directory of the originals stays
    delete = Files.delete

    def half(files, path):
        folder = local.path_of(path)
        if folder.parent.name != ".t.compact":
            delete(files, path)
            return
        for transition in sorted(folder.glob("*.json"))[-4:]:
            transition.unlink()
        raise OSError("the process ends here")

    monkeypatch.setattr(Files, "delete", half)
    with pytest.raises(OSError, match="ends here"):
        cleanup(quickly, of(quickly))
    monkeypatch.undo()
    recover(quickly, of(quickly))
    assert (lake.seen(quickly.catalog, "t"), lake.debris()) == (6, [])


def test_originals_that_another_table_reads_are_not_cleaned_up(lake, quickly):
    lake.make("t", "one_key")
    lake.declare("other", "dt STRING")
    lake.add("other", {"dt": "a"}, lake.path("t") / "dt=a")
    compact(quickly, of(quickly), serially(Swap.LOCATION))
    with pytest.raises(HiveSupersededError, match="is the LOCATION of a table"):
        cleanup(quickly, of(quickly))
    assert lake.seen(quickly.catalog, "other") == 6
    lake.sql("DROP TABLE lake.other")
    assert [done["outcome"] for done in cleanup(quickly, of(quickly))] == ["cleaned up"]


def test_a_partition_pointed_back_by_hand_is_neither_deleted_nor_stuck(lake, quickly):
    lake.make("t", "one_key")
    originals = place(quickly, "dt=a")
    compact(quickly, of(quickly), serially(Swap.LOCATION))
    unit = next(u for u in quickly.catalog.units(of(quickly)) if u.name == "dt=a")
    quickly.catalog.set_location(of(quickly), unit, f"file:{originals}")
    with pytest.raises(HiveSupersededError, match="is the LOCATION of a table"):
        cleanup(quickly, of(quickly))
    assert rollback(quickly, of(quickly))["outcome"] == "rolled back"
    assert (lake.seen(quickly.catalog, "t"), lake.debris()) == (12, [])


def test_a_file_that_reaches_the_originals_late_goes_to_where_readers_look_now(lake, quickly):
    lake.make("t")
    first = compact(quickly, of(quickly), serially(Swap.LOCATION))
    quick.append(of(quickly).location)
    compact(quickly, of(quickly), serially(Swap.LOCATION))
    assert lake.seen(quickly.catalog, "t") == 8
    quick.append(str(lake.path("t")))  # by a writer that knows only where the table once was
    now = int(history(quickly, of(quickly))[0]["started_ms"]) + 60_000
    then = Doors(quickly.files, quickly.catalog, lambda: now)
    done = cleanup(then, of(quickly), older_than_ms=60_000)
    assert [item["run"] for item in done] == [first.run]
    assert lake.seen(quickly.catalog, "t") == 10


@pytest.mark.parametrize("end", [HiveFencedError("as good as dead"), OSError("refused")])
def test_a_late_file_is_not_doubled_where_a_rename_is_a_copy(lake, quickly, at, monkeypatch, end):
    lake.make("t")
    ends = [end]

    def copy_and_delete(self, source, target):
        source, target = local.path_of(source), local.path_of(target)
        if target.exists():
            raise AlreadyExistsError(str(target))
        shutil.copy(source, target)
        if ends:
            raise ends.pop()
        source.unlink()

    monkeypatch.setattr(Files, "renames_atomically", lambda self, path: False)
    monkeypatch.setattr(Files, "rename", copy_and_delete)
    doors = at({(Step.SWAP_INTENT, ""): lambda: quick.append(of(quickly).location)})
    with pytest.raises(ReplayError):
        compact(doors, of(doors), Options(parallelism=1))
    recover(quickly, of(quickly))
    assert lake.seen(quickly.catalog, "t") == 8


def test_a_rollback_waits_for_a_writer_at_work(lake, quickly):
    lake.make("t")
    compact(quickly, of(quickly), serially(Swap.RENAME))
    (lake.path("t") / "_temporary").mkdir()
    with pytest.raises(HiveRefusedError, match="_temporary"):
        rollback(quickly, of(quickly), keep_new=True)
    (lake.path("t") / "_temporary").rmdir()
    assert rollback(quickly, of(quickly))["outcome"] == "rolled back"
    assert lake.seen(quickly.catalog, "t") == 6


def test_a_later_run_that_left_a_partition_alone_does_not_keep_its_originals(lake, quickly, at):
    lake.make("t", "one_key")
    compact(quickly, of(quickly), serially(Swap.RENAME))
    for unit in ("dt=a", "dt=b"):
        quick.append(str(lake.path("t") / unit))
    doors = at({(Step.SWAP_INTENT, "dt=a"): (lake.path("t") / "dt=a" / "_x").mkdir})
    compact(doors, of(doors), serially(Swap.RENAME))
    assert len(cleanup(quickly, of(quickly))) == 2
    assert (lake.seen(quickly.catalog, "t"), lake.debris()) == (16, [])


def test_a_second_rollback_of_one_partition_has_nothing_to_do(lake, quickly):
    lake.make("t", "one_key")
    compact(quickly, of(quickly), serially(Swap.RENAME))
    for outcome in ("partly rolled back", "nothing to do"):
        assert rollback(quickly, of(quickly), partitions=["dt=a"])["outcome"] == outcome


def test_the_backup_of_a_run_that_first_recovered_reads_what_that_run_replaced(
    lake, quickly, victim
):
    lake.make("t")
    before = of(quickly)
    assert victim("compact", "lake.t", "location", die_at="SWAP_INTENT", quickly=True)["signal"]
    quick.append(before.location)
    report = compact(quickly, before, serially(Swap.LOCATION))
    assert (report.units[0].files_before, lake.seen(quickly.catalog, "t")) == (2, 8)
    assert lake.seen(quickly.catalog, report.backup) == 8


def test_a_lock_taken_and_freed_by_others_since_the_look_is_not_taken_again(tmp_path, doors):
    def take(files=doors.files):
        return acquire(files, f"file:{tmp_path}", table="t", command="c", clock=lambda: 1)

    class Slow(Files):
        looked = False

        def names(self, path):
            found = super().names(path)
            if not self.looked:
                self.looked = True
                take().release()
                take()
            return found

    take().release()
    with pytest.raises(HiveLockedError):
        take(Slow(doors.catalog.spark))


def test_a_directory_that_is_filled_at_that_moment_is_not_deleted(tmp_path, monkeypatch):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "file").touch()
    monkeypatch.setattr(local, "statuses", lambda folder: [])
    assert not local.delete_empty(tmp_path / "d")
    assert (tmp_path / "d" / "file").exists()


def test_a_partition_that_lies_where_the_journal_lies_is_left_alone(lake, quickly):
    lake.make("t", "one_key")
    shutil.copytree(lake._part("PARQUET", 3), lake.path("u"))
    lake.declare("u", "dt STRING")
    lake.add("u", {"dt": "a"}, lake.path("u"))
    planned = plan(quickly, of(quickly, "u"), Options())
    assert [why for _, _, why in planned.left] == [
        "its directory holds the table's own, and so the journal"
    ]
