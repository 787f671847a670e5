"""Bad input is refused with a reason, and the log is left as it was."""

from __future__ import annotations

import copy

import pyarrow as pa
import pytest

from engine import create_log, open_log
from engine.errors import (
    AppendOnlyError,
    InvalidCommitError,
    LogNotFoundError,
    PredicateError,
    ReplayError,
    SchemaChangeError,
    UnsupportedActionError,
    UnsupportedFeatureError,
    UnsupportedWriterError,
)
from tests.commit.conftest import SCHEMA, content, file, new_table
from tests.logs import LogBuilder, metadata, protocol


@pytest.fixture
def refused(log):
    """Run a call that must be refused, and return the message; nothing may have been written."""

    def run(call, error=InvalidCommitError):
        before = content(log)
        with pytest.raises(error) as raised:
            call()
        assert content(log) == before
        assert "\n" not in str(raised.value)
        return str(raised.value)

    return run


ADD = {**file("a"), "modificationTime": 1, "dataChange": True}


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/data/a", "absolute"),
        ("s3://bucket/a", "has a scheme"),
        ("file:/tmp/a", "has a scheme"),
        ("../a", "does not name a file inside the table"),
        ("x/../../a", "does not name a file inside the table"),
        ("x/%2e%2e/a", "does not name a file inside the table"),
        ("%2Fetc/a", "absolute"),
        ("x//a", "does not name a file inside the table"),
        ("x/", "does not name a file inside the table"),
        (".", "does not name a file inside the table"),
        ("", "no path"),
        ("_delta_log/00.json", "is inside the log"),
        ("_transaction_log/x", "is inside the log"),
    ],
)
def test_a_path_must_lead_into_the_table(log, refused, path, reason):
    assert reason in refused(lambda: log.add_files([file(path)]))
    remove = {"path": path, "dataChange": True}
    assert reason in refused(lambda: log.commit([{"remove": remove}]))


@pytest.mark.parametrize("name", ["size", "path", "modificationTime", "dataChange"])
def test_a_required_field_must_be_there(log, refused, name):
    add = {k: v for k, v in ADD.items() if k != name}
    assert f"add has no {name}" in refused(lambda: log.commit([{"add": add}]))


@pytest.mark.parametrize("name", ["size", "modificationTime"])
def test_numbers_must_not_be_negative(log, refused, name):
    assert f"add.{name} is negative: -1" in refused(
        lambda: log.add_files([file("a", **{name: -1})])
    )


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"size": "10"}, "add.size is not a whole number"),
        ({"size": 1.5}, "add.size is not a whole number"),
        ({"size": 2**63}, "does not fit in 64 bits"),
        ({"dataChange": "yes"}, "neither true nor false"),
        ({"stats": "{"}, "add.stats is not JSON"),
        ({"tags": "x"}, "add.tags is not a JSON object"),
        ({"sise": 3}, "add has no field sise"),
    ],
)
def test_a_field_must_be_what_it_is_called(log, refused, fields, reason):
    assert reason in refused(lambda: log.add_files([file("a", **fields)]))


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, "lacks values for date, hour; the table is partitioned by date, hour"),
        ({"date": "2024-01-01"}, "lacks values for hour; the table"),
        ({"date": None, "hour": None, "x": "1"}, "has values for x; the table"),
        ({"date": "01.02.2024", "hour": "1"}, "'01.02.2024' of date is not of type date"),
        ({"date": "2024-01-01", "hour": "late"}, "'late' of hour is not of type integer"),
    ],
)
def test_partition_values_must_match_the_table(log, refused, values, reason):
    bad = {"path": "a", "size": 1, "partitionValues": values}
    assert reason in refused(lambda: log.add_files([bad]))


@pytest.mark.parametrize(
    ("actions", "twice"),
    [
        ([{"add": ADD}, {"add": ADD}], "add a"),
        ([{"remove": {"path": "a", "dataChange": True}}, {"add": ADD}], "add a"),
        ([{"txn": {"appId": "x", "version": v}} for v in (1, 2)], "txn x"),
        (
            [{"protocol": {"minReaderVersion": 2, "minWriterVersion": 2}}] * 2,
            "protocol",
        ),
    ],
)
def test_a_key_has_one_action_a_commit(log, refused, actions, twice):
    if "protocol" in actions[0] and log.directory.log_format.name == "delta":
        actions = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}] * 2
    assert f"speaks twice of {twice}" in refused(lambda: log.commit(actions))


def test_an_action_has_one_kind(log, refused):
    both = {"add": ADD, "remove": {"path": "b", "dataChange": True}}
    assert "must have one kind, not 2" in refused(lambda: log.commit([both]))
    assert "must have one kind, not 0" in refused(lambda: log.commit([{}]))


