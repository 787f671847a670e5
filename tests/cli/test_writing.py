"""`txlog init`, `add`, `remove` and `skips`: what a pipeline in any language can do."""

from __future__ import annotations

import io
import json

import pytest

from engine import open_log
from tests.cli.conftest import SCHEMA


@pytest.fixture
def stdin(monkeypatch):
    def give(*lines: object) -> None:
        text = "".join(x if isinstance(x, str) else json.dumps(x) + "\n" for x in lines)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    return give


@pytest.fixture
def schema(tmp_path):
    path = tmp_path / "schema.json"
    path.write_text(SCHEMA)
    return path


@pytest.fixture(params=["delta", "indextables"])
def table(request, txlog, schema, tmp_path):
    where = tmp_path / "made"
    options = ["--schema", schema, "--partition-by", "date", "--format", request.param]
    made = txlog("init", where, *options)
    assert (made.status, made.err) == (0, "")
    return where


DAY = {"date": "2024-01-01"}
A, B = ({"path": name, "size": 10, "partitionValues": DAY} for name in "ab")


def live(table) -> list[str]:
    return sorted(open_log(str(table)).snapshot().files()["path"].to_pylist())


def test_init_creates_a_table_once(txlog, table, schema):
    again = txlog("init", table, "--schema", schema, "--json")
    assert (again.status, again.error["code"]) == (1, "TABLE_EXISTS")


def test_init_tells_what_was_created_and_what_was_there(txlog, tmp_path, schema):
    def init(*options: object):
        return txlog("init", tmp_path / "t", "--schema", schema, "--exist-ok", *options)

    assert init("--json").json["created"] is True
    there = init("--json").json
    assert (there["created"], there["dryRun"]) == (False, False)
    assert init().out == "nothing created: the table is there already, as asked\n"
    assert init("--dry-run").out.startswith("nothing created: ")
    other = init("--partition-by", "date", "--json")
    assert (other.status, other.error["code"]) == (1, "TABLE_EXISTS")
    assert "its partition columns are none" in other.error["message"]


def test_init_takes_properties_and_a_schema_from_stdin(txlog, tmp_path, stdin):
    stdin(SCHEMA)
    made = txlog("init", tmp_path / "t", "--schema", "-", "--property", "delta.appendOnly=true",
                 "--name", "events", "--json")  # fmt: skip
    assert made.json["dryRun"] is False
    head = open_log(str(tmp_path / "t")).head()
    assert head.metadata["configuration"] == {"delta.appendOnly": "true"}
    assert head.metadata["name"] == "events"


def test_a_dry_init_creates_nothing(txlog, tmp_path, schema):
    answer = txlog("init", tmp_path / "t", "--schema", schema, "--dry-run")
    assert answer.out.startswith("would create ")
    assert not (tmp_path / "t").exists()


def test_files_are_added_from_lines(txlog, table, stdin):
    stdin(A, "\n", {"add": B})
    answer = txlog("add", table, "--json")
    assert answer.status == 0
    assert answer.json | {"seconds": 0, "txnId": "", "compression": {}} == {
        "version": 1, "committed": True, "operation": "WRITE", "txnId": "", "numAdded": 2,
        "numRemoved": 0, "attempts": 1, "seconds": 0, "compression": {},
    }  # fmt: skip
    assert live(table) == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ({"size": 1}, "add has no path"),
        ({**B, "size": "x"}, "add.size is not a whole number: 'x'"),
        ({**B, "partitionValues": "x"}, "add.partitionValues is not a JSON object: 'x'"),
        ({**B, "path": "../b"}, "the path '../b' does not name a file inside the table"),
    ],
)
def test_an_object_that_is_no_file_is_refused_with_its_line(txlog, table, stdin, line, why):
    for options in ((), ("--overwrite",)):
        stdin("\n", A, line)
        answer = txlog("add", table, *options, "--json")
        assert answer.error["code"] == "INVALID_COMMIT"
        assert f"stdin:3: {why}" in answer.error["message"]


