"""Which ranges are compacted: those the rules ask for, and none that makes a reader worse off."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formats import DELTA
from engine.log.paths import checkpoint_name, commit_name, compaction_name, parse_path
from engine.upkeep.compaction.tiles import Tile, backfill, logged, may_add, widen, window_after


def ref(name: str, size: int = 100):
    return parse_path(name, size, 0, DELTA)


def log(commits: range, *tiles: tuple[int, int], checkpoint: int | None = None, size: int = 100):
    refs = [ref(commit_name(version), size) for version in commits]
    refs += [ref(compaction_name(*tile)) for tile in tiles]
    if checkpoint is not None:
        refs.append(ref(checkpoint_name(checkpoint)))
    return logged(refs)


def windows(latest: int, *, interval: int, checkpoint_every: int | None = None) -> list[Tile]:
    """What is compacted while a table grows, commit by commit."""
    tiles: list[Tile] = []
    checkpoint = -1
    for version in range(latest + 1):
        if checkpoint_every and version and version % checkpoint_every == 0:
            checkpoint = version
        found = window_after(version, interval=interval, checkpoint=checkpoint, tiles=tiles)
        if found:
            tiles.append(found)
    return tiles


def test_t1_a_range_is_compacted_after_every_commit_that_is_a_multiple_of_the_interval():
    ends = [tile.end for tile in windows(20, interval=5)]
    assert ends == [5, 10, 15, 20]


def test_t2_a_window_reaches_back_one_interval_and_never_into_a_checkpoint():
    assert window_after(5, interval=5, checkpoint=-1) == Tile(1, 5)
    assert window_after(10, interval=5, checkpoint=10) is None
    assert window_after(15, interval=5, checkpoint=10) == Tile(11, 15)
    assert window_after(10, interval=5, checkpoint=7) == Tile(8, 10)
    assert windows(20, interval=5, checkpoint_every=10) == [Tile(1, 5), Tile(11, 15)]


def test_t3_nothing_is_compacted_where_a_checkpoint_was_just_written():
    assert window_after(10, interval=5, checkpoint=10) is None
    assert window_after(10, interval=5, checkpoint=12) is None


def test_t4_nothing_is_compacted_before_a_window_is_full():
    assert all(window_after(v, interval=5, checkpoint=-1) is None for v in (0, 1, 2, 3, 4, 6, 9))


@given(st.integers(2, 9), st.integers(0, 60), st.none() | st.integers(1, 25))
def test_t5_windows_never_overlap(interval: int, latest: int, every: int | None):
    found = windows(latest, interval=interval, checkpoint_every=every)
    assert all(not a.overlaps(b) for a, b in pairwise(found))


@given(st.integers(2, 9), st.integers(0, 60), st.none() | st.integers(1, 25))
def test_t6_a_window_has_two_versions_or_more(interval: int, latest: int, every: int | None):
    assert all(t.end > t.start for t in windows(latest, interval=interval, checkpoint_every=every))
    assert window_after(10, interval=5, checkpoint=9) is None


def test_a_window_begins_after_a_compaction_that_somebody_else_made():
    assert window_after(10, interval=5, checkpoint=-1, tiles=[Tile(3, 7)]) == Tile(8, 10)
    assert window_after(10, interval=5, checkpoint=-1, tiles=[Tile(1, 9)]) is None
    assert window_after(10, interval=5, checkpoint=-1, tiles=[Tile(6, 10)]) == Tile(6, 10)
    assert window_after(10, interval=5, checkpoint=-1, tiles=[Tile(8, 14)]) is None


# --- older history -----------------------------------------------------------------------------


def test_older_history_is_tiled_up_to_the_last_multiple():
    assert backfill(log(range(23)), interval=5, tile_bytes=10**6) == [Tile(0, 20)]
    assert backfill(log(range(23)), interval=5, tile_bytes=1000) == [Tile(0, 5), Tile(6, 15),
                                                                    Tile(16, 20)]  # fmt: skip
    assert backfill(log(range(4)), interval=5, tile_bytes=10**6) == []


def test_what_is_compacted_or_checkpointed_is_not_tiled_again():
    found = log(range(31), (11, 15), checkpoint=5)
    assert backfill(found, interval=5, tile_bytes=10**6) == [Tile(6, 10), Tile(16, 30)]
    whole = log(range(31), (0, 10), (11, 20), (21, 30))
    assert backfill(whole, interval=5, tile_bytes=10**6) == []


def test_a_hole_between_two_compactions_is_filled_whatever_its_length():
    found = log(range(31), (1, 7), (11, 20))
    assert backfill(found, interval=5, tile_bytes=10**6) == [Tile(8, 10), Tile(21, 30)]
    assert Tile(6, 7) in backfill(log(range(31), (1, 5), (8, 20)), interval=5, tile_bytes=10**6)


def test_after_a_gap_nothing_is_tiled():
    refs = [ref(commit_name(version)) for version in (0, 1, 2, 3, 4, 5, 7, 8, 9, 10)]
    assert backfill(logged(refs), interval=5, tile_bytes=10**6) == [Tile(0, 5)]


def test_an_empty_or_partial_checkpoint_hides_no_commits_from_tiling():
    refs = [ref(commit_name(version)) for version in range(11)]
    part = "00000000000000000005.checkpoint.0000000001.0000000002.parquet"
    assert logged([*refs, ref(part)]).checkpoint == -1
    assert logged([*refs, ref(checkpoint_name(5), 0)]).checkpoint == -1
    assert logged([*refs, ref(checkpoint_name(5))]).checkpoint == 5


@given(st.data())
def test_tiles_of_older_history_never_overlap_anything(data: st.DataObject):
    latest = data.draw(st.integers(0, 80))
    cuts = sorted(data.draw(st.sets(st.integers(0, max(latest, 1)), max_size=8)))
    there = [(a, b - 1) for a, b in zip(cuts[::2], cuts[1::2], strict=False) if b - 1 > a]
    size = data.draw(st.sampled_from([100, 700, 5000]))
    found = log(range(latest + 1), *there, size=10)
    tiles = backfill(found, interval=data.draw(st.integers(2, 7)), tile_bytes=size)
    known = [Tile(*t) for t in there]
    assert all(not t.overlaps(other) for t in tiles for other in known)
    assert all(not a.overlaps(b) for a, b in pairwise(tiles))
    assert all(t.end > t.start for t in tiles)


# --- how the readers choose --------------------------------------------------------------------
# Each is the engine's own way, as its source has it; a commit is a tile of one version.


def delta_spark(tiles: list[Tile], first: int, latest: int) -> list[tuple[int, int]]:
    """Up; of those that begin at one version the narrowest, then the commit."""
    files = sorted((t.start, t.end) for t in tiles) + [(v, v) for v in range(first, latest + 1)]
    files.sort(key=lambda file: (file[0], file[0] == file[1], file[1]))
    taken, high = [], first - 1
    for start, end in files:
        if high < start and end <= latest:
            taken.append((start, end))
            high = end
    return taken


def java_kernel(tiles: list[Tile], first: int, latest: int) -> list[tuple[int, int]]:
    """Down; of those that end at one version the widest."""
    taken, version = [], latest
    while version >= first:
        ending = [t for t in tiles if t.end == version and t.start >= first]
        start = min((t.start for t in ending), default=version)
        taken.append((start, version))
        version = start - 1
    return taken[::-1]


def rust_kernel(tiles: list[Tile], first: int, latest: int) -> list[tuple[int, int]]:
    """Up; of those that begin at one version the widest."""
    taken, version = [], first
    while version <= latest:
        beginning = [t for t in tiles if t.start == version and t.end <= latest]
        end = max((t.end for t in beginning), default=version)
        taken.append((version, end))
        version = end + 1
    return taken


READERS = (delta_spark, java_kernel, rust_kernel)


@pytest.mark.parametrize("reader", READERS)
def test_a_tile_that_may_be_added_makes_no_reader_read_more(reader):
    latest = 7
    spans = [Tile(a, b) for a, b in product(range(latest + 1), repeat=2) if a < b]
    for first, second in product(spans, repeat=2):
        if not may_add(second, [first]):
            continue
        for third in spans:
            if may_add(third, [first, second]):
                before = reader([first, second], 0, latest)
                after = reader([first, second, third], 0, latest)
                covered = [v for a, b in after for v in range(a, b + 1)]
                assert covered == list(range(latest + 1)), (first, second, third)
                assert len(after) <= len(before), (first, second, third)


def test_a_tile_that_may_not_be_added_makes_some_reader_read_more():
    wide, narrow = Tile(0, 7), Tile(0, 3)
    assert not may_add(narrow, [wide])
    assert len(delta_spark([wide, narrow], 0, 7)) > len(delta_spark([wide], 0, 7))


def test_many_narrow_tiles_in_a_row_get_a_wide_one():
    narrow = [(v, v + 4) for v in range(1, 41, 5)]
    found = log(range(46), *narrow)
    assert widen(found, [], tile_bytes=10**6) == [Tile(1, 40)]
    assert widen(found, [], tile_bytes=100) == []
    assert widen(log(range(46), *narrow[:5]), [], tile_bytes=10**6) == []
    assert widen(log(range(46), *narrow, (1, 40)), [], tile_bytes=10**6) == []
