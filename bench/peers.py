"""What the peers do when they are measured: the same question as in `bench.ours`."""

from __future__ import annotations

from pathlib import Path

from deltalake import DeltaTable
from deltalake.transaction import AddAction

from bench.ours import COMMITS


def replay(path: str) -> dict[str, float]:
    """Load the latest version and list its live files."""
    return {"files": len(DeltaTable(path).file_uris())}


def commits(path: str) -> dict[str, float]:
    """Commit one file, many times, by the transaction API."""
    table = DeltaTable(path)
    schema = table.schema()
    for number in range(COMMITS):
        add = AddAction(f"new-{number}", 1, {}, 1_704_067_200_000, data_change=True, stats="{}")
        table.create_write_transaction([add], mode="append", schema=schema, partition_by=[])
        # Else each one is checked against all that came since the table was opened.
        table.update_incremental()
    return {"files": len(table.file_uris())}


def compact(path: str) -> dict[str, float]:
    """Compact all commits into one file."""
    table = DeltaTable(path, without_files=True)
    latest = table.version()
    table.compact_logs(0, latest)
    (file,) = Path(path).glob("_delta_log/*.compacted.json")
    return {"commits": latest + 1, "file_mb": file.stat().st_size / 1e6}
