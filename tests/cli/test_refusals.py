"""Every error a user meets: one line that says what happened and what to do, and its code."""

from __future__ import annotations

import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.cli import main
from tests.cli.conftest import METADATA, PROTOCOL, Log, add


@pytest.fixture
def refused(txlog):
    """Run twice, in text and in JSON; return the message after comparing the two."""

    def run(code: str, *arguments: object, status: int = 1) -> str:
        text, answer = txlog(*arguments), txlog(*arguments, "--json")
        assert (text.status, answer.status) == (status, status), text
        assert text.out == ""
        assert text.err.startswith("txlog: ")
        assert text.err.count("\n") == 1
        assert answer.error["code"] == code
        assert answer.err == ""
        message = text.err.removeprefix("txlog: ").rstrip("\n")
        assert answer.error["message"] == message
        assert "Traceback" not in text.err
        return message

    return run


def damage(log: Log, version: int) -> None:
    good = log.path(version).read_text()
    log.path(version).write_text(good + '{"add": {"path": "x", \n')


def test_no_such_path(refused, tmp_path):
    message = refused("NO_LOG", "replay", tmp_path / "nowhere")
    assert "there is no such path" in message
    assert "expected a table root" in message


def test_a_file_is_not_a_table(refused, tmp_path):
    (tmp_path / "data.parquet").write_text("x")
    assert "it is a file" in refused("NO_LOG", "replay", tmp_path / "data.parquet")


def test_a_directory_without_a_log(refused, tmp_path):
    assert "holds _delta_log/ or _transaction_log/" in refused("NO_LOG", "files", tmp_path)


def test_the_log_directory_itself(refused, log):
    assert "name its parent" in refused("NO_LOG", "replay", log.directory)


def test_an_empty_log(refused, tmp_path):
    log = Log(tmp_path / "t")
    assert "holds no commit and no checkpoint" in refused("EMPTY_LOG", "replay", log)


def test_a_gap(refused, log):
    log.path(2).unlink()
    assert "commit 2 is missing" in refused("GAP", "replay", log)
    assert "--version 1" in refused("GAP", "files", log)


def test_a_gap_below_a_checkpoint_names_the_versions_behind_it_too(refused, txlog, log):
    assert txlog("checkpoint", log, "--version", 2).status == 0
    log.path(1).unlink()
    message = refused("GAP", "replay", log, "--version", 1)
    assert message.endswith("read a version up to 0 with --version 0, or one from 2 to 3")
    assert txlog("replay", log, "--version", 3).status == 0


def test_history_tells_of_commits_that_are_missing(txlog, log):
    log.path(1).unlink()
    log.path(2).unlink()
    answer = txlog("history", log)
    assert [line.split()[0] for line in answer.out.splitlines()[1:]] == ["3", "0"]
    assert answer.err == "warning: commits 1 to 2 are missing; txlog verify tells what that means\n"
    assert txlog("history", log, "--limit", 1).err == ""


@pytest.mark.parametrize("command", [("replay", "--version", 99), ("show", 99), ("diff", 0, 99)])
def test_a_version_that_is_not_there(refused, log, command):
    name, *rest = command
    assert "99" in (message := refused("VERSION_NOT_FOUND", name, log, *rest))
    assert "versions 0 to 3 can be read" in message


def test_a_time_before_the_first_commit(refused, log):
    message = refused("VERSION_NOT_FOUND", "replay", log, "--timestamp", "1999-01-01")
    assert "the first commit is later" in message


def checkpoint(log: Log, version: int) -> None:
    """A classic checkpoint that says what `PROTOCOL` and `METADATA` say."""
    metadata = METADATA["metaData"] | {"configuration": None, "format": {"provider": "parquet"}}
    rows = [{"protocol": PROTOCOL["protocol"]}, {"metaData": metadata}]
    pq.write_table(pa.Table.from_pylist(rows, _schema()), log.path(version, "checkpoint.parquet"))


