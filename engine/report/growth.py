"""How did a table grow? Its live files after each of its last commits, exactly, in one pass."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from engine.errors import ReplayError
from engine.replay.files import file_rows
from engine.replay.keys import canonical_paths, fingerprints
from engine.replay.local import tail_runs

if TYPE_CHECKING:
    import pyarrow as pa

    from engine.log.segment import LogSegment
    from engine.snapshot import Snapshot
    from engine.table import TableLog


@dataclass(frozen=True, slots=True)
class Growth:
    """Live files and their bytes after each version, and what each commit added and removed."""

    versions: np.ndarray
    files: np.ndarray
    size_bytes: np.ndarray
    added: np.ndarray
    removed: np.ndarray


def recent_commits(
    log: TableLog, latest: Snapshot, limit: int
) -> tuple[LogSegment, Snapshot | None]:
    """Return the last commits up to `latest`, and the state before them; None for the empty one.

    Where fewer than `limit` can be followed without a gap, those after the checkpoint.
    """
    first = max(latest.version - limit + 1, 0)
    checkpoint = latest.segment.checkpoint
    try:
        commits = log.commits(first, latest.version)
        before = log.snapshot(first - 1) if first else None
    except ReplayError:
        if checkpoint is None:
            raise
        commits = log.commits(checkpoint.version + 1, latest.version)
        before = log.snapshot(checkpoint.version)
    segment = replace(latest.segment, checkpoint=None, compactions=(), commits=tuple(commits))
    return segment, before


def growth(commits: LogSegment, latest: Snapshot, before: Snapshot | None) -> Growth:
    """Return the growth along `commits`, which follow `before` without a gap up to `latest`.

    Where `before` is None, the commits are the whole log.
    """
    keys, versions, ordinals, is_add, sizes = _actions(commits, latest, before)
    order = np.lexsort((ordinals, versions, keys["second"], keys["first"]))
    keys, versions, is_add, sizes = keys[order], versions[order], is_add[order], sizes[order]
    # Of the actions of a key in one commit, the last one counts.
    repeated = (keys[1:] == keys[:-1]) & (versions[1:] == versions[:-1])
    ends = ~np.append(repeated, False)[: len(keys)]
    keys, versions, is_add, sizes = keys[ends], versions[ends], is_add[ends], sizes[ends]
    was_live = np.append(False, (keys[1:] == keys[:-1]) & is_add[:-1])[: len(keys)]
    held = np.where(was_live, np.append(0, sizes[:-1])[: len(keys)], 0)
    files = is_add.astype(np.int64) - was_live.astype(np.int64)
    bytes_ = np.where(is_add, sizes, 0) - held
    first = commits.commits[0].version if commits.commits else latest.version
    at = np.maximum(versions - (first - 1), 0)  # 0 is what was there before
    width = latest.version - first + 2

    def along(weights: np.ndarray) -> np.ndarray:
        # In floats, as bincount has it, bytes would be rounded.
        total = np.zeros(width, dtype=np.int64)
        np.add.at(total, at, weights)
        return total

    return Growth(
        versions=np.arange(first, latest.version + 1),
        files=np.cumsum(along(files))[1:],
        size_bytes=np.cumsum(along(bytes_))[1:],
        added=along(is_add & (at > 0))[1:],
        removed=along(~is_add & (at > 0))[1:],
    )


def _actions(
    commits: LogSegment, latest: Snapshot, before: Snapshot | None
) -> tuple[np.ndarray, ...]:
    """Return keys, versions, ordinals, kinds and sizes of what was there and what happened."""
    parts: list[tuple[np.ndarray, ...]] = [_columns(*(np.zeros(0, dtype=np.uint64),) * 2)]
    directory = latest.directory
    if before is not None:
        files = before.files().select(["path", "dvId", "size"]).combine_chunks()
        for batch in files.to_batches():
            paths = canonical_paths(batch["path"], directory.table_url)
            first, second = fingerprints(paths, batch["dvId"])
            parts.append(_columns(first, second, version=-1, sizes=_whole(batch["size"])))
    for run in tail_runs(commits, directory, latest.config):
        for prepared in run:
            for rows in file_rows(prepared.batch, directory.table_url):
                sizes = np.zeros(len(rows.rows), dtype=np.int64)
                if rows.kind == "add" and "size" in rows.column.type.names:
                    sizes = _whole(rows.column.field("size"))[rows.rows]
                keys = _columns(rows.first, rows.second, is_add=rows.kind == "add", sizes=sizes)
                parts.append((keys[0], rows.versions, rows.ordinals, *keys[3:]))
    return tuple(np.concatenate([part[i] for part in parts]) for i in range(5))


def _columns(
    first: np.ndarray,
    second: np.ndarray,
    *,
    version: int = 0,
    is_add: bool = True,
    sizes: np.ndarray | None = None,
) -> tuple[np.ndarray, ...]:
    count = len(first)
    keys = np.empty(count, dtype=[("first", np.uint64), ("second", np.uint64)])
    keys["first"], keys["second"] = first, second
    return (
        keys,
        np.full(count, version, dtype=np.int64),
        np.zeros(count, dtype=np.int64),
        np.full(count, is_add, dtype=bool),
        np.zeros(count, dtype=np.int64) if sizes is None else sizes,
    )


def _whole(numbers: pa.Array) -> np.ndarray:
    found: np.ndarray = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    return found
