"""Which rows a checkpoint holds: types, what is left out, what is written as columns."""

from __future__ import annotations

import pickle
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pytest

from engine.actions import conform, kinds
from engine.config import Config
from engine.errors import CheckpointWriteError, ConfigError
from engine.formats import DELTA, INDEXTABLES
from engine.upkeep.checkpoint.parsed import (
    parse_partitions,
    parse_stats,
    partition_type,
    stats_type,
)
from engine.upkeep.checkpoint.parts import part_numbers, spark_hashes
from engine.upkeep.checkpoint.rows import Few, content_of_rows, few_rows, to_lines, to_rows
from engine.upkeep.checkpoint.shape import CheckpointPlan, Shape, plan_checkpoint

if TYPE_CHECKING:
    from engine.replay.content import Content

WEEK_MS = 7 * 24 * 3600 * 1000
NOW = 100 * WEEK_MS
PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
V2 = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["v2Checkpoint"],
    "writerFeatures": ["v2Checkpoint"],
}


def column(name: str, kind: Any, **marks: str) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": marks}


def schema(*fields: dict[str, Any]) -> str:
    return orjson.dumps({"type": "struct", "fields": list(fields)}).decode()


def metadata(
    *fields: dict[str, Any], by: tuple[str, ...] = (), **properties: str
) -> dict[str, Any]:
    configuration = {name.replace("_", "."): value for name, value in properties.items()}
    return {
        "id": "t",
        "schemaString": schema(*fields),
        "partitionColumns": list(by),
        "configuration": configuration,
    }


def plan(log_format=DELTA, about=None, protocol=PROTOCOL, shape=None, **options) -> CheckpointPlan:
    found = plan_checkpoint(
        3,
        protocol,
        about or metadata(column("a", "long")),
        log_format,
        Config(options={key.replace("_", "."): value for key, value in options.items()}),
        now_ms=NOW,
        shape=shape,
    )
    copy: CheckpointPlan = pickle.loads(pickle.dumps(found))
    assert copy == found
    return copy


def actions(kind: str, *values: dict[str, Any], log_format=DELTA) -> pa.StructArray:
    return pa.array(list(values), kinds(log_format)[kind])


STRUCT = {"delta_checkpoint_writeStatsAsStruct": "true"}


def test_an_add_in_a_checkpoint_changes_no_data_and_keeps_every_other_field() -> None:
    add = {
        "path": "p",
        "partitionValues": [("b", "1")],
        "size": 5,
        "modificationTime": 6,
        "dataChange": True,
        "stats": '{"numRecords":1}',
        "tags": [("t", None)],
        "deletionVector": {
            "storageType": "u",
            "pathOrInlineDv": "x",
            "offset": 1,
            "sizeInBytes": 2,
            "cardinality": 3,
        },
        "baseRowId": 7,
        "defaultRowCommitVersion": 8,
        "clusteringProvider": "liquid",
    }
    rows = to_rows("add", actions("add", add), plan())
    assert rows.to_pylist() == [{"add": {**add, "dataChange": False}, "remove": None}]
    vector = rows.schema.field("add").type.field("deletionVector").type
    assert [vector.field(n).type for n in ("offset", "sizeInBytes")] == [pa.int32()] * 2


def test_a_blank_deletion_vector_is_none() -> None:
    blank = {"storageType": "", "pathOrInlineDv": "", "offset": None}
    rows = to_rows("add", actions("add", {"path": "p", "deletionVector": blank}), plan())
    assert rows.column("add").to_pylist()[0]["deletionVector"] is None


def test_a_number_that_does_not_fit_is_refused() -> None:
    vector = {"storageType": "u", "pathOrInlineDv": "x", "offset": 2**40}
    with pytest.raises(CheckpointWriteError, match="does not fit"):
        to_rows("add", actions("add", {"path": "p", "deletionVector": vector}), plan())


def test_a_remove_loses_statistics_and_tags_and_goes_when_its_time_is_over() -> None:
    cutoff = NOW - WEEK_MS
    removes = [
        {"path": "kept", "deletionTimestamp": cutoff + 1, "stats": "{}", "tags": [("a", "b")]},
        {"path": "at the edge", "deletionTimestamp": cutoff},
        {"path": "timeless", "deletionTimestamp": None},
    ]
    rows = to_rows("remove", actions("remove", *removes), plan())
    assert [row["path"] for row in rows.column("remove").to_pylist()] == ["kept"]
    names = {field.name for field in rows.schema.field("remove").type}
    assert not names & {"stats", "tags"}
    short = metadata(column("a", "long"), delta_deletedFileRetentionDuration="interval 2 weeks")
    assert to_rows("remove", actions("remove", *removes), plan(about=short)).num_rows == 2


def test_json_checkpoints_of_indextables_hold_no_removes() -> None:
    removed = actions("remove", {"path": "p", "deletionTimestamp": NOW}, log_format=INDEXTABLES)
    assert to_rows("remove", removed, plan(INDEXTABLES)).num_rows == 1
    assert to_rows("remove", removed, plan(INDEXTABLES, shape=Shape.JSON)).num_rows == 0


