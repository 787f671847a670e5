"""Is a commit sound? Everything is checked before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import orjson
import pyarrow as pa

from engine.actions import kinds
from engine.commit.schema import refuse_missing, schema_text
from engine.commit.table_rules import (
    check_rules,
    refuse_hidden_change,
    refuse_removes,
    refuse_unfed,
)
from engine.commit.writable import refuse_unwritable
from engine.config import PROTOCOL_ENFORCE_READER, PROTOCOL_ENFORCE_WRITER
from engine.errors import InvalidCommitError, UnsupportedActionError
from engine.formats import FORMATS
from engine.replay.keys import dv_id
from engine.replay.lines import action_value
from engine.replay.partitions import PartitionColumn, partition_columns_of, type_of
from engine.replay.rules import STATE_KEYS, check_protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from engine.commit.known import View
    from engine.commit.serialize import Action, Body
    from engine.config import Config
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
_NOT_NEGATIVE: Final = ("size", "modificationTime", "deletionTimestamp", "numRecords")
# Ours to write, or no action of a commit at all.
_NOT_GIVEN: Final = frozenset({"commitInfo", "checkpointMetadata", "sidecar", "cdc"})
_LOG_DIRECTORIES: Final = frozenset(log_format.directory for log_format in FORMATS)


def check(
    body: Body,
    view: View,
    log_format: LogFormat,
    table: str,
    config: Config,
    *,
    schema_change: bool = False,
) -> None:
    """Refuse a commit that breaks a rule of the format or of the table.

    Raises InvalidCommitError and its kin, UnsupportedWriterError, or what makes a protocol
    unreadable to us.
    """
    protocol, metadata = _after(body, view)
    check_protocol(protocol, log_format, table, by_version=config[PROTOCOL_ENFORCE_READER])
    by_version = config[PROTOCOL_ENFORCE_WRITER]
    for old, about in ((view.protocol, view.metadata), (protocol, metadata)):
        refuse_unwritable(old, about, log_format, table, by_version=by_version)
    try:
        _check_actions(body.actions, log_format)
        if metadata is not view.metadata:
            check_metadata(metadata, log_format)
        check_rules(body, view, protocol, metadata, log_format)
        _check_values(body.actions, metadata)
    except ValueError as error:
        raise InvalidCommitError(table, str(error)) from None
    except _UnknownKindError as error:
        raise UnsupportedActionError(table, str(error)) from None
    if metadata is not view.metadata and not schema_change:
        refuse_hidden_change(view.metadata, metadata, table)
    refuse_removes(body, metadata, table)
    refuse_unfed(body, metadata, table)


def check_metadata(metadata: Mapping[str, Any], log_format: LogFormat) -> None:
    """Raise ValueError where a metaData action does not describe a table."""
    text = schema_text(metadata.get("schemaString") or "")
    refuse_missing(metadata.get("partitionColumns") or (), text)
    for key, value in (metadata.get("configuration") or {}).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise ValueError(f"the table property {key} is not text: {value!r}")
    provider = (metadata.get("format") or {}).get("provider")
    if provider != log_format.provider:
        raise ValueError(f"the files are {provider!r}; a table here has {log_format.provider}")


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


class _UnknownKindError(Exception):
    """The format has no such action."""


def _after(body: Body, view: View) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    protocol, metadata = view.protocol, view.metadata
    for action in body.actions:
        protocol = action.get("protocol", protocol)
        metadata = action.get("metaData", metadata)
    return protocol, metadata


def _check_actions(actions: Sequence[Action], log_format: LogFormat) -> None:
    known = kinds(log_format)
    seen: set[tuple[str, Any]] = set()
    for action in actions:
        if len(action) != 1:
            raise ValueError(f"an action must have one kind, not {len(action)}: {action!r:.80}")
        kind, value = next(iter(action.items()))
        if kind not in known or kind in _NOT_GIVEN:
            allowed = ", ".join(name for name in known if name not in _NOT_GIVEN)
            raise _UnknownKindError(
                f"a commit of a {log_format.name} log takes no {kind}; it takes {allowed}"
            )
        _check_fields(kind, value, known[kind])
        key = _key(kind, value)
        if key in seen:
            raise ValueError(f"one commit speaks twice of {_name(kind, value)}")
        seen.add(key)


def _check_fields(kind: str, value: Mapping[str, Any], known: pa.DataType) -> None:
    typed = action_value(value, kind, known)
    for name in _REQUIRED.get(kind, ()):
        if typed.get(name) is None:
            raise ValueError(f"{kind} has no {name}: {_name(kind, value)}")
    unknown = [name for name in value if known.get_field_index(name) < 0]
    if unknown:
        raise ValueError(f"{kind} has no field {', '.join(unknown)}; check the spelling")
    if "path" in value:
        check_path(value["path"])
    for name in _NOT_NEGATIVE:
        if (typed.get(name) or 0) < 0:
            raise ValueError(f"{kind}.{name} is negative: {typed[name]} for {value['path']}")
    if typed.get("stats") is not None:
        try:
            orjson.loads(typed["stats"])
        except orjson.JSONDecodeError:
            raise ValueError(f"{kind}.stats is not JSON, for {value['path']}") from None


def _check_values(actions: Sequence[Action], metadata: Mapping[str, Any]) -> None:
    adds = [action["add"] for action in actions if "add" in action]
    if not adds:
        return
    schema = metadata.get("schemaString")
    columns = metadata.get("partitionColumns") or []
    found = partition_columns_of(schema, columns) if schema else []
    keys = {column.key for column in found}
    for add in adds:
        if set(add["partitionValues"]) != keys:
            given = ", ".join(sorted(add["partitionValues"])) or "none"
            wanted = ", ".join(sorted(keys)) or "none"
            raise ValueError(
                f"{add['path']} has values for the partition columns {given}; "
                f"the table is partitioned by {wanted}"
            )
    for column in found:
        _check_types(column, {add["partitionValues"][column.key] for add in adds})


def _check_types(column: PartitionColumn, values: Iterable[str | None]) -> None:
    if column.type_name.partition("(")[0] in {"string", "binary", "char", "varchar"}:
        return
    cast = type_of(column).cast
    for value in values:
        try:
            cast(pa.array([value or None], pa.string()))
        except pa.ArrowInvalid:
            raise ValueError(
                f"the partition value {value!r} of {column.name} is not of type {column.type_name}"
            ) from None


def _key(kind: str, value: Mapping[str, Any]) -> tuple[str, Any]:
    if kind in {"add", "remove"}:
        return "file", (value["path"], dv_id(value.get("deletionVector")))
    field = STATE_KEYS[kind]
    return kind, None if field is None else value[field]


def _name(kind: str, value: Mapping[str, Any]) -> str:
    field = "path" if kind in {"add", "remove"} else STATE_KEYS.get(kind)
    return kind if field is None else f"{kind} {value.get(field)}"
