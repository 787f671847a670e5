"""Does a commit keep to the rules that this one table has set itself?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from engine.commit.features import (
    has_feature,
    refuse_lowered,
    refuse_shapeless,
    refuse_unlisted,
)
from engine.commit.mappings import mappings_in
from engine.errors import (
    AppendOnlyError,
    InvalidCommitError,
    SchemaChangeError,
    UnsupportedWriterError,
)
from engine.replay.docmapping import mapping_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.commit.known import View
    from engine.commit.serialize import Action, Body
    from engine.formats import LogFormat

_SYSTEM_DOMAIN: Final = "delta."


def check_rules(
    body: Body,
    view: View,
    protocol: Mapping[str, Any],
    metadata: Mapping[str, Any],
    log_format: LogFormat,
) -> None:
    """Raise ValueError where a commit, and the head it leaves, do not go together."""
    if metadata is not view.metadata:
        _refuse_lost_mappings(view.metadata, metadata)
    if protocol is not view.protocol:
        refuse_shapeless(protocol, log_format)
        refuse_lowered(view.protocol, protocol, log_format)
    if metadata is not view.metadata or protocol is not view.protocol:
        refuse_unlisted(protocol, metadata, log_format)
    _check_features(body.actions, protocol, log_format)
    _check_mappings(body.actions, metadata)


def refuse_removes(body: Body, old: Mapping[str, Any], new: Mapping[str, Any], table: str) -> None:
    """Refuse removes from a table that is append-only, before or after. Raises AppendOnlyError."""
    if not (_is_append_only(old) or _is_append_only(new)):
        return
    given = [action["remove"] for action in body.actions if "remove" in action]
    if any(remove.get("dataChange", True) for remove in given) or (
        body.removed is not None and body.removed.num_rows
    ):
        raise AppendOnlyError(table, "the table is append-only (delta.appendOnly is true)")


def refuse_unfed(body: Body, metadata: Mapping[str, Any], table: str) -> None:
    """Refuse a commit whose changes a change feed could not tell from its adds and removes.

    Files that come, that go, and that take the place of all others there are told by those;
    rows that moved from one file to another are not. Raises UnsupportedWriterError.
    """
    feed = (metadata.get("configuration") or {}).get("delta.enableChangeDataFeed", "false")
    if feed.lower() != "true":
        return
    changed = {
        kind
        for action in body.actions
        for kind, value in action.items()
        if kind in {"add", "remove"} and value.get("dataChange", True)
    }
    if changed == {"add", "remove"}:
        needs = (
            "uses the writer feature changeDataFeed (delta.enableChangeDataFeed): a commit that "
            "rewrites files must write change files, which txlog does not"
        )
        raise UnsupportedWriterError(table, needs)


def refuse_hidden_change(old: Mapping[str, Any], new: Mapping[str, Any], table: str) -> None:
    """Refuse metadata that changes what only a change of the schema may.

    Raises SchemaChangeError and InvalidCommitError.
    """
    if orjson.loads(old.get("schemaString") or "{}") != orjson.loads(new["schemaString"]):
        reason = "its metaData has another schema; change a schema with update_metadata(schema=…)"
        raise SchemaChangeError(table, reason)
    if list(old.get("partitionColumns") or ()) != list(new.get("partitionColumns") or ()):
        reason = "its metaData has other partition columns; files do not move by that"
        raise SchemaChangeError(table, reason)
    if old.get("id") != new.get("id"):
        raise InvalidCommitError(table, "its metaData has another id, which never changes")


def _is_append_only(metadata: Mapping[str, Any]) -> bool:
    configuration = metadata.get("configuration") or {}
    return bool(configuration.get("delta.appendOnly", "false").lower() == "true")


def _check_features(
    actions: Sequence[Action], protocol: Mapping[str, Any], log_format: LogFormat
) -> None:
    for action in actions:
        kind, value = next(iter(action.items()))
        if kind == "domainMetadata":
            _refuse_without("domainMetadata", protocol, log_format)
            if value["domain"].startswith(_SYSTEM_DOMAIN):
                raise ValueError(f"the domain {value['domain']} is the engines' own, not for users")
        elif kind == "add" and value.get("deletionVector") is not None:
            _refuse_without("deletionVectors", protocol, log_format)
            # Without it nobody knows how many rows the vector leaves.
            stats = orjson.loads(value.get("stats") or "{}")
            if not isinstance(stats, dict) or not isinstance(stats.get("numRecords"), int):
                raise ValueError(f"{value['path']} has a deletion vector and no stats.numRecords")


def _refuse_without(name: str, protocol: Mapping[str, Any], log_format: LogFormat) -> None:
    if not has_feature(protocol, name, log_format):
        raise ValueError(f"the table's protocol does not have the feature {name}")


def _check_mappings(actions: Sequence[Action], metadata: Mapping[str, Any]) -> None:
    configuration = metadata.get("configuration") or {}
    for action in actions:
        add = action.get("add") or {}
        ref = add.get("docMappingRef")
        if ref is not None and mapping_of(ref, configuration) is None:
            raise ValueError(
                f"{add['path']} names the mapping {ref}, which the table does not hold; "
                "bring it along as docMappingJson"
            )


def _refuse_lost_mappings(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    kept = mappings_in(new)
    for key, text in mappings_in(old).items():
        if kept.get(key) != text:
            raise ValueError(f"the mapping {key} would go or change; files name it")