def _schema() -> pa.Schema:
    strings = pa.map_(pa.string(), pa.string())
    return pa.schema(
        {
            "protocol": pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}),
            "metaData": pa.struct(
                {
                    "id": pa.string(),
                    "format": pa.struct({"provider": pa.string()}),
                    "schemaString": pa.string(),
                    "partitionColumns": pa.list_(pa.string()),
                    "configuration": strings,
                    "createdTime": pa.int64(),
                }
            ),
            "add": pa.struct({"path": pa.string(), "partitionValues": strings}),
        }
    )


def test_vacuumed_history(refused, log):
    checkpoint(log, 2)
    log.path(0).unlink()
    log.path(1).unlink()
    message = refused("NO_START", "replay", log, "--version", 1)
    assert "version 1 were cleaned up; versions 2 to 3 can be read" in message


def test_vacuumed_history_without_a_checkpoint(refused, log):
    log.path(0).unlink()
    message = refused("NO_START", "replay", log)
    assert "starts at version 1" in message
    assert "must be restored" in message


def test_an_unsupported_feature(refused, tmp_path):
    features = ["deletionVectors", "timeMachine"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    protocol |= {"readerFeatures": features, "writerFeatures": features}
    log = Log(tmp_path / "t").commit(0, {"protocol": protocol}, METADATA)
    message = refused("UNSUPPORTED_READER_FEATURE", "replay", log)
    assert "timeMachine" in message
    assert "upgrade txlog" in message


def test_an_unsupported_reader_version(refused, tmp_path):
    protocol = {"protocol": {"minReaderVersion": 99, "minWriterVersion": 99}}
    log = Log(tmp_path / "t").commit(0, protocol, METADATA)
    assert "99" in refused("UNSUPPORTED_READER_VERSION", "replay", log)


def test_no_metadata(refused, tmp_path):
    log = Log(tmp_path / "t").commit(0, PROTOCOL, add("a"))
    refused("MISSING_METADATA", "replay", log)


@pytest.mark.parametrize("command", [("replay",), ("files",), ("show", 1)])
def test_a_corrupt_commit_is_named_with_line_and_column(refused, log, command):
    damage(log, 1)
    name, *rest = command
    message = refused("CORRUPT_JSON", name, log, *rest)
    assert f"{log.path(1).name}:4:" in message


def test_a_corrupt_checkpoint_that_nothing_stands_in_for(refused, log):
    log.path(2, "checkpoint.parquet").write_bytes(b"PAR1 not parquet PAR1")
    log.path(0).unlink()
    message = refused("CORRUPT_CHECKPOINT", "replay", log)
    assert f"{2:020d}.checkpoint.parquet" in message


def test_a_corrupt_checkpoint_is_routed_around_where_that_is_safe(txlog, log):
    log.path(2, "checkpoint.parquet").write_bytes(b"PAR1 not parquet PAR1")
    answer = txlog("replay", log)
    assert answer.status == 0
    assert answer.err.startswith("warning: checkpoint ")


def test_a_bad_where(refused, log):
    message = refused("BAD_WHERE", "files", log, "--where", "id = 1")
    assert "id is not a partition column; partition columns: date (date), hour (integer)" in message
    assert "single quotes" in refused("BAD_WHERE", "files", log, "--where", "date > 2024-01-01")


def test_a_bad_option_value(refused, log):
    given = ("--option", "spark.indextables.checkpoint.parallelism=none")
    message = refused("CONFIG", "replay", log, *given)
    assert "a whole number" in message
    unknown = refused("CONFIG", "replay", log, "--option", "spark.txlog.engin=local")
    assert "spark.txlog.engine" in unknown


def test_a_bad_conf_file(refused, log, tmp_path):
    none = tmp_path / "none.toml"
    message = refused("CONFIG", "replay", log, "--conf-file", none)
    assert message == f"{none}: No such file or directory; name a readable file"


def test_s3_without_credentials(refused, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    # An address that answers nothing: the refusal must come before any request.
    endpoint = ("--storage-option", "endpoint_url=http://127.0.0.1:9")
    message = refused("STORAGE", "replay", "s3://lake/events", *endpoint)
    assert "no AWS credentials found; set AWS_ACCESS_KEY_ID" in message


def test_an_unknown_scheme(refused):
    assert "foo" in refused("STORAGE", "replay", "foo://lake/events")


def test_a_store_whose_package_is_not_there_is_told_with_the_table(refused, monkeypatch):
    def no_package(*_: object, **__: object):
        raise ImportError("Please install gcsfs to access Google Storage")

    monkeypatch.setattr("engine.storage.remote.fsspec.filesystem", no_package)
    message = refused("STORAGE", "replay", "gs://lake/events")
    assert message.startswith("gs://lake/events: ")
    assert "install gcsfs" in message


def test_an_option_that_a_store_does_not_know_is_named(refused, monkeypatch):
    def odd(*_: object, **__: object):
        raise TypeError("Odd.__init__() got an unexpected keyword argument 'regoin'")

    monkeypatch.setattr("engine.storage.remote.fsspec.filesystem", odd)
    message = refused("STORAGE", "replay", "gs://lake/events", "--storage-option", "regoin=x")
    assert "there is no storage option regoin" in message
    assert "__init__" not in message


def test_a_store_whose_libraries_are_not_there_is_told_in_one_line(refused, monkeypatch):
    def no_library(*_: object, **__: object):
        raise OSError("Unable to load libjvm\ndlopen(/usr/lib/jvm/libjvm.so) failed")

    monkeypatch.setattr("engine.storage.remote.fsspec.filesystem", no_library)
    message = refused("STORAGE", "replay", "hdfs://lake/events")
    assert message == "hdfs://lake/events: cannot open hdfs://: Unable to load libjvm"


def test_an_empty_path_is_not_the_directory_one_stands_in(refused, log, monkeypatch):
    monkeypatch.chdir(str(log))
    assert "the path is empty" in refused("STORAGE", "replay", "")
    assert "the path is empty" in refused("STORAGE", "replay", log, "--output", "")


def test_an_unwritable_output(refused, log, tmp_path):
    (tmp_path / "file").write_text("x")
    message = refused("STORAGE", "replay", log, "--output", tmp_path / "file" / "state")
    assert "choose another --output" in message


@pytest.mark.parametrize("name", ["files.parquet", "tombstones.parquet", "summary.json"])
def test_an_output_that_exists_is_never_overwritten(refused, log, tmp_path, name):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / name).write_text("mine")
    message = refused("ALREADY_EXISTS", "replay", log, "--output", tmp_path / "state")
    assert name in message
    assert [path.name for path in (tmp_path / "state").iterdir()] == [name]
    assert (tmp_path / "state" / name).read_text() == "mine"


def test_a_sample_where_a_table_is(refused, log):
    assert "exists already" in refused("ALREADY_EXISTS", "sample", log)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("replay",), "Missing argument 'TABLE'"),
        (("frobnicate",), "No such command"),
        (("replay", "t", "--bogus"), "No such option"),
        (("replay", "t", "--version", "x"), "--version"),
        (("replay", "t", "--version", "-1"), "--version"),
        (("diff", "t", "a", "b"), "'V1': it must be a whole number;"),
        (("report", "t", "--output", "x", "--commits", "0"), "it must be greater than or equal to"),
        (("sample", "t", "--deletion-vectors", "x"), "'--deletion-vectors': it must be a number;"),
        (("replay", "t", "--engine", "abacus"), "'reference'"),
        (("replay", "t", "--timestamp", "noon"), "2024-01-31T12:00:00Z"),
        (("replay", "t", "--timestamp", "9" * 30), "is not a time"),
        (("replay", "t", "--option", "novalue"), "not KEY=VALUE"),
        (("replay", "t", "--storage-option", "=x"), "not KEY=VALUE"),
        (("files", "t", "--limit", "-1"), "--limit"),
        (("diff", "t", "1"), "Missing argument 'V2'"),
        (("sample", "t", "--commits", "0"), "commits is 0"),
        (("sample", "t", "--format", "excel"), "excel"),
        (("sample", "t", "--checkpoint-kind", "stone"), "stone"),
        (("verify", "t", "--engine", "abacus"), "'abacus' is not one of 'local', 'spark'"),
        (("repair", "t", "--to", "n", "--paths", "x"), "'x' is not one of 'relative', 'absolute'"),
        (("init", "t", "--schema", "-", "--format", "excel"), "'excel' is not one of 'delta'"),
        (("init", "t", "--schema", "/no/file"), "--schema /no/file: no such file"),
        (("repair", "t"), "give --to TARGET or --derived"),
        (("maintain",), "name a TABLE"),
    ],
)
def test_wrong_usage_is_status_2_and_points_to_help(refused, arguments, reason):
    message = refused("USAGE", *arguments, status=2)
    assert reason in message
    assert message.endswith("--help")
    assert "Value error" not in message
    assert not message.startswith("Invalid value: ")


