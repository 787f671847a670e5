"""What do file actions add up to? Of each no more than 50 bytes travel, in lots by its key.

A task sends a row a lot: the fingerprints of keys, places, sizes and record counts of the actions
it found, one after the other. Whoever gets a lot has every action of its keys. No Spark in here.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson
import pyarrow as pa

from engine.replay.executor import checkpoint_rows, filled, newest_of_task, single_rows
from engine.replay.files import newest
from engine.replay.keyset import KeySet
from engine.replay.state import Singles
from engine.replay.stats import record_counts, record_field
from engine.replay.travel import explained

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.replay.files import FileRows
    from engine.replay.pieces import Job

FIELDS: Final = ("numRecords", "size", "stats")
SUMMED: Final = ("files", "tombstones", "size", "records", "known")

ACTION: Final = np.dtype(
    [
        ("first", "<u8"),
        ("second", "<u8"),
        ("version", "<i8"),
        ("ordinal", "<i8"),
        ("size", "<i8"),
        ("records", "<i8"),
        ("is_add", "?"),
        ("is_known", "?"),
    ]
)
_KEY: Final = np.dtype([("first", "<u8"), ("second", "<u8")])
_HALF: Final = 32
_WIDE: Final = pa.decimal128(38)
_SUMS: Final = dict.fromkeys(SUMMED, _WIDE)

# Of one lot: actions of the tail or of the checkpoint, and single actions as JSON.
LOTS: Final = pa.schema(
    {
        "lot": pa.int32(),
        "tail": pa.binary(),
        "checkpoint": pa.binary(),
        "singles": pa.binary(),
    }
)
# What a lot comes to: sums of its winners, single actions, and how many rows of the checkpoint had
# the key of another.
SETTLED: Final = pa.schema({**_SUMS, "singles": pa.binary(), "repeats": pa.int64()})
# The same, and the keys of the winners, for the tasks that read the checkpoint.
SETTLED_WITH_KEYS: Final = SETTLED.append(pa.field("keys", pa.binary()))
# The sums of a task's part of a checkpoint, in the first lot; half of each key, in its own.
HALVES: Final = pa.schema({"lot": pa.int32(), **_SUMS, "halves": pa.binary()})
COMPARED: Final = pa.schema({**_SUMS, "repeats": pa.int64()})


def sum_tail(batches: Iterable[pa.RecordBatch], job: Job, lots: int) -> Iterator[pa.RecordBatch]:
    """Yield the newest file actions of a task's commits, and its newest single actions, in lots."""
    with explained():
        singles = Singles()
        field = record_field(job.directory.log_format)
        found = [_packed(part, keep, field) for part, keep in newest_of_task(batches, job, singles)]
        few: list[list[Any]] = [[] for _ in range(lots)]
        for row in single_rows(singles):
            few[zlib.crc32(f"{row[2]} {row[3]}".encode()) % lots].append(row)
        yield _in_lots(found, lots, tail=True, singles=[orjson.dumps(rows) for rows in few])


def lay_checkpoint(
    batches: Iterable[pa.RecordBatch], job: Job, lots: int
) -> Iterator[pa.RecordBatch]:
    """Yield the file actions of a task's pieces of a checkpoint, as they stand, in lots."""
    with explained():
        field = record_field(job.directory.log_format)
        found = [_packed(part, _all(part), field) for part in checkpoint_rows(batches, job)]
        yield _in_lots(found, lots, tail=False)


def settle(batches: Iterable[pa.RecordBatch], *, with_keys: bool) -> Iterator[pa.RecordBatch]:
    """Yield what one lot comes to, all of whose rows these are.

    Of the tail the newest action of a key counts; of the checkpoint, where the tail has none, one
    action: an add before a remove, and of two adds the first. The keys of the tail's winners, which
    grow with the table, are there only `with_keys`.
    """
    with explained():
        rows = [row for batch in batches for row in batch.to_pylist()]
        tail = _joined(row["tail"] for row in rows)
        won = tail[newest(tail["first"], tail["second"], tail["version"], tail["ordinal"])]
        later = KeySet()
        later.add(won["first"].copy(), won["second"].copy())
        base = _joined(row["checkpoint"] for row in rows)
        base = base[~later.contains(base["first"], base["second"])]
        once = newest(base["first"], base["second"], base["is_add"].astype("i8"), -base["ordinal"])
        few = [single for row in rows if row["singles"] for single in orjson.loads(row["singles"])]
        answer: dict[str, Any] = {
            **added_up([summed(won), summed(base[once])]),
            "singles": orjson.dumps(_newest_singles(few)),
            "repeats": int((~once).sum()),
        }
        if with_keys:
            answer["keys"] = np.stack([won[name] for name in _KEY.names or ()], axis=1).tobytes()
        yield pa.RecordBatch.from_pylist([answer], SETTLED_WITH_KEYS if with_keys else SETTLED)


