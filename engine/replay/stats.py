"""Statistics kept as a struct -> the JSON text every other reader expects, without a row loop."""

from __future__ import annotations

import re
from typing import Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

_CONTROL: Final = re.compile("[\x00-\x1f]")
_PLAIN: Final = r"[\x00-\x1f]"
_FIRST: Final = r'^\s*\{\s*"numRecords"\s*:\s*(?P<n>\d{1,18})\s*[,}]'


def stats_json(stats: pa.StructArray) -> pa.Array:
    """Return each struct as compact JSON; null fields are left out, a null struct is null."""
    text = _object(stats)
    return pc.if_else(stats.is_valid(), text, pa.scalar(None, pa.string()))


def record_counts(files: pa.Table) -> pa.ChunkedArray:
    """Return the number of records of each live file, null where it is not told."""
    if "numRecords" in files.column_names:
        return files["numRecords"]
    stats = files["stats"]
    # Engines write numRecords first. Where it stands elsewhere, a column may share its name.
    found = pc.struct_field(pc.extract_regex(stats, _FIRST), "n").cast(pa.int64())
    unsure = pc.and_(pc.is_null(found), pc.is_valid(stats))
    if not pc.any(unsure).as_py():
        return found
    exact = pa.array([_num_records(text) for text in stats.filter(unsure).to_pylist()], pa.int64())
    return pc.replace_with_mask(
        found.combine_chunks(), unsure.combine_chunks(), exact
    )


def _num_records(text: str) -> int | None:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    count = found.get("numRecords") if isinstance(found, dict) else None
    return count if isinstance(count, int) and 0 <= count < 2**63 else None


def _object(struct: pa.StructArray) -> pa.Array:
    """Return `{"name":value,...}` for each row."""
    members: list[pa.Array] = []
    for field in struct.type:
        value = _value(pc.struct_field(struct, field.name))
        key = pa.scalar(f'"{_escape(field.name)}":')
        members.append(pc.binary_join_element_wise(key, value, ""))
    if not members:
        return pa.repeat("{}", len(struct))
    joined = pc.binary_join_element_wise(*members, ",", null_handling="skip")
    return pc.binary_join_element_wise("{", joined, "}", "")


def _value(array: pa.Array) -> pa.Array:
    """Return the JSON text of each value, null where the value is null."""
    kind = array.type
    if pt.is_struct(kind):
        return pc.if_else(array.is_valid(), _object(array), pa.scalar(None, pa.string()))
    if pt.is_boolean(kind):
        return pc.if_else(array, "true", "false")
    if pt.is_integer(kind) or pt.is_decimal(kind):
        return array.cast(pa.string())
    if pt.is_floating(kind):
        finite = pc.is_finite(array)
        return pc.if_else(finite, array.cast(pa.string()), _quoted(array.cast(pa.string())))
    if pt.is_timestamp(kind):
        # Delta keeps milliseconds here, and UTC where the type has a zone.
        zone = "Z" if kind.tz else ""
        plain = array.cast(pa.timestamp("ms"), safe=False)
        return _quoted(pc.strftime(plain, format=f"%Y-%m-%dT%H:%M:%S{zone}"))
    if pt.is_string(kind) or pt.is_large_string(kind):
        return _quoted(_escaped(array.cast(pa.string())))
    if pt.is_date(kind):
        return _quoted(array.cast(pa.string()))
    return pa.nulls(len(array), pa.string())


def _quoted(text: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', text, '"', "")


def _escaped(text: pa.Array) -> pa.Array:
    text = pc.replace_substring(text, "\\", "\\\\")
    text = pc.replace_substring(text, '"', '\\"')
    if pc.any(pc.match_substring_regex(text, _PLAIN)).as_py():
        for code in range(0x20):
            text = pc.replace_substring(text, chr(code), f"\\u{code:04x}")
    return text


def _escape(name: str) -> str:
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)
