"""Arrow columns -> JSON text, without a row loop."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

if TYPE_CHECKING:
    from collections.abc import Collection

# As Spark writes them: JSON has no number for these.
_NOT_FINITE: Final = (("-?nan", '"NaN"'), ("inf", '"Infinity"'), ("-inf", '"-Infinity"'))
_CONTROL: Final = re.compile("[\x00-\x1f]")
_CONTROL_RE2: Final = r"[\x00-\x1f]"
_NULL: Final = pa.scalar(None, pa.string())


def json_objects(structs: pa.StructArray, always: Collection[str] = ()) -> pa.Array:
    """Return each struct as compact JSON; a null struct is null.

    Null fields are left out, but for those named in `always`. Statistics keep milliseconds, as
    Delta does, and zones are UTC.
    """
    members: list[pa.Array] = []
    for index, field in enumerate(structs.type):
        value = _value(pc.struct_field(structs, [index]))
        if field.name in always:
            value = pc.fill_null(value, "null")
        member = pc.binary_join_element_wise(f',"{_escape(field.name)}":', value, "")
        members.append(pc.fill_null(member, ""))
    if not members:
        return pc.if_else(structs.is_valid(), "{}", _NULL)
    # Not null_handling="skip", which gives no row at all for a row of nulls.
    joined = pc.binary_join_element_wise(*members, "}", "")
    text = pc.binary_replace_slice(joined, 0, 1, "{")
    text = pc.if_else(pc.equal(joined, "}"), "{}", text)
    return pc.if_else(structs.is_valid(), text, _NULL)


def _value(array: pa.Array) -> pa.Array:  # noqa: PLR0911
    """Return the JSON text of each value, null where the value is null."""
    kind = array.type
    if pt.is_struct(kind):
        return json_objects(array)
    if pt.is_map(kind) or pt.is_list(kind):
        return _members(array)
    if pt.is_dictionary(kind):
        return _value(array.cast(kind.value_type))
    if pt.is_boolean(kind):
        return pc.if_else(array, "true", "false")
    if pt.is_integer(kind) or pt.is_decimal(kind):
        return array.cast(pa.string())
    if pt.is_floating(kind):
        text = array.cast(pa.string())
        if pc.all(pc.is_finite(array)).as_py() is False:
            for arrow, wire in _NOT_FINITE:
                text = pc.replace_substring_regex(text, f"^{arrow}$", wire)
        return text
    if pt.is_timestamp(kind):
        zone = "Z" if kind.tz else ""
        # A cast rounds towards 1970, and so would move a minimum before it up.
        plain = pc.floor_temporal(array.cast(pa.timestamp(kind.unit)), unit="millisecond")
        plain = plain.cast(pa.timestamp("ms"))
        return _quoted(pc.strftime(plain, format=f"%Y-%m-%dT%H:%M:%S{zone}"))
    if pt.is_string(kind) or pt.is_large_string(kind):
        return _quoted(_escaped(array.cast(pa.string())))
    if pt.is_date(kind):
        return _quoted(array.cast(pa.string()))
    return pa.nulls(len(array), pa.string())


def _members(array: pa.Array) -> pa.Array:
    """Return maps as objects and lists as arrays; a null inside is `null`."""
    # A slice shares its children with the whole array: only its own part is worth the work.
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    if pt.is_map(array.type):
        keys = _quoted(_escaped(array.keys.slice(first, last - first)))
        values = pc.fill_null(_value(array.items.slice(first, last - first)), "null")
        members, opening, closing = pc.binary_join_element_wise(keys, values, ":"), "{", "}"
    else:
        members = pc.fill_null(_value(array.values.slice(first, last - first)), "null")
        opening, closing = "[", "]"
    offsets = pc.subtract(array.offsets, array.offsets[0])
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, members), ",")
    text = pc.binary_join_element_wise(opening, joined, closing, "")
    return pc.if_else(array.is_valid(), text, _NULL)


def _quoted(text: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', text, '"', "")


def _escaped(text: pa.Array) -> pa.Array:
    text = pc.replace_substring(text, "\\", "\\\\")
    text = pc.replace_substring(text, '"', '\\"')
    if pc.any(pc.match_substring_regex(text, _CONTROL_RE2)).as_py():
        for code in range(0x20):
            text = pc.replace_substring(text, chr(code), f"\\u{code:04x}")
    return text


def _escape(name: str) -> str:
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)
