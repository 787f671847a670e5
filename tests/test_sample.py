from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from engine import open_log
from engine.errors import AlreadyExistsError, StorageError
from engine.sample import CHECKPOINT_KINDS, SampleSpec, make_sample

if TYPE_CHECKING:
    from pathlib import Path

    from engine.snapshot import Snapshot

SMALL = {"commits": 23, "adds": 7, "removes": 3, "seed": 5, "partitions": 5}
RICH = {**SMALL, "deletion_vectors": 0.4, "txns": 3, "domains": 2}
SPLITS = {**SMALL, "log_format": "indextables", "txns": 2, "skips": 0.3}

DELTA_CASES: dict[str, dict[str, Any]] = {
    "plain": SMALL,
    "rich": RICH,
    "one commit": {"commits": 1, "adds": 3},
    "no partitions": {**SMALL, "partitions": 0},
    "no statistics": {**RICH, "stats": False, "checkpoint_at": (11,)},
    "no files": {**RICH, "adds": 0, "deletion_vectors": 0.0, "checkpoint_at": (11,)},
    "more removes than adds": {**RICH, "removes": 20, "checkpoint_every": 5},
    "deletion vectors": {**SMALL, "deletion_vectors": 1.0},
    "transactions": {**SMALL, "txns": 4, "checkpoint_every": 5},
    "domains": {**SMALL, "domains": 3, "checkpoint_every": 5},
    "many checkpoints": {**RICH, "checkpoint_every": 2},
    "a checkpoint of the last version": {**RICH, "checkpoint_at": (22,)},
    "a checkpoint of the first version": {**RICH, "checkpoint_at": (0,)},
    "compactions": {**RICH, "compact_every": 4},
    "compactions and checkpoints": {**RICH, "compact_every": 4, "checkpoint_every": 8},
    "cleaned": {**RICH, "checkpoint_every": 8, "compact_every": 3, "cleaned": True},
    "days apart": {**RICH, "interval_s": 86_400, "checkpoint_every": 20},
    **{
        f"checkpoint {kind}": {**RICH, "checkpoint_every": 8, "checkpoint_kind": kind}
        for kind in CHECKPOINT_KINDS["delta"]
    },
}
INDEXTABLES_CASES: dict[str, dict[str, Any]] = {
    "plain": SPLITS,
    "no statistics": {**SPLITS, "stats": False},
    "gzip": {**SPLITS, "compression": "gzip"},
    "mixed": {**SPLITS, "compression": "mixed", "checkpoint_at": (4,), "checkpoint_kind": "json"},
    "compactions": {**SPLITS, "compact_every": 4},
    "cleaned": {**SPLITS, "checkpoint_every": 8, "compact_every": 3, "cleaned": True},
    **{
        f"checkpoint {kind}": {**SPLITS, "checkpoint_every": 8, "checkpoint_kind": kind}
        for kind in CHECKPOINT_KINDS["indextables"]
    },
}


def sorted_files(snapshot: Snapshot) -> pa.Table:
    return snapshot.files().sort_by([("path", "ascending"), ("dvId", "ascending")])


def rows(table: pa.Table) -> list[dict[str, Any]]:
    found = table.to_pylist(maps_as_pydicts="lossy")
    return sorted(found, key=lambda row: (row["path"], row["dvId"] or ""))


def state(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "files": rows(snapshot.files()),
        "tombstones": rows(snapshot.tombstones()),
        "txns": snapshot.txns,
        "domains": snapshot.domains,
        "skips": dict(snapshot.skips),
        "protocol": {k: v for k, v in snapshot.protocol.items() if v is not None},
    }


def assert_made_of(snapshot: Snapshot, spec: SampleSpec) -> None:
    checkpoint, versions = snapshot.segment.checkpoint, spec.checkpoint_versions
    assert (checkpoint.version if checkpoint else None) == (versions[-1] if versions else None)
    assert bool(snapshot.segment.compactions) == bool(spec.compact_every)
    assert not snapshot.fallbacks


def digest(directory: Path) -> dict[str, tuple[str, int | None]]:
    return {
        str(file.relative_to(directory)): (
            hashlib.sha256(file.read_bytes()).hexdigest(),
            file.stat().st_mtime_ns if file.stem.isdigit() else None,
        )
        for file in sorted(directory.rglob("*"))
        if file.is_file()
    }


