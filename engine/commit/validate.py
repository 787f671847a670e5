"""Is a commit sound? Everything is checked before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.commit.given import name_of
from engine.commit.properties import check_properties
from engine.commit.schema import refuse_missing, schema_text
from engine.commit.table_rules import (
    check_rules,
    refuse_hidden_change,
    refuse_removes,
    refuse_unfed,
)
from engine.commit.values import check_values
from engine.commit.writable import refuse_unwritable
from engine.config import PROTOCOL_ENFORCE_READER, PROTOCOL_ENFORCE_WRITER
from engine.errors import InvalidCommitError
from engine.replay.keys import dv_id
from engine.replay.rules import STATE_KEYS, check_protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.commit.known import View
    from engine.commit.serialize import Action, Body
    from engine.config import Config
    from engine.formats import LogFormat


def check(
    body: Body,
    view: View,
    log_format: LogFormat,
    table: str,
    config: Config,
    *,
    schema_change: bool = False,
) -> None:
    """Refuse a commit of sound actions that breaks a rule of the format or of the table.

    Raises InvalidCommitError and its kin, UnsupportedWriterError, or what makes a protocol
    unreadable to us.
    """
    protocol, metadata = _after(body, view)
    check_protocol(protocol, log_format, table, by_version=config[PROTOCOL_ENFORCE_READER])
    by_version = config[PROTOCOL_ENFORCE_WRITER]
    for old, about in ((view.protocol, view.metadata), (protocol, metadata)):
        refuse_unwritable(old, about, log_format, table, by_version=by_version)
    try:
        _refuse_twice(body.actions)
        if metadata is not view.metadata:
            check_metadata(metadata, view.configuration, log_format)
        check_rules(body, view, protocol, metadata, log_format)
        check_values(body.actions, metadata)
    except ValueError as error:
        raise InvalidCommitError(table, str(error)) from None
    if metadata is not view.metadata and not schema_change:
        refuse_hidden_change(view.metadata, metadata, table)
    refuse_removes(body, view.metadata, metadata, table)
    refuse_unfed(body, metadata, table)


def check_metadata(
    metadata: Mapping[str, Any], old: Mapping[str, str] | None, log_format: LogFormat
) -> None:
    """Raise ValueError where a metaData action does not describe a table.

    `old` has the properties that the table has, None where it is created.
    """
    text = schema_text(metadata.get("schemaString") or "")
    refuse_missing(metadata.get("partitionColumns") or (), text)
    check_properties(old, metadata.get("configuration") or {})
    provider = (metadata.get("format") or {}).get("provider")
    if provider != log_format.provider:
        raise ValueError(f"the files are {provider!r}; a table here has {log_format.provider}")


def _after(body: Body, view: View) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    protocol, metadata = view.protocol, view.metadata
    for action in body.actions:
        protocol = action.get("protocol", protocol)
        metadata = action.get("metaData", metadata)
    return protocol, metadata


def _refuse_twice(actions: Sequence[Action]) -> None:
    seen: set[tuple[str, Any]] = set()
    for action in actions:
        kind, value = next(iter(action.items()))
        key = _key(kind, value)
        if key in seen:
            raise ValueError(f"one commit speaks twice of {name_of(kind, value)}")
        seen.add(key)


def _key(kind: str, value: Mapping[str, Any]) -> tuple[str, Any]:
    if kind in {"add", "remove"}:
        return "file", (value["path"], dv_id(value.get("deletionVector")))
    field = STATE_KEYS[kind]
    return kind, None if field is None else value[field]