@pytest.mark.parametrize("kind", ["commitInfo", "sidecar", "cdc", "upsert", "checkpointMetadata"])
def test_an_unknown_action_is_refused_by_name(log, refused, kind):
    said = refused(lambda: log.commit([{kind: {"path": "x"}}]), UnsupportedActionError)
    assert f"takes no {kind}; it takes add, remove" in said


def test_delta_has_no_skips_and_indextables_no_domains(log, refused, log_format):
    skip = {"path": "a", "skipTimestamp": 1, "reason": "", "operation": "", "skipCount": 1}
    domain = {"domain": "d", "configuration": "", "removed": False}
    kind, value = {
        "delta": ("mergeskip", skip),
        "indextables": ("domainMetadata", domain),
    }[log_format]
    assert f"takes no {kind}" in refused(
        lambda: log.commit([{kind: value}]), UnsupportedActionError
    )


def test_a_file_to_remove_must_be_live(log, refused):
    log.add_files([file("a")])
    said = refused(lambda: log.remove_files(["a", "b"]))
    assert "b is not a live file of version 1" in said


def test_replaced_files_must_be_where_they_say(log, refused):
    said = refused(lambda: log.replace_where("hour = 4", [file("a", hour="3")]))
    assert "a is not in what is replaced, 'hour = 4'" in said
    refused(lambda: log.replace_where("id = 4", []), PredicateError)


def test_an_append_only_table_loses_no_file(tmp_path):
    log = new_table(tmp_path / "events", configuration={"delta.appendOnly": "true"})
    log.add_files([file("a")])
    before = content(log)
    remove = {"path": "a", "dataChange": True}
    for call in (
        lambda: log.remove_files(["a"]),
        lambda: log.overwrite_files([]),
        lambda: log.replace_where("hour = 3", []),
        lambda: log.commit([{"remove": remove}]),
    ):
        with pytest.raises(AppendOnlyError, match="append-only"):
            call()
    assert content(log) == before
    log.commit([{"remove": {**remove, "dataChange": False}}, {"add": {**ADD, "path": "b"}}])


def test_a_table_property_must_be_text(log, refused):
    said = refused(lambda: log.update_metadata(configuration={"a": 1}))
    assert "metaData.configuration.a is not" in said or "property a is not text" in said


# --- schemas -----------------------------------------------------------------------------------


def changed(edit):
    schema = copy.deepcopy(SCHEMA)
    edit(schema["fields"])
    return schema


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda f: f.pop(0), "the column id would go"),
        (lambda f: f[0].update(type="string"), "id would change from long to string"),
        (lambda f: f[0].update(nullable=False), "id would no longer be nullable"),
        (lambda f: f.append({"name": "x", "type": "long", "nullable": False}), "must be nullable"),
        (lambda f: f.append({"name": "ID", "type": "long"}), "the column ID twice"),
        (lambda f: f.append({"name": "x"}), "no name or no type"),
    ],
)
def test_a_schema_may_not_break_older_files(log, refused, edit, reason):
    schema = changed(edit)
    assert reason in refused(lambda: log.update_metadata(schema=schema), SchemaChangeError)


@pytest.mark.parametrize("schema", ["{", "[]", '{"type":"struct"}', {"type": "long"}, 7])
def test_a_schema_must_be_one(log, refused, schema):
    assert "schema" in refused(lambda: log.update_metadata(schema=schema), SchemaChangeError)


def test_a_schema_never_changes_on_the_side(log, refused):
    import json

    wider = changed(lambda f: f.append({"name": "x", "type": "long"}))
    metadata = {**log.head().metadata, "schemaString": json.dumps(wider)}
    said = refused(lambda: log.commit([{"metaData": metadata}]), SchemaChangeError)
    assert "change a schema with update_metadata" in said
    metadata = {**log.head().metadata, "partitionColumns": ["date"]}
    said = refused(lambda: log.commit([{"metaData": metadata}]), SchemaChangeError)
    assert "other partition columns" in said
    metadata = {**log.head().metadata, "id": "another"}
    assert "another id" in refused(lambda: log.commit([{"metaData": metadata}]))


@pytest.mark.parametrize(
    ("schema", "columns", "reason"),
    [
        (SCHEMA, ["day"], "partition column day is not in the schema; it has id, date, hour"),
        (SCHEMA, ["date", "date"], "named twice"),
        (SCHEMA, ["id", "date", "hour"], "every column is a partition column"),
        (pa.schema([("a", pa.list_(pa.int8())), ("b", pa.int8())]), ["a"], "a is nested"),
        (pa.schema([("a", pa.uint64())]), [], "a is of type uint64"),
        ("nonsense", [], "the schema is not JSON"),
    ],
)
def test_a_new_table_must_be_possible(tmp_path, log_format, schema, columns, reason):
    where = str(tmp_path / "new")
    with pytest.raises(InvalidCommitError, match=reason):
        create_log(where, schema, columns, log_format=log_format)
    with pytest.raises(LogNotFoundError):
        open_log(where).snapshot()
    assert not (tmp_path / "new").exists()


