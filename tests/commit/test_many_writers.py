"""Many writers at once, writers that die, other engines beside us: nothing lost or torn."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from engine import open_log
from engine.replay.compression import decode
from tests.commit.conftest import SCHEMA, file, new_table
from tests.commit.writers import GROUP
from tests.forks import Forks, forks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.table import TableLog


IS_CI = "CI" in os.environ
# On disk checkpoints and compactions are made as often as by default; on S3 a few are enough.
RARELY = {"delta.checkpointInterval": "40", "delta.logCompactionInterval": "40"}


@pytest.fixture(scope="module")
def writers() -> Iterator[Forks]:
    with forks("tests.commit.writers") as writers:
        yield writers


def appenders(count: int, commits: int) -> list[dict[str, object]]:
    return [{"kind": "append", "name": f"a{n}", "count": commits} for n in range(count)]


def all_commits(log: TableLog) -> list[list[dict[str, Any]]]:
    """Return the lines of every commit. No version is missing, and no commit is torn."""
    refs = log.commits()
    assert [ref.version for ref in refs] == list(range(len(refs)))
    files = [log.directory.file(ref.path) for ref in refs]
    texts = [decode(data, path) for path, data in log.directory.storage.read_many(files)]
    assert all(text.endswith(b"\n") for text in texts)
    return [[json.loads(line) for line in text.splitlines()] for text in texts]


def paths(lines: list[dict[str, Any]], kind: str) -> list[str]:
    return [line[kind]["path"] for line in lines if kind in line]


def assert_each_action_once(table: str, names: list[str], commits: int) -> None:
    log = open_log(table)
    found = all_commits(log)
    assert len(found) == len(names) * commits + 1
    added = Counter(path for lines in found for path in paths(lines, "add"))
    wanted = {
        f"{name}.{n}.{part}" for name in names for n in range(commits) for part in range(GROUP)
    }
    assert set(added) == wanted
    assert set(added.values()) == {1}
    assert set(log.snapshot().files()["path"].to_pylist()) == wanted


def test_eight_processes_of_fifty_commits_on_disk(tmp_path, writers, log_format):
    table = str(tmp_path / "events")
    new_table(table, log_format)
    commits = 50 if IS_CI or log_format == "delta" else 12
    started = appenders(8, commits)
    assert writers.run(table=table, writers=started) == 0
    assert_each_action_once(table, [str(w["name"]) for w in started], commits)


# The server is Python: all fifty take a minute of it or more, so only CI waits for them.
@pytest.mark.s3
@pytest.mark.slow
def test_eight_processes_on_s3(s3, writers):
    commits = 50 if IS_CI else 10
    new_table(s3.url, configuration=RARELY)
    started = appenders(8, commits)
    assert writers.run(table=s3.url, writers=started) == 0
    assert_each_action_once(s3.url, [str(w["name"]) for w in started], commits)


def assert_serial(table: str, commits: int) -> None:
    """Each overwrite took the place of all that was live, as if every writer had run alone."""
    log = open_log(table)
    found = all_commits(log)
    live: set[str] = set()
    for lines in found[1:]:
        added, removed = set(paths(lines, "add")), set(paths(lines, "remove"))
        is_overwrite = next(iter(added)).startswith("o")
        assert removed == (live if is_overwrite else set())
        live = (live - removed) | added
    assert len(found) == commits + 1
    assert set(log.snapshot().files()["path"].to_pylist()) == live


def overwriters(count: int, commits: int) -> list[dict[str, object]]:
    return [{"kind": "overwrite", "name": f"o{n}", "count": commits} for n in range(count)]


def test_overwriters_among_appenders_equal_a_serial_order(tmp_path, writers, log_format):
    table = str(tmp_path / "events")
    new_table(table, log_format)
    commits = 50 if IS_CI else 12
    started = appenders(6, commits) + overwriters(2, commits)
    assert writers.run(table=table, writers=started) == 0
    assert_serial(table, 8 * commits)


@pytest.mark.s3
@pytest.mark.slow
def test_overwriters_among_appenders_on_s3_equal_a_serial_order(s3, writers):
    commits = 50 if IS_CI else 5
    new_table(s3.url, configuration=RARELY)
    started = appenders(6, commits) + overwriters(2, commits)
    assert writers.run(table=s3.url, writers=started) == 0
    assert_serial(s3.url, 8 * commits)


def test_two_hundred_writers_killed_leave_whole_commits_only(tmp_path, writers):
    tables = [str(tmp_path / f"events-{n}") for n in range(4)]
    for table in tables:
        new_table(table)
    assert writers.run(tables=tables, kills=50) == 0
    written = sum(assert_whole(table) for table in tables)
    assert written > 200, "the writers did write before they died"


def assert_whole(table: str) -> int:
    """Check every commit of a table; return how many there are."""
    log = open_log(table)
    found = all_commits(log)
    live: set[str] = set()
    for lines in found[1:]:
        added = paths(lines[1:], "add")
        assert len(lines) == 1 + len(added)
        stem = added[0].rpartition(".")[0]
        assert added == [f"{stem}.{part}" for part in range(GROUP)]
        assert not live & set(added), "no commit twice"
        live |= set(added)
    assert set(log.snapshot().files()["path"].to_pylist()) == live
    assert set(DeltaTable(table).get_add_actions()["path"].to_pylist()) == live
    assert log.add_files([file("after")]).version == len(found)
    return len(found) - 1


def test_txlog_and_deltalake_write_one_table_at_once(tmp_path, writers):
    table = str(tmp_path / "events")
    new_table(table)
    writers.begin(table=table, writers=appenders(2, 20))
    peer = DeltaTable(table)
    for n in range(20):
        add = AddAction(f"peer-{n}", 10, {"date": "2024-01-02", "hour": None}, 1, True, "{}")
        peer.create_write_transaction(
            [add], mode="append", schema=peer.schema(), partition_by=["date", "hour"]
        )
    assert writers.end() == 0
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
