"""Mappings and their names: one name for all texts that say the same."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json

import pyarrow as pa
import pytest

from engine.actions import files_schema
from engine.errors import MissingDocMappingError
from engine.formats import DELTA, INDEXTABLES
from engine.replay.docmapping import mapping_hash, resolved

FIELDS = [
    {"name": "title", "type": "text", "stored": True},
    {"name": "at", "type": "datetime", "input_formats": ["iso8601", "unix"]},
    {"name": "who", "type": "object", "field_mappings": [{"name": "id", "type": "u64"}]},
    {"name": "n", "type": "f64"},
    {"name": "x", "type": "ip"},
]


def named(canonical: str) -> str:
    digest = hashlib.sha256(canonical.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode()[:16]


def test_the_name_is_the_start_of_the_hash_of_the_sorted_text():
    text = '[ {"type": "text", "name": "b"},\n {"name": "a", "type": "u64"} ]'
    canonical = '[{"name":"a","type":"u64"},{"name":"b","type":"text"}]'
    assert mapping_hash(text) == mapping_hash(canonical) == named(canonical)
    assert len(named(canonical)) == 16


def test_every_order_of_fields_and_members_has_one_name():
    names = {
        mapping_hash(
            json.dumps([dict(reversed(f.items())) if n % 2 else f for f in order], indent=n)
        )
        for n, order in enumerate(itertools.permutations(FIELDS))
    }
    assert len(names) == 1


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("[3, 1, 2]", "[3,1,2]"),
        ('[{"b": 1}, {"a": 2}]', '[{"b":1},{"a":2}]'),
        ('[{"name": "b"}, 1]', '[{"name":"b"},1]'),
        ('{"z": {"y": [], "x": null}, "a": true}', '{"a":true,"z":{"x":null,"y":[]}}'),
        ('[{"name": 2}, {"name": "10"}]', '[{"name":"10"},{"name":2}]'),
        ('{"\\u00e9\\u2603": "\\u00e9"}', '{"\u00e9\u2603":"\u00e9"}'),
        ('{"\\ud834\\udd1e": 1, "\\uffee": 2}', '{"\U0001d11e":1,"\uffee":2}'),
        ('["\\u001f\\u000b\\n\\"\\\\"]', '["\\u001F\\u000B\\n\\"\\\\"]'),
        ("[0.5, 1e2, 1e7, 1.25e-7, -0.001]", "[0.5,100.0,1.0E7,1.25E-7,-0.001]"),
        ("[12345678901234567890123]", "[12345678901234567890123]"),
        ("not json", "not json"),
        ("[NaN]", "[NaN]"),
        ("[" * 100_000, "[" * 100_000),
    ],
    ids=lambda text: text[:20],
)
def test_names_are_those_of_the_canonical_text(text, canonical):
    assert mapping_hash(text) == named(canonical)


def files(*rows):
    return pa.Table.from_pylist(
        [{"path": str(n), **row} for n, row in enumerate(rows)], files_schema(INDEXTABLES)
    )


def test_files_get_the_mapping_they_name():
    table = files(
        {"docMappingRef": "a"}, {"docMappingJson": "[1]"}, {}, {"docMappingRef": "b"},
        {"docMappingRef": "a", "docMappingJson": "[2]"},
    )  # fmt: skip
    whole = resolved(table, {"docMappingSchema.a": "[7]", "b": "[8]", "c": "9"}, "log")
    assert whole["docMappingJson"].to_pylist() == ["[7]", "[1]", None, "[8]", "[2]"]
    assert whole["docMappingRef"].to_pylist() == ["a", None, None, "b", "a"]
    assert whole.schema == table.schema


def test_a_mapping_that_is_not_there_is_named():
    table = files({"docMappingRef": "b"}, {"docMappingRef": "a"}, {"docMappingRef": "c"})
    with pytest.raises(MissingDocMappingError, match="name the mapping a, b, which") as refused:
        resolved(table, {"docMappingSchema.c": "[]"}, "log")
    assert refused.value.hashes == ("a", "b")


def test_objects_without_fields_are_left_out_where_files_are_resolved():
    mapping = [
        {"name": "empty", "type": "object", "field_mappings": []},
        {"name": "bare", "type": "object"},
        {"name": "kept", "type": "object", "field_mappings": [{"name": "x", "type": "object"}]},
        {"name": "t", "type": "text"},
    ]
    table = files({"docMappingJson": json.dumps(mapping)}, {"docMappingJson": '{"type":"object"}'})
    found = resolved(table, {}, "log")["docMappingJson"].to_pylist()
    assert json.loads(found[0]) == mapping[2:]
    assert found[1] == '{"type":"object"}'


def test_a_format_without_mappings_is_left_alone():
    table = pa.Table.from_pylist([{"path": "a"}], files_schema(DELTA))
    assert resolved(table, {}, "log") is table
