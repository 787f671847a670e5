"""The driver dies by SIGKILL after every step there is; nothing is ever lost."""

from __future__ import annotations

import pytest

from engine.hive.compact import compact
from engine.hive.model import Options, Swap
from engine.hive.steps import GAP
from engine.hive.upkeep import cleanup, recover, rollback
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
        answer = victim(command, f"lake.{name}", swap, die_after=number, quick=shape != "flat")
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
