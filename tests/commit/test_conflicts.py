"""Another writer is faster: what can stand does, what cannot is named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from engine import Config, open_log
from engine.commit.transaction import Clock
from engine.errors import (
    AlreadyExistsError,
    ConcurrentAppendError,
    ConcurrentDeleteError,
    ConflictError,
    ContentionError,
    InvalidCommitError,
    LogNotFoundError,
    MetadataChangedError,
    ProtocolChangedError,
)
from tests.commit.conftest import SCHEMA, content, file, info, paths


def refused(log, error, call):
    with pytest.raises(error) as raised:
        call()
    assert isinstance(raised.value, ConflictError)
    assert raised.value.code == error.code != ConflictError.code
    return str(raised.value)


@pytest.mark.parametrize(
    "act",
    [
        lambda other: other.add_files([file("other")]),
        lambda other: other.overwrite_files([]),
        lambda other: other.update_metadata(configuration={"a": "b"}),
        lambda other: other.upgrade_protocol(1, 3),
    ],
)
def test_a_blind_append_never_conflicts(log, interloper, act):
    log.add_files([file("first")])
    interloper(log, act)
    done = log.add_files([file("mine")])
    assert (done.version, done.attempts) == (3, 2)
    assert "mine" in paths(log)
    assert info(log, 3)["readVersion"] == 2


def test_an_append_that_the_new_metadata_does_not_fit_is_told_so(delta, interloper):
    def repartition(other):
        metadata = {**other.head().metadata, "partitionColumns": ["date"]}
        line = json.dumps({"metaData": metadata}).encode() + b"\n"
        other.directory.storage.write_new(other.directory.file(f"{1:020d}.json"), line)

    interloper(delta, repartition)
    said = refused(delta, MetadataChangedError, lambda: delta.add_files([file("a")]))
    assert "the table is partitioned by date" in said
    assert delta.snapshot().version == 1


def test_an_overwrite_takes_a_concurrent_append_with_it(log, interloper):
    log.add_files([file("old")])
    interloper(log, lambda other: other.add_files([file("late")]))
    done = log.overwrite_files([file("new")])
    assert (done.version, done.num_removed, done.attempts) == (3, 2, 2)
    assert paths(log) == ["new"]


def test_replace_where_takes_a_concurrent_append_in_its_partitions_only(log, interloper):
    interloper(log, lambda o: o.add_files([file("in", hour="4"), file("out", hour="5")]))
    done = log.replace_where("hour = 4", [file("new", hour="4")])
    assert (done.num_removed, paths(log)) == (1, ["new", "out"])


def test_two_who_remove_one_file_conflict(log, interloper):
    log.add_files([file("a"), file("b")])
    interloper(log, lambda other: other.remove_files(["a"]))
    said = refused(log, ConcurrentDeleteError, lambda: log.remove_files(["a"]))
    assert "removed a" in said
    assert paths(log) == ["b"]


def test_two_who_remove_different_files_do_not(log, interloper):
    log.add_files([file("a"), file("b")])
    interloper(log, lambda other: other.remove_files(["a"]))
    assert log.remove_files(["b"]).attempts == 2
    assert paths(log) == []


@pytest.mark.parametrize(
    ("act", "error", "word"),
    [
        (lambda o: o.remove_files(["a"]), ConcurrentDeleteError, "removed a"),
        (lambda o: o.add_files([file("a", size=99)]), ConcurrentAppendError, "added a anew"),
        (
            lambda o: o.update_metadata(configuration={"a": "b"}),
            MetadataChangedError,
            "changed the table's metadata",
        ),
        (lambda o: o.upgrade_protocol(1, 3), ProtocolChangedError, "changed the table's protocol"),
    ],
)
def test_what_was_decided_by_reading_conflicts_with_what_changed(log, interloper, act, error, word):
    log.add_files([file("a"), file("b")])
    compact = [
        {"remove": {"path": "a", "dataChange": False}},
        {"add": file("ab", modificationTime=1, dataChange=False)},
    ]
    interloper(log, act)
    assert word in refused(log, error, lambda: log.commit(compact, operation="OPTIMIZE"))
    assert "ab" not in paths(log)


def test_what_was_read_before_is_compared_with_all_that_came_since(log):
    log.add_files([file("a", hour="1")])
    log.add_files([file("b", hour="2")])
    log.remove_files(["a"])
    mine = [{"add": file("mine", modificationTime=1, dataChange=True)}]
    said = refused(
        log,
        ConcurrentAppendError,
        lambda: log.commit(mine, read_version=1, read_where="hour = 2"),
    )
    assert "version 2, by another writer, added b" in said
    refused(
        log, ConcurrentDeleteError, lambda: log.commit(mine, read_version=1, read_where="hour = 1")
    )
    assert log.commit(mine, read_version=1, read_where="hour = 7").is_new
    with pytest.raises(InvalidCommitError, match="it read version 9; the latest is 4"):
        log.commit(mine, read_version=9)


def test_two_metadata_updates_conflict(log, interloper):
    interloper(log, lambda other: other.update_metadata(configuration={"a": "theirs"}))
    refused(log, MetadataChangedError, lambda: log.update_metadata(configuration={"a": "mine"}))
    assert log.head().metadata["configuration"] == {"a": "theirs"}


def test_two_protocol_upgrades_add_up(delta, interloper):
    interloper(delta, lambda other: other.upgrade_protocol(1, 4))
    delta.upgrade_protocol(2, 3)
    protocol = delta.head().protocol
    assert (protocol["minReaderVersion"], protocol["minWriterVersion"]) == (2, 4)


def test_two_who_change_one_domain_conflict(delta, interloper):
    delta.upgrade_protocol(1, 7, writer_features=["appendOnly", "invariants", "domainMetadata"])
    mine = {"domainMetadata": {"domain": "d", "configuration": "mine", "removed": False}}
    theirs = {"domainMetadata": {"domain": "d", "configuration": "theirs", "removed": False}}
    interloper(delta, lambda other: other.commit([theirs]))
    assert "changed domain d" in refused(delta, MetadataChangedError, lambda: delta.commit([mine]))
    assert delta.snapshot().domains == {"d": "theirs"}


def test_a_txn_that_another_process_committed_meanwhile_is_not_repeated(log, interloper):
    interloper(log, lambda other: other.add_files([file("a")], txn=("stream", 3)))
    done = log.add_files([file("a")], txn=("stream", 3))
    assert (done.is_new, done.version) == (False, 1)
    assert log.snapshot().version == 1


def test_a_schema_that_another_narrowed_the_way_to_is_a_conflict(log, interloper):
    wider = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "x", "type": "string"}]}
    interloper(log, lambda other: other.update_metadata(schema=wider))
    other = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "x", "type": "long"}]}
    refused(log, MetadataChangedError, lambda: log.update_metadata(schema=other))


def test_who_always_loses_gives_up_and_says_so(log):
    waits = []
    key = "spark.indextables.transaction.retry.maxAttempts"
    loser = open_log(log.directory.table_url, Config(options={key: 4}))
    loser.clock = Clock(sleep=waits.append, jitter=lambda low, high: high)

    def taken(path, data, **_):
        raise AlreadyExistsError(path)

    loser.directory.storage.write_new = taken
    before = content(log)
    with pytest.raises(ContentionError, match="other writers were faster 4 times") as raised:
        loser.add_files([file("a")])
    assert raised.value.code == "CONTENTION"
    assert waits == [0.1, 0.2, 0.4]
    assert content(log) == before


def test_waits_double_up_to_five_seconds_with_jitter(log):
    waits = []

    def taken(path, data, **_):
        raise AlreadyExistsError(path)

    log.directory.storage.write_new = taken
    log.clock = Clock(sleep=waits.append)
    with pytest.raises(ContentionError):
        log.add_files([file("a")])
    longest = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 5]
    assert len(waits) == 9
    assert all(most / 2 <= wait <= most for wait, most in zip(waits, longest, strict=True))
    assert waits != longest


def test_a_table_that_is_dropped_meanwhile_is_not_half_recreated(log, interloper):
    where = Path(log.directory.table_url)
    interloper(log, lambda _: shutil.rmtree(where))
    with pytest.raises(LogNotFoundError):
        log.add_files([file("a")])
    assert not where.exists()


def test_a_commit_whose_temp_file_stays_is_not_made_twice(log, monkeypatch):
    def fail(path):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("os.unlink", fail)
    assert log.add_files([file("a")]).version == 1
    monkeypatch.undo()
    assert log.latest_version() == 1
