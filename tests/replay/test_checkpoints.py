"""Checkpoints as others write them: schemas with surprises, and rows that break the rules."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine import ReplayError, open_log
from tests.logs import COLUMNS, LogBuilder, Shape, add, metadata, protocol, remove, vector
from tests.observe import assert_same, observed, rows


@pytest.fixture(params=["local", "reference"])
def engine(request) -> str:
    return request.param


@pytest.fixture
def log(tmp_path) -> LogBuilder:
    """A log that consists of its checkpoint: nothing can stand in for it."""
    log = LogBuilder(tmp_path)
    log.commit(
        protocol(3, 7, readerFeatures=["deletionVectors"], writerFeatures=["deletionVectors"]),
        metadata("p", configuration={"k": "v"}),
        add("a", partitionValues={"p": "1"}, tags={"t": "u"}, stats='{"numRecords":1}'),
        add("b", partitionValues={"p": None}, deletionVector=vector("dv")),
        remove("c", partitionValues={"p": ""}, deletionVector=vector("dv", None)),
        {"txn": {"appId": "app", "version": 3, "lastUpdated": 4}},
        {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
    )
    log.checkpoint(0)
    log.clean_up(1)
    return log


def rewrite(log: LogBuilder, change, **options) -> None:
    path = log.file(f"{0:020d}.checkpoint.parquet")
    pq.write_table(change(pq.read_table(path)), path, **options)


def with_type(kind: str, change):
    """Return a rewrite that gives one action's column another type."""

    def apply(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index(kind)
        wanted = change(table.schema.field(kind).type)
        return table.set_column(at, pa.field(kind, wanted), table[kind].cast(wanted))

    return apply


def fields(struct: pa.StructType, **changed: pa.DataType) -> pa.StructType:
    return pa.struct([pa.field(f.name, changed.get(f.name, f.type)) for f in struct])


LARGE_MAP = pa.map_(pa.large_string(), pa.large_string())
NAMED_MAP = pa.map_(pa.field("k", pa.string(), nullable=False), pa.field("v", pa.string()))
VECTOR = COLUMNS["delta"]["add"].field("deletionVector").type
LONG_VECTOR = pa.struct([(f.name, pa.int64() if f.type == pa.int32() else f.type) for f in VECTOR])


@pytest.mark.parametrize(
    "change",
    [
        with_type("add", lambda t: fields(t, path=pa.large_string(), stats=pa.large_string())),
        with_type("add", lambda t: fields(t, partitionValues=LARGE_MAP, tags=LARGE_MAP)),
        with_type("add", lambda t: fields(t, partitionValues=NAMED_MAP)),
        with_type("add", lambda t: fields(t, size=pa.int32(), modificationTime=pa.int64())),
        with_type("add", lambda t: fields(t, deletionVector=LONG_VECTOR)),
        with_type("protocol", lambda t: fields(t, minReaderVersion=pa.int64())),
        with_type("metaData", lambda t: fields(t, partitionColumns=pa.large_list(pa.string()))),
        lambda table: table.append_column("zzz", pa.array([{"x": 1}] * len(table))),
        lambda table: table.append_column("cdc", pa.array([None] * len(table), pa.null())),
        lambda table: table.select(sorted(table.column_names)),
        lambda table: table.take(list(reversed(range(len(table))))),
    ],
    ids=[
        "large strings",
        "large maps",
        "maps with other names inside",
        "short numbers",
        "long numbers in vectors",
        "long versions",
        "large lists",
        "an unknown action",
        "an action of nulls",
        "columns in another order",
        "rows in another order",
    ],
)
def test_a_schema_with_surprises_says_the_same(log: LogBuilder, engine: str, change) -> None:
    rewrite(log, change)
    assert_same(observed(open_log(str(log.root)).snapshot(engine=engine)), log.truth())


@pytest.mark.parametrize(
    "options",
    [
        {"row_group_size": 1},
        {"compression": "zstd"},
        {"compression": "gzip"},
        {"compression": "none", "use_dictionary": False},
        {"data_page_version": "2.0"},
        {"version": "1.0"},
        {"store_schema": False},
        {"write_page_checksum": True},
        {"use_compliant_nested_type": False},
    ],
    ids=str,
)
def test_any_way_to_write_parquet_is_read(log: LogBuilder, engine: str, options) -> None:
    rewrite(log, lambda table: table, **options)
    assert_same(observed(open_log(str(log.root)).snapshot(engine=engine)), log.truth())


def test_a_dictionary_column_is_text(log: LogBuilder, engine: str) -> None:
    def change(table: pa.Table) -> pa.Table:
        column = table["txn"].combine_chunks()
        encoded = pa.StructArray.from_arrays(
            [column.field("appId").dictionary_encode(), column.field("version")],
            names=["appId", "version"],
            mask=column.is_null(),
        )
        return table.set_column(table.schema.get_field_index("txn"), "txn", encoded)

    rewrite(log, change)
    assert open_log(str(log.root)).snapshot(engine=engine).txns == {"app": 3}


def test_missing_columns_and_fields_are_null(log: LogBuilder, engine: str) -> None:
    def change(table: pa.Table) -> pa.Table:
        narrow = table.select(["add", "metaData", "protocol"]).to_pylist(maps_as_pydicts="strict")
        thin = [r["add"] and {"path": r["add"]["path"], "size": r["add"]["size"]} for r in narrow]
        return table.select(["metaData", "protocol"]).append_column("add", pa.array(thin))

    rewrite(log, change)
    snapshot = open_log(str(log.root)).snapshot(engine=engine)
    found = rows(snapshot.files())
    assert [(f["path"], f["size"], f["partitionValues"], f["dvId"]) for f in found] == [
        ("a", 100, None, None),
        ("b", 100, None, None),
    ]
    assert (snapshot.txns, snapshot.tombstones().num_rows) == ({}, 0)


def test_required_fields_are_read_as_others(log: LogBuilder, engine: str) -> None:
    def change(table: pa.Table) -> pa.Table:
        required = {"appId", "version"}
        old = table.schema.field("txn").type
        strict = pa.struct([pa.field(f.name, f.type, f.name not in required) for f in old])
        at = table.schema.get_field_index("txn")
        column = pa.array(table["txn"].to_pylist(), strict)
        return table.set_column(at, pa.field("txn", strict), column)

    rewrite(log, change)
    assert_same(observed(open_log(str(log.root)).snapshot(engine=engine)), log.truth())


def test_a_vector_of_blanks_is_none(log: LogBuilder, engine: str) -> None:
    def change(table: pa.Table) -> pa.Table:
        found = table.to_pylist()
        for row in found:
            if row["add"] and row["add"]["path"] == "a":
                row["add"]["deletionVector"] = {"storageType": "", "pathOrInlineDv": ""}
        return pa.Table.from_pylist(found, table.schema)

    rewrite(log, change)
    found = open_log(str(log.root)).snapshot(engine=engine).files()
    assert sorted(zip(found["path"].to_pylist(), found["dvId"].to_pylist(), strict=True)) == [
        ("a", None),
        ("b", "udv@1"),
    ]


# --- statistics kept as a struct ---------------------------------------------------------------

UTC = timezone.utc
ODD = {"a.b": 1, '"': "x"}
VALUES = {
    "long": (pa.int64(), -5, -5),
    "short": (pa.int16(), 7, 7),
    "flag": (pa.bool_(), True, True),
    "double": (pa.float64(), 1.5, 1.5),
    "whole double": (pa.float64(), 3.0, 3),
    "tiny": (pa.float64(), 1e-9, 1e-9),
    "huge": (pa.float64(), 1e300, 1e300),
    "float": (pa.float32(), 0.25, 0.25),
    "nan": (pa.float64(), float("nan"), "NaN"),
    "inf": (pa.float64(), float("inf"), "Infinity"),
    "minus inf": (pa.float32(), float("-inf"), "-Infinity"),
    "decimal": (pa.decimal128(20, 3), Decimal("12345678901234567.125"), 12345678901234567.125),
    "text": (pa.string(), 'a"b\\c\n\u0001ü\U0001f600', 'a"b\\c\n\u0001ü\U0001f600'),
    "large text": (pa.large_string(), "x", "x"),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), "x", "x"),
    "date": (pa.date32(), date(1969, 12, 31), "1969-12-31"),
    "zoned": (
        pa.timestamp("us", "UTC"),
        datetime(2024, 1, 2, 3, 4, 5, 678_901, UTC),
        "2024-01-02T03:04:05.678Z",
    ),
    "before 1970": (
        pa.timestamp("us", "UTC"),
        datetime(1969, 12, 31, 23, 59, 59, 999_001, UTC),
        "1969-12-31T23:59:59.999Z",
    ),
    "naive": (pa.timestamp("us"), datetime(2024, 1, 2), "2024-01-02T00:00:00.000"),
    "nanoseconds": (pa.timestamp("ns"), datetime(2024, 1, 2), "2024-01-02T00:00:00.000"),
    "struct": (pa.struct({"a.b": pa.int64(), '"': pa.string()}), ODD, ODD),
    ".dotted": (pa.int64(), 9, 9),
    "[0]": (pa.int64(), 8, 8),
    "null": (pa.int64(), None, None),
}  # fmt: skip


