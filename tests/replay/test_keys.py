"""File keys: what is one file, and the fingerprints that are compared in its place."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.actions import DELETION_VECTOR
from engine.replay.files import newest
from engine.replay.keys import canonical_path, canonical_paths, dv_id, dv_ids, fingerprints
from engine.replay.keyset import KeySet

texts = st.text(max_size=30)


def canonical(path: str, root: str) -> str:
    """Return the canonical path, having asked both ways."""
    one = canonical_path(path, root)
    assert canonical_paths(pa.array([path, "other", None]), root).to_pylist() == [
        one,
        "other",
        None,
    ]
    return one


@pytest.mark.parametrize(
    "path",
    ["a/b", "/data/t/a/b", "file:/data/t/a/b", "file:///data/t/a/b", "file://///data/t/a/b"],
)
@pytest.mark.parametrize("root", ["/data/t", "/data/t/", "file:///data/t"])
def test_every_spelling_of_a_file_under_the_root_is_one_file(path: str, root: str) -> None:
    assert canonical(path, root) == "a/b"


@pytest.mark.parametrize("root", ["s3://b/t", "s3a://b/t", "s3n://b/t/"])
@pytest.mark.parametrize("path", ["a", "s3://b/t/a", "s3a://b/t/a", "s3n://b/t/a"])
def test_s3_has_three_names_for_one_object(path: str, root: str) -> None:
    assert canonical(path, root) == "a"


def test_a_prefix_is_cut_once() -> None:
    assert canonical("s3://b/t/s3a://b/t/a", "s3://b/t") == "s3a://b/t/a"
    assert canonical("/t//t/a", "/t") == "/t/a"


@pytest.mark.parametrize("path", ["/data/table2/a", "/data/ta", "s3://data/t/a", "a:b", "/data/t"])
def test_what_is_not_under_the_root_stays_as_it_is(path: str) -> None:
    assert canonical(path, "/data/t") == path


def test_a_root_with_spaces_is_known_by_its_escapes_too() -> None:
    root = "/my data/ü t"
    for path in ("/my data/ü t/a", "file:///my%20data/%C3%BC%20t/a"):
        assert canonical(path, root) == "a"


def test_escapes_are_part_of_a_name() -> None:
    assert canonical("a%20b", "/t") == "a%20b"
    assert canonical("/t/a%20b", "/t") == "a%20b"


@pytest.mark.parametrize(
    ("vector", "wanted"),
    [
        (None, None),
        ({}, None),
        ({"storageType": "", "pathOrInlineDv": ""}, None),
        ({"storageType": "u", "pathOrInlineDv": "ab"}, "uab"),
        ({"storageType": "u", "pathOrInlineDv": "ab", "offset": None}, "uab"),
        ({"storageType": "u", "pathOrInlineDv": "ab", "offset": 0}, "uab@0"),
        ({"storageType": "p", "pathOrInlineDv": "s3://x", "offset": 12}, "ps3://x@12"),
        ({"storageType": "i"}, "i"),
    ],
)
def test_the_id_of_a_deletion_vector_is_what_the_protocol_says(vector, wanted) -> None:
    assert dv_id(vector) == wanted
    assert dv_ids(pa.array([vector], DELETION_VECTOR)).to_pylist() == [wanted]


def test_a_vector_column_may_lack_fields() -> None:
    narrow = pa.array([{"storageType": "i", "pathOrInlineDv": "x"}, None])
    assert dv_ids(narrow).to_pylist() == ["ix", None]
    assert dv_ids(pa.array([{}, None], pa.struct([]))).to_pylist() == [None, None]


@given(keys=st.lists(st.tuples(texts, st.none() | texts), max_size=40), cut=st.integers(0, 5))
def test_equal_keys_and_only_they_have_equal_fingerprints(keys, cut: int) -> None:
    paths = pa.array([path for path, _ in keys], pa.string()).slice(cut)
    ids = pa.array([unique for _, unique in keys], pa.string()).slice(cut)
    first, second = fingerprints(paths, ids)
    pairs = list(zip(first.tolist(), second.tolist(), strict=True))
    for a, one in zip(keys[cut:], pairs, strict=True):
        for b, other in zip(keys[cut:], pairs, strict=True):
            assert (a == b) == (one == other)


def test_strings_that_only_differ_in_their_end_differ() -> None:
    names = ["", "\0", "\0\0", "a", "a\0", "a" * 7, "a" * 8, "a" * 9, "a" * 16, "a" * 8 + "\0" * 8]
    first, second = fingerprints(pa.array(names), None)
    assert len(set(first.tolist())) == len(set(second.tolist())) == len(names)


def test_a_path_and_a_vector_do_not_change_places() -> None:
    first, second = fingerprints(pa.array(["a", "b", "ab", "a"]), pa.array(["b", "a", None, "bb"]))
    assert len(set(zip(first.tolist(), second.tolist(), strict=True))) == 4


def test_many_keys_do_not_collide() -> None:
    names = pa.array([f"part-{i:08d}/{i % 7}.parquet" for i in range(200_000)])
    first, second = fingerprints(names, None)
    assert len(np.unique(first)) == len(np.unique(second)) == len(names)


# --- the set -----------------------------------------------------------------------------------


@given(batches=st.lists(st.lists(st.integers(0, 60), unique=True, max_size=40), max_size=8))
def test_a_key_set_is_a_set(batches: list[list[int]]) -> None:
    # Few slots and few different halves: everything collides.
    keys, known = KeySet(slots=4), set()
    for batch in batches:
        first = np.array([n % 3 for n in batch], dtype=np.uint64) << np.uint64(7)
        second = np.array(batch, dtype=np.uint64)
        # A key of all zero bits is entered as another; the other is not drawn.
        pairs = [(n % 3, n) for n in batch]
        assert keys.contains(first, second).tolist() == [pair in known for pair in pairs]
        assert keys.add(first, second).tolist() == [pair not in known for pair in pairs]
        known.update(pairs)
        assert len(keys) == len(known)


def test_a_key_set_grows() -> None:
    keys = KeySet()
    rng = np.random.default_rng(1)
    first = rng.integers(0, 2**64, 100_000, dtype=np.uint64)
    second = rng.integers(0, 2**64, 100_000, dtype=np.uint64)
    for at in range(0, 100_000, 10_000):
        assert keys.add(first[at : at + 10_000], second[at : at + 10_000]).all()
    assert len(keys) == 100_000
    assert keys.contains(first, second).all()
    assert not keys.contains(second, first).any()
    assert not keys.add(first, second).any()


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=30
    ),
    seed=st.integers(0, 9),
)
def test_the_newest_row_of_each_key_wins_in_any_order(rows, seed: int) -> None:
    # (key, version): the ordinal is the place in the list, so no two rows share one.
    placed = [(key, half, version, at) for at, (key, half, version) in enumerate(rows)]
    random.Random(seed).shuffle(placed)
    first, second, versions, ordinals = (np.array(column) for column in zip(*placed, strict=True))
    keep = newest(first.astype(np.uint64), second.astype(np.uint64), versions, ordinals)
    wanted = {}
    for key, half, version, at in sorted(placed, key=lambda row: row[2:]):
        wanted[key, half] = (version, at)
    got = {(k, h): (v, o) for (k, h, v, o), kept in zip(placed, keep, strict=True) if kept}
    assert got == wanted
    assert keep.sum() == len(wanted)


def test_a_key_costs_32_to_64_bytes() -> None:
    keys, numbers = KeySet(), np.random.default_rng(1)
    for _ in range(60):
        found = numbers.integers(1, 2**63, (2, 2_000), dtype=np.uint64)
        keys.add(found[0], found[1])
        if len(keys) > 4_000:
            assert 32 <= (keys._first.nbytes + keys._second.nbytes) / len(keys) <= 64
