"""Tables that deltalake writes here and now replay to what deltalake reports, at every version."""

from __future__ import annotations

from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction, write_deltalake

from engine import open_log
from tests.observe import rows

ODD = ["plain", "a b", "x/y", "ü%20=&?#", "quote'\"", "日本", "", " ", "a:b", "2024-01-01"]


def table(start: int, rows: int = 10) -> pa.Table:
    numbers = range(start, start + rows)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "text": [None if n % 4 == 0 else f"t{n}" for n in numbers],
            "part": [None if n % 5 == 0 else ODD[n % len(ODD)] for n in numbers],
            "day": [date(2024, 1, 1 + n % 2) for n in numbers],
            "at": [datetime(2024, 1, 1, n % 24, tzinfo=timezone.utc) for n in numbers],
        }
    )


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table without partitions that went through every operation."""
    root = str(tmp_path_factory.mktemp("plain") / "table")
    write_deltalake(root, table(0), name="a name", configuration={"delta.appendOnly": "false"})
    for start in (10, 20, 30):
        write_deltalake(root, table(start), mode="append")
    delta = DeltaTable(root)
    delta.delete("id < 5")
    delta.update(updates={"text": "'new'"}, predicate="id = 12")
    merge(delta, table(15, 20))
    write_deltalake(root, table(100), mode="overwrite")
    DeltaTable(root).create_checkpoint()
    properties = CommitProperties(
        app_transactions=[Transaction("app", 7, 1234)], custom_metadata={"who": "me"}
    )
    write_deltalake(root, table(200), mode="append", commit_properties=properties)
    write_deltalake(root, table(210), mode="append")
    DeltaTable(root).optimize.compact()
    DeltaTable(root).vacuum(0, dry_run=False, enforce_retention_duration=False)
    DeltaTable(root).alter.add_columns([Field("more", "long")])
    DeltaTable(root).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})
    write_deltalake(root, table(300), mode="append", schema_mode="merge")
    DeltaTable(root).restore(DeltaTable(root).version() - 2)
    return root


@pytest.fixture(scope="module")
def partitioned(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table whose partition values are odd, or null."""
    root = str(tmp_path_factory.mktemp("odd paths") / "a table ü")
    write_deltalake(root, table(0, 20), partition_by=["part", "day"])
    write_deltalake(root, table(20, 20), mode="append")
    DeltaTable(root).create_checkpoint()
    DeltaTable(root).delete("day = '2024-01-02'")
    merge(DeltaTable(root), table(0, 7))
    predicate = "part = 'a b'"
    only = table(0, 40).filter(pa.compute.equal(table(0, 40)["part"], "a b"))
    write_deltalake(root, only, mode="overwrite", predicate=predicate)
    DeltaTable(root).create_checkpoint()
    DeltaTable(root).optimize.z_order(["id"])
    return root


def merge(delta: DeltaTable, source: pa.Table) -> None:
    (
        delta.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )


@pytest.mark.parametrize("engine", ["local", "reference"])
@pytest.mark.parametrize("name", ["plain", "partitioned"])
def test_every_version_is_what_deltalake_reports(name: str, engine: str, request) -> None:
    root = request.getfixturevalue(name)
    latest = DeltaTable(root).version()
    log = open_log(root)
    assert log.snapshot().version == latest >= 5
    for version in range(latest + 1):
        theirs = DeltaTable(root, version=version)
        ours = log.snapshot(version, engine=engine)
        assert ours_of(ours) == theirs_of(theirs), version
        assert ours.fallbacks == ()


def test_the_latest_state_is_read_from_deltalakes_checkpoint(plain: str) -> None:
    snapshot = open_log(plain).snapshot()
    assert snapshot.segment.checkpoint is not None
    assert snapshot.segment.checkpoint.version == 7
    assert len(snapshot.segment.commits) == snapshot.version - 7


def test_history_names_the_operations_of_deltalake(plain: str) -> None:
    ours = list(open_log(plain).history())
    theirs = DeltaTable(plain).history()
    assert [entry["operation"] for entry in ours] == [entry["operation"] for entry in theirs]
    assert [entry["timestamp"] for entry in ours] == [entry["timestamp"] for entry in theirs]
    assert any(entry.get("who") == "me" for entry in ours)


def test_a_cleaned_log_and_a_compacted_one_say_the_same(tmp_path: Path) -> None:
    root = str(tmp_path / "table")
    write_deltalake(root, table(0))
    for start in range(10, 60, 10):
        write_deltalake(root, table(start), mode="append")
    DeltaTable(root).compact_logs(1, 3)
    snapshot = open_log(root).snapshot()
    assert [(r.start_version, r.version) for r in snapshot.segment.compactions] == [(1, 3)]
    assert ours_of(snapshot) == theirs_of(DeltaTable(root))
    DeltaTable(root).create_checkpoint()
    for commit in sorted(Path(root, "_delta_log").glob("*.json"))[:4]:
        commit.unlink()
    assert ours_of(open_log(root).snapshot()) == theirs_of(DeltaTable(root))


def test_a_table_that_was_only_created_is_empty(tmp_path: Path) -> None:
    schema = Schema.from_arrow(table(0).schema)
    delta = DeltaTable.create(str(tmp_path / "table"), schema, partition_by=["day"])
    assert ours_of(open_log(str(tmp_path / "table")).snapshot()) == theirs_of(delta)


def ours_of(snapshot: Any) -> dict[str, Any]:
    counts = snapshot.files()
    return {
        "version": snapshot.version,
        "files": sorted(
            (
                file["path"],
                file["size"],
                file["modificationTime"],
                sorted((name, text(value)) for name, value in file["partitionValues"].items()),
            )
            for file in rows(counts)
        ),
        "records": snapshot.totals().num_records,
        "protocol": (snapshot.protocol["minReaderVersion"], snapshot.protocol["minWriterVersion"]),
        "id": snapshot.metadata["id"],
        "name": snapshot.metadata.get("name"),
        "columns": snapshot.partition_columns,
        "configuration": dict(snapshot.configuration),
        "created": snapshot.metadata["createdTime"],
        "app": snapshot.txns.get("app"),
    }


def theirs_of(delta: DeltaTable) -> dict[str, Any]:
    files = pa.table(delta.get_add_actions()).to_pylist()
    metadata, protocol = delta.metadata(), delta.protocol()
    return {
        "version": delta.version(),
        "files": sorted(
            (
                file["path"],
                file["size_bytes"],
                file["modification_time"],
                sorted((name, text(value)) for name, value in file.get("partition", {}).items()),
            )
            for file in files
        ),
        "records": sum(file["num_records"] for file in files),
        "protocol": (protocol.min_reader_version, protocol.min_writer_version),
        "id": str(metadata.id),
        "name": metadata.name,
        "columns": metadata.partition_columns,
        "configuration": metadata.configuration,
        "created": metadata.created_time,
        "app": delta.transaction_version("app"),
    }


def text(value: Any) -> str | None:
    """Return a partition value as text; the protocol takes an empty one for null."""
    return None if value is None else str(value) or None
