"""Is what a caller gave an action of the format? Then it is returned as a commit has it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import orjson

from engine.actions import kinds
from engine.errors import InvalidCommitError, UnsupportedActionError
from engine.formats import FORMATS
from engine.replay.lines import action_value
from engine.replay.rules import STATE_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from engine.commit.serialize import Action
    from engine.formats import LogFormat

# What must be in an action beside what its kind cannot do without to be read.
_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "add": ("path", "partitionValues", "size", "modificationTime", "dataChange"),
    "remove": ("path", "dataChange"),
    "metaData": ("id", "format", "schemaString", "partitionColumns"),
    "protocol": ("minReaderVersion", "minWriterVersion"),
    "txn": ("appId", "version"),
    "domainMetadata": ("domain", "configuration", "removed"),
    "mergeskip": ("path", "skipTimestamp", "reason", "operation", "skipCount"),
}
_REQUIRED_OF_VECTOR: Final = ("storageType", "pathOrInlineDv", "sizeInBytes", "cardinality")
_VECTOR_STORAGES: Final = ("u", "i", "p")
_NOT_NEGATIVE: Final = ("size", "modificationTime", "deletionTimestamp", "numRecords")
# Ours to write, or no action of a commit at all.
_NOT_GIVEN: Final = frozenset({"commitInfo", "checkpointMetadata", "sidecar", "cdc"})
_LOG_DIRECTORIES: Final = frozenset(log_format.directory for log_format in FORMATS)
# What the path of a URI does not hold as it is (RFC 2396), and escapes that are none: readers
# refuse the path, or look for a file whose name ends before. Letters of other scripts are read.
_NOT_ENCODED: Final = re.compile(r"""[\x00-\x20\x7f"#<>?[\\\]^`{|}]|%(?![0-9A-Fa-f]{2})""")


def taken(actions: Iterable[Any], log_format: LogFormat, table: str) -> list[Action]:
    """Return actions as a commit has them: fields typed, numbers of a text map as their text.

    Raises UnsupportedActionError for a kind that the format does not have, and InvalidCommitError
    for whatever else keeps an action from being one, with its place.
    """
    known = kinds(log_format)
    found: list[Action] = []
    for at, action in enumerate(actions):
        try:
            kind, value = _one_kind(action)
            if kind not in known or kind in _NOT_GIVEN:
                allowed = ", ".join(name for name in known if name not in _NOT_GIVEN)
                reason = f"a commit of a {log_format.name} log takes no {kind}; it takes {allowed}"
                raise UnsupportedActionError(table, reason)
            found.append({kind: _fields(kind, value, known[kind], log_format)})
            orjson.dumps(found[-1])
        except (ValueError, orjson.JSONEncodeError) as error:
            raise InvalidCommitError(table, str(error), at) from None
    return found


def name_of(kind: str, value: Mapping[str, Any]) -> str:
    """Return what an action speaks of, in words."""
    field = "path" if kind in {"add", "remove"} else STATE_KEYS.get(kind)
    return kind if field is None else f"{kind} {value.get(field)}"


def _one_kind(action: Any) -> tuple[str, Any]:
    if not isinstance(action, Mapping):
        raise ValueError(f"an action is an object such as {{'add': …}}, not {action!r:.80}")
    if len(action) != 1:
        raise ValueError(f"an action must have one kind, not {len(action)}: {action!r:.80}")
    return next(iter(action.items()))


def _fields(
    kind: str, value: Any, known: pa.StructType, log_format: LogFormat
) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{kind} is not an object: {value!r:.80}")
    value = _with_defaults(dict(value)) if kind == "metaData" else dict(value)
    _refuse_untextual(kind, value)
    unknown = [name for name in value if known.get_field_index(name) < 0]
    typed = action_value(value, kind, known)
    for name in _REQUIRED.get(kind, ()):
        if typed.get(name) is None:
            raise ValueError(f"{kind} has no {name}: {name_of(kind, value)}")
    if unknown:
        raise ValueError(f"{kind} has no field {', '.join(unknown)}; check the spelling")
    if "path" in value:
        check_path(typed["path"])
        if kind == "add" and log_format.encodes_paths:
            _refuse_unencoded(typed["path"], log_format)
    for name in _NOT_NEGATIVE:
        if (typed.get(name) or 0) < 0:
            raise ValueError(f"{kind}.{name} is negative: {typed[name]} for {value['path']}")
    if typed.get("stats") is not None:
        try:
            orjson.loads(typed["stats"])
        except orjson.JSONDecodeError:
            raise ValueError(f"{kind}.stats is not JSON, for {value['path']}") from None
    if typed.get("deletionVector") is not None:
        typed["deletionVector"] = _vector(typed["deletionVector"], value["path"])
    return {name: typed[name] for name in value if typed[name] is not None}


def _with_defaults(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return metaData with the maps that every reader wants, if only empty."""
    configuration = metadata["configuration"] = metadata.get("configuration") or {}
    if isinstance(configuration, Mapping):
        for key, text in configuration.items():
            if not isinstance(text, str):
                raise ValueError(f"the table property {key} is not text: {text!r}")
    about = metadata.get("format")
    if isinstance(about, Mapping):
        metadata["format"] = {**about, "options": about.get("options") or {}}
    return metadata


def _refuse_untextual(kind: str, value: Mapping[Any, Any]) -> None:
    """Raise ValueError for names that are no text, and for numbers that JSON does not have."""
    for name, inner in value.items():
        if not isinstance(name, str):
            raise ValueError(f"a field of {kind} has the name {name!r}, which is not text")
        if isinstance(inner, Mapping):
            _refuse_untextual(f"{kind}.{name}", inner)
        elif isinstance(inner, float) and not isfinite(inner):
            raise ValueError(f"{kind}.{name} is {inner!r}; give it as text")


def _vector(vector: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return a deletion vector that can be found again."""
    for name in _REQUIRED_OF_VECTOR:
        if vector.get(name) in {None, ""}:
            raise ValueError(f"the deletionVector of {path} has no {name}")
    if vector["storageType"] not in _VECTOR_STORAGES:
        raise ValueError(
            f"the deletionVector of {path} has the storageType {vector['storageType']!r}; "
            f"use {', '.join(_VECTOR_STORAGES)}"
        )
    for name in ("offset", "sizeInBytes", "cardinality"):
        if (vector.get(name) or 0) < 0:
            raise ValueError(f"the deletionVector of {path} has a negative {name}")
    return {name: found for name, found in vector.items() if found is not None}


def _refuse_unencoded(path: str, log_format: LogFormat) -> None:
    if found := _NOT_ENCODED.search(path):
        odd = found[0]
        raise ValueError(
            f"the path {path!r} is not percent-encoded, as paths in a {log_format.name} log are: "
            f"write %{ord(odd):02X} for {odd!r}"
        )


def check_path(path: Any) -> None:
    """Raise ValueError where a path is not that of a file inside the table."""
    if not isinstance(path, str) or not path:
        raise ValueError("a file has no path")
    plain = unquote(path)
    if plain.startswith(("/", "\\")):
        raise ValueError(f"the path {path!r} is absolute; give it relative to the table")
    if ":" in plain.split("/", 1)[0]:
        raise ValueError(f"the path {path!r} has a scheme; give it relative to the table")
    parts = plain.split("/")
    if any(part in {"", ".", ".."} for part in parts) or "\0" in plain:
        raise ValueError(f"the path {path!r} does not name a file inside the table")
    if parts[0] in _LOG_DIRECTORIES:
        raise ValueError(f"the path {path!r} is inside the log")
