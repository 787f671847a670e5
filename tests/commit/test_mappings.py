"""Mappings are kept once a table, however many files are committed with them."""

from __future__ import annotations

import json

import pytest

from engine import Config, open_log
from engine.config import PROTOCOL_AUTO_UPGRADE
from engine.errors import (
    InvalidCommitError,
    MetadataChangedError,
    UnsupportedProtocolError,
    UnsupportedWriterError,
)
from engine.replay.docmapping import mapping_hash
from tests.commit.conftest import content, file, lines, new_table, paths
from tests.logs import LogBuilder, add, metadata, protocol

MAPPING = json.dumps([{"name": "title", "type": "text"}])
OTHER = json.dumps([{"name": "title", "type": "u64"}])
NAME, OTHER_NAME = mapping_hash(MAPPING), mapping_hash(OTHER)


@pytest.fixture
def log(tmp_path):
    return new_table(tmp_path / "splits", "indextables")


def mapped(path, mapping=MAPPING):
    return file(path, docMappingJson=mapping)


def test_a_new_mapping_comes_with_the_commit_that_names_it(log):
    log.add_files([mapped("a"), mapped("b"), mapped("c", OTHER), file("d")])
    kinds = [next(iter(line)) for line in lines(log, 1)]
    assert kinds == ["commitInfo", "protocol", "metaData", "add", "add", "add", "add"]
    added = [line["add"] for line in lines(log, 1)[3:]]
    assert [a.get("docMappingRef") for a in added] == [NAME, NAME, OTHER_NAME, None]
    assert all(a.get("docMappingJson") is None for a in added)
    wanted = {f"docMappingSchema.{NAME}": MAPPING, f"docMappingSchema.{OTHER_NAME}": OTHER}
    assert log.snapshot().configuration == wanted
    assert log.head().metadata["id"] == lines(log, 0)[2]["metaData"]["id"]


def test_a_known_mapping_is_named_and_nothing_more(log):
    log.add_files([mapped("a")])
    log.add_files([mapped("b", ' [{"type":"text", "name":"title"}]')])
    assert [next(iter(line)) for line in lines(log, 2)] == ["commitInfo", "add"]
    assert lines(log, 2)[1]["add"]["docMappingRef"] == NAME


def test_readers_see_names_and_may_have_the_mappings(log):
    log.add_files([mapped("a"), file("b")])
    snapshot = open_log(log.directory.table_url).snapshot()
    assert snapshot.files()["docMappingJson"].to_pylist() == [None, None]
    found = snapshot.resolved_files()
    whole = dict(zip(found["path"].to_pylist(), found["docMappingJson"].to_pylist(), strict=True))
    assert whole == {"a": MAPPING, "b": None}
    assert snapshot.resolved_files("hour = 9").num_rows == 0


def test_metadata_given_along_keeps_what_it_says_and_gains_the_mapping(log):
    given = {**log.snapshot().metadata, "configuration": {"owner": "us"}}
    log.commit([{"metaData": given}, {"add": mapped("a", MAPPING) | FIXED}])
    assert log.snapshot().configuration == {"owner": "us", f"docMappingSchema.{NAME}": MAPPING}
    assert sum("metaData" in line for line in lines(log, 1)) == 1


FIXED = {"modificationTime": 1, "dataChange": True}


@pytest.mark.parametrize("act", ["overwrite_files", "replace_where"])
def test_what_replaces_files_names_its_mappings_too(log, act):
    log.add_files([file("old")])
    where = ["hour = 3"] if act == "replace_where" else []
    getattr(log, act)(*where, [mapped("a")])
    assert paths(log) == ["a"]
    assert log.snapshot().files()["docMappingRef"].to_pylist() == [NAME]


def test_the_protocol_is_raised_with_the_first_mapping_and_only_then(log):
    log.add_files([mapped("a")])
    assert lines(log, 1)[1]["protocol"] == lines(log, 1)[1]["protocol"] | {
        "minReaderVersion": 3,
        "minWriterVersion": 3,
    }
    log.add_files([mapped("b", OTHER)])
    assert "protocol" not in {next(iter(line)) for line in lines(log, 2)}


def test_where_protocols_are_not_to_be_raised_mappings_stay_with_their_files(log):
    fixed = open_log(log.directory.table_url, Config(options={PROTOCOL_AUTO_UPGRADE.key: False}))
    fixed.add_files([mapped("a")])
    assert lines(fixed, 1)[1]["add"]["docMappingJson"] == MAPPING
    assert fixed.snapshot().protocol["minReaderVersion"] == 2
    fixed.upgrade_protocol(3, 3)
    fixed.add_files([mapped("b")])
    assert lines(fixed, 3)[2]["add"]["docMappingRef"] == NAME