def sum_checkpoint(
    batches: Iterable[pa.RecordBatch], job: Job, touched: bytes, lots: int
) -> Iterator[pa.RecordBatch]:
    """Yield the sums of a task's pieces of a checkpoint, and half of each of their keys, in lots.

    `touched` are the keys that later actions name, as `settle` gives them. They do not count.
    """
    with explained():
        later = KeySet()
        keys = np.frombuffer(touched, dtype=_KEY)
        later.add(keys["first"].copy(), keys["second"].copy())
        sums, field = [], record_field(job.directory.log_format)
        found = [np.empty(0, dtype=np.uint64)]
        for part in checkpoint_rows(batches, job):
            keep = ~later.contains(part.first, part.second)
            found.append(part.first[keep])
            sums.append(summed(_packed(part, keep, field)))
        halves, total = np.concatenate(found), added_up(sums)
        columns = {
            "lot": pa.array(np.arange(lots, dtype=np.int32)),
            **{name: pa.array([total[name]] + [0] * (lots - 1), _WIDE) for name in SUMMED},
            "halves": pa.array([lot.tobytes() for lot in _dealt(halves, halves, lots)]),
        }
        yield filled(columns, lots, HALVES)


def compare_halves(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the sums that come with one lot, and how many keys in it have the half of another."""
    rows = [row for batch in batches for row in batch.to_pylist()]
    halves = np.frombuffer(b"".join(row["halves"] for row in rows), dtype=np.uint64)
    ordered = np.sort(halves)
    repeats = int((ordered[1:] == ordered[:-1]).sum())
    yield pa.RecordBatch.from_pylist([{**added_up(rows), "repeats": repeats}], COMPARED)


def summed(actions: np.ndarray) -> dict[str, int]:
    """Return the sums of file actions; they may need more than 64 bits."""
    adds = actions[actions["is_add"]]
    known = adds[adds["is_known"]]
    return {
        "files": len(adds),
        "tombstones": len(actions) - len(adds),
        "size": _wide_sum(adds["size"]),
        "records": _wide_sum(known["records"]),
        "known": len(known),
    }


def added_up(rows: Sequence[Any]) -> dict[str, int]:
    """Return the sums of rows that have sums."""
    return {name: sum(int(row[name]) for row in rows) for name in SUMMED}


def _wide_sum(numbers: np.ndarray) -> int:
    high, low = numbers >> _HALF, numbers & (2**_HALF - 1)
    return (int(high.sum()) << _HALF) + int(low.sum())


def _packed(part: FileRows, keep: np.ndarray, field: str) -> np.ndarray:
    """Return the marked actions as they travel; `field` tells their records."""
    found = np.zeros(int(keep.sum()), dtype=ACTION)
    found["first"], found["second"] = part.first[keep], part.second[keep]
    found["version"], found["ordinal"] = part.versions[keep], part.ordinals[keep]
    if part.kind != "add":
        return found
    found["is_add"] = True
    column = part.column
    names = [name for name in ("size", field) if name in column.type.names]
    mask = np.zeros(len(column), dtype=bool)
    mask[part.rows[keep]] = True
    # Of the fields, these alone; a struct of all of them would be copied whole.
    chosen = {name: column.field(name).filter(pa.array(mask)) for name in names}
    if "size" in chosen:
        found["size"] = chosen["size"].fill_null(0)
    if field in chosen:
        records = record_counts(pa.table({field: chosen[field]})).combine_chunks()
        found["is_known"] = records.is_valid()
        found["records"] = records.fill_null(0)
    return found


def _in_lots(
    found: Sequence[np.ndarray], lots: int, *, tail: bool, singles: Sequence[bytes] | None = None
) -> pa.RecordBatch:
    actions = np.concatenate([np.empty(0, dtype=ACTION), *found])
    dealt = [lot.tobytes() for lot in _dealt(actions, actions["first"], lots)]
    columns = {
        "lot": pa.array(np.arange(lots, dtype=np.int32)),
        "tail" if tail else "checkpoint": pa.array(dealt, pa.binary()),
    }
    if singles is not None:
        columns["singles"] = pa.array(singles, pa.binary())
    return filled(columns, lots, LOTS)


def _dealt(rows: np.ndarray, keys: np.ndarray, lots: int) -> list[np.ndarray]:
    """Deal rows into lots by their keys, which are hashes."""
    if lots == 1:
        return [rows]
    lot = (keys % np.uint64(lots)).astype(np.int32)
    order = np.argsort(lot, kind="stable")
    bounds = np.searchsorted(lot[order], np.arange(1, lots))
    return np.split(rows[order], bounds)


def _joined(parts: Iterable[bytes | None]) -> np.ndarray:
    return np.frombuffer(b"".join(part for part in parts if part), dtype=ACTION)


def _all(part: FileRows) -> np.ndarray:
    return np.ones(len(part.rows), dtype=bool)


def _newest_singles(rows: Iterable[list[Any]]) -> list[list[Any]]:
    """Keep the newest of the rows [version, ordinal, kind, key, JSON] of each kind and key."""
    won: dict[tuple[str, str], list[Any]] = {}
    for row in rows:
        key = (row[2], row[3])
        if key not in won or won[key][:2] <= row[:2]:
            won[key] = row
    return list(won.values())
