"""Which ranges of commits should be compacted? Deciding only: no file is read here.

Readers differ in how they choose among compactions. delta-spark goes up and takes the narrowest
that begins where it stands, the Java kernel comes down and takes the widest that ends there, the
Rust kernel goes up and takes the widest. Tiles that do not overlap are the same to all of them.
A wide tile over narrow ones does no reader harm as long as it cuts none of them in two and lies
inside none: whoever takes it reads one file in the place of several, whoever does not reads what
it read before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from engine.log.paths import FileKind
from engine.log.segment import complete_checkpoints

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.log.paths import TransactionFileRef

# As many narrow tiles in a row are worth a wide one over them.
WIDE: Final = 8


@dataclass(frozen=True, slots=True, order=True)
class Tile:
    """An inclusive range of versions, at least two of them."""

    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.start} to {self.end}"

    @property
    def versions(self) -> range:
        """The versions of the range."""
        return range(self.start, self.end + 1)

    def overlaps(self, other: Tile) -> bool:
        """Tell whether the two share a version."""
        return self.start <= other.end and other.start <= self.end

    def holds(self, other: Tile) -> bool:
        """Tell whether every version of `other` is in this one."""
        return self.start <= other.start and other.end <= self.end


@dataclass(frozen=True, slots=True)
class Logged:
    """What a listing shows of commits and compactions after the newest checkpoint.

    `tiles` are the ranges that have a compaction, sound or not. One that begins at or before the
    checkpoint is no reader's concern.
    """

    checkpoint: int
    commits: tuple[TransactionFileRef, ...]
    tiles: tuple[Tile, ...]

    @property
    def latest(self) -> int:
        """The newest version; that of the checkpoint where no commit follows it."""
        return self.commits[-1].version if self.commits else self.checkpoint


def logged(refs: Sequence[TransactionFileRef]) -> Logged:
    """Return what there is to compact, and what is compacted already.

    A checkpoint that is not whole, or empty, is none. After a gap nothing is looked at.
    """
    whole = [c.version for c in complete_checkpoints(refs) if all(ref.size for ref in c.files)]
    newest = max(whole, default=-1)
    after = {ref.version: ref for ref in refs if ref.kind is FileKind.COMMIT}
    commits = []
    version = newest + 1
    while version in after:
        commits.append(after[version])
        version += 1
    tiles = {Tile(r.start_version, r.version) for r in refs if r.kind is FileKind.COMPACTION}
    return Logged(newest, tuple(commits), tuple(sorted(t for t in tiles if t.start > newest)))


def window_after(
    version: int, *, interval: int, checkpoint: int, tiles: Iterable[Tile] = ()
) -> Tile | None:
    """Return what to compact after the commit of `version`; None where it is not the time.

    Every `interval` versions, the commits since the one before; not those that a checkpoint
    holds, nor those that a compaction covers already. A range of one commit is none.
    """
    if version <= 0 or version % interval:
        return None
    start = max(version - interval + 1, checkpoint + 1)
    for tile in sorted(tiles):
        if tile == Tile(start, version):
            return tile
        if tile.start <= start <= tile.end:
            start = tile.end + 1
    found = Tile(start, version)
    if found.start >= found.end or not may_add(found, tiles):
        return None
    return found


def backfill(log: Logged, *, interval: int, tile_bytes: int) -> list[Tile]:
    """Return the tiles that are missing, oldest first: all commits that no compaction covers.

    They end at multiples of `interval`, where those that are made commit by commit end too, and
    hold about `tile_bytes` of commits at most, so that many tasks can share their reading. What
    comes after the last multiple is left to the commit that reaches the next.
    """
    found: list[Tile] = []
    for run in _uncovered(log):
        start, size = None, 0
        last = run[-1].version - run[-1].version % interval
        stops_early = any(tile.start == run[-1].version + 1 for tile in log.tiles)
        for at, ref in enumerate(run):
            start = ref.version if start is None else start
            size += ref.size
            is_last = ref is run[-1] and stops_early
            ahead = sum(r.size for r in run[at + 1 : at + 1 + interval])
            is_full = size + ahead > tile_bytes or ref.version == last
            if is_last or (ref.version % interval == 0 and is_full):
                if start < ref.version:
                    found.append(Tile(start, ref.version))
                start, size = None, 0
    return [tile for tile in found if may_add(tile, log.tiles)]


def widen(log: Logged, tiles: Iterable[Tile], *, tile_bytes: int) -> list[Tile]:
    """Return a wide tile over every `WIDE` or more narrow ones in a row that together are small.

    `tiles` are those that will be there too. Only the outermost are looked at.
    """
    known = sorted({*log.tiles, *tiles}, key=lambda tile: (tile.start, -tile.end))
    outer: list[Tile] = []
    for tile in known:
        if not outer or not outer[-1].holds(tile):
            outer.append(tile)
    sizes = {ref.version: ref.size for ref in log.commits}
    found: list[Tile] = []
    row: list[Tile] = []
    size = 0
    for tile in outer:
        if not all(version in sizes for version in tile.versions):
            continue
        more = sum(sizes[version] for version in tile.versions)
        if row and (row[-1].end + 1 != tile.start or size + more > tile_bytes):
            found += _over(row)
            row, size = [], 0
        row.append(tile)
        size += more
    found += _over(row)
    return [tile for tile in found if may_add(tile, known)]


def may_add(tile: Tile, tiles: Iterable[Tile]) -> bool:
    """Tell whether no reader is worse off for this tile: it cuts none, and lies inside none."""
    return all(not tile.overlaps(other) or (tile.holds(other) and tile != other) for other in tiles)


def _over(row: Sequence[Tile]) -> list[Tile]:
    return [Tile(row[0].start, row[-1].end)] if len(row) >= WIDE else []


def _uncovered(log: Logged) -> Iterator[list[TransactionFileRef]]:
    """Yield the runs of neighbouring commits that no compaction covers."""
    covered = {version for tile in log.tiles for version in tile.versions}
    run: list[TransactionFileRef] = []
    for ref in log.commits:
        if ref.version in covered:
            if run:
                yield run
            run = []
        else:
            run.append(ref)
    if run:
        yield run