def test_a_version_and_a_time_are_one_too_many(refused, log):
    both = ("--version", 1, "--timestamp", "2024-01-01")
    assert "not both" in refused("USAGE", "replay", log, *both, status=2)


def test_what_nobody_expected_is_one_line_and_asks_for_a_report(refused, log, monkeypatch):
    def explode(*_: object, **__: object) -> None:
        raise RuntimeError("over\nthe edge")

    monkeypatch.setattr("engine.table.open_log", explode)
    message = refused("INTERNAL", "replay", log)
    assert message == (
        "internal error: RuntimeError: over the edge; please report it, --debug shows the trace"
    )


def test_debug_shows_the_trace_too(txlog, tmp_path):
    answer = txlog("replay", tmp_path, "--debug")
    assert "Traceback" in answer.err
    assert answer.err.splitlines()[-1].startswith("txlog: ")
    with_json = txlog("replay", tmp_path, "--debug", "--json")
    assert with_json.error["code"] == "NO_LOG"


def test_a_file_that_vanishes_is_a_storage_error(refused, log, monkeypatch):
    def vanish(*_: object, **__: object) -> None:
        raise FileNotFoundError(2, "No such file or directory", "gone.json")

    monkeypatch.setattr("engine.table.open_log", vanish)
    assert refused("STORAGE", "replay", log) == "gone.json: no such file or directory"


def test_a_connection_that_breaks_is_not_taken_for_a_reader_who_left(refused, log, monkeypatch):
    def broken(*_: object, **__: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("engine.table.open_log", broken)
    assert refused("STORAGE", "replay", log) == "storage: the connection broke; try again"


def test_what_the_engine_warns_of_is_told_once(txlog, log, monkeypatch):
    import logging

    import engine.table

    opened = engine.table.open_log

    def warns(*args: object, **options: object) -> object:
        for _ in range(2):
            logging.getLogger("engine.storage").warning("slow\nbut %s", "there")
        return opened(*args, **options)

    monkeypatch.setattr("engine.table.open_log", warns)
    assert txlog("files", log).err == "warning: slow but there\n"
    assert txlog("files", log, "--quiet").err == ""


def test_an_interrupt_is_quiet(capsys, log, monkeypatch):
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("engine.table.open_log", interrupt)
    assert main(["replay", str(log)]) == 130
    assert capsys.readouterr() == ("", "")


def test_odd_bytes_in_a_path_are_told_all_the_same(capsys):
    assert main(["replay", "/no\udcff", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "NO_LOG"
    assert main(["replay", "/no\udcff"]) == 1
    assert sys.stderr is not None
