"""Which files make a version: decided from names and sizes alone."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import (
    CleanedUpError,
    EmptyLogError,
    LogGapError,
    LogStartError,
    ReplayError,
    VersionNotFoundError,
)
from engine.formats import DELTA, INDEXTABLES
from engine.log.paths import TransactionFileRef, parse_path
from engine.log.segment import FILE_COST, LogSegment, cheapest_cover, segment_for


def ref(name: str, size: int = 100, log_format=DELTA) -> TransactionFileRef:
    found = parse_path(name, size, 0, log_format)
    assert found is not None, name
    return found


def commits(*versions: int, size: int = 100) -> list[TransactionFileRef]:
    return [ref(f"{version:020d}.json", size) for version in versions]


def classic(version: int, size: int = 100) -> TransactionFileRef:
    return ref(f"{version:020d}.checkpoint.parquet", size)


def parts(version: int, numbers: list[int], of: int, size: int = 100) -> list[TransactionFileRef]:
    return [
        ref(f"{version:020d}.checkpoint.{part:010d}.{of:010d}.parquet", size) for part in numbers
    ]


def v2(version: int, unique: str = "a-b", suffix: str = "json") -> TransactionFileRef:
    return ref(f"{version:020d}.checkpoint.{unique}.{suffix}")


def compaction(start: int, end: int, size: int = 100) -> TransactionFileRef:
    return ref(f"{start:020d}.{end:020d}.compacted.json", size)


def segment(refs: list[TransactionFileRef], version: int | None = None, **options) -> LogSegment:
    return segment_for(refs, version, log_format=DELTA, directory="log", **options)


def shape(found: LogSegment) -> tuple[int | None, list[tuple[int, int]]]:
    """Return the checkpoint's version and the ranges read after it."""
    start = found.checkpoint.version if found.checkpoint else None
    return start, [(r.start_version, r.version) for r in found.tail]


def test_commits_alone_make_a_version() -> None:
    assert shape(segment(commits(0, 1, 2))) == (None, [(0, 0), (1, 1), (2, 2)])
    assert shape(segment(commits(0, 1, 2), 1)) == (None, [(0, 0), (1, 1)])


def test_a_checkpoint_stands_in_for_everything_up_to_it() -> None:
    found = segment([*commits(0, 1, 2, 3), classic(2)])
    assert shape(found) == (2, [(3, 3)])
    assert found.last_commit == commits(3)[0]


def test_the_newest_complete_checkpoint_not_after_the_version_is_taken() -> None:
    refs = [*commits(*range(9)), classic(2), classic(5), *parts(7, [1, 3], 3)]
    assert shape(segment(refs)) == (5, [(6, 6), (7, 7), (8, 8)])
    assert shape(segment(refs, 4)) == (2, [(3, 3), (4, 4)])
    assert shape(segment(refs, 5)) == (5, [])
    assert shape(segment(refs, 1)) == (None, [(0, 0), (1, 1)])


def test_parts_of_different_splits_do_not_complete_each_other() -> None:
    refs = [*commits(0, 1), *parts(1, [1], 2), *parts(1, [2], 3), *parts(1, [3], 3)]
    assert segment(refs).checkpoint is None


def test_parts_are_read_in_their_order() -> None:
    found = segment([*commits(0, 1), *reversed(parts(1, [1, 2, 3], 3))])
    assert found.checkpoint is not None
    assert [r.part for r in found.checkpoint.files] == [1, 2, 3]


def test_of_several_checkpoints_of_one_version_the_richest_kind_is_taken() -> None:
    refs = [*commits(0, 1), classic(1), *parts(1, [1, 2], 2), v2(1, "a"), v2(1, "b", "parquet")]
    names = []
    while refs:
        found = segment(refs)
        if found.checkpoint is None:
            break
        names.append(found.checkpoint.name)
        refs = [r for r in refs if r not in found.checkpoint.files]
    assert [name.split(".", 2)[2] for name in names] == [
        "b.parquet",
        "a.json",
        "0000000001.0000000002.parquet",
        "parquet",
    ]


def test_an_empty_or_incomplete_checkpoint_is_reported_and_left_out() -> None:
    refs = [*commits(*range(6)), classic(1), classic(3, size=0), *parts(4, [2], 2)]
    found = segment(refs)
    assert shape(found) == (1, [(2, 2), (3, 3), (4, 4), (5, 5)])
    assert [f.what for f in found.fallbacks] == ["checkpoint", "checkpoint"]
    assert "empty" in str(found.fallbacks[0])
    assert "2 parts" in str(found.fallbacks[1])


def test_damage_older_than_the_start_is_not_reported() -> None:
    assert segment([*commits(0, 1, 2), classic(0, size=0), classic(1)]).fallbacks == ()


def test_a_checkpoint_known_to_be_unreadable_is_routed_around() -> None:
    refs = [*commits(0, 1, 2), classic(1)]
    found = segment(refs, unusable={classic(1).path: "torn"})
    assert shape(found) == (None, [(0, 0), (1, 1), (2, 2)])
    assert "torn" in str(found.fallbacks[0])


