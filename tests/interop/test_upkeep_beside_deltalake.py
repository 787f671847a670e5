"""What compaction, checkpoint and cleanup leave behind, deltalake reads as it read it before."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from engine import open_log

OLD_NS = 1_600_000_000 * 10**9


def table(start: int) -> pa.Table:
    return pa.table({"id": pa.array(range(start, start + 10)), "part": ["a", "b"] * 5})


def by_deltalake(root: str, version: int | None = None) -> tuple[set[str], pa.Table]:
    found = DeltaTable(root, version=version)
    rows = found.to_pyarrow_table().sort_by("id")
    return {Path(uri).relative_to(root).as_posix() for uri in found.file_uris()}, rows


def by_txlog(root: str, version: int | None = None) -> set[str]:
    return set(open_log(root).snapshot(version).files()["path"].to_pylist())


def test_deltalake_and_txlog_read_the_same_before_and_after_all_of_it(tmp_path):
    root = str(tmp_path / "table")
    write_deltalake(root, table(0), partition_by=["part"])
    for start in range(10, 120, 10):
        write_deltalake(root, table(start), mode="append")
    DeltaTable(root).delete("id < 25")
    DeltaTable(root).optimize.compact()
    latest = DeltaTable(root).version()
    before = {version: by_deltalake(root, version) for version in range(10, latest + 1)}

    log = open_log(root)
    assert [done.status for done in log.compact()] == ["completed"]
    assert by_deltalake(root) == before[latest]
    assert open_log(root).snapshot().segment.compactions
    log.checkpoint(10)
    log.checkpoint()
    for version in range(11):
        os.utime(Path(root) / f"_delta_log/{version:020d}.json", ns=(OLD_NS + version * 10**6,) * 2)
    for path in (Path(root) / "_delta_log").glob("*.c*"):
        os.utime(path, ns=(OLD_NS,) * 2)
    done = log.cleanup()
    assert (done.anchor, done.deleted > 10) == (10, True)
    for version, wanted in before.items():
        assert by_deltalake(root, version) == wanted
        assert by_txlog(root, version) == wanted[0]

    log.truncate()
    assert by_deltalake(root) == before[latest]
    assert by_txlog(root) == before[latest][0]
    write_deltalake(root, table(500), mode="append")
    assert by_txlog(root) == by_deltalake(root)[0]
    assert open_log(root).verify().sound


def test_a_peers_compaction_that_lost_tombstones_is_replaced(tmp_path):
    root = str(tmp_path / "table")
    write_deltalake(root, table(0))
    write_deltalake(root, table(10), mode="append")
    DeltaTable(root).delete("id < 5")
    write_deltalake(root, table(20), mode="append")
    peer = DeltaTable(root)
    peer.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 0 days"})
    DeltaTable(root).compact_logs(1, 3)
    wanted = by_deltalake(root)[0]
    (checked,) = open_log(root).compact(1, 3, repair=True)
    assert checked.status == "repaired"
    assert "remove: 0 of 1 actions" in (checked.found or "")
    assert by_txlog(root) == wanted