@pytest.mark.parametrize("case", DELTA_CASES)
def test_txlog_and_deltalake_read_the_state_that_was_made(tmp_path, case):
    sample = make_sample(str(tmp_path), **DELTA_CASES[case])
    log = open_log(str(tmp_path))
    local, reference = log.snapshot(engine="local"), log.snapshot(engine="reference")
    assert state(local) == state(reference)
    assert_made_of(local, sample.spec)
    assert local.version == sample.version
    assert local.files().num_rows == sample.num_files

    peer = DeltaTable(str(tmp_path))
    assert peer.version() == sample.version
    uris = [uri.removeprefix(f"{tmp_path}/") for uri in peer.file_uris()]
    assert sorted(uris) == sorted_files(local)["path"].to_pylist()
    theirs = pa.table(peer.get_add_actions(flatten=True)).sort_by("path")
    ours = sorted_files(local)
    assert theirs["size_bytes"].to_pylist() == ours["size"].to_pylist()
    times = theirs["modification_time"].cast(pa.timestamp("ms")).cast(pa.int64())
    assert times.to_pylist() == ours["modificationTime"].to_pylist()
    if sample.spec.stats and sample.num_files:
        assert pc.sum(theirs["num_records"]).as_py() == local.totals().num_records
    assert {app: peer.transaction_version(app) for app in local.txns} == local.txns
    assert peer.metadata().id == local.metadata["id"]
    assert peer.metadata().partition_columns == local.partition_columns
    assert peer.protocol().min_reader_version == local.protocol["minReaderVersion"]
    assert peer.protocol().reader_features == local.protocol.get("readerFeatures")


@pytest.mark.parametrize("case", INDEXTABLES_CASES)
def test_an_indextables_sample_replays_to_the_state_that_was_made(tmp_path, case):
    sample = make_sample(str(tmp_path), **INDEXTABLES_CASES[case])
    log = open_log(str(tmp_path))
    local, reference = log.snapshot(engine="local"), log.snapshot(engine="reference")
    assert state(local) == state(reference)
    assert_made_of(local, sample.spec)
    assert (local.version, local.files().num_rows) == (sample.version, sample.num_files)


@pytest.mark.parametrize(
    ("plain", "case"),
    [
        *((RICH, c) for n, c in DELTA_CASES.items() if n.startswith(("check", "comp", "clean"))),
        *((SPLITS, c) for c in INDEXTABLES_CASES.values() if c.get("stats", True)),
    ],
)
def test_checkpoints_and_compactions_change_no_state(tmp_path, plain, case):
    make_sample(str(tmp_path / "plain"), **plain)
    make_sample(str(tmp_path / "case"), **case)
    wanted = state(open_log(str(tmp_path / "plain")).snapshot(engine="reference"))
    found = state(open_log(str(tmp_path / "case")).snapshot())
    if case.get("checkpoint_kind", "").startswith("v2"):  # which the protocol must name
        del wanted["protocol"], found["protocol"]
    if case.get("checkpoint_kind", "").startswith("json"):  # which holds no tombstones
        del wanted["tombstones"], found["tombstones"]
    assert found == wanted


@pytest.mark.parametrize("case", ["many checkpoints", "cleaned", "checkpoint v2-json"])
def test_the_same_seed_gives_the_same_bytes(tmp_path, case):
    for name in ("one", "two"):
        make_sample(str(tmp_path / name), **DELTA_CASES[case])
    make_sample(str(tmp_path / "three"), **{**DELTA_CASES[case], "seed": 6})
    assert digest(tmp_path / "one") == digest(tmp_path / "two")
    assert digest(tmp_path / "one") != digest(tmp_path / "three")


def test_a_directory_with_a_log_is_refused_and_left_alone(tmp_path):
    make_sample(str(tmp_path), **SMALL)
    before = digest(tmp_path)
    for log_format in CHECKPOINT_KINDS:
        with pytest.raises(AlreadyExistsError, match="_delta_log"):
            make_sample(str(tmp_path), log_format=log_format)
    assert digest(tmp_path) == before


def test_a_file_in_the_way_is_refused_in_one_line(tmp_path):
    (tmp_path / "table").write_text("not a directory")
    with pytest.raises(StorageError, match=r"^[^\n]*a file is in the way$|not a directory$"):
        make_sample(str(tmp_path / "table"), **SMALL)


