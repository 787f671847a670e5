"""What is decided without a disk, a metastore or a JVM."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.hive import decide, layout
from engine.hive.decide import Act, Facts, Pointer
from engine.hive.inspect import assess, refusal
from engine.hive.journal import Entry, Event, from_text, to_text
from engine.hive.model import MIB, FileEntry, Listing, Options, Swap, Table, Unit
from engine.hive.plan import choose
from engine.hive.state import Course, Phase, Way, fold, plan_body, ways

FACTS = [Facts(*which) for which in itertools.product([True, False], repeat=3)]
MOVES = {
    Act.SET_ASIDE: lambda f: Facts(False, f.staged, True),
    Act.PUT_IN_PLACE: lambda f: Facts(True, False, f.kept),
    Act.MERGE_IN: lambda f: Facts(True, False, f.kept),
    Act.TAKE_OUT: lambda f: Facts(False, True, f.kept),
    Act.PUT_BACK: lambda f: Facts(True, f.staged, False),
    Act.MERGE_BACK: lambda f: Facts(True, f.staged, False),
    Act.DISCARD: lambda f: Facts(f.live, False, f.kept),
}
UNIT = Unit("dt=a", (("dt", "a"),), "file:/t/dt=a")
TABLE = Table("db", "t", "id", "external", "file:/t", "parquet", ("dt",))


@pytest.mark.parametrize("facts", FACTS)
def test_every_way_forward_ends_with_a_live_directory_and_no_copy_destroyed(facts):
    end = _follow(lambda f: decide.forward(Swap.RENAME, f), facts)
    assert end in (Act.SETTLE, Act.TURN_BACK, Act.LOST)
    assert (end is Act.LOST) == (facts == Facts(False, False, False))


@pytest.mark.parametrize("facts", FACTS)
@pytest.mark.parametrize("verified", [True, False])
def test_every_way_back_ends_with_the_originals_alone(facts, verified):
    end = _follow(lambda f: decide.back(Swap.RENAME, f, verified=verified), facts)
    nothing = Facts(False, False, False)
    unproven = Facts(False, True, False)
    assert end is (
        Act.LOST if facts == nothing or (facts == unproven and not verified) else Act.DONE
    )


@pytest.mark.parametrize("pointer", Pointer)
@pytest.mark.parametrize("facts", FACTS)
def test_a_location_swap_never_deletes_what_the_metastore_points_at(facts, pointer):
    facts = Facts(facts.live, facts.staged, facts.live, pointer)
    act = decide.back(Swap.LOCATION, facts, verified=True)
    assert not (act is Act.DISCARD and pointer is Pointer.STAGED)
    assert decide.forward(Swap.LOCATION, facts) in (
        Act.SETTLE,
        Act.REPOINT,
        Act.TURN_BACK,
        Act.ELSEWHERE,
    )


@given(st.integers(0, 60), st.integers(0, 10**9), st.booleans())
def test_a_directory_as_a_run_left_it_is_never_due(count, size, same):
    files = tuple(FileEntry(f"f{n:02d}", size, 5) for n in range(count))
    made = files if same else ()
    verdict = assess(UNIT, Listing(files), Options(), now_ms=10, made=made)
    assert not (same and verdict.due)
    if verdict.due:
        after = tuple(
            FileEntry(f"n{n}", max(1, size // 50), 9) for n in range(verdict.target_files)
        )
        again = assess(UNIT, Listing(after), Options(), now_ms=10, made=after)
        assert not again.due
        assert verdict.target_files < count


@pytest.mark.parametrize(
    ("sizes", "due", "target"),
    [
        ([600] * 500, True, 1),
        ([600], False, 1),
        ([], False, 0),
        ([200 * MIB] * 3, False, 5),
        ([128 * MIB] + [1000] * 20, True, 2),
        ([12 * MIB] * 30, True, 3),
        ([13 * MIB] * 30, False, 4),
    ],
)
def test_a_directory_is_due_by_the_smaller_of_average_and_median(sizes, due, target):
    files = tuple(FileEntry(f"f{n:03d}", size, 0) for n, size in enumerate(sizes))
    verdict = assess(UNIT, Listing(files), Options(), now_ms=10)
    assert (verdict.due, verdict.target_files) == (due, target)


@pytest.mark.parametrize(
    ("listing", "reason"),
    [
        (None, "missing"),
        (Listing(), "empty"),
        (Listing((FileEntry("a", 1, 99_000),) * 2), "written 1 s ago"),
        (Listing((FileEntry("a", 1, 0),) * 2, folders=("sub",)), "directory sub"),
        (Listing((FileEntry("a", 1, 0),) * 2, hidden=(("_temporary", 99_000),)), "_temporary"),
    ],
)
def test_a_directory_is_left_alone_with_the_reason(listing, reason):
    verdict = assess(UNIT, listing, Options(min_age_ms=5000), now_ms=100_000)
    assert not verdict.due
    assert reason in verdict.reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kind": "view"}, "a view"),
        ({"kind": "managed"}, "--managed"),
        ({"format": "iceberg"}, "Iceberg"),
        ({"format": "delta"}, "Delta"),
        ({"format": "hudi"}, "Hudi"),
        ({"location": ""}, "no location"),
        ({"buckets": 8}, "bucketed"),
        ({"format": "text", "properties": {"skip.header.line.count": "1"}}, "header"),
        ({"properties": {"transactional": "true"}}, "transactional"),
    ],
)
def test_a_table_is_refused_with_the_reason(change, reason):
    from dataclasses import replace

    assert refusal(TABLE, Options()) == ""
    assert reason in refusal(replace(TABLE, **change), Options())


def test_the_byte_budget_takes_the_directories_with_most_files_first():
    def found(name, count):
        unit = Unit(name, (), name)
        files = tuple(FileEntry(f"f{n:03d}", 100, 0) for n in range(count))
        return unit, assess(unit, Listing(files), Options(), now_ms=1)

    taken, left = choose([found("a", 10), found("b", 30), found("c", 20)], 5000)
    assert [unit.name for unit, _ in taken] == ["b", "c"]
    assert [(unit.name, why) for unit, _, why in left] == [
        ("a", "the byte budget of this run is spent")
    ]


@given(st.text("ab/=%'{}\\ \x01é", max_size=8), st.text('xy:#?*[]^"', min_size=1, max_size=6))
def test_escaped_names_hold_no_separator_and_are_told_apart(value, other):
    name = layout.partition_name([("dt", value), ("n", None)])
    assert name.count("/") == 1
    assert name.endswith("/n=__HIVE_DEFAULT_PARTITION__")
    assert value == other or layout.escape(value) != layout.escape(other)


def test_repeated_location_swaps_do_not_nest_and_keep_the_journal():
    first = layout.places("file:/w/t", "r1", Swap.LOCATION)
    second = layout.places(first.staged, "r2", Swap.LOCATION)
    assert second.staged == "file:/w/.t__compact_r2/t"
    homes = {layout.home(p, partitioned=False) for p in ("file:/w/t", first.staged, second.staged)}
    assert homes == {"file:/w/.t.compact"}


def test_shared_and_nested_locations_are_found():
    found = layout.overlapping(["f:/t/a", "f:/t/a/b", "f:/t/ab", "f:/t/c", "f:/t/c"])
    assert found == {"f:/t/a", "f:/t/a/b", "f:/t/c"}


@given(st.sampled_from(Event), st.text(max_size=5), st.integers(0, 80))
def test_a_transition_is_read_back_whole_or_not_at_all(event, unit, cut):
    entry = Entry(7, event, unit, {"swap": "rename"})
    text = to_text(entry)
    assert from_text(text) == entry
    assert cut >= len(text) or from_text(text[:cut]) is None


def test_recovery_finishes_begun_swaps_and_undoes_what_was_before_them():
    run = _run(
        {"a": [], "b": [Event.VERIFIED], "c": [Event.SWAP], "d": [Event.SWAP, Event.SWAPPED]}
    )
    assert ways(run) == {
        "k=a": Way.BACK,
        "k=b": Way.BACK,
        "k=c": Way.FORWARD,
        "k=d": Way.STAY,
    }


def test_recovery_of_an_abort_undoes_every_unit():
    run = _run({"a": [Event.SWAP, Event.SWAPPED], "b": [Event.UNDO, Event.UNDONE]}, Event.ABORT)
    assert run.course is Course.ABORTING
    assert ways(run) == {"k=a": Way.BACK, "k=b": Way.STAY}


def test_a_torn_transition_counts_as_never_written():
    run = _run({"a": [Event.VERIFIED]})
    assert run.units["k=a"].phase is Phase.VERIFIED
    assert from_text('{"n": 3, "event": "swap", "un') is None


def _run(units, *then):
    entries = [Entry(0, Event.RUN, "", {"swap": "rename", "table": "lake.t"})]
    for name, events in units.items():
        unit = Unit(f"k={name}", (("k", name),), f"file:/t/k={name}")
        body = plan_body(unit, layout.places(unit.location, "r", Swap.RENAME), (), ())
        entries.append(Entry(len(entries), Event.PLANNED, unit.name, body))
        for event in events:
            entries.append(Entry(len(entries), event, unit.name, {"outputs": []}))
    for event in then:
        entries.append(Entry(len(entries), event, "", {}))
    run = fold("r", list(reversed(entries)))
    assert run is not None
    return run


def _follow(ask, facts):
    for _ in range(6):
        act = ask(facts)
        if act not in MOVES:
            return act
        before = (facts.live, facts.staged, facts.kept)
        facts = MOVES[act](facts)
        if act in (Act.SET_ASIDE, Act.PUT_IN_PLACE, Act.TAKE_OUT, Act.PUT_BACK):
            assert sum(before) == sum((facts.live, facts.staged, facts.kept))
    raise AssertionError("no end")
