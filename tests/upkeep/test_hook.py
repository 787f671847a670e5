"""A checkpoint is written after a commit when it is due, and never stands in a commit's way."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from engine import open_log
from engine.config import Config
from engine.upkeep import hook
from engine.upkeep.checkpoint import building
from engine.upkeep.hook import Due, is_due
from tests.commit.conftest import SCHEMA

PROJECT = Path(__file__).parent.parent.parent


def table(root: Path, log_format: str = "delta", **properties: str):
    config = {name.replace("_", "."): value for name, value in properties.items()}
    log = open_log(str(root), log_format=log_format)
    log.initialize(SCHEMA, configuration=config)
    return log


def checkpoints(root: Path) -> list[int]:
    return sorted({int(path.name[:20]) for path in root.rglob("*.checkpoint*.parquet")})


def commit(log, count: int, name: str = "f"):
    return [log.add_files([{"path": f"{name}{n}", "size": 1}]) for n in range(count)]


@pytest.mark.parametrize("log_format", ["delta", "indextables"])
def test_every_tenth_version_has_a_checkpoint(tmp_path: Path, log_format: str) -> None:
    log = table(tmp_path / "t", log_format)
    done = commit(log, 25)
    assert checkpoints(tmp_path / "t") == [10, 20]
    assert [run.name for run in done[9].hooks] == ["write_checkpoint", "clean_after"]
    assert not done[9].hook_failures
    assert not done[8].hooks
    found = open_log(str(tmp_path / "t")).snapshot()
    assert found.segment.checkpoint is not None
    assert found.segment.checkpoint.version == 20
    assert found.files().num_rows == 25


def test_the_interval_is_the_tables_and_counts_from_the_last_checkpoint(tmp_path: Path) -> None:
    log = table(tmp_path / "t", delta_checkpointInterval="4")
    commit(log, 2)
    log.checkpoint()
    again = open_log(str(tmp_path / "t"))
    commit(again, 5, "g")
    assert checkpoints(tmp_path / "t") == [2, 6]


def test_none_is_written_where_none_is_wanted(tmp_path: Path) -> None:
    table(tmp_path / "t")
    options = {"spark.indextables.checkpoint.enabled": False}
    commit(open_log(str(tmp_path / "t"), Config(options=options)), 12)
    assert not checkpoints(tmp_path / "t")


def test_a_checkpoint_that_fails_is_told_and_the_commit_stands(tmp_path: Path, monkeypatch) -> None:
    log = table(tmp_path / "t")

    def broken(*_: object, **__: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("engine.upkeep.checkpoint.building.lay", broken)
    done = commit(log, 10)[-1]
    assert done.version == 10
    assert done.hook_failures == ("write_checkpoint: OSError: no space left",)
    assert open_log(str(tmp_path / "t")).snapshot().version == 10


def test_one_that_failed_is_tried_again_and_ever_more_seldom(tmp_path: Path, monkeypatch) -> None:
    log = table(tmp_path / "t")

    def broken(*_: object, **__: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("engine.upkeep.checkpoint.building.lay", broken)
        done = commit(log, 45)
        tried = [commit.version for commit in done if commit.hook_failures]
        assert tried == [10, 11, 13, 17, 25, 35, 45]
    assert not checkpoints(tmp_path / "t")
    assert not any(commit.hook_failures for commit in commit(log, 11, "g"))
    assert checkpoints(tmp_path / "t") == [55]
    assert log.due == Due(55)
    commit(log, 10, "h")
    assert checkpoints(tmp_path / "t") == [55, 65]


def test_a_property_that_is_not_allowed_is_told_and_the_commit_stands(tmp_path: Path) -> None:
    table(tmp_path / "t", spark_indextables_checkpoint_interval="10", log_format="indextables")
    # Another engine may have set it.
    (first,) = tmp_path.rglob("*.json")
    first.write_bytes(first.read_bytes().replace(b'interval":"10"', b'interval":"often"'))
    done = commit(open_log(str(tmp_path / "t")), 1)[-1]
    assert done.version == 1
    assert "often" in done.hook_failures[0]


def test_in_the_background_the_commit_does_not_wait(tmp_path: Path, monkeypatch) -> None:
    table(tmp_path / "t")
    options = {"spark.indextables.checkpoint.background": True}
    log = open_log(str(tmp_path / "t"), Config(options=options))
    may_write = threading.Event()
    stream = building.stream

    def held(*given: Any) -> Any:
        assert may_write.wait(60)
        return stream(*given)

    monkeypatch.setattr(building, "stream", held)
    done = commit(log, 12)
    assert not done[-1].hook_failures
    assert not checkpoints(tmp_path / "t")
    may_write.set()
    hook.finish()
    assert checkpoints(tmp_path / "t")
    commit(log, 6, "g")
    hook.finish()
    assert len(checkpoints(tmp_path / "t")) == 1
    assert open_log(str(tmp_path / "t")).snapshot().files().num_rows == 18


def test_two_processes_at_the_boundary_make_one_checkpoint_and_both_are_fine(
    tmp_path: Path,
) -> None:
    root = tmp_path / "t"
    commit(table(root), 9)
    off = Config(options={"spark.indextables.checkpoint.enabled": False})
    commit(open_log(str(root), off), 1, "last")
    program = (
        "import pathlib, sys, time, types\n"
        "from engine import open_log\n"
        "from engine.upkeep.hook import write_checkpoint\n"
        "log, here = open_log(sys.argv[1]), pathlib.Path(sys.argv[2])\n"
        "log.snapshot()\n"
        "(here / sys.argv[3]).touch()\n"
        "while not all((here / name).exists() for name in 'xy'): time.sleep(0.001)\n"
        "write_checkpoint(log, types.SimpleNamespace(version=10))"
    )
    both = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(root), str(tmp_path), name],
            cwd=PROJECT,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("x", "y")
    ]
    for process in both:
        _, error = process.communicate(timeout=120)
        assert process.returncode == 0, error
    made = [path.name for path in root.rglob("*.checkpoint*.parquet")]
    assert made == ["00000000000000000010.checkpoint.parquet"]
    found = open_log(str(root)).snapshot()
    assert (found.version, found.files().num_rows) == (10, 10)
    assert not found.fallbacks
    assert found.segment.checkpoint is not None


def test_what_is_due() -> None:
    assert not is_due(9, None, 10)
    assert is_due(10, None, 10)
    assert not is_due(19, 10, 10)
    assert is_due(27, 10, 10)