def test_txns_domains_and_skips_that_are_over_are_left_out() -> None:
    about = metadata(column("a", "long"), delta_setTransactionRetentionDuration="interval 1 week")
    few = Few(
        {**PROTOCOL, "readerFeatures": []},
        about,
        [
            {"appId": "new", "version": 1, "lastUpdated": NOW},
            {"appId": "old", "version": 1, "lastUpdated": NOW - WEEK_MS},
            {"appId": "timeless", "version": 1},
        ],
        [{"domain": "d", "configuration": "", "removed": False}, {"domain": "e", "removed": True}],
        [{"path": "p", "retryAfter": NOW + 1}, {"path": "q", "retryAfter": NOW}],
    )
    rows = few_rows(few, plan(about=about))
    assert [row["txn"]["appId"] for row in rows.to_pylist() if row["txn"]] == ["new", "timeless"]
    assert [r["domainMetadata"]["domain"] for r in rows.to_pylist() if r["domainMetadata"]] == ["d"]
    assert len([t for t in few_rows(few, plan()).column("txn").to_pylist() if t]) == 3
    ours = few_rows(few, plan(INDEXTABLES, about))
    assert [row["mergeskip"]["path"] for row in ours.to_pylist() if row["mergeskip"]] == ["p"]


def test_features_are_listed_from_the_version_on_that_has_them() -> None:
    def written(protocol: dict[str, Any]) -> dict[str, Any]:
        rows = few_rows(Few(protocol, metadata(column("a", "long"))), plan())
        return next(row for row in rows.column("protocol").to_pylist() if row)

    assert written({**PROTOCOL, "readerFeatures": []})["readerFeatures"] is None
    assert written(V2)["readerFeatures"] == ["v2Checkpoint"]
    assert written({"minReaderVersion": 3, "minWriterVersion": 7})["writerFeatures"] == []


def test_statistics_become_columns_of_the_physical_names_and_types() -> None:
    inner = {"type": "struct", "fields": [column("q", "decimal(10,2)")]}
    about = metadata(
        column("a", "integer", **{"delta.columnMapping.physicalName": "col-1"}),
        column("d", "date"),
        column("t", "timestamp"),
        column("n", "timestamp_ntz"),
        column("f", "boolean"),
        column("s", inner),
        column("l", {"type": "array", "elementType": "string", "containsNull": True}),
        column("p", "short"),
        by=("p",),
        **STRUCT,
    )
    stats = {
        "numRecords": 2,
        "minValues": {
            "col-1": 1,
            "d": "2024-01-02",
            "t": "2024-01-02T03:04:05.006Z",
            "n": "2024-01-02T03:04:05.006",
            "s": {"q": 1.25},
        },
        "nullCount": {"col-1": 0, "f": 1, "l": 2, "s": {"q": 0}},
    }
    add = {"path": "x", "partitionValues": [("p", "3")], "stats": orjson.dumps(stats).decode()}
    rows = to_rows("add", actions("add", add, {"path": "y"}), plan(about=about))
    found, none = rows.column("add").to_pylist()
    moment = datetime(2024, 1, 2, 3, 4, 5, 6000)
    assert found["partitionValues_parsed"] == {"p": 3}
    assert found["stats"] == add["stats"]
    assert none["stats_parsed"] is None
    low = found["stats_parsed"]["minValues"]
    assert low["t"] == moment.replace(tzinfo=timezone.utc)
    assert (low["col-1"], low["d"], low["n"]) == (1, date(2024, 1, 2), moment)
    assert low["s"] == {"q": Decimal("1.25")}
    assert found["stats_parsed"]["nullCount"]["l"] == 2
    assert "f" not in low
    assert "p" not in low
    names = {field.name for field in rows.schema.field("add").type}
    both = plan(
        about={
            **about,
            "configuration": {
                "delta.checkpoint.writeStatsAsStruct": "true",
                "delta.checkpoint.writeStatsAsJson": "false",
            },
        }
    )
    assert names - {field.name for field in both.schema.field("add").type} == {"stats"}


def test_statistics_of_a_type_unknown_to_us_stay_text() -> None:
    about = metadata(
        column("v", "variant"),
        delta_checkpoint_writeStatsAsJson="false",
        **STRUCT,
    )
    names = {field.name for field in plan(about=about).schema.field("add").type}
    assert "stats" in names
    assert "stats_parsed" not in names


@pytest.mark.parametrize(
    "text", [None, "", "{", "[]", '{"numRecords":"x"}', '{"numRecords":1.5}', '"text"', "{}\n{}"]
)
def test_statistics_that_are_none_do_no_harm(text: str | None) -> None:
    wanted = stats_type(schema(column("a", "long")), (), -1)
    good = '{"numRecords":3,"maxValues":{"a":9}}'
    found = parse_stats(pa.array([good, text, good]), wanted).to_pylist()
    assert [found[0]["numRecords"], found[2]["maxValues"]] == [3, {"a": 9}]
    assert (found[1] or {}).get("numRecords") is None


