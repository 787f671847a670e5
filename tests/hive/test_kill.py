"""The driver dies by SIGKILL after every step there is; nothing is ever lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from engine.errors import HiveNoRunError
from engine.hive.catalog import Catalog
from engine.hive.compact import compact
from engine.hive.files import Files
from engine.hive.model import Options, Swap
from engine.hive.steps import GAP, Step
from engine.hive.swap import Doors
from engine.hive.upkeep import cleanup, history, recover, rollback
from tests.hive.session import CHEAP
from tests.hive.tables import SHAPES

GAPS = {step.name for step in GAP}
ROWS = {"flat": 6, "one_key": 12, "two_keys": 6}
SWAPS = ("rename", "location")
ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def cases(victim, lake, doors, *, shape, swap, command, compacted=False):
    """Yield, for each step of `command`, the table `t` whose driver died right after that step.

    The steps are those that a whole run of the command tells. Arrow rewrites, and the metastore is
    told by Hive's own client, here and in the recovery: what a kill leaves depends neither on who
    wrote the files nor on the language the metastore is told in. The last tests of this file have
    everything as users have it.
    """
    lake.make("t", shape)

    def prepare():
        lake.restore(doors.catalog, "t")
        if compacted:
            compact_quickly(lake, doors, swap)

    prepare()
    steps = victim(command, "lake.t", swap, quickly=True)["steps"]
    assert steps[-1] == "RELEASED"
    cleanup(doors, doors.catalog.table("lake", "t"))
    for number, step in enumerate(steps, start=1):
        prepare()
        answer = victim(command, "lake.t", swap, die_after=number, quickly=True)
        assert answer["signal"] == 9, (step, answer)
        assert answer["steps"][-1] == step
        yield f"{command} {shape} {swap}, killed after {number} {step}", step


def compact_quickly(lake, doors, swap):
    compact(doors, doors.catalog.table("lake", "t"), Options(swap=Swap(swap), parallelism=1))


@pytest.fixture
def doors(quickly):
    return quickly


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("shape", SHAPES)
def test_compact_killed_after_any_step_keeps_every_row(victim, lake, doors, shape, swap):
    for case, step in cases(victim, lake, doors, shape=shape, swap=swap, command="compact"):
        table = doors.catalog.table("lake", "t")
        if step not in GAPS:
            assert lake.seen(doors.catalog, "t") == ROWS[shape], f"{case}: before recovery"
        recover(doors, table)
        assert lake.seen(doors.catalog, "t") == ROWS[shape], f"{case}: after recovery"
        cleanup(doors, table)
        assert lake.seen(doors.catalog, "t") == ROWS[shape], f"{case}: after cleanup"
        assert not lake.debris(), case
    assert lake.count("t") == ROWS[shape]


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("shape", SHAPES)
def test_rollback_killed_after_any_step_keeps_every_row(victim, lake, doors, shape, swap):
    for case, step in cases(
        victim, lake, doors, shape=shape, swap=swap, command="rollback", compacted=True
    ):
        table = doors.catalog.table("lake", "t")
        if step not in GAPS:
            assert lake.seen(doors.catalog, "t") == ROWS[shape], f"{case}: before recovery"
        recover(doors, table)
        rollback(doors, table)
        assert lake.seen(doors.catalog, "t") == ROWS[shape], f"{case}: after a second rollback"
        assert lake.seen_files(doors.catalog, "t") == 3 * len(SHAPES[shape][0]), case
        assert not lake.debris(), case
    assert lake.count("t") == ROWS[shape]


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("shape", SHAPES)
def test_cleanup_killed_after_any_step_keeps_every_row(victim, lake, doors, shape, swap):
    for case, _ in cases(
        victim, lake, doors, shape=shape, swap=swap, command="cleanup", compacted=True
    ):
        table = doors.catalog.table("lake", "t")
        assert lake.seen(doors.catalog, "t") == ROWS[shape], f"{case}: before recovery"
        recover(doors, table)
        cleanup(doors, table)
        assert lake.seen(doors.catalog, "t") == ROWS[shape], f"{case}: after cleanup"
        assert not lake.debris(), case
    assert lake.count("t") == ROWS[shape]


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize(
    ("shape", "command", "died_at"),
    [
        ("one_key", "compact", "WRITTEN"),
        ("one_key", "compact", "half way"),
        ("flat", "rollback", "half way"),
        ("two_keys", "rollback", "UNDO_INTENT"),
        ("flat", "cleanup", "PURGE_INTENT"),
        ("two_keys", "cleanup", "DELETED"),
    ],
)
def test_recovery_killed_after_any_step_is_finished_by_the_next(
    victim, lake, doors, swap, shape, command, died_at
):
    if died_at == "half way":
        gap = "SET_ASIDE" if command == "compact" else "TAKEN_OUT"
        died_at = gap if swap == "rename" else "REPOINTED"
    lake.make("t", shape)
    number, signal = 0, 9
    while signal == 9:
        number += 1
        lake.restore(doors.catalog, "t")
        if command != "compact":
            compact_quickly(lake, doors, swap)
        died = victim(command, "lake.t", swap, die_at=died_at, quickly=True)
        assert died["signal"] == 9
        answer = victim("recover", "lake.t", swap, die_after=number, quickly=True)
        signal = answer["signal"]
        recover(doors, doors.catalog.table("lake", "t"))
        assert lake.seen(doors.catalog, "t") == ROWS[shape], answer["steps"]
        rollback_if_standing(doors, "t")
        assert not lake.debris(), answer["steps"]
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


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("shape", SHAPES)
def test_killed_and_recovered_with_everything_as_users_have_it(spark, victim, lake, shape, swap):
    real = Doors(Files(spark), Catalog(spark), lambda: int(time.time() * 1000))
    there, back = ("SET_ASIDE", "TAKEN_OUT") if swap == "rename" else ("REPOINTED", "REPOINTED")
    lake.make("t", shape)
    before = lake.content("t")
    assert victim("compact", "lake.t", swap, die_at=there)["signal"] == 9
    assert recover(real, real.catalog.table("lake", "t"))[0]["now"] == "committed"
    assert victim("rollback", "lake.t", swap, die_at=back)["signal"] == 9
    assert recover(real, real.catalog.table("lake", "t"))[0]["now"] == "rolled back"
    assert (lake.content("t"), lake.debris()) == (before, [])
    compact(real, real.catalog.table("lake", "t"), Options(swap=Swap(swap), parallelism=1))
    assert victim("cleanup", "lake.t", swap, die_at="DELETED")["signal"] == 9
    cleanup(real, real.catalog.table("lake", "t"))
    assert (lake.content("t"), lake.debris()) == (before, [])


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory):
    """A folder where a driver died with its JVM, what it had told, and the job that came after."""
    folder = tmp_path_factory.mktemp("lone")
    died = _run([sys.executable, "-m", "tests.hive.lone_driver", str(folder)], ROOT)
    assert died.returncode == -9, died.stderr[-3000:]
    settings = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder} {CHEAP}",
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={folder}/metastore"
        ),
    }
    words = [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
    submit, job = Path(sys.executable).with_name("spark-submit"), ROOT / "jobs" / "hive_compact.py"
    done = _run([str(submit), *words, str(job), "lake.t", "lake.u"], folder)
    assert done.returncode == 0, done.stderr[-3000:]
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    return folder, json.loads(died.stdout), {report["table"]: report for report in reports}


def _run(command, folder):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )


def _files(folder, table):
    return [list((folder / "lake" / table / key).glob("*.parquet")) for key in ("dt=a", "dt=b")]


@pytest.mark.jvm
@pytest.mark.xdist_group("lone")
def test_driver_and_jvm_killed_together_leave_a_metastore_and_a_table_that_recover(left_behind):
    folder, _, reports = left_behind
    assert [item["now"] for item in reports["lake.t"]["recovered"]] == ["committed"]
    assert [unit["unit"] for unit in reports["lake.t"]["units"]] == ["dt=b"]
    rows = [pq.read_metadata(file).num_rows for (file,) in _files(folder, "t")]
    assert rows == [6, 6]


@pytest.mark.jvm
@pytest.mark.xdist_group("lone")
def test_a_metastore_really_lost_mid_run_leaves_the_table_as_it_was(left_behind):
    lost = dict(left_behind[1])
    said = lost.pop("said")
    assert lost == {"as_before": True, "rows": 12, "debris": []}, said
    assert said.startswith("lake.u: HiveException: Unable to ")
    assert said.endswith("run `txlog hive recover lake.u`")
    assert "\n" not in said


@pytest.mark.jvm
@pytest.mark.xdist_group("lone")
def test_the_job_compacts_from_spark_submit(left_behind):
    folder, _, reports = left_behind
    report = reports["lake.u"]
    assert (report["files_before"], report["files_after"], report["rows"]) == (6, 2, 12)
    assert [len(files) for files in _files(folder, "u")] == [1, 1]
