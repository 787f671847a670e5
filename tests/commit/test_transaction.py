"""What each way to write does to the table, and what its commit says."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from engine import Config, create_log, open_log
from engine.commit.transaction import Clock
from engine.errors import LogNotFoundError, TableExistsError
from tests.commit.conftest import (
    DAY,
    FIELDS,
    SCHEMA,
    content,
    file,
    info,
    lines,
    new_table,
    paths,
)


def test_a_new_table_has_a_protocol_and_metadata(log, log_format):
    head = log.head()
    assert head.version == 0
    assert (head.protocol["minReaderVersion"], head.protocol["minWriterVersion"]) == {
        "delta": (1, 2),
        "indextables": (2, 2),
    }[log_format]
    assert json.loads(head.metadata["schemaString"]) == SCHEMA
    assert head.metadata["partitionColumns"] == ["date", "hour"]
    provider = {"delta": "parquet", "indextables": "indextables"}[log_format]
    assert head.metadata["format"]["provider"] == provider
    assert [next(iter(line)) for line in lines(log, 0)] == ["commitInfo", "protocol", "metaData"]


def test_a_schema_may_come_from_arrow_or_as_text(tmp_path):
    arrow = pa.schema(
        [
            ("id", pa.int64()),
            ("tags", pa.list_(pa.string())),
            ("price", pa.decimal128(10, 2)),
            ("at", pa.timestamp("us", "UTC")),
        ]
    )
    log = create_log(str(tmp_path / "a"), arrow)
    dt = DeltaTable(str(tmp_path / "a"))
    assert [field.name for field in dt.schema().fields] == ["id", "tags", "price", "at"]
    again = create_log(str(tmp_path / "b"), log.head().metadata["schemaString"])
    assert again.head().metadata["schemaString"] == log.head().metadata["schemaString"]


def test_a_table_is_created_once(log, tmp_path):
    before = content(log)
    with pytest.raises(TableExistsError, match="there is a table here already"):
        new_table(tmp_path / "events")
    same = new_table(tmp_path / "events", exist_ok=True)
    assert same.head().metadata["id"] == log.head().metadata["id"]
    assert content(log) == before


def test_files_are_added(log):
    done = log.add_files([file("a"), file("b", date=None, stats='{"numRecords":3}')])
    assert (done.version, done.is_new, done.num_added, done.attempts) == (1, True, 2, 1)
    assert paths(log) == ["a", "b"]
    assert [next(iter(line)) for line in lines(log, 1)] == ["commitInfo", "add", "add"]
    added = lines(log, 1)[2]["add"]
    assert added["partitionValues"] == {"date": None, "hour": "3"}
    assert added["dataChange"] is True
    assert added["modificationTime"] > 1_700_000_000_000


def test_commit_info_comes_first_and_tells_who_what_and_when(log):
    done = log.add_files([file("a")])
    said = info(log, 1)
    assert said["operation"] == "WRITE"
    assert said["engineInfo"].startswith("txlog")
    assert said["txnId"] == done.txn_id
    assert said["isBlindAppend"] is True
    assert said["operationMetrics"]["numAddedFiles"] == "1"
    assert abs(said["timestamp"] - log.clock.now_ms()) < 60_000
    log.remove_files(["a"])
    assert info(log, 2)["isBlindAppend"] is False
    assert info(log, 2)["txnId"] != done.txn_id


def test_files_are_removed_with_what_it_takes_to_undo_it(log):
    log.add_files([file("a"), file("b", size=77)])
    done = log.remove_files(["b"])
    assert (done.num_removed, paths(log)) == (1, ["a"])
    removed = lines(log, 2)[1]["remove"]
    assert (removed["path"], removed["size"], removed["dataChange"]) == ("b", 77, True)
    assert removed["partitionValues"] == DAY
    assert log.snapshot().tombstones()["path"].to_pylist() == ["b"]


def test_an_overwrite_replaces_everything_in_one_commit(log):
    log.add_files([file("a"), file("b")])
    done = log.overwrite_files([file("b", size=11), file("c")])
    assert (done.version, done.num_removed, done.num_added) == (2, 1, 2)
    assert paths(log) == ["b", "c"]
    kinds = [next(iter(line)) for line in lines(log, 2)]
    assert kinds == ["commitInfo", "remove", "add", "add"]


def test_replace_where_touches_its_partitions_only(log):
    log.add_files([file("a", hour="1"), file("b", hour="2"), file("c", hour="10")])
    log.replace_where("hour >= 2 and hour < 10", [file("d", hour="3")])
    assert paths(log) == ["a", "c", "d"]
    assert info(log, 2)["operationParameters"]["predicate"] == "hour >= 2 and hour < 10"


def test_a_file_with_a_deletion_vector_is_removed_with_it(delta):
    delta.upgrade_protocol(
        3, 7, reader_features=["deletionVectors"], writer_features=["deletionVectors"]
    )
    vector = {
        "storageType": "u",
        "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
        "offset": 4,
        "sizeInBytes": 40,
        "cardinality": 6,
    }
    delta.add_files([file("a", deletionVector=vector, stats='{"numRecords":9}')])
    delta.remove_files(["a"])
    assert lines(delta, 3)[1]["remove"]["deletionVector"] == vector
    assert paths(delta) == []


def test_metadata_is_updated_and_a_property_dropped(log):
    log.update_metadata(configuration={"a": "1", "b": "2"}, name="events")
    log.update_metadata(configuration={"a": None})
    head = log.head()
    assert head.metadata["configuration"] == {"b": "2"}
    assert head.metadata["name"] == "events"


def test_a_schema_gains_a_column(log):
    wider = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "x", "type": "string"}]}
    log.update_metadata(schema=wider)
    schema = json.loads(log.head().metadata["schemaString"])
    assert [field["name"] for field in schema["fields"]] == [*FIELDS, "x"]


def test_a_protocol_is_raised_and_never_lowered(log, log_format):
    highest = {"delta": (1, 4), "indextables": (4, 4)}[log_format]
    assert log.upgrade_protocol(*highest).is_new
    done = log.upgrade_protocol(1, 1)
    assert (done.is_new, done.reason) == (False, "there is nothing to change")
    protocol = log.head().protocol
    assert (protocol["minReaderVersion"], protocol["minWriterVersion"]) == highest


def test_nothing_to_add_is_no_commit(log):
    done = log.add_files([])
    assert (done.version, done.is_new) == (0, False)
    assert len(content(log)) == 1


def test_a_txn_is_committed_once(log):
    first = log.add_files([file("a")], txn=("stream", 7))
    before = content(log)
    again = log.add_files([file("b")], txn=("stream", 7))
    older = open_log(log.directory.table_url).add_files([file("c")], txn=("stream", 6))
    assert (first.is_new, again.is_new, older.is_new) == (True, False, False)
    assert "stream is at 7 already" in again.reason
    assert content(log) == before
    assert log.add_files([file("b")], txn=("stream", 8)).is_new
    assert log.snapshot().txns == {"stream": 8}
    assert log.add_files([], txn=("other", 1)).is_new, "progress without files is progress"


def test_in_commit_timestamps_grow_whatever_the_clock_does(tmp_path):
    log = new_table(tmp_path / "events", configuration={"delta.enableInCommitTimestamps": "true"})
    assert "inCommitTimestamp" in log.head().protocol["writerFeatures"]
    first = info(log, 0)["inCommitTimestamp"]
    log.clock = Clock(now_ms=lambda: 1_000)
    log.add_files([file("a")])
    log.add_files([file("b")])
    assert [info(log, v)["inCommitTimestamp"] for v in (1, 2)] == [first + 1, first + 2]
    another = open_log(log.directory.table_url)
    another.clock = log.clock
    another.add_files([file("c")])
    assert info(log, 3)["inCommitTimestamp"] == first + 3


def test_commits_of_indextables_are_compressed_and_those_of_delta_never(log, log_format):
    done = log.add_files([file(f"part-{n}") for n in range(50)])
    data = content(log)[f"{1:020d}.json"]
    if log_format == "delta":
        assert data.startswith(b'{"commitInfo"')
        assert done.compression["codec"] == "none"
    else:
        assert data[:2] == b"\x01\x01"
        assert done.compression["compressedBytes"] == len(data)
        assert done.compression["ratio"] > 3
    assert len(paths(log)) == 50


@pytest.mark.parametrize("codec", ["gzip", "zstd", "lz4", "snappy", "none"])
def test_a_log_of_mixed_codecs_reads_as_one(tmp_path, codec):
    from engine import Config

    new_table(tmp_path / "events", "indextables").add_files([file("plain")])
    key = "spark.indextables.transaction.compression.codec"
    log = open_log(str(tmp_path / "events"), Config(options={key: codec}))
    done = log.add_files([file(f"part-{n}") for n in range(50)])
    assert done.compression["codec"] == codec
    assert len(paths(log)) == 51


def test_a_dry_run_writes_nothing(log):
    before = content(log)
    done = log.add_files([file("a")], dry_run=True)
    assert (done.version, done.is_new, done.reason) == (1, False, "dry run")
    assert content(log) == before
    create_log(str(log.directory.root) + "-new", SCHEMA, dry_run=True)
    with pytest.raises(LogNotFoundError):
        open_log(str(log.directory.root) + "-new").snapshot()


def test_deltalake_reads_what_we_write(delta):
    delta.add_files([file("a", stats='{"numRecords":3}'), file("b", hour=None)])
    delta.remove_files(["a"])
    delta.update_metadata(configuration={"delta.logRetentionDuration": "interval 30 days"})
    delta.add_files([file("c%20d")], txn=("app", 4))
    table = DeltaTable(delta.directory.table_url)
    assert table.version() == delta.snapshot().version == 4
    assert sorted(table.get_add_actions(flatten=True)["path"].to_pylist()) == ["b", "c%20d"]
    assert table.transaction_version("app") == 4
    said = table.history()[0]
    assert (said["operation"], said["isBlindAppend"]) == ("WRITE", True)


def test_hooks_run_after_a_commit_and_never_fail_it(log, caplog):
    seen = []

    def broken(table, done):
        raise RuntimeError("no space for a checkpoint")

    def noted(table, done):
        seen.append((table, done.version))

    log.hooks += [broken, noted]
    done = log.add_files([file("a")])
    assert seen == [(log, 1)], "a hook that failed does not keep the next from running"
    assert done.hook_failures == ("broken: RuntimeError: no space for a checkpoint",)
    assert "no space for a checkpoint" in caplog.text
    assert paths(log) == ["a"]
    log.add_files([])
    log.add_files([file("b")], dry_run=True)
    assert len(seen) == 1, "nothing was committed"


def test_what_hooks_did_and_how_long_is_in_the_summary(log):
    log.hooks += [lambda table, done: None, _Tidy(), _Tidy(fails=True)]
    found = log.add_files([file("a")]).summary()["hooks"]
    assert [hook["name"] for hook in found] == ["<lambda>", "_Tidy", "_Tidy"]
    assert all(hook["seconds"] >= 0 for hook in found)
    assert [hook.get("failure") for hook in found] == [None, None, "OSError: disk full"]
    log.hooks.clear()
    assert "hooks" not in log.add_files([file("b")]).summary()


def test_a_commit_that_a_hook_makes_runs_no_hooks(log):
    log.hooks.append(lambda table, done: table.add_files([file(f"after-{done.version}")]))
    assert log.add_files([file("a")]).version == 1
    assert paths(log) == ["a", "after-1"]
    log.add_files([file("b")])
    assert paths(log) == ["a", "after-1", "after-3", "b"]


class _Tidy:
    def __init__(self, fails: bool = False) -> None:
        self.fails = fails

    def __call__(self, table, done) -> None:
        if self.fails:
            raise OSError("disk full")


CODEC = "spark.indextables.transaction.compression.codec"
SMALLEST = "spark.txlog.transaction.compression.minBytes"


def test_a_table_says_how_its_commits_are_compressed_unless_the_caller_does(tmp_path):
    asked = {CODEC: "zstd", SMALLEST: "0"}
    log = new_table(tmp_path / "t", "indextables", configuration=asked)
    log.add_files([file("a")])
    log.update_metadata(configuration={CODEC: "none"})
    log.add_files([file("b")])
    near = open_log(log.directory.table_url, Config(options={CODEC: "gzip"}))
    near.add_files([file("c")])
    far = open_log(log.directory.table_url, Config(file={CODEC: "gzip"}))
    far.add_files([file("d")])
    first = {name: data[:2] for name, data in content(log).items() if name.endswith(".json")}
    heads = [first[f"{version:020d}.json"] for version in range(6)]
    assert heads == [b"\x01\x02", b"\x01\x02", b"\x01\x02", b'{"', b"\x01\x01", b'{"']


def test_every_call_can_be_tried_without_a_commit(log):
    before = content(log)
    wider = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "x", "type": "long"}]}
    for done in (
        log.update_metadata(schema=wider, dry_run=True),
        log.update_metadata(name="x", dry_run=True),
        log.upgrade_protocol(1, 3, dry_run=True),
    ):
        assert (done.version, done.is_new, done.reason) == (1, False, "dry run")
    assert content(log) == before


def test_metadata_that_would_be_as_it_is_is_not_committed(log):
    log.update_metadata(configuration={"a": "b"}, name="events")
    before = content(log)
    for asked in ({}, {"schema": SCHEMA}, {"configuration": {"a": "b", "c": None}},
                  {"name": "events"}):  # fmt: skip
        done = log.update_metadata(**asked)
        assert (done.version, done.is_new, done.reason) == (1, False, "there is nothing to change")
    assert content(log) == before