@pytest.mark.parametrize(
    ("refs", "version", "error", "code"),
    [
        ([], None, EmptyLogError, "EMPTY_LOG"),
        ([classic(3, size=0)], None, EmptyLogError, "EMPTY_LOG"),
        (parts(3, [1], 2), None, EmptyLogError, "EMPTY_LOG"),
        (commits(1, 2), None, LogStartError, "NO_START"),
        ([*commits(4, 5), *parts(4, [1], 2)], None, LogStartError, "NO_START"),
        (commits(0, 2), None, LogGapError, "GAP"),
        ([*commits(0, 1, 2, 4), classic(2)], None, LogGapError, "GAP"),
        ([*commits(3, 4), classic(2), classic(1)], 5, VersionNotFoundError, "VERSION_NOT_FOUND"),
        (commits(0, 1), 2, VersionNotFoundError, "VERSION_NOT_FOUND"),
        (commits(0, 1), -1, VersionNotFoundError, "VERSION_NOT_FOUND"),
        ([*commits(4, 5), classic(4)], 3, CleanedUpError, "NO_START"),
        ([*commits(0, 1), classic(5)], 3, LogGapError, "GAP"),
    ],
)
def test_what_makes_no_version_is_refused_by_its_name(
    refs: list[TransactionFileRef], version: int | None, error: type[ReplayError], code: str
) -> None:
    with pytest.raises(error) as refusal:
        segment(refs, version)
    assert type(refusal.value) is error
    assert refusal.value.code == code
    assert "\n" not in str(refusal.value)


def test_a_gap_before_the_checkpoint_harms_nobody() -> None:
    assert shape(segment([*commits(0, 2, 3), classic(2)])) == (2, [(3, 3)])


def test_a_missing_commit_is_a_gap_even_where_a_compaction_covers_it() -> None:
    with pytest.raises(LogGapError, match="commit 2 is missing"):
        segment([*commits(0, 1, 3), compaction(1, 3)])


@pytest.mark.parametrize(
    "proof", [classic(3, size=0), *parts(3, [1], 2), compaction(1, 3), classic(3)]
)
def test_a_version_that_something_proves_is_never_passed_over_for_an_older_one(proof) -> None:
    unusable = {classic(3).path: "torn"}
    with pytest.raises(LogGapError, match="commit 3 is missing"):
        segment([*commits(0, 1, 2), proof], unusable=unusable)
    assert segment([*commits(0, 1, 2), proof], 2, unusable=unusable).version == 2


def test_a_checksum_proves_no_version() -> None:
    assert segment([*commits(0, 1), ref(f"{2:020d}.crc")]).version == 1


def test_checkpoints_without_any_commit_make_their_version() -> None:
    assert shape(segment([classic(7)])) == (7, [])
    assert segment([classic(7)]).last_commit is None


def test_indextables_checkpoints_are_ranked_too() -> None:
    names = [f"{1:020d}.checkpoint.json", f"_checkpoints/{1:020d}.checkpoint.parquet"]
    refs = [ref(name, 5, INDEXTABLES) for name in [f"{0:020d}.json", f"{1:020d}.json", *names]]
    found = segment_for(refs, None, log_format=INDEXTABLES, directory="log")
    assert found.checkpoint is not None
    assert found.checkpoint.name == names[1]


# --- covers ------------------------------------------------------------------------------------


def test_a_compaction_stands_in_for_its_commits() -> None:
    found = segment([*commits(*range(6)), compaction(1, 3)])
    assert shape(found) == (None, [(0, 0), (1, 3), (4, 4), (5, 5)])


def test_a_compaction_over_the_checkpoint_or_the_version_is_not_used() -> None:
    refs = [*commits(*range(6)), classic(2), compaction(1, 3), compaction(2, 4), compaction(4, 5)]
    assert shape(segment(refs, 4)) == (2, [(3, 3), (4, 4)])
    assert shape(segment(refs)) == (2, [(3, 3), (4, 5)])


def test_a_wide_compaction_beats_a_narrow_one() -> None:
    refs = [*commits(*range(10)), compaction(0, 4), compaction(0, 9), compaction(2, 3)]
    assert shape(segment(refs)) == (None, [(0, 9)])


def test_a_compaction_larger_than_what_it_covers_is_left_alone() -> None:
    big = 3 * (100 + FILE_COST)
    assert shape(segment([*commits(0, 1, 2), compaction(0, 1, size=big)]))[1] == [
        (0, 0),
        (1, 1),
        (2, 2),
    ]


def test_an_empty_or_unreadable_compaction_gives_way_to_its_commits() -> None:
    refs = [*commits(*range(5)), compaction(0, 1, size=0), compaction(2, 3)]
    found = segment(refs, unusable={compaction(2, 3).path: "torn"})
    assert found.compactions == ()
    assert ["empty" in str(found.fallbacks[0]), "torn" in str(found.fallbacks[1])] == [True, True]


def test_compactions_are_not_read_where_that_is_switched_off() -> None:
    assert segment([*commits(0, 1), compaction(0, 1)], use_compactions=False).compactions == ()


@given(
    count=st.integers(1, 7),
    spans=st.lists(
        st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(1, 60_000)), max_size=5
    ),
    sizes=st.lists(st.integers(0, 60_000), min_size=7, max_size=7),
)
def test_the_cover_is_exact_and_no_other_reads_less(count, spans, sizes) -> None:
    ascending = [ref(f"{v:020d}.json", sizes[v]) for v in range(count)]
    compactions = [compaction(a, b, size) for a, b, size in spans if a < b]
    cover = cheapest_cover(ascending, compactions)
    covered = [v for r in cover for v in range(r.start_version, r.version + 1)]
    assert covered == list(range(count))
    assert cost(cover) == min(map(cost, all_covers(ascending, compactions, 0, count)))


def cost(cover) -> int:
    return sum(r.size + FILE_COST for r in cover)


def all_covers(ascending, compactions, start: int, end: int):
    if start == end:
        yield []
        return
    for r in itertools.chain(ascending, compactions):
        if r.start_version == start and r.version < end:
            for rest in all_covers(ascending, compactions, r.version + 1, end):
                yield [r, *rest]
