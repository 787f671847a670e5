"""Cut bounds: short, where they may be, and never a reason to miss a file."""

from __future__ import annotations

import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from engine.actions import STRING_MAP, kinds
from engine.formats import DELTA, INDEXTABLES
from engine.replay.truncation import may_hold, truncate_statistics, uncut_columns

ADD = kinds(INDEXTABLES)["add"]
TEXT = st.text(st.sampled_from("ab\u00e9\u2603\U0001d11e"), max_size=6)
BOUNDS = st.none() | st.dictionaries(st.sampled_from(["date", "x", "y"]), st.none() | TEXT)


def cut(rows, uncut=(), length=3):
    return truncate_statistics(pa.array(rows, ADD), uncut, length).to_pylist()


def test_long_values_are_cut_and_everything_else_stays():
    row = {
        "path": "a",
        "size": 7,
        "numRecords": 2,
        "minValues": [("date", "2024-01-01"), ("x", "apple"), ("y", "pe")],
        "maxValues": [("date", "2024-01-02"), ("x", "quince"), ("y", "pear")],
    }
    (short,) = cut([row], {"date"})
    assert short["minValues"] == [("date", "2024-01-01"), ("x", "app"), ("y", "pe")]
    assert short["maxValues"] == [("date", "2024-01-02"), ("x", "qui"), ("y", "pea")]
    assert (short["path"], short["size"], short["numRecords"]) == ("a", 7, 2)


def test_characters_are_counted_and_not_bytes():
    (short,) = cut([{"path": "a", "maxValues": [("x", "\u2603\U0001d11e\u00e9z")]}])
    assert short["maxValues"] == [("x", "\u2603\U0001d11e\u00e9")]


def test_a_value_of_which_nothing_is_left_is_dropped():
    rows = [{"path": "a", "minValues": [("x", ""), ("y", "b")]}, {"path": "b", "minValues": []}]
    assert [row["minValues"] for row in cut(rows)] == [[("y", "b")], []]
    rows = [{"path": "a", "minValues": [("date", ""), ("x", "b")]}]
    assert cut(rows, {"date"}, length=0)[0]["minValues"] == [("date", "")]


def test_rows_and_bounds_that_are_not_there_stay_away():
    rows = [None, {"path": "a", "minValues": None, "maxValues": [("x", None)]}]
    assert cut(rows)[0] is None
    assert (cut(rows)[1]["minValues"], cut(rows)[1]["maxValues"]) == (None, [("x", None)])


def test_a_format_without_bounds_has_nothing_to_cut():
    adds = pa.array([{"path": "a", "stats": '{"maxValues":{"x":"quince"}}'}], kinds(DELTA)["add"])
    assert truncate_statistics(adds, (), 3).equals(adds)


def test_partition_columns_and_numbers_are_never_cut():
    fields = {"date": "string", "price": "decimal(38,2)", "x": "string", "raw": "binary"}
    schema = {"type": "struct", "fields": [{"name": n, "type": t} for n, t in fields.items()]}
    metadata = {"schemaString": json.dumps(schema), "partitionColumns": ["date"]}
    assert uncut_columns(metadata) == {"date", "price"}
    assert uncut_columns({}) == frozenset()


@given(st.lists(BOUNDS, min_size=1, max_size=5), st.integers(0, 4), st.integers(0, 4))
def test_the_columns_are_cut_as_their_rows_would_be(bounds, length, start):
    rows = [{"path": "a", "maxValues": b if b is None else list(b.items())} for b in bounds]
    adds = pa.array(rows, ADD).slice(start)
    wanted = [
        b
        if b is None
        else [
            (key, value if value is None or key == "date" else value[:length])
            for key, value in b.items()
            if key == "date" or value is None or value[:length]
        ]
        for b in bounds[start:]
    ]
    short = truncate_statistics(adds, {"date"}, length)
    assert [row["maxValues"] for row in short.to_pylist()] == wanted
    assert short.type == ADD


@given(st.lists(TEXT, min_size=1), TEXT, st.integers(0, 4))
def test_a_file_is_never_missed_for_a_value_that_was_cut(values, other, length):
    row = {"minValues": [("x", min(values))], "maxValues": [("x", max(values))]}
    short = truncate_statistics(pa.array([{"path": "a", **row}], ADD), (), length)
    files = pa.Table.from_struct_array(short)
    assert all(may_hold(files, "x", value).to_pylist() == [True] for value in values)
    if other < min(values)[:length]:
        assert may_hold(files, "x", other).to_pylist() == [False]


def test_a_file_is_left_out_only_where_its_bounds_say_so():
    bounds = [("b", "d"), ("e", "f"), (None, None), (None, "b"), ("b", "cher")]
    rows = [
        {
            "minValues": None if low is None else [("x", low)],
            "maxValues": None if high is None else [("x", high)],
        }
        for low, high in bounds
    ]
    files = pa.table({n: pa.array([r[n] for r in rows], STRING_MAP) for n in rows[0]})
    assert may_hold(files, "x", "cherry").to_pylist() == [True, False, True, False, True]
    assert may_hold(files, "y", "cherry").to_pylist() == [True] * 5