# --- protocols ---------------------------------------------------------------------------------

MARKS = {
    "invariants": {"delta.invariants": "{}"},
    "generatedColumns": {"delta.generationExpression": "id + 1"},
    "identityColumns": {"delta.identity.start": 1},
    "allowColumnDefaults": {"CURRENT_DEFAULT": "7"},
}
PROPERTIES = {
    "rowTracking": {"delta.enableRowTracking": "TRUE"},
    "checkConstraints": {"delta.constraints.positive": "id > 0"},
    "columnMapping": {"delta.columnMapping.mode": "name"},
    "icebergCompatV2": {"delta.enableIcebergCompatV2": "true"},
    "typeWidening": {"delta.enableTypeWidening": "true"},
}


def foreign(tmp_path, *actions):
    """A Delta table that another engine made."""
    builder = LogBuilder(tmp_path / "foreign")
    builder.commit(*actions)
    return open_log(str(tmp_path / "foreign"))


def assert_unwritable(log, feature):
    before = content(log)
    assert log.snapshot().version == 0, "it can be read"
    with pytest.raises(UnsupportedWriterError, match=feature) as raised:
        log.add_files([{"path": "a", "size": 1}])
    assert raised.value.code == "UNSUPPORTED_WRITER"
    assert content(log) == before


@pytest.mark.parametrize("feature", MARKS)
@pytest.mark.parametrize("nested", [False, True])
def test_a_column_that_asks_more_of_a_writer_is_refused_by_name(tmp_path, feature, nested):
    import json

    column = {"name": "x", "type": "long", "nullable": True, "metadata": MARKS[feature]}
    if nested:
        inner = {"type": "struct", "fields": [column]}
        array = {"type": "array", "elementType": inner, "containsNull": True}
        column = {"name": "s", "type": array, "nullable": True, "metadata": {}}
    schema = json.dumps({"type": "struct", "fields": [column]})
    assert_unwritable(foreign(tmp_path, protocol(1, 6), metadata(schemaString=schema)), feature)


@pytest.mark.parametrize("feature", PROPERTIES)
def test_a_property_that_asks_more_of_a_writer_is_refused_by_name(tmp_path, feature):
    assert_unwritable(
        foreign(tmp_path, protocol(1, 6), metadata(configuration=PROPERTIES[feature])), feature
    )
    with pytest.raises(UnsupportedWriterError, match=feature):
        new_table(tmp_path / "new", configuration=PROPERTIES[feature])


@pytest.mark.parametrize("feature", ["rowTracking", "clustering", "icebergCompatV1", "nonsense"])
def test_a_listed_feature_that_we_do_not_write_is_refused_by_name(tmp_path, feature):
    listed = protocol(1, 7, writerFeatures=["appendOnly", feature])
    assert_unwritable(foreign(tmp_path, listed, metadata()), feature)


def test_a_writer_version_from_the_future_is_refused(tmp_path):
    assert_unwritable(foreign(tmp_path, protocol(1, 8), metadata()), "writer version 8")


@pytest.mark.parametrize("version", range(1, 7))
def test_older_writer_versions_are_written_where_nothing_of_them_is_used(tmp_path, version):
    log = foreign(tmp_path, protocol(1, version), metadata())
    assert log.add_files([{"path": "a", "size": 1}]).version == 1


def test_a_protocol_is_not_raised_beyond_what_we_write(delta):
    before = content(delta)
    with pytest.raises(UnsupportedWriterError, match="rowTracking"):
        delta.upgrade_protocol(1, 7, writer_features=["rowTracking"])
    with pytest.raises(UnsupportedFeatureError, match="nonsense"):
        delta.upgrade_protocol(3, 7, reader_features=["nonsense"], writer_features=["nonsense"])
    assert content(delta) == before


def test_the_clock_of_a_table_is_set_when_it_is_created(delta):
    with pytest.raises(InvalidCommitError, match="only be set when a table is created"):
        delta.update_metadata(configuration={"delta.enableInCommitTimestamps": "true"})


def test_every_refusal_has_a_code(log):
    codes = set()
    for call in (
        lambda: log.add_files([file("/x")]),
        lambda: log.commit([{"x": {}}]),
        lambda: log.update_metadata(schema="{"),
    ):
        with pytest.raises(ReplayError) as raised:
            call()
        codes.add(raised.value.code)
    assert codes == {"INVALID_COMMIT", "UNSUPPORTED_ACTION", "SCHEMA_CHANGE"}
