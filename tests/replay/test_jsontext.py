"""Columns as JSON text, against the JSON of their rows."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from engine.replay.jsontext import json_objects

MAP = pa.map_(pa.string(), pa.string())


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), ["a", "", 'quo"te', "back\\slash", "line\nbreak\t\x00\x1f", "é☃𝄞", None]),
        (pa.int64(), [0, -(2**63), 2**63 - 1, None]),
        (pa.bool_(), [True, False, None]),
        (pa.float64(), [0.5, -1e300, 1e-7, None]),
        (pa.list_(pa.string()), [[], ["a", None, '"'], None]),
        (pa.struct({"x": pa.int64(), "y": pa.string()}), [{"x": 1, "y": "a"}, None]),
    ],
)
def test_a_row_reads_back_as_it_was(kind, values):
    rows = [{"v": value, "n": n} for n, value in enumerate(values)]
    texts = json_objects(pa.array(rows, pa.struct({"v": kind, "n": pa.int64()}))).to_pylist()
    read = [{"v": None, **json.loads(text)} for text in texts]
    assert read == rows


def test_maps_are_objects_that_keep_their_nulls():
    maps = pa.array([[("a", "1"), ("b", None)], [], None, [('"', "\\")]], MAP)
    texts = json_objects(pa.StructArray.from_arrays([maps], ["m"])).to_pylist()
    assert texts == ['{"m":{"a":"1","b":null}}', '{"m":{}}', "{}", '{"m":{"\\"":"\\\\"}}']


def test_rows_of_nulls_are_empty_objects_and_null_rows_stay_null():
    inner = {"a": None, "b": {"c": None}}
    kind = pa.struct({"a": pa.int64(), "b": pa.struct({"c": pa.int64()})})
    texts = json_objects(pa.array([inner, None, {"a": 1, "b": None}, {}], kind)).to_pylist()
    assert texts == ['{"b":{}}', None, '{"a":1}', "{}"]


def test_a_field_may_be_wanted_even_where_it_is_null():
    rows = pa.array([{"a": 1, "dvId": None}], pa.struct({"a": pa.int64(), "dvId": pa.string()}))
    assert json_objects(rows, {"dvId"}).to_pylist() == ['{"a":1,"dvId":null}']


def test_a_slice_is_as_good_as_the_whole():
    rows = [{"m": [(str(n), str(-n))] * (n % 3), "l": [str(n)] * (n % 2)} for n in range(20)]
    whole = pa.array(rows, pa.struct({"m": MAP, "l": pa.list_(pa.string())}))
    assert json_objects(whole.slice(5, 9)).to_pylist() == json_objects(whole).to_pylist()[5:14]