def test_only_the_leading_columns_are_indexed() -> None:
    text = schema(column("a", "long"), column("b", "long"), column("c", "long"))
    assert [f.name for f in stats_type(text, (), 2).field("minValues").type] == ["a", "b"]
    assert [f.name for f in stats_type(text, (), 0)] == ["numRecords", "tightBounds"]


def test_a_partition_value_that_is_not_of_its_type_is_null() -> None:
    kinds_and_texts = {"integer": "x", "date": "2024-13-01", "boolean": "maybe", "string": ""}
    text = schema(*(column(kind, kind) for kind in kinds_and_texts))
    wanted = partition_type(text, tuple(kinds_and_texts))
    maps = pa.array([list(kinds_and_texts.items())], pa.map_(pa.string(), pa.string()))
    assert parse_partitions(maps, wanted).to_pylist() == [dict.fromkeys(kinds_and_texts)]


def test_indextables_statistics_are_cut_in_a_checkpoint() -> None:
    long = "x" * 50
    add = actions("add", {"path": "p", "minValues": [("s", long)]}, log_format=INDEXTABLES)
    about = metadata(column("s", "string"))
    found = to_rows("add", add, plan(INDEXTABLES, about)).column("add").to_pylist()[0]
    assert found["minValues"] == [("s", long[:32])]
    off = {"spark_indextables_stats_truncation_enabled": "false"}
    found = to_rows("add", add, plan(INDEXTABLES, about, **off)).column("add").to_pylist()[0]
    assert found["minValues"] == [("s", long)]


def test_rows_as_lines_are_actions_again() -> None:
    add = {"path": "p", "size": 1, "splitTags": ["a"], "dataChange": True}
    whole = conform(actions("add", add, log_format=INDEXTABLES), kinds(INDEXTABLES)["add"])
    lines = to_lines(to_rows("add", whole, plan(INDEXTABLES, shape=Shape.JSON)))
    assert [orjson.loads(line) for line in lines.to_pylist()] == [{"add": add}]


def test_the_content_of_rows_tells_typed_columns_apart() -> None:
    about = metadata(
        column("f", "float"), column("d", "decimal(5,1)"), column("t", "date"), **STRUCT
    )

    def content(low: dict[str, Any]) -> Content:
        stats = orjson.dumps({"minValues": low}).decode()
        columns = actions("add", {"path": "p", "stats": stats})
        rows = to_rows(
            "add",
            columns,
            plan(
                about={
                    **about,
                    "configuration": {
                        **about["configuration"],
                        "delta.checkpoint.writeStatsAsJson": "false",
                    },
                }
            ),
        )
        return content_of_rows(rows)

    low = {"f": 1.5, "d": 1.5, "t": "2024-01-01"}
    assert content(low) == content(dict(low))
    for other in ({"f": 1.25}, {"d": 2.5}, {"t": "2024-01-02"}):
        assert content(low) != content({**low, **other})


def test_shapes_follow_policy_features_and_settings() -> None:
    v2 = metadata(column("a", "long"), delta_checkpointPolicy="v2")
    assert plan().shape is Shape.CLASSIC
    assert plan(about=v2).shape is Shape.CLASSIC  # the feature is not there
    assert plan(about=v2, protocol=V2).shape is Shape.V2_PARQUET
    key = {"spark_databricks_delta_checkpointV2_topLevelFileFormat": "json"}
    assert plan(about=v2, protocol=V2, **key).shape is Shape.V2_JSON
    assert plan(spark_databricks_delta_checkpoint_partSize=7).max_rows == 7
    assert plan(protocol=V2, spark_databricks_delta_checkpoint_partSize=7).max_rows == 0
    assert plan(INDEXTABLES).max_bytes == 128 * 1024**2
    assert plan(INDEXTABLES, spark_indextables_checkpoint_format="json").shape is Shape.JSON


@pytest.mark.parametrize(
    ("log_format", "protocol", "shape"),
    [
        (DELTA, PROTOCOL, Shape.V2_JSON),
        (DELTA, V2, Shape.MULTI_PART),
        (DELTA, PROTOCOL, Shape.JSON),
        (INDEXTABLES, PROTOCOL, Shape.V2_JSON),
    ],
)
def test_a_shape_that_the_table_cannot_have_is_refused(log_format, protocol, shape) -> None:
    with pytest.raises(ConfigError, match="shape"):
        plan(log_format, protocol=protocol, shape=shape)


def test_files_go_to_the_part_that_spark_would_put_them_in() -> None:
    # What `SELECT hash(x)` says in Spark.
    texts = pa.array(["", "a", "abcd", "Spark SQL", "ü"])
    assert spark_hashes(texts)[:2].tolist() == [142593372, 1485273170]
    assert spark_hashes(texts.slice(1, 3)).tolist() == spark_hashes(texts)[1:4].tolist()
    assert set(part_numbers(texts, 3)) <= {0, 1, 2}
