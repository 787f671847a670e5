"""Is a partition value written as every engine reads it? Reading is lenient; writing is not.

The forms are those of PROTOCOL.md#partition-value-serialization.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from engine.replay.partitions import PartitionColumn, partition_columns_of, type_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from engine.commit.serialize import Action

_TEXTS: Final = frozenset({"string", "binary", "char", "varchar"})
_BITS: Final = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_MOST_DIGITS: Final = 19
_WHOLE: Final = r"-?\d+"
_REAL: Final = r"-?\d+(\.\d+)?([eE][+-]?\d+)?|NaN|-?Infinity"
_DAY: Final = r"\d{4}-\d\d-\d\d"
_TIME: Final = r"\d\d:\d\d:\d\d(\.\d{1,6})?"
# How each type is written, and what that looks like.
_FORMS: Final[Mapping[str, tuple[str, str]]] = {
    **{name: (_WHOLE, f"a whole number of {bits} bits") for name, bits in _BITS.items()},
    "float": (_REAL, "0.5 or 1e10"),
    "double": (_REAL, "0.5 or 1e10"),
    "boolean": ("true|false", "true or false"),
    "date": (_DAY, "2024-01-31"),
    "timestamp": (f"{_DAY} {_TIME}|{_DAY}T{_TIME}Z", "2024-01-31 12:00:00 or 2024-01-31T12:00:00Z"),
    "timestamp_ntz": (f"{_DAY} {_TIME}", "2024-01-31 12:00:00"),
}


def check_values(actions: Sequence[Action], metadata: Mapping[str, Any]) -> None:
    """Raise ValueError where files do not have a fit value for each partition column."""
    adds = [action["add"] for action in actions if "add" in action]
    if not adds:
        return
    schema = metadata.get("schemaString")
    columns = metadata.get("partitionColumns") or []
    found = partition_columns_of(schema, columns) if schema else []
    keys = {column.key for column in found}
    for add in adds:
        given = set(add["partitionValues"])
        if given != keys:
            told = [("lacks", keys - given), ("has", given - keys)]
            wrong = [f"{verb} values for {', '.join(sorted(of))}" for verb, of in told if of]
            wanted = ", ".join(sorted(keys)) or "nothing"
            raise ValueError(
                f"{add['path']} {' and '.join(wrong)}; the table is partitioned by {wanted}"
            )
    for column in found:
        _check_types(column, {add["partitionValues"][column.key] for add in adds})


def _check_types(column: PartitionColumn, values: Iterable[str | None]) -> None:
    name, _, _ = column.type_name.partition("(")
    if name in _TEXTS:
        return
    form, example = _decimal(column.type_name) if name == "decimal" else _FORMS.get(name, ("", ""))
    cast = type_of(column).cast
    for value in values:
        # Every engine takes an empty text for null.
        if value is None or value == "":
            continue
        if not (re.fullmatch(form, value, re.ASCII) and _fits(name, value) and _casts(cast, value)):
            raise ValueError(
                f"the partition value {value!r} of {column.name} is not of type "
                f"{column.type_name}, which is written as {example}"
            )


def _fits(name: str, value: str) -> bool:
    bits = _BITS.get(name)
    if bits is None:
        return True
    is_short = len(value.lstrip("-0")) <= _MOST_DIGITS
    return is_short and -(2 ** (bits - 1)) <= int(value) < 2 ** (bits - 1)


def _casts(cast: Any, value: str) -> bool:
    try:
        cast(pa.array([value], pa.string()))
    except pa.ArrowInvalid:
        return False
    return True


def _decimal(type_name: str) -> tuple[str, str]:
    """Return the form of a decimal, which has all the digits of its scale, and an example."""
    match = re.fullmatch(r"decimal\((\d+),\s*(-?\d+)\)", type_name)
    precision, scale = (int(match[1]), int(match[2])) if match else (10, 0)
    digits = max(precision - scale, 0)
    tail = rf"\.\d{{{scale}}}" if scale > 0 else ""
    return rf"-?0*\d{{{0 if digits == 0 else 1},{max(digits, 1)}}}{tail}", f"{0:.{max(scale, 0)}f}"
