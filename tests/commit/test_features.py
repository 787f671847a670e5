"""What a Delta table's features ask of a writer: done, or refused before anything is written."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from engine.errors import InvalidCommitError, UnsupportedWriterError
from tests.commit.conftest import SCHEMA, content, file, info, lines, new_table, paths
from tests.logs import LogBuilder, add, metadata, protocol

VECTOR = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1}
COUNTED = '{"numRecords":9}'
FIXED = {"modificationTime": 1, "dataChange": True}


def refused(log, call, match, error=InvalidCommitError):
    before = content(log)
    with pytest.raises(error, match=match):
        call()
    assert content(log) == before


# --- protocols ---------------------------------------------------------------------------------


def test_a_protocol_raised_to_features_lists_those_its_version_stood_for(delta):
    delta.upgrade_protocol(1, 7)
    found = delta.head().protocol
    assert found["writerFeatures"] == ["appendOnly", "invariants"]
    assert found.get("readerFeatures") is None
    delta.upgrade_protocol(3, 7, reader_features=["v2Checkpoint"], writer_features=["v2Checkpoint"])
    assert delta.head().protocol["writerFeatures"] == ["appendOnly", "invariants", "v2Checkpoint"]
    assert delta.head().protocol["readerFeatures"] == ["v2Checkpoint"]
    assert DeltaTable(delta.directory.table_url).protocol().min_writer_version == 7


def test_a_protocol_of_mapped_columns_keeps_them_when_it_is_raised(tmp_path):
    from engine import open_log

    LogBuilder(tmp_path).commit(protocol(2, 5), metadata(), add("a"))
    log = open_log(str(tmp_path))
    log.upgrade_protocol(3, 7)
    found = log.head().protocol
    assert found["readerFeatures"] == ["columnMapping"]
    assert found["writerFeatures"] == [
        "appendOnly", "changeDataFeed", "checkConstraints", "columnMapping",
        "generatedColumns", "invariants",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("versions", "features", "match"),
    [
        ((1, 4), {"writer_features": ["appendOnly"]}, "listed at writer version 7, and only so"),
        ((1, 7), {"reader_features": ["v2Checkpoint"]}, "listed at reader version 3, and only so"),
        ((3, 7), {"reader_features": ["v2Checkpoint"]}, "must be a writer feature too"),
        ((3, 2), {}, "listed at reader version 3, and only so"),
    ],
)
def test_a_protocol_whose_lists_and_versions_do_not_fit_is_refused(
    delta, versions, features, match
):
    refused(delta, lambda: delta.upgrade_protocol(*versions, **features), match)


# --- properties and types that ask for a feature -----------------------------------------------

ASKING = {
    "deletionVectors": {"delta.enableDeletionVectors": "true"},
    "v2Checkpoint": {"delta.checkpointPolicy": "v2"},
    "changeDataFeed": {"delta.enableChangeDataFeed": "true"},
}


@pytest.mark.parametrize("feature", ASKING)
def test_a_property_is_set_only_where_the_protocol_has_its_feature(delta, feature):
    def ask():
        return delta.update_metadata(configuration=ASKING[feature])

    refused(delta, ask, rf"use the feature {feature}.*first upgrade_protocol\(")
    readers = [] if feature == "changeDataFeed" else [feature]
    delta.upgrade_protocol(
        3 if readers else 1, 7, reader_features=readers, writer_features=[feature]
    )
    assert ask().is_new


@pytest.mark.parametrize("feature", ASKING)
def test_a_table_is_born_with_the_features_its_properties_ask_for(tmp_path, feature):
    log = new_table(tmp_path / "new", configuration=ASKING[feature])
    assert feature in log.head().protocol["writerFeatures"]
    assert {"appendOnly", "invariants"} <= set(log.head().protocol["writerFeatures"])
    assert DeltaTable(str(tmp_path / "new")).version() == 0


def test_a_time_without_a_zone_needs_its_feature_however_deep_it_is(delta, tmp_path):
    deep = {"type": "array", "elementType": "timestamp_ntz", "containsNull": True}
    fields = [*SCHEMA["fields"], {"name": "at", "type": deep, "nullable": True, "metadata": {}}]
    wider = {**SCHEMA, "fields": fields}
    refused(delta, lambda: delta.update_metadata(schema=wider), "use the feature timestampNtz")
    from engine import create_log

    born = create_log(str(tmp_path / "ntz"), wider)
    assert "timestampNtz" in born.head().protocol["readerFeatures"]
    named = {"name": "timestamp_ntz", "type": "long", "nullable": True, "metadata": {}}
    assert delta.update_metadata(schema={**SCHEMA, "fields": [*SCHEMA["fields"], named]}).is_new


# --- actions that need a feature ---------------------------------------------------------------


def test_a_deletion_vector_needs_its_feature_and_a_count(delta):
    with_vector = file("a", deletionVector=VECTOR, stats=COUNTED)
    refused(delta, lambda: delta.add_files([with_vector]), "not have the feature deletionVectors")
    features = {"reader_features": ["deletionVectors"], "writer_features": ["deletionVectors"]}
    delta.upgrade_protocol(3, 7, **features)
    for stats in (None, "{}", '{"numRecords":null}', "[]"):
        bad = file("a", deletionVector=VECTOR, stats=stats)
        refused(delta, lambda bad=bad: delta.add_files([bad]), "and no stats.numRecords")
    assert delta.add_files([with_vector]).is_new


def test_a_domain_needs_its_feature_and_is_not_the_engines_own(delta):
    def put(name):
        domain = {"domain": name, "configuration": "{}", "removed": False}
        return delta.commit([{"domainMetadata": domain}])

    refused(delta, lambda: put("mine"), "not have the feature domainMetadata")
    delta.upgrade_protocol(1, 7, writer_features=["domainMetadata"])
    refused(delta, lambda: put("delta.clustering"), "the engines' own")
    assert put("mine").is_new
    assert delta.snapshot().domains == {"mine": "{}"}


def test_a_txn_says_when_it_was(log):
    log.add_files([file("a")], txn=("app", 1))
    txn = next(line["txn"] for line in lines(log, 1) if "txn" in line)
    assert txn["lastUpdated"] == info(log, 1)["timestamp"]


# --- the change feed ---------------------------------------------------------------------------


@pytest.fixture
def fed(tmp_path):
    log = new_table(tmp_path / "fed", configuration=ASKING["changeDataFeed"])
    log.add_files([file("a"), file("b", hour="4")])
    return log


def test_what_adds_and_removes_tell_is_committed_to_a_table_with_a_change_feed(fed):
    fed.remove_files(["a"])
    fed.replace_where("hour = 4", [file("c", hour="4")])
    fed.overwrite_files([file("d")])
    compacted = {**file("e"), **FIXED, "dataChange": False}
    fed.commit([{"remove": {"path": "d", "dataChange": False}}, {"add": compacted}])
    assert paths(fed) == ["e"]


def test_a_rewrite_that_needs_change_files_is_refused_by_name(fed):
    rewrite = [{"remove": {"path": "a", "dataChange": True}}, {"add": {**file("z"), **FIXED}}]
    refused(fed, lambda: fed.commit(rewrite), "changeDataFeed", UnsupportedWriterError)