def test_what_a_file_lacks_is_told(txlog, table, stdin):
    stdin({"path": "x", "size": 1}, {"path": "y", "size": 1})
    said = txlog("add", table, "--json").error["message"]
    assert "x lacks values for date; the table is partitioned by date" in said
    stdin({**A, "partitionValues": {"day": "1"}})
    said = txlog("add", table, "--json").error["message"]
    assert "a lacks values for date and has values for day; the table" in said


def test_a_path_to_remove_that_is_none_is_told_with_its_line(txlog, table, stdin):
    stdin({"path": "a"}, {"path": 5})
    assert "stdin:2: no path in" in txlog("remove", table, "--json").error["message"]


def test_people_are_told_what_was_done(txlog, table, stdin):
    stdin(A)
    assert (
        txlog("add", table, "--dry-run").out
        == "would commit version 1: WRITE, 1 added, 0 removed\n"
    )
    assert live(table) == []
    stdin(A)
    assert txlog("add", table).out == "committed version 1: WRITE, 1 added, 0 removed\n"
    stdin("")
    said = txlog("add", table).out
    assert said == "nothing committed: there is nothing to change; the latest version is 1\n"


def test_a_txn_is_added_once(txlog, table, stdin):
    for committed in (True, False):
        stdin(A)
        assert txlog("add", table, "--txn", "job=7", "--json").json["committed"] is committed


def test_files_are_overwritten_where_a_condition_holds(txlog, table, stdin):
    other = {**B, "partitionValues": {"date": "2024-01-02"}}
    stdin(A, other)
    txlog("add", table)
    stdin({**A, "path": "new"})
    txlog("add", table, "--overwrite", "--where", "date = '2024-01-01'")
    assert live(table) == ["b", "new"]
    stdin({**A, "path": "only"})
    txlog("add", table, "--overwrite")
    assert live(table) == ["only"]


def test_what_files_prints_remove_takes(txlog, table, stdin):
    stdin(A, B)
    txlog("add", table)
    stdin(txlog("files", table, "--json", "--limit", 1).out)
    answer = txlog("remove", table, "--json")
    assert (answer.json["numRemoved"], live(table)) == (1, ["b"])
    stdin({"path": "a"})
    gone = txlog("remove", table, "--json")
    assert (gone.status, gone.error["code"]) == (1, "INVALID_COMMIT")


@pytest.mark.parametrize(
    ("given", "arguments", "reason"),
    [
        ("{\n", ["add"], "stdin:1: not JSON"),
        ('\n"a"\n', ["add"], "stdin:2: not a JSON object"),
        ('{"size":1}\n', ["remove"], "stdin:1: no path in"),
        ('{"add":{"path":"a"},"remove":{"path":"b"}}\n', ["add"], "stdin:1: more than one add"),
        ('{"remove":{"path":"a"},"x":1}\n', ["remove"], "stdin:1: more than one remove: x"),
        ('{"add":"x"}\n', ["add"], "stdin:1: not a JSON object"),
        ("", ["add", "--overwrite"], "stdin has no files"),
        ("", ["add", "--where", "date = '2024-01-01'"], "--where needs --overwrite"),
        ("", ["add", "--txn", "job"], "is not APP=VERSION"),
    ],
)
def test_wrong_usage_is_told_in_a_line(txlog, table, stdin, given, arguments, reason):
    stdin(given)
    answer = txlog(arguments[0], table, *arguments[1:], "--json")
    assert (answer.status, answer.error["code"]) == (2, "USAGE")
    assert reason in answer.error["message"]
    assert live(table) == []


@pytest.mark.parametrize("command", ["init", "add", "remove", "skips"])
def test_help_has_examples(txlog, command):
    answer = txlog(command, "--help")
    assert answer.status == 0
    assert f"$ txlog {command}" in answer.out or f"txlog {command}" in answer.out


