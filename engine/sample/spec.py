"""What sample was asked for?"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

from engine.formats import DELTA, INDEXTABLES, by_name

if TYPE_CHECKING:
    from collections.abc import Mapping

CHECKPOINT_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    DELTA.name: ("classic", "multi-part", "v2", "v2-json", "v2-classic"),
    INDEXTABLES.name: ("classic", "multi-part", "json", "json-parts"),
}
COMPRESSIONS: Final = ("none", "gzip", "mixed")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSpec:
    """Every choice there is about a sample log. The same choices give the same bytes.

    Commit 0 creates the table and adds its first files; every later one adds `adds` files and
    removes `removes` of those that are live. `deletion_vectors` and `skips` are shares: how many
    live files get a new deletion vector, or a mergeskip, for each file that is added.

    Attributes:
        log_format: `delta` or `indextables`.
        commits: how many versions, from 0 on.
        adds: files added in each commit.
        removes: files removed in each commit but the first.
        seed: another seed is another table.
        partitions: how many partitions, by date and hour; 0 for a table without.
        deletion_vectors: Delta only. A remove and an add of one path in one commit.
        txns: how many applications note their progress in the log.
        domains: Delta only. How many metadata domains are set, and now and then removed.
        skips: IndexTables only.
        stats: whether the files come with statistics.
        checkpoint_every: a checkpoint after so many commits, again and again; 0 for none.
        checkpoint_at: a checkpoint of each of these versions.
        checkpoint_kind: one of CHECKPOINT_KINDS of the format.
        compact_every: a compaction of so many commits, again and again, counted anew after each
            checkpoint; 0 for none.
        compression: IndexTables only: `none`, `gzip` (with its header), or `mixed` (plain,
            headed and raw, in turn).
        cleaned: leave out the commits before the last checkpoint, as a cleanup would.
        interval_s: seconds between commits.
        start_ms: when the first commit was made, in milliseconds since 1970.
    """

    log_format: str = DELTA.name
    commits: int = 100
    adds: int = 10
    removes: int = 3
    seed: int = 0
    partitions: int = 48
    deletion_vectors: float = 0.0
    txns: int = 0
    domains: int = 0
    skips: float = 0.0
    stats: bool = True
    checkpoint_every: int = 0
    checkpoint_at: tuple[int, ...] = ()
    checkpoint_kind: str = "classic"
    compact_every: int = 0
    compression: str = "none"
    cleaned: bool = False
    interval_s: int = 60
    start_ms: int = 1_704_067_200_000

    def __post_init__(self) -> None:
        by_name(self.log_format)
        object.__setattr__(self, "checkpoint_at", tuple(self.checkpoint_at))
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; use {least} or more")
        if self.start_ms + self.commits * self.interval_s * 1000 > _LAST_MS:
            raise ValueError(f"start_ms is {self.start_ms}; the last commit must be before 10000")
        if self.compact_every == 1:
            raise ValueError("compact_every is 1; a compaction stands in for 2 commits or more")
        for version in self.checkpoint_at:
            if not 0 <= version < self.commits:
                raise ValueError(f"checkpoint_at is {version}; use 0 to {self.commits - 1}")
        self._check_word("checkpoint_kind", CHECKPOINT_KINDS[self.log_format])
        self._check_word("compression", COMPRESSIONS)
        for name in _NOT_IN[self.log_format]:
            if getattr(self, name) != _DEFAULTS[name]:
                raise ValueError(f"{name} is {getattr(self, name)}; {self.log_format} has none")

    @property
    def checkpoint_versions(self) -> list[int]:
        """The versions to make checkpoints of, ascending."""
        every = self.checkpoint_every
        steady = range(every, self.commits, every) if every else ()
        return sorted({*self.checkpoint_at, *steady})

    def _check_word(self, name: str, allowed: tuple[str, ...]) -> None:
        if getattr(self, name) not in allowed:
            raise ValueError(f"{name} is {getattr(self, name)!r}; use {', '.join(allowed)}")


_DEFAULTS: Final = {field.name: field.default for field in fields(SampleSpec)}
# Dates beyond the year 9999 are none to most engines.
_LAST_MS: Final = 253_402_300_799_999
_LEAST: Final = {
    "commits": 1,
    "adds": 0,
    "removes": 0,
    "seed": 0,
    "partitions": 0,
    "deletion_vectors": 0,
    "txns": 0,
    "domains": 0,
    "skips": 0,
    "checkpoint_every": 0,
    "compact_every": 0,
    "interval_s": 1,
    "start_ms": 0,
}
_NOT_IN: Final = {
    DELTA.name: ("skips", "compression"),
    INDEXTABLES.name: ("deletion_vectors", "domains"),
}
