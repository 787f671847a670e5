"""What each command answers, in text and in JSON."""

from __future__ import annotations

import json
import os

import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import METADATA, PROTOCOL, Log, add

SUMMARY_KEYS = [
    "table", "format", "version", "protocol", "metadata", "numFiles", "sizeInBytes", "numRecords",
    "numTombstones", "txns", "domains", "inCommitTimestamp", "segment", "fallbacks", "engine",
    "seconds",
]  # fmt: skip


def test_replay_answers_with_the_promised_object(txlog, log):
    answer = txlog("replay", log, "--json")
    assert (answer.status, answer.err) == (0, "")
    summary = answer.json
    assert list(summary) == SUMMARY_KEYS
    assert answer.out.count("\n") == 1
    assert (summary["version"], summary["numFiles"], summary["numRecords"]) == (3, 2, 50)
    assert (summary["sizeInBytes"], summary["numTombstones"]) == (2048, 2)
    assert summary["txns"] == {"stream": 7}
    assert summary["segment"]["commits"] == 4
    assert set(summary["seconds"]) >= {"open", "list", "replay", "sum"}
    assert summary["engine"] == "local"


def test_replay_prints_a_summary_for_people(txlog, log):
    answer = txlog("replay", log)
    assert answer.status == 0
    said = dict(line.split(None, 1) for line in answer.out.splitlines()[1:])
    assert answer.out.splitlines()[0] == str(log)
    assert said["version"] == "3"
    assert said["files"] == "2"
    assert said["size"] == "2.0 KiB"
    assert said["records"] == "50"
    assert said["partitions"] == "2 by date, hour"
    assert said["tombstones"] == "2"
    assert said["txns"] == "stream at 7"
    assert said["read"].startswith("4 commits: ")
    assert all(step in said["time"] for step in ("open", "list", "replay"))


@pytest.mark.parametrize("engine", ["auto", "local", "reference"])
def test_every_engine_gives_the_same_state(txlog, log, engine):
    answer = txlog("replay", log, "--engine", engine, "--json").json
    assert (answer["numFiles"], answer["engine"]) == (2, engine.replace("auto", "local"))


def test_replay_of_a_version(txlog, log):
    assert txlog("replay", log, "--version", 1, "--json").json["numFiles"] == 3


@pytest.mark.parametrize(
    ("moment", "version"),
    [
        ("2024-01-01T00:01:30Z", 1),
        ("2024-01-01T02:01:30+02:00", 1),
        ("2024-01-01 00:02:00", 2),
        ("1704067260000", 1),
        ("2030-01-01", 3),
    ],
)
def test_replay_at_a_time(txlog, log, moment, version):
    for number in range(4):
        seconds = 1_704_067_200 + 60 * number
        os.utime(log.path(number), (seconds, seconds))
    assert txlog("replay", log, "--timestamp", moment, "--json").json["version"] == version


def test_replay_writes_its_state_where_it_is_told_to(txlog, log, tmp_path):
    out = tmp_path / "new" / "state"
    answer = txlog("replay", log, "--output", out, "--json")
    assert answer.status == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "files.parquet",
        "summary.json",
        "tombstones.parquet",
    ]
    assert sorted(pq.read_table(out / "files.parquet")["path"].to_pylist()) == ["b", 'c é"\\']
    assert pq.read_table(out / "tombstones.parquet").num_rows == 2
    assert json.loads((out / "summary.json").read_text())["version"] == 3
    assert answer.json["output"]["dryRun"] is False
    assert "wrote" in txlog("replay", log, "--output", tmp_path / "again").out


def test_a_dry_run_writes_nothing(txlog, log, tmp_path):
    answer = txlog("replay", log, "--output", tmp_path / "state", "--dry-run")
    assert answer.status == 0
    assert f"would write {tmp_path}/state/files.parquet" in answer.out
    assert not (tmp_path / "state").exists()


def test_files_are_add_actions_a_line_with_their_vectors_id(txlog, log):
    lines = {line["path"]: line for line in txlog("files", log, "--json").lines}
    assert set(lines) == {"b", 'c é"\\'}
    assert lines["b"]["dvId"] == "uab^-aqEH.-t@S}K{vb[*k^@4"
    assert lines["b"]["deletionVector"]["cardinality"] == 6
    assert lines['c é"\\'] == {
        "path": 'c é"\\',
        "partitionValues": {"date": "2024-01-01", "hour": "10"},
        "size": 1024,
        "modificationTime": 1_704_067_200_000,
        "dataChange": True,
        "stats": '{"numRecords":30}',
        "dvId": None,
    }


def test_null_partition_values_are_kept(txlog, log):
    log.commit(4, add("n", hour=None))
    found = txlog("files", log, "--where", "hour is null", "--json").json
    assert found["partitionValues"] == {"date": "2024-01-01", "hour": None}


def test_files_in_a_pipe_are_paths(txlog, log):
    assert sorted(txlog("files", log).out.splitlines()) == ["b", 'c é"\\']


