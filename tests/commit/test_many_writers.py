"""Many writers at once, writers that die, other engines beside us: nothing lost or torn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from engine import open_log
from tests.commit.conftest import SCHEMA, file, new_table
from tests.commit.writers import GROUP

WRITERS = Path(__file__).with_name("writers.py")
PROJECT = WRITERS.parent.parent.parent


def start(table: str, **spec: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(WRITERS), table, json.dumps(spec)],
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(writers: subprocess.Popen[str], timeout: float = 200) -> str:
    out, err = writers.communicate(timeout=timeout)
    assert writers.returncode == 0, err
    return out


def run(table: str, **spec: object) -> str:
    return finish(start(table, **spec))


def appenders(count: int, commits: int) -> list[dict[str, object]]:
    return [{"kind": "append", "name": f"a{n}", "count": commits} for n in range(count)]


def assert_each_action_once(table: str, names: list[str], commits: int) -> None:
    log = open_log(table)
    refs = log.commits()
    assert [ref.version for ref in refs] == list(range(len(names) * commits + 1))
    added = Counter(
        action.value["path"]
        for ref in refs
        for action in log.commit_actions(ref.version)
        if action.kind == "add"
    )
    wanted = {
        f"{name}.{n}.{part}" for name in names for n in range(commits) for part in range(GROUP)
    }
    assert set(added) == wanted
    assert set(added.values()) == {1}
    assert set(log.snapshot().files()["path"].to_pylist()) == wanted


def test_eight_processes_of_fifty_commits_on_disk(tmp_path, log_format):
    table = str(tmp_path / "events")
    new_table(table, log_format)
    writers = appenders(8, 50 if log_format == "delta" else 12)
    run(table, writers=writers)
    assert_each_action_once(table, [str(w["name"]) for w in writers], int(writers[0]["count"]))


# The server is Python: all fifty take a minute or two of it.
@pytest.mark.s3
@pytest.mark.slow
def test_eight_processes_on_s3(s3):
    commits = 50 if "CI" in os.environ else 10
    new_table(s3.url)
    writers = appenders(8, commits)
    run(s3.url, writers=writers)
    assert_each_action_once(s3.url, [str(w["name"]) for w in writers], commits)


def test_overwriters_among_appenders_equal_a_serial_order(tmp_path, log_format):
    table = str(tmp_path / "events")
    new_table(table, log_format)
    overwriters = [{"kind": "overwrite", "name": f"o{n}", "count": 12} for n in range(2)]
    run(table, writers=appenders(6, 12) + overwriters)
    log = open_log(table)
    live: set[str] = set()
    for ref in log.commits()[1:]:
        actions = log.commit_actions(ref.version)
        added = {a.value["path"] for a in actions if a.kind == "add"}
        removed = {a.value["path"] for a in actions if a.kind == "remove"}
        is_overwrite = next(iter(added)).startswith("o")
        assert removed == (live if is_overwrite else set()), "as if each had run alone"
        live = (live - removed) | added
    assert log.latest_version() == 8 * 12
    assert set(log.snapshot().files()["path"].to_pylist()) == live


def test_two_hundred_writers_killed_leave_whole_commits_only(tmp_path):
    tables = [str(tmp_path / f"events-{n}") for n in range(4)]
    for table in tables:
        new_table(table)
    killed = 0
    for pair in (tables[:2], tables[2:]):
        running = [start(table, kills=50, seed=seed) for seed, table in enumerate(pair)]
        killed += sum(int(finish(writers)) for writers in running)
    assert killed == 200
    written = sum(assert_whole(table) for table in tables)
    assert written > 20, "the writers did write before they died"


def assert_whole(table: str) -> int:
    """Check every commit of a table; return how many there are."""
    log = open_log(table)
    refs = log.commits()
    assert [ref.version for ref in refs] == list(range(len(refs)))
    live: set[str] = set()
    for ref in refs[1:]:
        data = Path(log.directory.file(ref.path)).read_bytes()
        assert data.endswith(b"\n")
        added = [json.loads(line)["add"]["path"] for line in data.splitlines()[1:]]
        stem = added[0].rpartition(".")[0]
        assert added == [f"{stem}.{part}" for part in range(GROUP)]
        assert not live & set(added), "no commit twice"
        live |= set(added)
    assert set(log.snapshot().files()["path"].to_pylist()) == live
    assert set(DeltaTable(table).get_add_actions()["path"].to_pylist()) == live
    assert log.add_files([file("after")]).version == len(refs)
    return len(refs) - 1


def test_txlog_and_deltalake_write_one_table_at_once(tmp_path):
    table = str(tmp_path / "events")
    new_table(table)
    ours = start(table, writers=appenders(2, 20))
    peer = DeltaTable(table)
    for n in range(20):
        add = AddAction(f"peer-{n}", 10, {"date": "2024-01-02", "hour": None}, 1, True, "{}")
        peer.create_write_transaction(
            [add], mode="append", schema=peer.schema(), partition_by=["date", "hour"]
        )
    finish(ours)
    wanted = {f"a{w}.{n}.{part}" for w in range(2) for n in range(20) for part in range(GROUP)}
    wanted |= {f"peer-{n}" for n in range(20)}
    log = open_log(table)
    assert log.latest_version() == 60
    assert set(log.snapshot().files()["path"].to_pylist()) == wanted
    theirs = DeltaTable(table)
    assert theirs.version() == 60
    assert set(theirs.get_add_actions()["path"].to_pylist()) == wanted


def test_a_handle_sees_what_deltalake_commits_and_rebases_on_it(tmp_path):
    table = str(tmp_path / "events")
    log = new_table(table)
    log.add_files([file("a")])
    peer = DeltaTable(table)
    add = AddAction("peer", 10, {"date": None, "hour": "7"}, 1, True, "{}")
    peer.create_write_transaction(
        [add], mode="append", schema=peer.schema(), partition_by=["date", "hour"]
    )
    assert sorted(log.snapshot().files()["path"].to_pylist()) == ["a", "peer"]
    log.overwrite_files([file("b")])
    assert DeltaTable(table).get_add_actions()["path"].to_pylist() == ["b"]
    assert json.loads(log.head().metadata["schemaString"]) == SCHEMA
