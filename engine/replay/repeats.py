"""Which keys does a checkpoint hold more than once, and what counts of them?

Whoever reads a checkpoint in pieces that never meet asks here first.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from engine.config import CHECKPOINT_PARALLELISM, MAX_DECOMPRESSED_BYTES
from engine.replay.checkpoints import read_checkpoint_file
from engine.replay.files import FileReconciler, FileRows, file_rows
from engine.replay.local import in_order
from engine.replay.rules import FILE_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.replay.keyset import KeySet
    from engine.replay.pieces import Piece

Found = TypeVar("Found")


def repeats(
    directory: LogDirectory, pieces: Sequence[Piece], config: Config, touched: KeySet
) -> tuple[pa.Table, pa.Table] | None:
    """Return the live files and tombstones among the keys that are there twice; None for none.

    Keys that are `touched` do not count. Of a sound checkpoint only keys are read, and 16 bytes
    of each are held.
    """

    def halves(piece: Piece) -> list[np.ndarray]:
        return [
            part.first[~touched.contains(part.first, part.second)]
            for part in rows(piece, fields=())
        ]

    def rows(piece: Piece, fields: tuple[str, ...] | None) -> list[FileRows]:
        return [
            part
            for batch in read_checkpoint_file(
                directory,
                piece.ref,
                wanted=FILE_KINDS,
                fields=fields,
                row_groups=(piece.slice, piece.slices),
                limit_bytes=config[MAX_DECOMPRESSED_BYTES],
            )
            for part in file_rows(batch, directory.table_url)
        ]

    every = [np.empty(0, dtype=np.uint64)]
    for found in _each(halves, pieces, config):
        every += found
    ordered = np.sort(np.concatenate(every))
    twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if not len(twice):
        return None

    def shared(piece: Piece) -> list[FileRows]:
        return [_only(part, np.isin(part.first, twice)) for part in rows(piece, fields=None)]

    files = FileReconciler(directory.log_format)
    for parts in _each(shared, pieces, config):
        files.take_checkpoint(
            [_only(part, ~touched.contains(part.first, part.second)) for part in parts]
        )
    files.settle_checkpoint()
    return files.files(), files.tombstones()


def _each(work: Callable[[Piece], Found], pieces: Sequence[Piece], config: Config) -> list[Found]:
    workers = max(1, min(config[CHECKPOINT_PARALLELISM], os.cpu_count() or 1))
    return [found for _, found in in_order(work, pieces, workers)]


def _only(part: FileRows, keep: np.ndarray) -> FileRows:
    """Return the marked rows of a part, and nothing of the others."""
    arrays = (part.first, part.second, part.versions, part.ordinals)
    column = part.column.take(pa.array(part.rows[keep]))
    rows = np.arange(len(column))
    return FileRows(part.kind, column, rows, *(array[keep] for array in arrays))
