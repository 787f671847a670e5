"""How is a segment spread over tasks? Deciding only."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from engine.replay.pieces import Piece

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.log.paths import TransactionFileRef

_FEW_FILES: Final = 10
_SOME_FILES: Final = 100
_TASK_BYTES: Final = 128 * 1024 * 1024


def parallelism(files: int, size_bytes: int, cores: int) -> int:
    """Return how many tasks to make of so many files and bytes.

    By files: one below 10, half of them below 100, a tenth from there on, never more than twice
    the cores. By bytes: no task should read much more than 128 MiB, however few the files are.
    """
    if files < _FEW_FILES:
        by_files = 1
    elif files < _SOME_FILES:
        by_files = min(files // 2, cores)
    else:
        by_files = min(files // 10, cores * 2)
    by_bytes = -(-size_bytes // _TASK_BYTES)
    return max(1, min(max(by_files, by_bytes), max(files, 1)))


def split(ref: TransactionFileRef, range_bytes: int) -> list[Piece]:
    """Cut a large file into pieces of about `range_bytes`; a small one is a piece of its own.

    Parquet is cut by row groups. A commit in JSON is cut by bytes; the reader of a piece moves
    both ends to the next line end, and the task of the first piece reads a compressed one whole.
    A checkpoint in JSON may be one object, or name its parts: it is not cut.
    """
    count = max(1, -(-ref.size // range_bytes))
    if count == 1 or (ref.is_json and ref.kind.is_checkpoint):
        return [Piece(ref)]
    if not ref.is_json:
        return [Piece(ref, slice=at, slices=count) for at in range(count)]
    length = -(-ref.size // count)
    starts = range(0, ref.size, length)
    return [Piece(ref, offset=at, length=min(length, ref.size - at)) for at in starts]


def balanced(pieces: Sequence[Piece], tasks: int) -> list[list[Piece]]:
    """Deal pieces to at most `tasks` bins so that their bytes come out even, largest first."""
    heap = [(0, at) for at in range(min(tasks, max(len(pieces), 1)))]
    bins: list[list[Piece]] = [[] for _ in heap]
    for piece in sorted(pieces, key=lambda p: p.size_bytes, reverse=True):
        filled, at = heapq.heappop(heap)
        bins[at].append(piece)
        heapq.heappush(heap, (filled + piece.size_bytes, at))
    return bins