def test_statistics_kept_as_a_struct_become_the_same_json(log: LogBuilder, engine: str) -> None:
    values = pa.struct({name: kind for name, (kind, _, _) in VALUES.items()})
    parsed = pa.struct(
        {
            "numRecords": pa.int64(),
            "minValues": values,
            "nullCount": pa.struct({"long": pa.int64()}),
            "tightBounds": pa.bool_(),
        }
    )
    content = {
        "numRecords": 3,
        "minValues": {name: value for name, (_, value, _) in VALUES.items()},
        "nullCount": {"long": 1},
    }

    def change(table: pa.Table) -> pa.Table:
        narrow = pa.struct({"path": pa.string(), "stats_parsed": parsed})
        found = [
            row and {"path": row["path"], "stats_parsed": content if row["path"] == "a" else None}
            for row in table["add"].to_pylist()
        ]
        return table.drop_columns("add").append_column("add", pa.array(found, narrow))

    rewrite(log, change)
    snapshot = open_log(str(log.root)).snapshot(engine=engine)
    stats = {row["path"]: row["stats"] for row in rows(snapshot.files())}
    assert stats["b"] is None
    assert json.loads(stats["a"]) == {
        "numRecords": 3,
        "minValues": {name: wire for name, (_, _, wire) in VALUES.items() if wire is not None},
        "nullCount": {"long": 1},
    }
    assert snapshot.totals().num_records is None