def test_a_sample_can_be_made_on_any_storage():
    sample = make_sample("memory://samples/events", **RICH, checkpoint_every=9)
    snapshot = open_log("memory://samples/events").snapshot()
    assert snapshot.files().num_rows == sample.num_files


def test_a_checkpoint_has_the_types_of_the_protocol(tmp_path):
    make_sample(str(tmp_path), **RICH, checkpoint_at=(20,))
    schema = pq.read_schema(tmp_path / "_delta_log" / f"{20:020d}.checkpoint.parquet")
    vector = schema.field("add").type.field("deletionVector").type
    assert [vector.field(n).type for n in ("offset", "sizeInBytes", "cardinality")] == [
        pa.int32(),
        pa.int32(),
        pa.int64(),
    ]
    assert schema.field("protocol").type.field("minReaderVersion").type == pa.int32()
    removes = {field.name for field in schema.field("remove").type}
    assert not removes & {"stats", "tags"}


def test_a_checkpoint_leaves_out_expired_tombstones_and_removed_domains(tmp_path):
    make_sample(str(tmp_path), **RICH, interval_s=86_400, checkpoint_at=(20,))
    table = pq.read_table(tmp_path / "_delta_log" / f"{20:020d}.checkpoint.parquet")
    removes = [row for row in table["remove"].to_pylist() if row]
    newest = max(row["deletionTimestamp"] for row in removes)
    assert min(row["deletionTimestamp"] for row in removes) > newest - 7 * 86_400_000
    assert not any(row["removed"] for row in table["domainMetadata"].to_pylist() if row)


def test_a_compaction_keeps_every_remove_and_removed_domains(tmp_path):
    make_sample(str(tmp_path), **{**RICH, "domains": 1}, compact_every=8)
    log = tmp_path / "_delta_log"
    compacted = log / f"{0:020d}.{7:020d}.compacted.json"
    commits = [log / f"{version:020d}.json" for version in range(8)]

    def removes(*files: Path) -> set[tuple[str, str]]:
        lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        found = [line["remove"] for line in lines if "remove" in line]
        return {(r["path"], json.dumps(r.get("deletionVector"))) for r in found}

    assert removes(compacted) == removes(*commits)
    make_sample(str(tmp_path / "short"), **{**RICH, "domains": 1, "commits": 4}, compact_every=4)
    short = tmp_path / "short" / "_delta_log" / f"{0:020d}.{3:020d}.compacted.json"
    assert '"removed":true' in short.read_text()


def test_every_part_of_a_large_checkpoint_has_a_name_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr("engine.sample.checkpoints.ROWS_A_PART", 5)
    sample = make_sample(str(tmp_path), **RICH, checkpoint_at=(22,), checkpoint_kind="v2")
    assert len(list((tmp_path / "_delta_log" / "_sidecars").iterdir())) > 21
    assert len(DeltaTable(str(tmp_path)).file_uris()) == sample.num_files


def test_progress_counts_every_commit(tmp_path):
    seen: list[int] = []
    make_sample(str(tmp_path), **RICH, checkpoint_every=5, progress=seen.append)
    assert sum(seen) == RICH["commits"]


def test_commits_are_as_old_as_they_say(tmp_path):
    make_sample(str(tmp_path), **SMALL)
    history = list(open_log(str(tmp_path)).history())
    times = [entry["timestamp"] for entry in history]
    assert times == sorted(times, reverse=True)
    newest = tmp_path / "_delta_log" / f"{history[0]['version']:020d}.json"
    assert newest.stat().st_mtime_ns // 1_000_000 == times[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"commits": 0}, "commits is 0; use 1 or more"),
        ({"removes": -1}, "removes is -1; use 0 or more"),
        ({"log_format": "iceberg"}, "unknown log format 'iceberg'"),
        ({"checkpoint_kind": "json"}, "checkpoint_kind is 'json'; use classic"),
        ({"checkpoint_at": (100,)}, "checkpoint_at is 100; use 0 to 99"),
        ({"compact_every": 1}, "compact_every is 1"),
        ({"compression": "gzip"}, "compression is gzip; delta has none"),
        ({"log_format": "indextables", "domains": 1}, "domains is 1; indextables has none"),
        ({"log_format": "indextables", "compression": "lz4"}, "use none, gzip, mixed"),
    ],
)
def test_a_wrong_option_is_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        SampleSpec(**options)
