"""`_last_checkpoint`: a hint, and whatever else its bytes may be."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.log.hint import Hint, checksums, parse_hint

# PROTOCOL.md#json-checksum
SAMPLE = {
    "k0": "'v 0'",
    "k1": {"k2": 2, "k3": ["v3", [1, 2], {"k4": "v4", "k5": ["v5", "v6", "v7"]}]},
}
SAMPLE_MD5 = "6a92d155a59bf2eecbd4b4ec7fd1f875"


def test_the_version_is_what_a_hint_is_about() -> None:
    assert parse_hint(b'{"version":10,"size":3,"parts":2}') == Hint(10, size=3)


def test_the_checksum_of_the_protocols_example_is_the_one_it_gives() -> None:
    assert checksums(SAMPLE) == (SAMPLE_MD5, SAMPLE_MD5)


def test_a_long_array_has_two_right_checksums() -> None:
    hint = {"version": 1, "w": [f"feature-{i}" for i in range(12)]}
    by_path, by_text = checksums(hint)
    assert by_path != by_text
    for checksum in (by_path, by_text):
        assert parse_hint(json.dumps(hint | {"checksum": checksum}).encode()) == Hint(1)
    assert checksums({"w": hint["w"][:10]})[0] == checksums({"w": hint["w"][:10]})[1]


def test_the_checksum_leaves_itself_out() -> None:
    assert checksums(SAMPLE | {"checksum": "x"}) == checksums(SAMPLE)


def test_a_wrong_checksum_drops_the_hint() -> None:
    assert parse_hint(b'{"version":1,"checksum":"6a92d155a59bf2eecbd4b4ec7fd1f875"}') == (
        "its checksum does not match its content"
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"1"',
        b"12",
        b"{}",
        b'{"version":null}',
        b'{"version":"1"}',
        b'{"version":true}',
        b'{"version":1.0}',
        b'{"version":-1}',
        b'{"version":9223372036854775808}',
        b'{"version":' + b"9" * 5000 + b"}",
        b"\xff\xfe\x00",
        b"\x1f\x8b\x08",
        b"[" * 200_000,
        b'{"version":1,"checksum":"x","a":' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"version":1,"checksum":"x","a":"\\ud800"}',
        b'{"version":1,"checksum":["x"]}',
    ],
)
def test_whatever_is_no_hint_has_a_short_reason(data: bytes) -> None:
    reason = parse_hint(data)
    assert isinstance(reason, str)
    assert 0 < len(reason) < 200
    assert "\n" not in reason


@given(data=st.binary(max_size=200))
def test_no_bytes_are_too_odd_for_a_hint(data: bytes) -> None:
    assert isinstance(parse_hint(data), (Hint, str))
