"""What a cleanup may delete, what it leaves or carries, and what is gone in the meantime."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from engine.errors import HiveSupersededError
from engine.hive.compact import compact
from engine.hive.model import Options, Stats, Swap
from engine.hive.steps import Step
from engine.hive.swap import Doors
from engine.hive.upkeep import cleanup, recover, rollback
from tests.hive import quick

LONG_AGO = (1e9, 1e9)


def of(doors, name="t"):
    return doors.catalog.table("lake", name)


def serially(swap, **more):
    return Options(swap=swap, parallelism=1, **more)


def originals(lake, swap):
    """Where the originals of a flat table lie after a swap."""
    return next(lake.folder.glob(".t__old_*/t")) if swap is Swap.RENAME else lake.path("t")


def at(doors, step, act):
    def hook(happened, unit):
        if happened is step:
            act()

    return Doors(doors.files, doors.catalog, doors.clock, hook)


@pytest.mark.parametrize("swap", Swap)
def test_an_original_that_was_only_touched_is_no_new_file(lake, quickly, swap):
    lake.make("t")
    compact(quickly, of(quickly), serially(swap))
    os.utime(next(originals(lake, swap).glob("*.parquet")), LONG_AGO)
    cleanup(quickly, of(quickly))
    assert (lake.seen(quickly.catalog, "t"), lake.debris()) == (6, [])


@pytest.mark.parametrize("swap", Swap)
def test_a_lake_that_was_copied_with_new_times_is_cleaned_up_by_force_alone(lake, quickly, swap):
    lake.make("t")
    compact(quickly, of(quickly), serially(swap))
    for file in lake.folder.rglob("*.parquet"):
        os.utime(file, LONG_AGO)
    with pytest.raises(HiveSupersededError, match="--force"):
        cleanup(quickly, of(quickly))
    cleanup(quickly, of(quickly), force=True)
    assert (lake.seen(quickly.catalog, "t"), lake.debris()) == (6, [])


@pytest.mark.parametrize("swap", Swap)
def test_originals_that_are_not_those_that_were_rewritten_are_not_cleaned_up(lake, quickly, swap):
    lake.make("t")
    compact(quickly, of(quickly), serially(swap))
    first, second, _ = sorted(originals(lake, swap).glob("*.parquet"))
    theirs = first.read_bytes() + b"more"
    first.write_bytes(theirs)
    for force in (False, True):
        with pytest.raises(HiveSupersededError, match="was changed; move it away"):
            cleanup(quickly, of(quickly), force=force)
    assert (first.read_bytes(), lake.seen(quickly.catalog, "t")) == (theirs, 6)
    first.unlink()
    with pytest.raises(HiveSupersededError, match="is gone"):
        cleanup(quickly, of(quickly))
    assert second.exists()
    cleanup(quickly, of(quickly), force=True)
    assert (lake.seen(quickly.catalog, "t"), lake.debris()) == (6, [])


def test_what_the_journal_does_not_name_is_where_readers_look_after_a_cleanup(lake, quickly):
    lake.make("t")
    for name in ("_log", ".hidden"):
        (lake.path("t") / name).mkdir()
        (lake.path("t") / name / "0.json").write_text(name)
        os.utime(lake.path("t") / name, LONG_AGO)
    (lake.path("t") / "_notes.txt").write_text("ours")
    compact(quickly, of(quickly), serially(Swap.RENAME))
    (lake.path("t") / ".hidden").mkdir()  # made anew meanwhile: the older one has no place there
    old = originals(lake, Swap.RENAME)
    (done,) = cleanup(quickly, of(quickly))
    assert (lake.path("t") / "_log" / "0.json").read_text() == "_log"
    assert (lake.path("t") / "_notes.txt").read_text() == "ours"
    assert (old / ".hidden" / "0.json").read_text() == ".hidden"
    assert done["left"] == [f"file:{old}"]
    assert [path.name for path in old.iterdir()] == [".hidden"]
    assert lake.seen(quickly.catalog, "t") == 6


@pytest.mark.parametrize("step", [Step.VERIFIED, Step.SWAP_INTENT])
@pytest.mark.parametrize("swap", Swap)
def test_an_overwrite_that_began_before_the_swap_gets_no_old_rows_back(lake, quickly, swap, step):
    lake.make("t", "one_key")
    gone = lake.path("t") / "dt=a"
    doors = at(quickly, step, lambda: shutil.rmtree(gone, ignore_errors=True))
    report = compact(doors, of(doors), serially(swap))
    assert [unit.outcome.partition(":")[0] for unit in report.units] == ["left alone", "compacted"]
    quick.append(str(gone))
    assert lake.seen(quickly.catalog, "t") == 2 + 6
    cleanup(quickly, of(quickly))
    assert (lake.seen(quickly.catalog, "t"), lake.debris()) == (2 + 6, [])


@pytest.mark.parametrize("died_at", ["UNIT_PLANNED", "VERIFIED", "SWAP_INTENT"])
def test_recovery_brings_no_old_rows_back_into_a_directory_taken_away(
    lake, quickly, victim, died_at
):
    lake.make("t")
    assert victim("compact", "lake.t", die_at=died_at, quickly=True)["signal"] == 9
    shutil.rmtree(lake.path("t"))
    assert [item["now"] for item in recover(quickly, of(quickly))] == ["aborted"]
    quick.append(str(lake.path("t")))
    assert (lake.seen(quickly.catalog, "t"), lake.debris()) == (2, [])


@pytest.mark.parametrize("swap", Swap)
def test_a_partition_dropped_since_does_not_wedge_the_table(lake, doors, swap):
    lake.make("t", "one_key")
    compact(doors, of(doors), serially(swap, stats=Stats.SCAN))
    lake.sql("ALTER TABLE lake.t DROP PARTITION (dt='a')")
    done = rollback(doors, of(doors), partitions=["dt=b"])
    assert done == done | {"outcome": "partly rolled back", "units": ["dt=b"]}
    assert recover(doors, of(doors)) == []
    cleanup(doors, of(doors), force=True)
    assert compact(doors, of(doors), serially(swap)).units[0].files_after == 1
    assert lake.count("t") == 6


def test_a_partition_moved_since_a_crash_is_let_go_and_told(lake, quickly, victim):
    lake.make("t", "one_key")
    assert victim("compact", "lake.t", die_at="SET_ASIDE", quickly=True)["signal"] == 9
    (kept,) = lake.path("t").glob(".dt=a__old_*/dt=a")
    shutil.copytree(kept, lake.folder / "elsewhere")
    unit = quickly.catalog.units(of(quickly))[0]
    quickly.catalog.set_location(of(quickly), unit, f"file:{lake.folder}/elsewhere")
    (told,) = recover(quickly, of(quickly))
    assert "dt=a was moved" in told["warning"]
    assert len(list(kept.glob("*.parquet"))) == 3, "nobody knows what they are to the table now"
    assert lake.seen(quickly.catalog, "t") == 12


def test_a_partition_rolled_back_alone_is_not_told_of_as_left(lake, quickly):
    lake.make("t", "one_key")
    compact(quickly, of(quickly), serially(Swap.LOCATION))
    rollback(quickly, of(quickly), partitions=["dt=a"])
    assert [done["left"] for done in cleanup(quickly, of(quickly))] == [[]]
    assert lake.seen(quickly.catalog, "t") == 12


def test_statistics_that_fail_do_not_stop_a_rollback_or_a_recovery(lake, quickly, victim):
    class Uncounted(type(quickly.catalog)):
        def measure(self, table, unit, *, rows):
            raise RuntimeError("no statistics today")

    doors = Doors(quickly.files, Uncounted(lake.spark), quickly.clock)
    lake.make("t")
    options = serially(Swap.RENAME, stats=Stats.SCAN)
    report = compact(quickly, of(quickly), options)
    done = rollback(doors, of(doors))
    assert (done["outcome"], done["run"]) == ("rolled back", report.run)
    assert "no statistics today" in done["warning"]
    assert lake.seen_files(quickly.catalog, "t") == 3


def test_rewritten_files_are_nobody_elses_while_they_are_made(lake, quickly):
    lake.make("t")
    lake.path("t").chmod(0o700)
    seen = []

    def look():
        (shell,) = lake.folder.glob(".t__compact*")
        seen.append(shell.stat().st_mode & 0o777)

    for swap in Swap:
        doors = at(quickly, Step.WRITTEN, look)
        compact(doors, of(doors), serially(swap))
        rollback(quickly, of(quickly))
    assert seen == [0o700, 0o700]


def test_the_directory_around_a_new_location_lets_the_tables_readers_in(lake, quickly):
    lake.make("t")
    lake.path("t").chmod(0o755)
    before = os.umask(0o077)
    try:
        compact(quickly, of(quickly), serially(Swap.LOCATION))
    finally:
        os.umask(before)
    (shell,) = lake.folder.glob(".t__compact_*")
    assert [folder.stat().st_mode & 0o777 for folder in (shell, shell / "t")] == [0o755, 0o755]


def test_rewritten_files_that_no_location_names_count_as_left_behind(lake, quickly):
    lake.make("t")
    compact(quickly, of(quickly), serially(Swap.LOCATION))
    cleanup(quickly, of(quickly))
    assert lake.debris() == []
    (unit,) = quickly.catalog.units(of(quickly))
    place = Path(unit.location.removeprefix("file:"))
    shutil.copytree(place, lake.path("t"))
    quickly.catalog.set_location(of(quickly), unit, f"file:{lake.path('t')}")
    assert lake.debris() == [str(place.parent)]
