"""What is done with one share of the keys? The notes of a walk, over a ledger of its own.

Every comparison is of one key at a time, so what the shares find adds up.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from engine.upkeep.verify.actions import Complaint, partition_complaints
from engine.upkeep.verify.commits import odd_rows
from engine.upkeep.verify.ledger import Ledger, Sums, adds_last
from engine.upkeep.verify.odd import Odd, odd_alone, odd_in_checkpoint, odd_in_compaction
from engine.upkeep.verify.surviving import Entries, joined_entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from engine.formats import LogFormat
    from engine.log.paths import TransactionFileRef
    from engine.upkeep.verify.reading import Reader

COMMITS: Final = ""
_INT: Final = ("size", "versions", "ordinals")
_FLAGS: Final = ("is_add", "has_vector")

# One file action on its way to its share; `source` is the derived file it stands in.
ROWS_SCHEMA: Final = pa.schema(
    {
        "share": pa.int32(),
        "source": pa.string(),
        **dict.fromkeys(Entries.__slots__, pa.int64()),
    }
)
BYTES_SCHEMA: Final = pa.schema({"item": pa.int32(), "data": pa.binary()})


@dataclass(frozen=True)
class Note:
    """One thing to do with a share: which, with what of `source`, and where it stands."""

    what: str
    source: str = COMMITS
    versions: tuple[int, int] = (0, 0)
    cutoff_ms: int | None = None
    is_known: bool = True


@dataclass(frozen=True)
class Answer:
    """What a share says to a note: keys that are odd, or numbers that add up."""

    note: int
    version: int = 0
    odd: Odd | None = None
    numbers: tuple[int, ...] = ()


def settle(
    rows: Mapping[str, Entries],
    notes: Sequence[Note],
    sum_versions: frozenset[int],
    log_format: LogFormat,
) -> Iterator[Answer]:
    """Do what the notes say with one share of the keys; `rows` are by source."""
    none = joined_entries([])
    ledger = Ledger()
    for index, note in enumerate(notes):
        here = rows.get(note.source, none)
        if note.what == "lose":
            ledger = Ledger()
        elif note.what == "start":
            ledger = Ledger()
            ledger.apply(here.select(adds_last(here)))
            yield from _sums(index, {}, ledger.sums, note.versions, sum_versions)
        elif note.what == "commits":
            inside = (here.versions >= note.versions[0]) & (here.versions <= note.versions[1])
            yield from _commits(index, note, here.select(inside), ledger, sum_versions, log_format)
        elif note.what == "expired":
            removes = here.select(~here.is_add)
            assert note.cutoff_ms is not None
            old = int((removes.size <= note.cutoff_ms).sum())
            yield Answer(index, numbers=(old, len(removes)))
        elif note.what == "twice":
            doubled, slots = ledger.live_twice()
            if len(doubled):
                few = slots[:50]
                keys = ledger.fingerprints(few)
                found = Odd("FILE_LIVE_TWICE", len(doubled), *keys, ledger.versions(few))
                yield Answer(index, odd=found)
        else:
            for odd in _compared(note, here, ledger):
                yield Answer(index, note.versions[1], odd)


def _compared(note: Note, rows: Entries, ledger: Ledger) -> Iterator[Odd]:
    if note.what == "alone":
        yield from odd_alone(rows)
    elif note.what == "checkpoint":
        yield from odd_in_checkpoint(rows, ledger, note.cutoff_ms)
    else:
        yield from odd_in_compaction(rows, ledger, note.versions[0])


def _commits(
    index: int,
    note: Note,
    rows: Entries,
    ledger: Ledger,
    sum_versions: frozenset[int],
    log_format: LogFormat,
) -> Iterator[Answer]:
    before = ledger.sums
    applied = ledger.apply(rows)
    for (code, version), found in odd_rows(rows, applied, log_format).items():
        if code == "UNKNOWN_REMOVE" and not note.is_known:
            continue
        few = np.array(found[:50])
        odd = Odd(code, len(found), rows.first[few], rows.second[few], rows.versions[few])
        yield Answer(index, version, odd)
    yield from _sums(index, applied.after, before, note.versions, sum_versions)


def _sums(
    index: int,
    after: Mapping[int, Sums],
    sums: Sums,
    versions: tuple[int, int],
    wanted: frozenset[int],
) -> Iterator[Answer]:
    for version in range(versions[0], versions[1] + 1):
        sums = after.get(version, sums)
        if version in wanted:
            low, high = sums.content & 0xFFFFFFFF, sums.content >> 32
            numbers = (sums.files, sums.size_bytes, sums.vectors, low, high)
            yield Answer(index, version, numbers=numbers)


def judge(
    reader: Reader,
    refs: Sequence[TransactionFileRef],
    ranges: Sequence[tuple[tuple[int, int], Mapping[str, Any]]],
) -> tuple[Entries, list[Complaint]]:
    """Return the file actions of commits, and what is wrong with their partition values."""
    read = reader.commits(refs)
    first, last = refs[0].version, refs[-1].version
    complaints = [
        complaint
        for (start, end), metadata in ranges
        if start <= last and end >= first
        for complaint in partition_complaints(read.batches, metadata, (start, end))
    ]
    return read.rows, complaints


def to_batch(rows: Entries, source: str, shares: int) -> pa.RecordBatch:
    """Return file actions as they travel to their shares: all keys of a path to the same one."""
    columns = []
    for name in Entries.__slots__:
        numbers = getattr(rows, name)
        wide = numbers.astype(np.int64) if name in _FLAGS else numbers.view(np.int64)
        columns.append(pa.array(wide))
    share = (rows.file % np.uint64(shares)).astype(np.int32)
    names = pa.array([source] * len(rows), pa.string())
    return pa.RecordBatch.from_arrays([pa.array(share), names, *columns], schema=ROWS_SCHEMA)


def from_batches(batches: Iterable[pa.RecordBatch]) -> dict[str, Entries]:
    """Return the file actions of a share by their source, each ordered by its place."""
    table = pa.Table.from_batches(batches, ROWS_SCHEMA)
    found = {}
    for source in table["source"].unique().to_pylist():
        part = table.filter(pa.compute.equal(table["source"], source)).combine_chunks()
        numbers = {name: part[name].to_numpy() for name in Entries.__slots__}
        columns = [
            numbers[name].astype(bool)
            if name in _FLAGS
            else numbers[name].astype(np.int64)
            if name in _INT
            else numbers[name].astype(np.int64).view(np.uint64)
            for name in Entries.__slots__
        ]
        rows = Entries(*columns)
        found[source] = rows.select(np.lexsort((rows.ordinals, rows.versions)))
    return found


def packed(item: int, value: Any) -> pa.RecordBatch:
    """Return one value as it travels."""
    columns = [pa.array([item], pa.int32()), pa.array([pickle.dumps(value)], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=BYTES_SCHEMA)
