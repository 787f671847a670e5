"""What must be the same before and after a checkpoint: everything a reader can ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine import open_log
from engine.config import Config
from engine.replay.content import content_of
from engine.replay.rules import skip_is_running
from engine.upkeep.checkpoint.checkpoint import Asked, CheckpointResult, checkpoint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.snapshot import Snapshot
    from engine.upkeep.checkpoint.shape import Shape

NOW = 1_800_000_000_000


def write(
    table: str,
    shape: Shape | None = None,
    version: int | None = None,
    now_ms: int = NOW,
    **more: Any,
) -> CheckpointResult:
    """Checkpoint a version as the command does."""
    options = more.pop("options", {})
    log = open_log(table)
    asked = Asked(version, shape, **more)
    config = Config(options=options)
    return checkpoint(log.directory, log.listing(version), config, asked, now_ms=now_ms)


def seen(snapshot: Snapshot, now_ms: int = NOW, *, stats: bool = True) -> dict[str, Any]:
    """Return what a reader sees, but for what a checkpoint may change.

    `dataChange` tells what a commit did; statistics of IndexTables are cut; a skip that is over
    and a domain that was removed are no more. Without `stats`, statistics are left out.
    """
    dropped = {"dvId", "dataChange", "minValues", "maxValues", *(() if stats else ("stats",))}
    files = snapshot.state.files
    kept = files.select([name for name in files.column_names if name not in dropped])
    metadata = snapshot.metadata
    protocol = {name: value for name, value in snapshot.protocol.items() if value}
    return {
        "version": snapshot.version,
        "protocol": protocol,
        "metadata": _set(metadata),
        "files": content_of({"add": kept.to_struct_array().combine_chunks()}),
        "dvIds": sorted(found or "" for found in files["dvId"].to_pylist()),
        "txns": {app: _set(txn) for app, txn in snapshot.state.txns.items()},
        "domains": snapshot.domains,
        "skips": {
            path: _set(skip)
            for path, skip in snapshot.skips.items()
            if skip_is_running(skip, now_ms=now_ms)
        },
    }


def _set(action: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an action says: null is as good as absent."""
    return {name: value for name, value in action.items() if value is not None}
