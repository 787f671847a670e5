"""Is a JSON checkpoint lines of actions, one object that holds them, or the manifest of parts?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from engine.actions import kinds
from engine.errors import CorruptCheckpointError
from engine.log.paths import FileKind, TransactionFileRef, parse_path
from engine.replay.lines import LineAction, action_value, to_batch

if TYPE_CHECKING:
    from engine.actions import ActionBatch
    from engine.formats import LogFormat


def single_object(plain: bytes, log_format: LogFormat) -> dict[str, Any] | None:
    """Return the one object a checkpoint consists of, or None when it is JSON lines."""
    first, _, rest = plain.partition(b"\n")
    for text in (first, plain) if not rest.strip() else (plain,):
        if text is plain and len(plain) > len(first) and _is_action_line(first):
            return None
        try:
            found = orjson.loads(text)
        except orjson.JSONDecodeError:
            continue
        if isinstance(found, dict) and ("parts" in found or _holds_actions(found, log_format)):
            return found
    return None


def parts_of(whole: dict[str, Any], ref: TransactionFileRef, log_format: LogFormat) -> list[str]:
    """Return the parts that a manifest names, at least one; none for an object that is no manifest.

    Raises CorruptCheckpointError for a name that is not that of a part of this checkpoint.
    """
    names = whole.get("parts")
    if names is None and _holds_actions(whole, log_format):
        return []
    parts: list[str] = []
    for name in names if isinstance(names, list) else ():
        part = parse_path(str(name), 0, 0, log_format)
        wanted = (FileKind.CHECKPOINT_JSON_PART, ref.version)
        if part is None or (part.kind, part.version) != wanted or part.path in parts:
            raise CorruptCheckpointError(ref.path, f"{name!r:.80} is not the name of a part")
        parts.append(part.path)
    if not parts:
        raise CorruptCheckpointError(ref.path, "the manifest names no parts")
    return parts


def from_object(
    whole: dict[str, Any], ref: TransactionFileRef, log_format: LogFormat
) -> ActionBatch:
    """Return the actions of a checkpoint that is one object: a kind's one action, or a list."""
    known = kinds(log_format)
    actions: list[LineAction] = []
    for kind, value in whole.items():
        if kind not in known or value is None:
            continue
        for item in value if isinstance(value, list) else [value]:
            try:
                converted = action_value(item, kind, known[kind])
            except ValueError as error:
                raise CorruptCheckpointError(ref.path, str(error)) from None
            actions.append(LineAction(ref.version, len(actions), kind, converted))
    return to_batch(actions, known)


def _holds_actions(found: dict[str, Any], log_format: LogFormat) -> bool:
    """Whether an object holds many actions, as no line does."""
    known = kinds(log_format)
    told = [value for kind, value in found.items() if kind in known and value is not None]
    return len(told) > 1 or any(isinstance(value, list) for value in told)


def _is_action_line(line: bytes) -> bool:
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False
