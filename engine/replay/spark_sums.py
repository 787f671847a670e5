"""What does a version add up to? Two jobs at most, and of each file no more than 50 bytes travel.

    tail ──mapInArrow(sum_tail)──► shuffle in lots by fingerprint ──settle──► sums, single actions
    checkpoint ──mapInArrow(sum_checkpoint)──► sums of each task, and a look for keys held twice

A short tail's keys go to the checkpoint's tasks with their code. With a long tail, and where a
checkpoint holds a key twice, the checkpoint's rows go into the lots as well.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
from pyspark.sql.pandas.types import from_arrow_schema

from engine.replay.sums import (
    COMPARED,
    FIELDS,
    HALVES,
    LOTS,
    SETTLED,
    SETTLED_WITH_KEYS,
    added_up,
    compare_halves,
    lay_checkpoint,
    settle,
    sum_checkpoint,
    sum_tail,
)

if TYPE_CHECKING:
    from pyspark.sql import Row

    from engine.replay.spark import ReplayFrames


@dataclass(frozen=True)
class Sums:
    """The sums of a version, its single actions after the checkpoint, and what that is like.

    A single action is [version, ordinal, kind, key, JSON].
    """

    total: dict[str, int]
    singles: list[list[Any]]
    has_repeats: bool = False


Phase = Callable[[str], AbstractContextManager[None]]


def add_up(frames: ReplayFrames, phase: Phase | None = None) -> Sums:
    """Run the jobs of a version, each within its `phase`.

    After a short tail these are `tail` and `checkpoint`; `settle` is everything in one job.
    """
    phase = phase or _untimed
    found = None
    if frames.segment.checkpoint is not None and frames.is_short_tail:
        found = _with_short_tail(frames, phase)
    if found is not None:
        return found
    with phase("settle"):
        return _sums(_settled(frames, whole=True))


def _untimed(_: str) -> AbstractContextManager[None]:
    return nullcontext()


def _with_short_tail(frames: ReplayFrames, phase: Phase) -> Sums | None:
    """Add up by what each task finds; None where the checkpoint holds a key twice."""
    with phase("tail"):
        tail = _settled(frames, whole=False) if frames.segment.tail else []
    touched = b"".join(row["keys"] for row in tail)
    pieces = frames.checkpoint_pieces
    lots = len(pieces)
    task = partial(sum_checkpoint, touched=touched, lots=lots)
    parts = frames.mapped(pieces, task, FIELDS, HALVES)
    spread = parts.repartitionById(lots, parts["lot"])
    compared = spread.mapInArrow(compare_halves, from_arrow_schema(COMPARED))
    with phase("checkpoint"):
        found = compared.collect()
    if any(row["repeats"] for row in found):
        return None
    sums = _sums(tail)
    return Sums(added_up([sums.total, *found]), sums.singles)


def _settled(frames: ReplayFrames, *, whole: bool) -> list[Row]:
    """Run a job: what each lot of the tail comes to, the `whole` of it with the checkpoint.

    Of a `whole` version only sums and single actions come back; else the keys of the tail as well.
    """
    tail = frames.tail_pieces
    checkpoint = frames.checkpoint_pieces if whole else []
    lots = frames.tasks(tail) + len(checkpoint)
    rows = frames.mapped(tail, partial(sum_tail, lots=lots), FIELDS, LOTS)
    if checkpoint:
        task = partial(lay_checkpoint, lots=lots)
        rows = rows.unionAll(frames.mapped(checkpoint, task, FIELDS, LOTS))
    spread = rows.repartitionById(lots, rows["lot"])
    wanted = SETTLED if whole else SETTLED_WITH_KEYS
    settled = partial(settle, with_keys=not whole)
    settled.__name__ = settle.__name__  # type: ignore[attr-defined]
    return spread.mapInArrow(settled, from_arrow_schema(wanted)).collect()


def _sums(settled: list[Row]) -> Sums:
    singles = [single for row in settled for single in orjson.loads(row["singles"])]
    return Sums(added_up(settled), singles, any(row["repeats"] for row in settled))
