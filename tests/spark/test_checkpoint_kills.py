"""A driver killed at any step of a checkpoint leaves a table that reads the same."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engine import open_log
from engine.config import Config
from engine.upkeep.checkpoint.checkpoint import Asked, checkpoint
from engine.upkeep.checkpoint.shape import Shape
from tests.logs import LogBuilder, add, metadata, protocol, remove
from tests.spark.fixtures import environment
from tests.spark.victim import NOW
from tests.upkeep.kept import seen
from tests.upkeep.test_kill import assert_told

if TYPE_CHECKING:
    from tests.s3.fixtures import S3Server

pytestmark = [pytest.mark.spark, pytest.mark.slow]

VICTIM = Path(__file__).with_name("victim.py")
MOST_STEPS = 40
TWO_DAYS = 2 * 24 * 3600 * 1000


def built(root: Path, log_format: str = "delta", *, v2: bool = True) -> Path:
    log = LogBuilder(root, log_format)
    features = {"readerFeatures": ["v2Checkpoint"], "writerFeatures": ["v2Checkpoint"]}
    log.commit(
        protocol(3, 7, **features) if v2 else protocol(),
        metadata(),
        *(add(f"f{at}") for at in range(9)),
    )
    log.commit(remove("f1"), add("g"))
    return log.root


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return built(tmp_path / "base")


def finish(table: str, wanted: dict[str, Any], shape: Shape) -> None:
    """The table reads the same, the next run does the rest, and nothing is left behind."""
    log = open_log(table)
    assert seen(log.snapshot(engine="local")) == wanted
    asked = Asked(shape=shape, engine="local")
    listing = open_log(table).listing()
    checkpoint(log.directory, listing, Config(), asked, now_ms=NOW + TWO_DAYS)
    after = open_log(table).snapshot(engine="local")
    assert seen(after) == wanted
    assert after.segment.checkpoint is not None
    assert after.segment.checkpoint.version == after.version
    assert_told(open_log(table), after.version)
    directory = log.directory
    assert ".txlog-staging" not in directory.storage.list_directories(directory.path)


def victims(tables: list[str], shape: Shape, stride: int = 1, **more: str) -> int:
    """Kill a driver at every step, each on its own table; return how many steps there were.

    With a stride of 2, only before each change: what is left after it is what the next one finds.
    """
    spec = json.dumps({"tables": tables, "shape": shape.value, "stride": stride})
    ran = subprocess.run(
        [sys.executable, str(VICTIM), spec],
        env={**environment(), **more},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    died = [json.loads(line) for line in ran.stdout.splitlines()]
    assert died[-1] is False, "every step was reached"
    assert all(died[:-1])
    return len(died) - 1


@pytest.mark.parametrize("shape", [Shape.CLASSIC, Shape.V2_PARQUET])
def test_a_driver_killed_between_any_two_steps_leaves_the_table_as_it_was(
    tmp_path: Path, base: Path, shape: Shape
) -> None:
    wanted = seen(open_log(str(base)).snapshot(engine="local"))
    tables = [str(tmp_path / f"table-{step}") for step in range(MOST_STEPS)]
    for table in tables:
        shutil.copytree(base, table)
    steps = victims(tables, shape)
    assert steps >= 6
    for table in tables[: steps + 1]:
        finish(table, wanted, shape)


@pytest.mark.parametrize(
    ("log_format", "shape"),
    [
        ("delta", Shape.MULTI_PART),
        ("delta", Shape.V2_JSON),
        ("indextables", Shape.CLASSIC),
    ],
)
def test_a_driver_killed_before_any_change_leaves_any_shape_as_it_was(
    tmp_path: Path, log_format: str, shape: Shape
) -> None:
    base = built(tmp_path / "base", log_format, v2=shape.is_v2)
    wanted = seen(open_log(str(base)).snapshot(engine="local"))
    tables = [str(tmp_path / f"table-{step}") for step in range(MOST_STEPS)]
    for table in tables:
        shutil.copytree(base, table)
    steps = victims(tables, shape, stride=2)
    assert steps >= 3
    for table in tables[: steps + 1]:
        finish(table, wanted, shape)


def test_a_driver_killed_between_any_two_steps_on_s3(base: Path, s3: S3Server) -> None:
    wanted = seen(open_log(str(base)).snapshot(engine="local"))
    files = {str(p.relative_to(base)): p.read_bytes() for p in base.rglob("*") if p.is_file()}
    for step in range(MOST_STEPS):
        s3.put_many({f"{step}/{name}": data for name, data in files.items()})
    tables = [f"{s3.url}/{step}" for step in range(MOST_STEPS)]
    steps = victims(tables, Shape.CLASSIC, **s3.environment)
    assert steps >= 6
    for table in tables[: steps + 1]:
        finish(table, wanted, Shape.CLASSIC)


def test_a_driver_killed_while_its_executors_write(tmp_path: Path, base: Path) -> None:
    wanted = seen(open_log(str(base)).snapshot(engine="local"))
    marker = tmp_path / "marker"
    spec = json.dumps({"table": str(base), "marker": str(marker)})
    driver = subprocess.Popen([sys.executable, str(VICTIM), spec], env=environment())
    try:
        while not marker.exists():
            assert driver.poll() is None, "it ended before its executors wrote"
            time.sleep(0.05)
    finally:
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
    assert list((base / "_delta_log").glob(".txlog-staging/*/*"))
    finish(str(base), wanted, Shape.CLASSIC)
