"""No commit leaves a table whose properties, protocol or rules its readers cannot follow."""

from __future__ import annotations

import pytest

from engine import create_log, open_log
from engine.errors import AppendOnlyError, InvalidCommitError, LogNotFoundError
from tests.commit.conftest import SCHEMA, content, file, new_table
from tests.logs import LogBuilder, metadata, protocol

BAD = {
    "delta.checkpointInterval": ("abc", "a whole number, 1 or more"),
    "delta.appendOnly": ("maybe", "true or false"),
    "delta.enableDeletionVectors": (" true", "true or false"),
    "delta.enableInCommitTimestamps": ("yes", "true or false"),
    "delta.inCommitTimestampEnablementVersion": ("x", "a whole number"),
    "delta.inCommitTimestampEnablementTimestamp": ("x", "a whole number"),
    "delta.checkpointPolicy": ("v3", "one of classic, v2"),
    "spark.indextables.transaction.compression.codec": ("rar", "one of gzip"),
}


@pytest.mark.parametrize("key", BAD)
def test_a_property_with_a_value_that_is_not_allowed_is_refused(log, tmp_path, log_format, key):
    value, allowed = BAD[key]
    said = f"{key}={value!r} is not allowed; use {allowed}"
    before = content(log)
    for call in (
        lambda: new_table(tmp_path / "new", log_format, configuration={key: value}),
        lambda: log.update_metadata(configuration={key: value}),
        lambda: log.commit([{"metaData": {**log.head().metadata, "configuration": {key: value}}}]),
    ):
        with pytest.raises(InvalidCommitError) as raised:
            call()
        assert said in str(raised.value)
    assert content(log) == before
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("what", [{"name": 5}, {"configuration": {"a": 5}}])
def test_a_table_is_not_created_unreadable(tmp_path, what):
    with pytest.raises(InvalidCommitError, match=r"name is not a string|property a is not text"):
        create_log(str(tmp_path / "new"), SCHEMA, ["date"], **what)
    assert not (tmp_path / "new").exists()


def test_a_property_that_is_odd_already_is_no_reason_to_refuse_another(tmp_path):
    builder = LogBuilder(tmp_path / "t")
    builder.commit(protocol(1, 2), metadata(configuration={"delta.checkpointInterval": "abc"}))
    log = open_log(str(tmp_path / "t"))
    assert log.update_metadata(configuration={"a": "b"}).is_new


def test_the_clock_is_not_switched_on_by_any_commit(delta):
    delta.upgrade_protocol(1, 7, writer_features=["inCommitTimestamp"])
    before = content(delta)
    on = {"delta.enableInCommitTimestamps": "true"}
    for call in (
        lambda: delta.update_metadata(configuration=on),
        lambda: delta.commit([{"metaData": {**delta.head().metadata, "configuration": on}}]),
    ):
        with pytest.raises(InvalidCommitError, match="only be set when a table is created"):
            call()
    assert content(delta) == before


def test_a_new_table_has_its_clock_from_the_start(tmp_path):
    late = {"delta.inCommitTimestampEnablementVersion": "5"}
    with pytest.raises(InvalidCommitError, match="leave it away when a table is created"):
        new_table(tmp_path / "new", configuration=late)
    with pytest.raises(LogNotFoundError):
        new_table(tmp_path / "old", dry_run=True).snapshot()


def test_append_only_cannot_be_dropped_by_the_commit_it_forbids(tmp_path):
    log = new_table(tmp_path / "t", configuration={"delta.appendOnly": "true"})
    log.add_files([file("a")])
    before = content(log)
    freed = {"metaData": {**log.head().metadata, "configuration": {}}}
    remove = {"remove": {"path": "a", "dataChange": True}}
    with pytest.raises(AppendOnlyError):
        log.commit([freed, remove])
    assert content(log) == before
    log.commit([freed])
    assert log.remove_files(["a"]).num_removed == 1


@pytest.mark.parametrize(
    ("lower", "reason"),
    [
        (protocol(1, 2), "minReaderVersion would go down from 3 to 1"),
        (protocol(3, 7, readerFeatures=[], writerFeatures=[]), "no longer have .*deletionVectors"),
    ],
)
def test_a_protocol_is_never_lowered(tmp_path, lower, reason):
    log = new_table(tmp_path / "t", configuration={"delta.enableDeletionVectors": "true"})
    before = content(log)
    with pytest.raises(InvalidCommitError, match=reason):
        log.commit([lower])
    assert content(log) == before


def test_a_protocol_with_a_list_keeps_what_its_version_stood_for(delta):
    before = content(delta)
    with pytest.raises(InvalidCommitError, match="no longer have appendOnly, invariants"):
        delta.commit([protocol(1, 7, writerFeatures=["domainMetadata"])])
    assert content(delta) == before
    named = ["appendOnly", "domainMetadata", "invariants"]
    assert delta.commit([protocol(1, 7, writerFeatures=named)]).is_new


def test_a_new_protocol_has_what_the_metadata_asks_for(tmp_path):
    builder = LogBuilder(tmp_path / "t")
    builder.commit(protocol(1, 2), metadata(configuration={"delta.enableDeletionVectors": "true"}))
    log = open_log(str(tmp_path / "t"))
    with pytest.raises(InvalidCommitError, match="the feature deletionVectors"):
        log.commit([protocol(1, 4)])
