"""The driver dies by SIGKILL after every step there is; nothing is ever lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import HiveNoRunError
from engine.hive.compact import compact
from engine.hive.model import Options, Swap
from engine.hive.steps import GAP, Step
from engine.hive.upkeep import cleanup, history, recover, rollback
from tests.hive import quick
from tests.hive.tables import SHAPES

GAPS = {step.name for step in GAP}
ROWS = {"flat": 6, "one_key": 12, "two_keys": 6}
SWAPS = ("rename", "location")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def cases(victim, lake, doors, *, shape, swap, command, compacted=False):
    """Yield, for each step of `command`, a table whose driver died right after that step."""
    table_of = doors.catalog.table

    def prepare(name):
        lake.make(name, shape)
        if compacted:
            saved = quick.install(lake.spark)
            compact(doors, table_of("lake", name), Options(swap=Swap(swap), parallelism=1))
            quick.restore(saved)

    prepare("probe")
    steps = victim(command, "lake.probe", swap)["steps"]
    assert steps[-1] == "RELEASED"
    lake.sql("DROP TABLE lake.probe")
    for number, step in enumerate(steps, start=1):
        name = f"t{number:02d}"
        prepare(name)
        answer = victim(
            command,
            f"lake.{name}",
            swap,
            die_after=number,
            quickly=(shape, swap) != ("flat", "rename"),
        )
        assert answer["signal"] == 9, (step, answer)
        assert answer["steps"][-1] == step
        yield f"{command} {shape} {swap}, killed after {number} {step}", name, step


def whole(lake, name, shape):
    return lake.count(name) == ROWS[shape]


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("shape", SHAPES)
def test_compact_killed_after_any_step_keeps_every_row(victim, lake, doors, shape, swap):
    for case, name, step in cases(victim, lake, doors, shape=shape, swap=swap, command="compact"):
        if step not in GAPS:
            assert whole(lake, name, shape), f"{case}: before recovery"
        recover(doors, doors.catalog.table("lake", name))
        assert whole(lake, name, shape), f"{case}: after recovery"
        if lake.debris(name):
            cleanup(doors, doors.catalog.table("lake", name))
            assert whole(lake, name, shape), f"{case}: after cleanup"
            assert not lake.debris(name), case
        lake.sql(f"DROP TABLE lake.{name}")


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("shape", SHAPES)
def test_rollback_killed_after_any_step_keeps_every_row(victim, lake, doors, shape, swap):
    for case, name, step in cases(
        victim, lake, doors, shape=shape, swap=swap, command="rollback", compacted=True
    ):
        if step not in GAPS:
            assert whole(lake, name, shape), f"{case}: before recovery"
        recover(doors, doors.catalog.table("lake", name))
        rollback(doors, doors.catalog.table("lake", name))
        assert whole(lake, name, shape), f"{case}: after a second rollback"
        assert len(lake.files(name)) == 3 * len(SHAPES[shape][0]), f"{case}: the originals"
        assert not lake.debris(name), case
        lake.sql(f"DROP TABLE lake.{name}")


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("shape", SHAPES)
def test_cleanup_killed_after_any_step_keeps_every_row(victim, lake, doors, shape, swap):
    for case, name, _ in cases(
        victim, lake, doors, shape=shape, swap=swap, command="cleanup", compacted=True
    ):
        assert whole(lake, name, shape), f"{case}: before recovery"
        recover(doors, doors.catalog.table("lake", name))
        cleanup(doors, doors.catalog.table("lake", name))
        assert whole(lake, name, shape), f"{case}: after cleanup"
        assert not lake.debris(name), case
        lake.sql(f"DROP TABLE lake.{name}")


@pytest.mark.parametrize("swap", SWAPS)
def test_recovery_killed_after_any_step_is_finished_by_the_next(victim, lake, doors, swap):
    for died_at in ("WRITTEN", "SET_ASIDE" if swap == "rename" else "REPOINTED"):
        number, signal = 0, 9
        while signal == 9:
            number += 1
            name = f"{died_at.lower()}{number}"
            lake.make(name, "one_key")
            assert (
                victim("compact", f"lake.{name}", swap, die_at=died_at, quickly=True)["signal"] == 9
            )
            answer = victim("recover", f"lake.{name}", swap, die_after=number)
            signal = answer["signal"]
            recover(doors, doors.catalog.table("lake", name))
            assert whole(lake, name, "one_key"), (died_at, answer["steps"])
            rollback_if_standing(doors, name)
            assert not lake.debris(name), (died_at, answer["steps"])
            lake.sql(f"DROP TABLE lake.{name}")
        assert number > 4


def rollback_if_standing(doors, name):
    table = doors.catalog.table("lake", name)
    if history(doors, table)[-1]["outcome"] == "committed":
        rollback(doors, table)


def test_the_kill_tests_pass_through_every_step_there_is(victim, lake, doors):
    seen = set()
    for swap in SWAPS:
        name = f"all_{swap}"
        lake.make(name)
        for command in ("compact", "rollback", "compact", "cleanup"):
            seen |= set(victim(command, f"lake.{name}", swap, quickly=True)["steps"])
    rare = {"MERGED_FILE", "CARRIED"}  # these need a writer in between: see test_holes
    assert seen == {step.name for step in Step} - rare


@pytest.mark.parametrize("step", ["CARRIED", "MERGED_FILE"])
def test_killed_while_a_writers_files_are_carried_or_merged(victim, lake, doors, step):
    lake.make("t")
    late = "SWAP_INTENT" if step == "CARRIED" else "SET_ASIDE"
    answer = victim("compact", "lake.t", write_at=late, die_at=step, quickly=True)
    assert answer["signal"] == 9
    recover(doors, doors.catalog.table("lake", "t"))
    assert lake.count("t") == 8
    cleanup(doors, doors.catalog.table("lake", "t"))
    assert (lake.count("t"), lake.debris("t")) == (8, [])


def test_a_run_after_a_crash_goes_on_with_what_is_left(victim, lake, doors):
    lake.make("t", "one_key")
    assert victim("compact", "lake.t", die_at="SWAPPED", quickly=True)["signal"] == 9
    report = compact(doors, doors.catalog.table("lake", "t"), Options(parallelism=1))
    assert [item["now"] for item in report.recovered] == ["committed"]
    assert [unit.unit for unit in report.units] == ["dt=b"]
    assert (len(lake.files("t")), lake.count("t")) == (2, 12)
    assert len(cleanup(doors, doors.catalog.table("lake", "t"))) == 2
    assert (lake.count("t"), lake.debris("t")) == (12, [])


def test_a_dry_run_does_not_even_recover(victim, lake, doors):
    lake.make("t")
    assert victim("compact", "lake.t", die_at="SET_ASIDE", quickly=True)["signal"] == 9
    before = sorted(str(path) for path in lake.folder.rglob("*"))
    table = doors.catalog.table("lake", "t")
    assert cleanup(doors, table, dry_run=True) == []
    with pytest.raises(HiveNoRunError):
        rollback(doors, table, dry_run=True)
    assert sorted(str(path) for path in lake.folder.rglob("*")) == before
    recover(doors, table)
    assert lake.count("t") == 6


@pytest.mark.jvm
def test_driver_and_jvm_killed_together_leave_a_metastore_and_a_table_that_recover(tmp_path):
    def story(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "tests.hive.lone_driver", str(tmp_path), *arguments],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=False,
        )

    assert story("die", "rename", "SET_ASIDE").returncode == -9
    told = story("recover", "rename", "SET_ASIDE")
    assert told.returncode == 0, told.stderr[-3000:]
    assert json.loads(told.stdout.splitlines()[-1]) == {
        "rows": 12,
        "now": ["committed"],
        "debris": [],
    }
