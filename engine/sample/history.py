"""What happens in each commit, and what is then live? Numbers only: nothing is written here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.sample.files import Numbers
    from engine.sample.spec import SampleSpec

_NONE: Final = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class FileKeys:
    """Files under their keys, and the version that spoke of each.

    `vectors` is the version that gave the file its deletion vector, 0 where it has none.
    """

    ids: Numbers = field(default_factory=_NONE.copy)
    vectors: Numbers = field(default_factory=_NONE.copy)
    versions: Numbers = field(default_factory=_NONE.copy)

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: slice | np.ndarray[Any, np.dtype[np.bool_]]) -> FileKeys:
        """Return some of them."""
        return FileKeys(self.ids[rows], self.vectors[rows], self.versions[rows])


def concat(keys: Sequence[FileKeys]) -> FileKeys:
    """Return them all, in order."""
    if not keys:
        return FileKeys()
    return FileKeys(
        np.concatenate([k.ids for k in keys]),
        np.concatenate([k.vectors for k in keys]),
        np.concatenate([k.versions for k in keys]),
    )


@dataclass(frozen=True, slots=True)
class Skip:
    """A file that a merge passed over, for the `count`-th time."""

    file: int
    version: int
    count: int


@dataclass(frozen=True, slots=True)
class Actions:
    """What one commit, or a range of them reconciled, says: every key at most once.

    `txns` maps an application to its progress, and to the version that noted it; `domains` a
    domain to whether it is set (else removed), and to the version that says so.
    """

    start_version: int
    version: int
    added: FileKeys
    removed: FileKeys
    txns: dict[int, tuple[int, int]]
    domains: dict[int, tuple[bool, int]]
    skips: dict[int, Skip]

    def __len__(self) -> int:
        few = len(self.txns) + len(self.domains) + len(self.skips)
        return few + len(self.added) + len(self.removed)


class History:
    """Makes one commit after the other, and knows the state they add up to."""

    def __init__(self, spec: SampleSpec) -> None:
        self._spec = spec
        # The legacy generator: the only one whose numbers numpy promises never to change.
        self._random = np.random.RandomState(spec.seed % 2**32)
        self._live = np.zeros(spec.commits * spec.adds, np.int64)
        self._count = 0
        self._vectors = np.zeros(spec.commits * spec.adds, np.int64)
        self._removed: list[FileKeys] = []
        self._txns: dict[int, tuple[int, int]] = {}
        self._domains: dict[int, tuple[bool, int]] = {}
        self._skips: dict[int, Skip] = {}

    def commit(self, version: int) -> Actions:
        """Make the next commit."""
        spec = self._spec
        removes = min(spec.removes, self._count) if version else 0
        updates = min(_due(version, spec.adds * spec.deletion_vectors), self._count - removes)
        chosen = self._choose(removes + updates)
        removed = self._keys(chosen, version)
        updated = FileKeys(
            removed.ids[removes:],
            np.full(updates, version),
            np.full(updates, version),
        )
        self._vectors[updated.ids] = version
        self._drop(chosen[:removes])
        fresh = np.arange(version * spec.adds, (version + 1) * spec.adds, dtype=np.int64)
        self._live[self._count : self._count + spec.adds] = fresh
        self._count += spec.adds
        self._removed.append(removed)
        added = FileKeys(fresh, np.zeros(spec.adds, np.int64), np.full(spec.adds, version))
        txns, domains, skips = self._txn(version), self._domain(version), self._skip(version)
        self._txns |= txns
        self._domains |= domains
        self._skips |= skips
        return Actions(version, version, concat([updated, added]), removed, txns, domains, skips)

    def state(self, version: int, *, tombstones_since: int, skips_since: int) -> Actions:
        """Return the state of the version just committed, as a checkpoint holds it.

        Removed domains, and tombstones and skips of earlier versions than those, are left out.
        """
        live = np.sort(self._live[: self._count])
        return Actions(
            start_version=0,
            version=version,
            added=FileKeys(live, self._vectors[live], live // max(self._spec.adds, 1)),
            removed=concat(self._removed[tombstones_since:]),
            txns=dict(self._txns),
            domains={d: entry for d, entry in self._domains.items() if entry[0]},
            skips={f: skip for f, skip in self._skips.items() if skip.version >= skips_since},
        )

    @property
    def num_files(self) -> int:
        """How many files are live."""
        return self._count

    @property
    def num_tombstones(self) -> int:
        """How many removes there were; no file comes back, so every one of them has won."""
        return sum(map(len, self._removed))

    def _choose(self, count: int) -> Numbers:
        """Return distinct places of the live files, in no order."""
        if count * 2 >= self._count:
            return self._random.permutation(self._count)[:count].astype(np.int64)
        found = _NONE
        while len(found) < count:
            more = self._random.randint(0, self._count, count + count // 8 + 8)
            found = np.unique(np.concatenate([found, more.astype(np.int64)]))
        return self._random.permutation(found)[:count]

    def _keys(self, places: Numbers, version: int) -> FileKeys:
        ids = self._live[places]
        return FileKeys(ids, self._vectors[ids], np.full(len(ids), version))

    def _drop(self, places: Numbers) -> None:
        """Take files out of the live ones; the last ones move to their places."""
        rest = self._count - len(places)
        stays = np.ones(len(places), np.bool_)
        stays[places[places >= rest] - rest] = False
        self._live[places[places < rest]] = self._live[rest : self._count][stays]
        self._count = rest

    def _txn(self, version: int) -> dict[int, tuple[int, int]]:
        if not self._spec.txns:
            return {}
        return {version % self._spec.txns: (version // self._spec.txns, version)}

    def _domain(self, version: int) -> dict[int, tuple[bool, int]]:
        """Every second commit sets the next domain; every third turn removes it instead."""
        if not self._spec.domains or version % 2 == 0:
            return {}
        turn, domain = divmod(version // 2, self._spec.domains)
        return {domain: (turn % 3 != 1, version)}

    def _skip(self, version: int) -> dict[int, Skip]:
        count = min(_due(version, self._spec.adds * self._spec.skips), self._count)
        files = self._live[self._choose(count)].tolist()
        before = (self._skips.get(file) for file in files)
        return {
            file: Skip(file, version, old.count + 1 if old else 1)
            for file, old in zip(files, before, strict=True)
        }


def reconcile(commits: Sequence[Actions]) -> Actions:
    """Return what a compaction of these commits keeps: every winner, every remove."""
    added, removed = concat([c.added for c in commits]), concat([c.removed for c in commits])
    base = commits[-1].version + 1
    gone = np.isin(added.ids * base + added.vectors, removed.ids * base + removed.vectors)
    txns: dict[int, tuple[int, int]] = {}
    domains: dict[int, tuple[bool, int]] = {}
    skips: dict[int, Skip] = {}
    for commit in commits:
        txns |= commit.txns
        domains |= commit.domains
        skips |= commit.skips
    return Actions(
        commits[0].start_version,
        commits[-1].version,
        added.take(~gone),
        removed,
        txns,
        domains,
        skips,
    )


def _due(version: int, share: float) -> int:
    """Return how many of a thing are due in a commit when there are `share` of it a commit."""
    return int(version * share) - int((version - 1) * share) if version else 0
