"""A partition value is written in the one form that every engine reads, or not at all."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from engine import create_log
from engine.errors import InvalidCommitError

GOOD = {
    "byte": ["127", "-128", "007", "-0"],
    "short": ["-32768"],
    "integer": ["2147483647"],
    "long": ["-9223372036854775808"],
    "decimal(4,2)": ["1.00", "-12.34", "01.50"],
    "decimal(4,0)": ["1234"],
    "decimal(2,2)": ["0.25"],
    "boolean": ["true", "false"],
    "date": ["2024-01-31", "0001-01-01"],
    "double": ["1", "0.5", "-1.5E10", "1e-5", "NaN", "Infinity", "-Infinity"],
    "float": ["0.1"],
    "timestamp": [
        *("2024-01-01 00:00:00", "2024-01-01 00:00:00.1", "2024-01-01 00:00:00.123456"),
        *("2024-01-01T00:00:00Z", "2024-01-01T00:00:00.123456Z"),
    ],
    "timestamp_ntz": ["2024-01-01 00:00:00", "2024-01-01 00:00:00.123"],
    "string": [" 1", "ü"],
}
BAD = {
    "byte": ["300", "128", "-129", "1.0", " 1", "+1", "1e1", "٣", "-", "9" * 5000],
    "short": ["32768"],
    "integer": ["2147483648", "1_0", "0x1"],
    "long": ["9223372036854775808"],
    "decimal(4,2)": ["123.45", "1.234", "1", "1.2", ".50", "1e1", "+1.00", "1.00 "],
    "decimal(4,0)": ["1.0", "12345"],
    "boolean": ["1", "t", "True", "yes"],
    "date": ["2024-1-1", "2024-02-30", "2024-01-01 00:00:00", "10000-01-01"],
    "double": ["inf", "nan", "1.", ".5", "1f", " 1"],
    "timestamp": [
        *("2024-01-01", "2024-01-01T00:00:00", "2024-01-01 00:00", "2024-01-01 25:00:00"),
        *("2024-01-01T00:00:00+01:00", "2024-01-01 00:00:00.1234567"),
    ],
    "timestamp_ntz": ["2024-01-01", "2024-01-01T00:00:00", "2024-01-01 00:00:00Z"],
}


def pairs(values):
    return [(kind, value) for kind, found in values.items() for value in found]


def table(path, kind, log_format):
    fields = [
        {"name": name, "type": what, "nullable": True, "metadata": {}}
        for name, what in {"id": "long", "p": kind}.items()
    ]
    return create_log(str(path), {"type": "struct", "fields": fields}, ["p"], log_format=log_format)


def file(value):
    return {"path": "a", "size": 1, "partitionValues": {"p": value}}


@pytest.mark.parametrize(("kind", "value"), pairs(GOOD))
def test_a_value_in_its_form_is_taken_and_read_by_deltalake(tmp_path, kind, value):
    log = table(tmp_path / "t", kind, "delta")
    log.add_files([file(value)])
    assert DeltaTable(log.directory.table_url).get_add_actions().num_rows == 1


@pytest.mark.parametrize(("kind", "value"), pairs(BAD))
def test_a_value_in_another_form_is_refused_with_the_form(tmp_path, log_format, kind, value):
    log = table(tmp_path / "t", kind, log_format)
    with pytest.raises(InvalidCommitError, match=r"of p is not of type .*, which is written as "):
        log.add_files([file(value)])
    assert log.latest_version() == 0


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize("value", [None, ""])
def test_null_is_a_value_of_every_type(tmp_path, kind, value):
    assert table(tmp_path / "t", kind, "delta").add_files([file(value)]).version == 1