def test_files_in_a_terminal_are_a_table(txlog, log, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    head, *rows = txlog("files", log).out.splitlines()
    assert head.split() == ["size", "records", "modified", "(UTC)", "path"]
    assert rows[0].split() == ["1.0", "KiB", "20", "2024-01-01", "00:00:00", "b"] or len(rows) == 2


def test_files_where(txlog, log):
    assert txlog("files", log, "--where", "hour > 9").out == 'c é"\\\n'
    assert txlog("files", log, "--where", "date = '2023-01-01'").out == ""


def test_files_limit(txlog, log):
    assert len(txlog("files", log, "--json", "--limit", 1).lines) == 1
    assert txlog("files", log, "--limit", 0).out == ""


def test_an_empty_table_has_no_files_and_no_partitions(txlog, tmp_path):
    log = Log(tmp_path / "empty").commit(0, PROTOCOL, METADATA)
    assert txlog("files", log, "--json").out == ""
    assert txlog("files", log, "--where", "hour = 1", "--json").out == ""
    answer = txlog("replay", log)
    assert answer.status == 0
    assert "0 by date, hour" in answer.out


def test_many_files_are_listed_once_each(txlog, tmp_path):
    log = Log(tmp_path / "many").commit(0, PROTOCOL, METADATA)
    log.commit(1, *(add(f"f{n}", hour=n % 24) for n in range(20_000)))
    lines = txlog("files", log, "--json").lines
    assert len({line["path"] for line in lines}) == len(lines) == 20_000


def test_history_is_newest_first(txlog, log):
    lines = txlog("history", log, "--json").lines
    assert [line["version"] for line in lines] == [3, 2, 1, 0]
    assert lines[0]["operation"] == "DELETE"
    assert lines[3]["timestamp"] == 1_704_067_200_000
    head, first, *rest = txlog("history", log, "--limit", 2).out.splitlines()
    assert head.split()[0] == "version"
    assert first.split() == ["3", "2024-01-01", "00:03:00", "DELETE", "numFiles=1"]
    assert len(rest) == 1


def test_diff_tells_both_sides(txlog, log):
    lines = txlog("diff", log, 0, 3, "--json").lines
    told = sorted((line["change"], line["path"], line["dvId"] is None) for line in lines)
    assert told == [
        ("added", "b", False),
        ("added", 'c é"\\', True),
        ("removed", "a", True),
        ("removed", "b", True),
    ]
    text = txlog("diff", log, 1, 2).out.splitlines()
    assert text == ["- a", "0 added (0 B), 1 removed (1.0 KiB)"]


def test_show_gives_the_actions_of_one_commit(txlog, log):
    lines = txlog("show", log, 1, "--json").lines
    assert [next(iter(line)) for line in lines] == ["commitInfo", "add", "txn"]
    assert lines[0]["commitInfo"]["operation"] == "WRITE"
    assert lines[2] == {"txn": {"appId": "stream", "version": 7}}
    assert "dvId" not in lines[1]["add"]
    text = txlog("show", log, 1).out.splitlines()
    assert text[2].split() == ["txn", "stream", '{"version":7}']


def test_sample_makes_what_replay_then_reads(txlog, tmp_path):
    made = txlog("sample", tmp_path / "s", "--commits", 20, "--seed", 7, "--txns", 1, "--json")
    assert made.status == 0
    found = txlog("replay", tmp_path / "s", "--json").json
    for name in ("version", "numFiles", "numTombstones"):
        assert made.json[name] == found[name]
    text = txlog("sample", tmp_path / "t", "--commits", 3, "--format", "indextables").out
    assert text.startswith(f"made {tmp_path}/t: 3 commits, ")
    assert txlog("replay", tmp_path / "t", "--json").json["format"] == "indextables"


def test_sample_dry_run_makes_nothing(txlog, tmp_path):
    answer = txlog("sample", tmp_path / "s", "--commits", 20, "--dry-run", "--json")
    assert answer.json["dryRun"] is True
    assert not (tmp_path / "s").exists()


def test_a_fallback_is_a_warning_on_stderr_that_quiet_silences(txlog, log):
    (log.directory / "_last_checkpoint").write_text("{")
    answer = txlog("files", log)
    assert answer.err.startswith("warning: hint _last_checkpoint: ")
    assert answer.status == 0
    assert txlog("files", log, "--quiet").err == ""
    assert "_last_checkpoint" in txlog("replay", log, "--json").json["fallbacks"][0]


def test_settings_come_from_a_file_and_from_options(txlog, log, tmp_path):
    conf = tmp_path / "txlog.toml"
    conf.write_text('"spark.txlog.engine" = "reference"\n')
    assert txlog("replay", log, "--json", "--conf-file", conf).json["engine"] == "reference"
    nearer = ("--option", "spark.txlog.engine=local")
    assert txlog("replay", log, "--json", "--conf-file", conf, *nearer).json["engine"] == "local"