def test_statistics_in_both_forms_are_taken_as_text(log: LogBuilder, engine: str) -> None:
    def change(table: pa.Table) -> pa.Table:
        found = [
            row and {"path": row["path"], "stats": "{}", "stats_parsed": {"numRecords": 9}}
            for row in table["add"].to_pylist()
        ]
        return table.drop_columns("add").append_column("add", pa.array(found))

    rewrite(log, change)
    found = rows(open_log(str(log.root)).snapshot(engine=engine).files())
    assert {row["stats"] for row in found} == {"{}"}


@pytest.mark.parametrize("told", [{}, {"b": None}], ids=str)
@pytest.mark.parametrize("options", [{}, {"write_statistics": False}], ids=str)
@pytest.mark.parametrize("kind", [pa.string(), pa.null()], ids=str)
def test_statistics_as_a_struct_count_where_there_is_no_text(
    log: LogBuilder, engine: str, kind: pa.DataType, options, told
) -> None:
    texts = {} if kind == pa.null() else {"a": '{"numRecords":1}'}
    parsed = pa.struct({"numRecords": pa.int64(), "tightBounds": pa.bool_()})
    narrow = pa.struct({"path": pa.string(), "stats": kind, "stats_parsed": parsed})

    def change(table: pa.Table) -> pa.Table:
        found = [
            row
            and {
                "path": row["path"],
                "stats": texts.get(row["path"]),
                "stats_parsed": {"numRecords": told.get(row["path"], 9)},
            }
            for row in table["add"].to_pylist()
        ]
        return table.drop_columns("add").append_column("add", pa.array(found, narrow))

    rewrite(log, change, **options)
    snapshot = open_log(str(log.root)).snapshot(engine=engine)
    stats = {row["path"]: row["stats"] for row in rows(snapshot.files())}
    nine = '{"numRecords":9}'
    assert stats == {"a": nine, "b": None if told else nine, **texts}
    assert snapshot.totals().num_records == (None if told else 10 if texts else 18)


