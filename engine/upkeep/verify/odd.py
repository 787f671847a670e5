"""Which file keys of a checkpoint or a compaction are not as their commits say?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from engine.upkeep.verify.findings import some
from engine.upkeep.verify.ledger import content_sum

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.upkeep.verify.ledger import Ledger
    from engine.upkeep.verify.surviving import Entries

# So many keys of what is wrong are kept, of which the first few get names.
_MANY: Final = 50
_SAYS: Final = {
    "CHECKPOINT_DUPLICATE": "{count} files more than once",
    "CHECKPOINT_ADD_AND_REMOVE": "{count} files both added and removed",
    "CHECKPOINT_LOST_FILES": "{count} live files are missing",
    "CHECKPOINT_EXTRA_FILES": "{count} files that are not live",
    "CHECKPOINT_DIFFERS": "{count} files with another size, time, partition or deletion vector",
    "CHECKPOINT_LOST_TOMBSTONES": "{count} tombstones are missing",
    "COMPACTION_LOST_TOMBSTONES": "{count} removes are missing",
    "COMPACTION_LOST_FILES": "{count} adds are missing",
    "COMPACTION_EXTRA_FILES": "{count} actions too many",
    "COMPACTION_DIFFERS": "{count} actions not as committed",
}


@dataclass(frozen=True)
class Odd:
    """Keys with which something is wrong: how many, and a few of them.

    `versions` is which commits spoke of them last; None where the file itself has them.
    """

    code: str
    count: int
    first: np.ndarray
    second: np.ndarray
    versions: np.ndarray | None = None

    def plus(self, other: Odd) -> Odd:
        """Return these and those of another share of the keys."""
        versions = None
        if self.versions is not None and other.versions is not None:
            versions = np.concatenate([self.versions, other.versions])[:_MANY]
        return Odd(
            self.code,
            self.count + other.count,
            np.concatenate([self.first, other.first])[:_MANY],
            np.concatenate([self.second, other.second])[:_MANY],
            versions,
        )

    def told(self, names: list[str]) -> str:
        """Return what is wrong, with some of its names."""
        said = _SAYS[self.code].format(count=f"{self.count:,}")
        return f"{said}: {some(names, self.count)}"


def odd_alone(rows: Entries) -> Iterator[Odd]:
    """Yield what is wrong with the file actions of a checkpoint by themselves."""
    adds, removes = rows.select(rows.is_add), rows.select(~rows.is_add)
    yield from _odd("CHECKPOINT_DUPLICATE", adds, _repeated(adds))
    yield from _odd("CHECKPOINT_ADD_AND_REMOVE", removes, _common(removes, adds))


def odd_in_checkpoint(rows: Entries, ledger: Ledger, cutoff_ms: int | None) -> Iterator[Odd]:
    """Yield in what a checkpoint's files differ from the replay of the commits.

    Tombstones younger than `cutoff_ms` must be there; None where none must.
    """
    adds = rows.select(rows.is_add)
    if len(adds) != ledger.sums.files or content_sum(adds) != ledger.sums.content:
        slots = ledger.find(adds.first, adds.second)
        known = slots >= 0
        known[known] = ledger.is_add(slots[known])
        live = ledger.keys(-1, adds=True)
        lost = live[~np.isin(live, slots[known])]
        yield from _lost("CHECKPOINT_LOST_FILES", ledger, lost)
        yield from _odd("CHECKPOINT_EXTRA_FILES", adds, ~known)
        changed = np.zeros(len(adds), dtype=bool)
        changed[known] = ledger.content(slots[known]) != adds.content[known]
        yield from _odd("CHECKPOINT_DIFFERS", adds, changed)
    if cutoff_ms is not None:
        removes = rows.select(~rows.is_add)
        dead = ledger.keys(-1, adds=False)
        # What is fresh now was so when the checkpoint was written.
        fresh = dead[ledger.sizes(dead) > cutoff_ms]
        lost = fresh[~np.isin(fresh, ledger.find(removes.first, removes.second))]
        yield from _lost("CHECKPOINT_LOST_TOMBSTONES", ledger, lost)


def odd_in_compaction(rows: Entries, ledger: Ledger, start_version: int) -> Iterator[Odd]:
    """Yield in what a compaction's files differ from the winners of its commits."""
    expected = ledger.keys(start_version)
    slots = ledger.find(rows.first, rows.second)
    known = slots >= 0
    known[known] = ledger.versions(slots[known]) >= start_version
    lost = expected[~np.isin(expected, slots[known])]
    yield from _lost("COMPACTION_LOST_TOMBSTONES", ledger, lost[~ledger.is_add(lost)])
    yield from _lost("COMPACTION_LOST_FILES", ledger, lost[ledger.is_add(lost)])
    here = slots[known]
    other = np.zeros(len(rows), dtype=bool)
    other[known] = ledger.is_add(here) != rows.is_add[known]
    extra = ~known | (other & rows.is_add)
    yield from _odd("COMPACTION_EXTRA_FILES", rows, extra)
    changed = np.zeros(len(rows), dtype=bool)
    changed[known] = ledger.content(here) != rows.content[known]
    yield from _odd("COMPACTION_DIFFERS", rows, (changed | (other & ~rows.is_add)) & ~extra)


def _repeated(rows: Entries) -> np.ndarray:
    """Return which rows repeat the key of a row before them."""
    order = np.lexsort((rows.second, rows.first))
    first, second = rows.first[order], rows.second[order]
    found = np.zeros(len(rows), dtype=bool)
    found[order[1:]] = (first[1:] == first[:-1]) & (second[1:] == second[:-1])
    return found


def _common(rows: Entries, others: Entries) -> np.ndarray:
    """Return which rows have the key of one of the others."""
    found = np.isin(rows.first, others.first)
    if found.any():
        pairs = set(zip(others.first.tolist(), others.second.tolist(), strict=True))
        at = np.flatnonzero(found)
        found[at] = [(int(rows.first[i]), int(rows.second[i])) in pairs for i in at]
    return found


def _odd(code: str, rows: Entries, which: np.ndarray) -> Iterator[Odd]:
    if which.any():
        at = np.flatnonzero(which)
        yield Odd(code, len(at), rows.first[at[:_MANY]], rows.second[at[:_MANY]])


def _lost(code: str, ledger: Ledger, slots: np.ndarray) -> Iterator[Odd]:
    if len(slots):
        some_of = slots[:_MANY]
        first, second = ledger.fingerprints(some_of)
        yield Odd(code, len(slots), first, second, ledger.versions(some_of))
