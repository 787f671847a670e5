"""What a caller gives is typed, completed or refused in words, whichever call it was given to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from engine import open_log
from engine.errors import InvalidCommitError, UnsupportedActionError
from tests.commit.conftest import DAY, content, file, lines, new_table

VECTOR = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 1,
    "sizeInBytes": 36,
    "cardinality": 2,
}


@pytest.fixture(params=["add_files", "overwrite_files", "replace_where", "commit"])
def give(request):
    """Give one file to a call that adds files."""

    def call(log, given: object):
        if request.param == "replace_where":
            return log.replace_where("hour = 3", [given])
        if request.param == "commit":
            whole = isinstance(given, dict) and "path" in given
            filled = {"modificationTime": 1, "dataChange": True, **given} if whole else given
            return log.commit([{"add": filled}])
        return getattr(log, request.param)([given])

    return call


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"size": 1}, "add has no path"),
        (file(5), "add.path is not a string: 5"),
        (file("a", partitionValues="x"), "add.partitionValues is not a JSON object: 'x'"),
        (file("a", partitionValues=None), "add has no partitionValues"),
        (file("a", partitionValues={"date": None, "hour": True}), "'true' of hour is not of type"),
        (file("a", partitionValues={"date": None, "hour": 2**70}), "64-bit"),
        (file("a", partitionValues={"date": None, "hour": float("nan")}), "give it as text"),
        (file("a", partitionValues={1: 2}), "has the name 1, which is not text"),
        ({1: 2, "path": "a"}, "has the name 1, which is not text"),
        (file("\ud800"), "UTF-8"),
        ("a", "add is not an object: 'a'"),
        (None, "add is not an object: None"),
    ],
)
def test_what_is_no_file_is_refused_by_every_call(log, give, given, reason):
    before = content(log)
    with pytest.raises(InvalidCommitError) as raised:
        give(log, given)
    assert reason in str(raised.value)
    assert content(log) == before


def test_numbers_of_a_text_map_become_their_text(log, give):
    done = give(log, file("a", partitionValues={"date": "2024-01-01", "hour": 3}, tags={"n": 5}))
    (add,) = [line["add"] for line in lines(log, done.version) if "add" in line]
    assert add["partitionValues"] == DAY
    assert add["tags"] == {"n": "5"}
    assert b'"hour":"3"' in content(log)["00000000000000000001.json"]


def test_a_commit_of_anything_but_actions_is_refused(log):
    before = content(log)
    for given in (["a"], [None], {"add": file("a")}, [{"add": {"path": "a"}, "remove": {}}]):
        with pytest.raises(InvalidCommitError, match="an action "):
            log.commit(given)
    with pytest.raises(UnsupportedActionError, match="takes no 1"):
        log.commit([{1: 2}])
    with pytest.raises(InvalidCommitError, match="a path is text, not 5"):
        log.remove_files([5])
    assert content(log) == before


def test_a_table_may_be_named_by_a_path_object(log):
    assert open_log(Path(log.directory.table_url)).latest_version() == 0


def test_a_version_that_was_read_is_one(log):
    with pytest.raises(InvalidCommitError, match="read version -7; versions count from 0"):
        log.commit([{"txn": {"appId": "x", "version": 1}}], read_version=-7)


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        ({}, "no storageType"),
        ({"storageType": "u"}, "no pathOrInlineDv"),
        ({**VECTOR, "pathOrInlineDv": ""}, "no pathOrInlineDv"),
        ({**VECTOR, "sizeInBytes": None}, "no sizeInBytes"),
        ({**VECTOR, "cardinality": None}, "no cardinality"),
        ({**VECTOR, "cardinality": -1}, "negative cardinality"),
        ({**VECTOR, "storageType": "x"}, "storageType 'x'; use u, i, p"),
        ("x", "not a JSON object"),
    ],
)
def test_a_deletion_vector_must_be_whole(tmp_path, give, vector, reason):
    log = new_table(tmp_path / "t", configuration={"delta.enableDeletionVectors": "true"})
    before = content(log)
    with pytest.raises(InvalidCommitError, match="deletionVector") as raised:
        give(log, file("a", deletionVector=vector, stats='{"numRecords":5}'))
    assert reason in str(raised.value)
    assert content(log) == before


@pytest.mark.parametrize("without", ["", "offset"])
def test_a_whole_deletion_vector_is_read_by_deltalake(tmp_path, give, without):
    log = new_table(tmp_path / "t", configuration={"delta.enableDeletionVectors": "true"})
    vector = {name: value for name, value in VECTOR.items() if name != without}
    give(log, file("a", deletionVector=vector, stats='{"numRecords":5}'))
    assert DeltaTable(log.directory.table_url).get_add_actions()["path"].to_pylist() == ["a"]


def test_metadata_gets_the_maps_that_every_reader_wants(delta):
    head = {k: v for k, v in delta.head().metadata.items() if k != "configuration"}
    delta.commit([{"metaData": {**head, "name": "x", "format": {"provider": "parquet"}}}])
    (written,) = [line["metaData"] for line in lines(delta, 1) if "metaData" in line]
    assert (written["configuration"], written["format"]["options"]) == ({}, {})
    assert DeltaTable(delta.directory.table_url).metadata().name == "x"


def test_a_path_of_a_delta_log_is_encoded_so_that_one_file_has_one_name(delta, give):
    before = content(delta)
    odd = {"a b": "%20", "a\tb": "%09", "100%": "%25", "a%2": "%25", "d=a#1/b": "%23", "a?": "%3F"}
    for path, instead in (odd | {"a[1]": "%5B", 'a"': "%22", "a|b": "%7C", "a\\b": "%5C"}).items():
        with pytest.raises(InvalidCommitError, match=f"not percent-encoded.* write {instead} for"):
            give(delta, file(path))
    assert content(delta) == before
    assert give(delta, file("a%20b/ü%25")).num_added == 1


def test_a_name_in_an_indextables_log_is_taken_as_it_is(tmp_path, give):
    log = new_table(tmp_path / "splits", "indextables")
    assert give(log, file("a b")).num_added == 1


def test_a_file_with_a_name_that_is_not_encoded_can_still_be_removed(delta):
    add = {**file("a b"), "modificationTime": 1, "dataChange": True}
    path = Path(delta.directory.file(f"{1:020d}.json"))
    path.write_text(json.dumps({"add": add}) + "\n")
    assert delta.remove_files(["a b"]).num_removed == 1