# --- rows that break the rules -----------------------------------------------------------------


@pytest.mark.parametrize(
    "actions",
    [
        [{"add": {"path": None, "size": 1}}],
        [{"add": {"path": "", "size": 1}}],
        [{"remove": {"path": None}}],
        [{"txn": {"appId": None, "version": 1}}],
        [{"domainMetadata": {"domain": None, "removed": False}}],
        [{"protocol": {"minReaderVersion": 3, "readerFeatures": [None]}}],
    ],
    ids=str,
)
def test_a_row_that_speaks_of_nothing_is_refused(log: LogBuilder, engine: str, actions) -> None:
    def change(table: pa.Table) -> pa.Table:
        return pa.concat_tables([table, pa.Table.from_pylist(actions, table.schema)])

    rewrite(log, change)
    assert refusal(log, engine).code == "CORRUPT_CHECKPOINT"


def test_a_name_may_be_empty(log: LogBuilder, engine: str) -> None:
    actions = [{"txn": {"appId": "", "version": 1}}, {"domainMetadata": {"domain": ""}}]
    rewrite(log, lambda t: pa.concat_tables([t, pa.Table.from_pylist(actions, t.schema)]))
    found = open_log(str(log.root)).snapshot(engine=engine)
    assert found.txns == {"": 1, "app": 3}
    assert found.domains == {"": None, "d": "{}"}


@pytest.mark.parametrize("kind", ["add", "metaData", "protocol", "txn"])
@pytest.mark.parametrize("wrong", [pa.array(["x"]), pa.array([1]), pa.array([["x"]])], ids=str)
def test_a_column_that_is_no_struct_is_refused(log: LogBuilder, engine, kind: str, wrong) -> None:
    def change(table: pa.Table) -> pa.Table:
        return table.drop_columns(kind).append_column(kind, pa.concat_arrays([wrong] * len(table)))

    rewrite(log, change)
    assert refusal(log, engine).code == "CORRUPT_CHECKPOINT"


@pytest.mark.parametrize(
    "wrong",
    [
        pa.struct({"size": pa.int64()}),
        pa.struct({"path": pa.string(), "size": pa.list_(pa.int64())}),
        pa.struct({"path": pa.string(), "partitionValues": pa.string()}),
        pa.struct({"path": pa.string(), "deletionVector": pa.string()}),
    ],
    ids=str,
)
def test_a_field_of_a_wrong_type_is_refused(log: LogBuilder, engine: str, wrong) -> None:
    one = {pa.int64(): 1, pa.string(): "x"}

    def change(table: pa.Table) -> pa.Table:
        value = {f.name: one.get(f.type, [1]) for f in wrong}
        return table.drop_columns("add").append_column("add", pa.array([value] * len(table), wrong))

    rewrite(log, change)
    assert refusal(log, engine).code == "CORRUPT_CHECKPOINT"


def test_text_that_is_not_utf8_is_refused(log: LogBuilder, engine: str) -> None:
    rewrite(log, lambda table: table, compression="none", use_dictionary=False, store_schema=False)
    path = log.file(f"{0:020d}.checkpoint.parquet")
    data = path.read_bytes()
    assert data.count(b"app") >= 1
    path.write_bytes(data.replace(b"app", b"a\xffp"))
    assert refusal(log, engine).code == "CORRUPT_CHECKPOINT"


def test_a_page_that_differs_from_its_checksum_is_refused(log: LogBuilder, engine: str) -> None:
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    rewrite(log, lambda table: table, write_page_checksum=True, **options)
    path = log.file(f"{0:020d}.checkpoint.parquet")
    path.write_bytes(path.read_bytes().replace(b"app", b"apq"))
    assert refusal(log, engine).code == "CORRUPT_CHECKPOINT"


def test_an_add_counts_beside_a_remove_of_its_key(log: LogBuilder, engine: str) -> None:
    def change(table: pa.Table) -> pa.Table:
        more = [remove("a"), remove("b", deletionVector=vector("dv")), remove("b"), remove("b")]
        return pa.concat_tables([pa.Table.from_pylist(more, table.schema), table])

    rewrite(log, change, row_group_size=2)
    snapshot = open_log(str(log.root)).snapshot(engine=engine)
    assert sorted(snapshot.files()["path"].to_pylist()) == ["a", "b"]
    dead = snapshot.tombstones()
    assert sorted(zip(dead["path"].to_pylist(), dead["dvId"].to_pylist(), strict=True)) == [
        ("b", None),
        ("c", "udv"),
    ]


