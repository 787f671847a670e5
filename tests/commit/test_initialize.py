"""How a table begins: once, by whoever is first, and the same for all who ask the same."""

from __future__ import annotations

import threading

import pytest

from engine import open_log
from engine.errors import EmptyLogError, InvalidCommitError, LogNotFoundError, TableExistsError
from tests.commit.conftest import SCHEMA, content, file, lines, new_table, paths

COLUMNS = ["date", "hour"]


@pytest.fixture
def unborn(tmp_path, log_format):
    return open_log(str(tmp_path / "events"), log_format=log_format)


def test_a_table_is_made_and_used_through_one_handle(unborn, log_format):
    assert not unborn.exists
    done = unborn.initialize(SCHEMA, COLUMNS, {"owner": "us"})
    assert (done.version, done.is_new, done.operation) == (0, True, "CREATE TABLE")
    assert unborn.exists
    assert unborn.directory.log_format.name == log_format
    assert [next(iter(line)) for line in lines(unborn, 0)] == ["commitInfo", "protocol", "metaData"]
    assert unborn.snapshot().configuration == {"owner": "us"}
    assert unborn.add_files([file("a")]).version == 1
    assert paths(unborn) == ["a"]


def test_without_a_format_it_is_a_delta_log(tmp_path):
    log = open_log(str(tmp_path / "events"))
    log.initialize(SCHEMA)
    assert log.directory.log_format.name == "delta"
    assert (tmp_path / "events" / "_delta_log").is_dir()


@pytest.mark.parametrize(
    "ask",
    [
        lambda log: log.snapshot(),
        lambda log: log.snapshot(3),
        lambda log: log.head(),
        lambda log: log.latest_version(),
        lambda log: next(log.history()),
        lambda log: log.commits(),
        lambda log: log.directory,
        lambda log: log.add_files([file("a")]),
        lambda log: log.remove_files(["a"]),
        lambda log: log.update_metadata(name="x"),
        lambda log: log.skipped_files(),
    ],
)
def test_nothing_else_can_be_asked_of_a_table_that_is_not_there(tmp_path, ask):
    log = open_log(str(tmp_path / "nothing"))
    with pytest.raises(LogNotFoundError, match=r"no transaction log here \(there is no such path"):
        ask(log)
    assert not (tmp_path / "nothing").exists()


def test_a_handle_sees_the_table_that_another_made_meanwhile(tmp_path, log_format):
    log = open_log(str(tmp_path / "events"))
    new_table(tmp_path / "events", log_format).add_files([file("a")])
    assert log.add_files([file("b")]).version == 2
    assert log.directory.log_format.name == log_format


def test_asking_for_the_same_again_changes_nothing_and_says_so(unborn, tmp_path, log_format):
    unborn.initialize(SCHEMA, COLUMNS, {"owner": "us"})
    unborn.add_files([file("a")])
    unborn.update_metadata(configuration={"more": "1"})
    before = content(unborn)
    for log in (unborn, open_log(str(tmp_path / "events"))):
        again = log.initialize(unborn.snapshot().schema_string, COLUMNS, {"owner": "us"})
        assert (again.version, again.is_new) == (2, False)
        assert again.reason == "the table is there already, as asked"
    assert content(unborn) == before


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"schema": {**SCHEMA, "fields": SCHEMA["fields"][:2]}}, "its schema is another"),
        ({"partition_columns": ["date"]}, "its partition columns are date, hour"),
        ({"configuration": {"owner": "me"}}, "its property owner is 'us'"),
        ({"configuration": {"new": "1"}}, "its property new is None"),
        ({"name": "other"}, "its name is None"),
    ],
)
def test_asking_for_another_table_is_refused(unborn, asked, reason):
    wanted = {"schema": SCHEMA, "partition_columns": COLUMNS, "configuration": {"owner": "us"}}
    unborn.initialize(**wanted)
    before = content(unborn)
    columns = ["date"] if "schema" in asked else COLUMNS
    with pytest.raises(TableExistsError, match=f"a table here already, and {reason}"):
        unborn.initialize(**{**wanted, "partition_columns": columns, **asked})
    assert content(unborn) == before


def test_a_table_of_the_other_format_is_in_the_way(tmp_path):
    new_table(tmp_path / "events", "indextables")
    log = open_log(str(tmp_path / "events"), log_format="delta")
    assert not log.exists
    with pytest.raises(TableExistsError, match="its log is of another format"):
        log.initialize(SCHEMA, COLUMNS)
    assert not (tmp_path / "events" / "_delta_log").exists()


def test_what_could_not_be_a_table_leaves_nothing_behind(unborn, tmp_path):
    with pytest.raises(InvalidCommitError, match="partition column day is not in the schema"):
        unborn.initialize(SCHEMA, ["day"])
    done = unborn.initialize(SCHEMA, COLUMNS, dry_run=True)
    assert (done.is_new, done.reason) == (False, "dry run")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_log_directory_is_no_table_yet(tmp_path, log_format):
    directory = {"delta": "_delta_log", "indextables": "_transaction_log"}[log_format]
    (tmp_path / directory).mkdir()
    log = open_log(str(tmp_path))
    with pytest.raises(EmptyLogError):
        log.snapshot()
    log.initialize(SCHEMA, COLUMNS)
    assert log.snapshot().version == 0
    assert log.directory.log_format.name == log_format


def test_an_empty_directory_of_one_format_does_not_hide_the_log_of_the_other(tmp_path):
    (tmp_path / "_delta_log").mkdir()
    new_table(tmp_path, "indextables").add_files([file("a")])
    assert open_log(str(tmp_path)).snapshot().files()["path"].to_pylist() == ["a"]


def test_of_many_who_make_the_same_table_at_once_one_does_and_all_have_it(tmp_path, log_format):
    logs = [open_log(str(tmp_path / "events"), log_format=log_format) for _ in range(6)]
    start, done = threading.Barrier(6), []

    def make(log):
        start.wait()
        done.append(log.initialize(SCHEMA, COLUMNS))

    threads = [threading.Thread(target=make, args=(log,)) for log in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(d.is_new for d in done) == [False] * 5 + [True]
    assert len({log.snapshot().metadata["id"] for log in logs}) == 1


@pytest.mark.s3
def test_a_table_is_made_on_s3(s3):
    log = open_log(s3.url)
    with pytest.raises(LogNotFoundError):
        log.snapshot()
    assert log.initialize(SCHEMA, COLUMNS).is_new
    assert log.add_files([file("a")]).version == 1
    assert not open_log(s3.url).initialize(SCHEMA, COLUMNS).is_new


def test_hooks_run_after_a_table_was_made(unborn):
    seen = []
    unborn.hooks.append(lambda log, done: seen.append((log, done.version)))
    unborn.initialize(SCHEMA, COLUMNS)
    unborn.initialize(SCHEMA, COLUMNS)
    assert seen == [(unborn, 0)]
