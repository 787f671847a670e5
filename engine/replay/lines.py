"""One JSON line -> one action, exactly and slowly: what the fast reader cannot take, and why.

This is where a bad line gets its error, with file, line and column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.types as pt

from engine.actions import NO_HOLES, NUMBER_OR_TEXT, PARSED_STATS, REQUIRED, ActionBatch
from engine.errors import UnreadableLogFileError

if TYPE_CHECKING:
    from engine.log.paths import TransactionFileRef

Kinds = Mapping[str, pa.DataType]

_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class LineAction:
    """One action of one line. `value` has wire names and Python values; commitInfo is its JSON."""

    version: int
    ordinal: int
    kind: str
    value: Any


def read_lines(
    data: bytes, ref: TransactionFileRef, known: Kinds, first_ordinal: int = 0
) -> Iterator[LineAction]:
    """Yield the actions of a log file in the order of its lines, counted from `first_ordinal`.

    Blank lines and unknown actions are passed over. Raises UnreadableLogFileError, naming the
    line, where a line is not JSON, holds two actions, or an action misses or garbles a field.
    """
    for ordinal, line in enumerate(data.split(b"\n"), first_ordinal):
        if line.strip():
            action = read_line(line, ref, ordinal, known)
            if action is not None:
                yield action


def read_line(
    line: bytes, ref: TransactionFileRef, ordinal: int, known: Kinds
) -> LineAction | None:
    """Return the action of one line, or None when it is of no known kind."""
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise UnreadableLogFileError(
            ref.path, f"not a JSON object: {error.msg}", ordinal + 1, error.colno
        ) from None
    if not isinstance(entry, dict):
        raise UnreadableLogFileError(ref.path, "not a JSON object", ordinal + 1, 1)
    found = [kind for kind in entry if entry[kind] is not None and kind in known]
    if not found:
        return None
    if len(found) > 1:
        raise UnreadableLogFileError(
            ref.path, f"one line holds several actions: {', '.join(found)}", ordinal + 1, 1
        )
    kind = found[0]
    try:
        return LineAction(ref.version, ordinal, kind, action_value(entry[kind], kind, known[kind]))
    except ValueError as error:
        raise UnreadableLogFileError(ref.path, str(error), ordinal + 1, 1) from None


def action_value(value: Any, kind: str, kind_type: pa.DataType) -> Any:
    """Return `value` with the fields and types of its kind; raise ValueError where it cannot be."""
    if pt.is_string(kind_type):
        return orjson.dumps(value).decode()
    if not isinstance(value, dict):
        raise ValueError(f"{kind} is not a JSON object")
    required = REQUIRED.get(kind)
    # A name may be empty, a path not.
    if required and (value.get(required) is None or (required == "path" and not value["path"])):
        raise ValueError(f"{kind} has no {required}")
    parsed = value.get(PARSED_STATS) if kind == "add" else None
    if isinstance(parsed, dict) and value.get("stats") is None:
        value = {**value, "stats": orjson.dumps(parsed).decode()}
    return _struct(value, kind_type, kind)


def to_batch(actions: Sequence[LineAction], known: Kinds) -> ActionBatch:
    """Return actions read line by line as columns."""
    columns = {
        kind: pa.array([a.value if a.kind == kind else None for a in actions], known[kind])
        for kind in dict.fromkeys(action.kind for action in actions)
    }
    return ActionBatch(
        pa.array([action.version for action in actions], pa.int64()),
        pa.array([action.ordinal for action in actions], pa.int64()),
        columns,
    )


def _convert(value: Any, wanted: pa.DataType, where: str) -> Any:
    if value is None:
        return None
    if pt.is_string(wanted):
        if isinstance(value, str):
            return value
        if where.rpartition(".")[2] in NUMBER_OR_TEXT and isinstance(value, int):
            return str(value)
        raise ValueError(f"{where} is not a string: {value!r:.60}")
    if pt.is_boolean(wanted):
        if isinstance(value, bool):
            return value
        raise ValueError(f"{where} is neither true nor false: {value!r:.60}")
    if pt.is_integer(wanted):
        return _integer(value, where)
    if pt.is_map(wanted):
        return _string_map(value, where)
    if pt.is_list(wanted):
        if not isinstance(value, list):
            raise ValueError(f"{where} is not a list: {value!r:.60}")
        if None in value and where in NO_HOLES:
            raise ValueError(f"{where} holds a null")
        return [_convert(item, wanted.value_type, where) for item in value]
    if not isinstance(value, dict):
        raise ValueError(f"{where} is not a JSON object: {value!r:.60}")
    return _struct(value, wanted, where)


def _struct(value: dict[str, Any], wanted: pa.StructType, where: str) -> dict[str, Any]:
    return {
        field.name: _convert(value.get(field.name), field.type, f"{where}.{field.name}")
        for field in wanted
    }


def _integer(value: Any, where: str) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{where} is not a whole number: {value!r:.60}")
    if not _LONG_MIN <= value <= _LONG_MAX:
        raise ValueError(f"{where} does not fit in 64 bits: {value!r:.60}")
    return value


def _string_map(value: Any, where: str) -> dict[str, str | None]:
    if not isinstance(value, dict):
        raise ValueError(f"{where} is not a JSON object: {value!r:.60}")
    # A null partition value is a value; anywhere else null equals absent.
    keep_null = where.endswith("partitionValues")
    return {
        key: _map_value(item, f"{where}.{key}")
        for key, item in value.items()
        if keep_null or item is not None
    }


def _map_value(value: Any, where: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (bool, int, float)):
        return orjson.dumps(value).decode()
    raise ValueError(f"{where} is neither text, a number nor null: {value!r:.60}")