def test_a_file_that_is_there_twice_is_one_file(log: LogBuilder, engine: str) -> None:
    def change(table: pa.Table) -> pa.Table:
        more = [add("a", size=999), add(f"{log.root}/a", size=999)]
        return pa.concat_tables([table, pa.Table.from_pylist(more, table.schema)])

    rewrite(log, change, row_group_size=2)
    snapshot = open_log(str(log.root)).snapshot(engine=engine)
    assert sorted(snapshot.files()["path"].to_pylist()) == ["a", "b"]
    assert snapshot.totals().size_bytes == 200


# --- one object --------------------------------------------------------------------------------


@pytest.mark.parametrize("adds", ["none", None, [], {"path": "b", "size": 1}], ids=str)
@pytest.mark.parametrize("indent", [None, 1])
def test_one_object_need_not_have_a_list_of_files(tmp_path, engine: str, adds, indent) -> None:
    log = LogBuilder(tmp_path, "indextables").start(add("a")).filler(1)
    path = log.checkpoint(1, Shape.JSON_OBJECT)[0]
    content = json.loads(path.read_bytes()) | {"add": adds, "parts": None}
    if adds == "none":
        del content["add"]
    path.write_text(json.dumps(content, indent=indent))
    log.clean_up(2)
    found = open_log(str(log.root)).snapshot(engine=engine)
    assert found.files()["path"].to_pylist() == (["b"] if isinstance(adds, dict) else [])


def test_one_line_of_one_action_is_no_such_object(tmp_path, engine: str) -> None:
    log = LogBuilder(tmp_path, "indextables").start(add("a"))
    log.write(f"{0:020d}.checkpoint.json", json.dumps(metadata()).encode())
    log.clean_up(1)
    assert open_log(str(log.root)).snapshot(engine=engine).totals().num_files == 0


# --- manifests ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parts",
    [
        None,
        [],
        "x",
        [1],
        [None],
        ["../secret.json"],
        [f"{0:020d}.json"],
        [f"{1:020d}.checkpoint.0a.00001.json"],
        "twice",
    ],
    ids=str,
)
def test_a_manifest_that_names_no_sound_parts_is_refused(tmp_path, engine: str, parts) -> None:
    log = LogBuilder(tmp_path, "indextables").start(add("a")).filler(3)
    manifest, part, _ = log.checkpoint(2, Shape.JSON_PARTS)
    log.checkpoint(1, Shape.JSON_PARTS)
    log.clean_up(4)
    content = json.loads(manifest.read_bytes())
    content["parts"] = [part.name, part.name] if parts == "twice" else parts
    manifest.write_text(json.dumps(content))
    log.file(f"{1:020d}.checkpoint.json").unlink()
    assert refusal(log, engine).code in {"CORRUPT_CHECKPOINT", "MISSING_METADATA"}


@pytest.mark.parametrize("name", ["", "..", "/", "a/../..", "%2e%2e", "nul\0byte"])
def test_a_sidecar_that_leads_out_of_its_directory_is_refused(tmp_path, engine, name: str) -> None:
    log = LogBuilder(tmp_path).start(add("a")).filler(3)
    top = log.checkpoint(2, Shape.V2_JSON_SIDECARS)[0]
    lines = [json.loads(line) for line in top.read_bytes().splitlines()]
    for line in lines:
        if "sidecar" in line:
            line["sidecar"]["path"] = name
    top.write_text("\n".join(map(json.dumps, lines)))
    found = open_log(str(log.root)).snapshot(engine=engine)
    assert_same(observed(found), log.truth())
    assert [f.what for f in found.fallbacks] == ["checkpoint"]


def refusal(log: LogBuilder, engine: str) -> ReplayError:
    with pytest.raises(ReplayError) as refused:
        open_log(str(log.root)).snapshot(engine=engine)
    assert "\n" not in str(refused.value)
    return refused.value