def test_a_table_of_the_first_protocol_is_raised_for_a_skip_or_asked_to_be(tmp_path):
    builder = LogBuilder(tmp_path, "indextables")
    builder.commit(metadata(format={"provider": "indextables", "options": {}}), add("a"))
    fixed = open_log(str(tmp_path), Config(options={PROTOCOL_AUTO_UPGRADE.key: False}))
    with pytest.raises(InvalidCommitError, match=r"mergeskip needs protocol version 2.*upgrade"):
        fixed.skip("a", "broken")
    log = open_log(str(tmp_path))
    log.skip("a", "broken")
    assert log.snapshot().protocol["minWriterVersion"] == 2
    assert log.files_in_cooldown().keys() == {"a"}


def test_a_mapping_that_is_not_there_cannot_be_named(log):
    before = content(log)
    with pytest.raises(InvalidCommitError, match="a names the mapping nothing, which the table"):
        log.add_files([file("a", docMappingRef="nothing")])
    with pytest.raises(InvalidCommitError, match=f"a names its mapping wrong; its name is {NAME}"):
        log.add_files([mapped("a") | {"docMappingRef": "wrong"}])
    assert content(log) == before
    log.add_files([mapped("a")])
    assert log.add_files([file("b", docMappingRef=NAME)]).version == 2


def test_a_mapping_that_files_name_cannot_go(log):
    log.add_files([mapped("a")])
    key = f"docMappingSchema.{NAME}"
    with pytest.raises(InvalidCommitError, match=f"the mapping {key} would go or change"):
        log.update_metadata(configuration={key: None})
    with pytest.raises(InvalidCommitError, match="would go or change"):
        log.commit([{"metaData": {**log.snapshot().metadata, "configuration": {}}}])


def test_appends_with_new_mappings_at_once_keep_both(log, interloper):
    interloper(log, lambda other: other.add_files([mapped("theirs", OTHER)]))
    done = log.add_files([mapped("mine")])
    assert (done.version, done.attempts) == (2, 2)
    wanted = {f"docMappingSchema.{NAME}", f"docMappingSchema.{OTHER_NAME}"}
    assert set(log.snapshot().configuration) == wanted
    assert log.snapshot().resolved_files().num_rows == 2


def test_a_mapping_that_came_with_an_append_is_no_conflict_for_others(log, interloper):
    log.add_files([mapped("old")])
    interloper(log, lambda other: other.add_files([mapped("theirs", OTHER)]))
    assert log.overwrite_files([mapped("new")]).attempts == 2
    assert paths(log) == ["new"]
    interloper(log, lambda other: other.add_files([mapped("more", '[{"name":"z"}]')]))
    assert log.update_metadata(configuration={"owner": "us"}).attempts == 2
    assert len(log.snapshot().configuration) == 4


def test_metadata_given_whole_conflicts_with_a_mapping_it_lacks(log, interloper):
    log.add_files([mapped("old")])
    interloper(log, lambda other: other.add_files([mapped("theirs", OTHER)]))
    with pytest.raises(MetadataChangedError, match="version 2, by another writer, changed"):
        log.commit([{"metaData": {**log.snapshot().metadata, "name": "x"}}])


def test_delta_has_no_mappings(delta):
    with pytest.raises(InvalidCommitError, match="add has no field docMappingJson"):
        delta.add_files([mapped("a")])


def test_a_newer_protocol_may_be_read_and_written_at_ones_own_risk(tmp_path):
    builder = LogBuilder(tmp_path, "indextables")
    about = metadata(format={"provider": "indextables", "options": {}})
    builder.commit(protocol(5, 5), about, add("a"))
    read = {"spark.indextables.protocol.enforceReaderVersion": False}
    write = {"spark.indextables.protocol.enforceWriterVersion": False}
    with pytest.raises(UnsupportedProtocolError, match="needs reader version 5"):
        open_log(str(tmp_path)).snapshot()
    reader = open_log(str(tmp_path), Config(options=read))
    assert reader.snapshot().files().num_rows == 1
    with pytest.raises(UnsupportedWriterError, match="needs writer version 5"):
        reader.add_files([{"path": "b", "size": 1}])
    assert (
        open_log(str(tmp_path), Config(options=read | write))
        .add_files([{"path": "b", "size": 1}])
        .is_new
    )