def test_skips_are_added_and_listed(txlog, tmp_path, schema, stdin):
    where = tmp_path / "splits"
    txlog("init", where, "--schema", schema, "--format", "indextables")
    stdin({"path": "a", "size": 1})
    txlog("add", where)
    assert txlog("skips", where, "add", "a", "--reason", "corrupt", "--cooldown", 0).status == 0
    txlog("skips", where, "add", "a", "--reason", "still", "--cooldown", 0)
    (skip,) = txlog("skips", where, "list", "--json").lines
    assert (skip["path"], skip["skipCount"], skip["inCooldown"]) == ("a", 2, False)
    assert txlog("skips", where, "list", "--json", "--cooling").out == ""
    said = txlog("skips", where, "list").out.splitlines()
    assert said[1].split() == ["2", "now", "a", "(merge:", "still)"]
    assert txlog("skips", where, "add", "a", "--dry-run").out.startswith("would commit version 4")
    assert txlog("skips", where, "add", "--json").error["code"] == "USAGE"


def test_a_skip_is_told_by_its_file_and_one_of_no_file_is_warned_of(txlog, tmp_path, schema, stdin):
    txlog("init", tmp_path / "t", "--schema", schema, "--format", "indextables")
    stdin({"path": "a", "size": 1})
    txlog("add", tmp_path / "t")
    known = txlog("skips", tmp_path / "t", "add", "a")
    assert (known.out, known.err) == ("committed version 2: SKIP FILE, a\n", "")
    unknown = txlog("skips", tmp_path / "t", "add", "b")
    assert unknown.err == "warning: b is no live file of this table\n"


def test_a_delta_table_has_no_skips(txlog, tmp_path, schema):
    txlog("init", tmp_path / "t", "--schema", schema)
    answer = txlog("skips", tmp_path / "t", "list", "--json")
    assert (answer.status, answer.error["code"]) == (1, "UNSUPPORTED_ACTION")


@pytest.mark.parametrize(
    "options", [(), ("--overwrite",), ("--overwrite", "--where", "date > '2000-01-01'")]
)
@pytest.mark.parametrize(
    "line",
    [
        {"size": 1},
        {"path": 5, "size": 1},
        {"path": "a", "size": 1, "partitionValues": "x"},
        {"path": "a", "size": 1, "partitionValues": {"date": 5}},
        {"path": "a", "size": 1, "partitionValues": DAY, "deletionVector": "x"},
    ],
)
def test_a_line_that_is_no_file_is_refused_by_name(txlog, table, stdin, line, options):
    stdin(line)
    answer = txlog("add", table, *options, "--json")
    assert (answer.status, answer.error["code"]) == (1, "INVALID_COMMIT")
    assert live(table) == []


def test_an_overwrite_with_nothing_is_asked_for(txlog, table, stdin):
    stdin(A)
    txlog("add", table)
    stdin("")
    assert txlog("add", table, "--overwrite").status == 2
    assert live(table) == ["a"]
    assert txlog("add", table, "--overwrite", "--empty-ok", "--json").json["numRemoved"] == 1
    assert live(table) == []


def test_a_schema_that_is_no_text_is_wrong_usage(txlog, tmp_path, monkeypatch):
    (tmp_path / "binary").write_bytes(b"\xff\x00")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff")))
    for source in (tmp_path / "binary", "-"):
        answer = txlog("init", tmp_path / "t", "--schema", source, "--json")
        assert (answer.status, answer.error["code"]) == (2, "USAGE")
        assert "not UTF-8" in answer.error["message"]


def test_numbers_beyond_all_time_are_wrong_usage(txlog, tmp_path, schema):
    where = tmp_path / "splits"
    txlog("init", where, "--schema", schema, "--format", "indextables")
    for arguments in (
        ("skips", where, "add", "a", "--cooldown", "99999999999999"),
        ("sample", tmp_path / "s", "--start-ms", "99999999999999999999"),
    ):
        answer = txlog(*arguments, "--json")
        assert (answer.status, answer.error["code"]) == (2, "USAGE")


def test_skips_of_a_delta_table_are_told_without_a_commit(txlog, tmp_path, schema):
    txlog("init", tmp_path / "t", "--schema", schema)
    said = txlog("skips", tmp_path / "t", "list", "--json").error["message"]
    assert "a delta log has no skipped files" in said
    assert "committed" not in said
