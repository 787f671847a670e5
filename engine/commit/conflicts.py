"""May our commit stand after those that others made meanwhile? Deciding only.

Blind appends never conflict. What a change derives anew from the latest version at every attempt
is no reason for a conflict either: only what was given, and what it relied on, is compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from engine.actions import STRING_MAP
from engine.commit.mappings import without_mappings
from engine.errors import (
    ConcurrentAppendError,
    ConcurrentDeleteError,
    MetadataChangedError,
    ProtocolChangedError,
)
from engine.replay.keys import canonical_path, dv_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from engine.commit.serialize import Action
    from engine.replay.lines import LineAction
    from engine.replay.predicate import Predicate

FileKey = tuple[str, str | None]


@dataclass(frozen=True)
class Reads:
    """What a commit relies on.

    `where` is a condition on partition columns: the files it holds for were read. `head` tells
    that the protocol and the metadata must be what they were.
    """

    where: Predicate | None = None
    head: bool = False


def check(
    winners: Iterable[tuple[int, Sequence[LineAction]]],
    actions: Sequence[Action],
    reads: Reads,
    table: str,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Refuse a commit that one of the winners contradicts.

    `metadata` is what it was built on: a winner that only added mappings of its files to that
    did not change the table. Raises ConcurrentAppendError, ConcurrentDeleteError,
    MetadataChangedError or ProtocolChangedError.
    """
    removed = {file_key(a["remove"], table) for a in actions if "remove" in a}
    domains = {a["domainMetadata"]["domain"] for a in actions if "domainMetadata" in a}
    writes = {kind for action in actions for kind in action}
    for version, winner in winners:
        for action in winner:
            kind, value = action.kind, action.value
            if kind == "metaData" and kind not in writes and _is_same(metadata, value):
                continue
            if kind in {"protocol", "metaData"}:
                if reads.head or kind in writes:
                    _refuse_new_head(kind, version, table)
            elif kind == "domainMetadata" and value["domain"] in domains:
                raise MetadataChangedError(table, version, f"changed domain {value['domain']}")
            elif kind in {"add", "remove"}:
                _refuse_same_file(action, version, removed, table)
                _refuse_read_file(action, version, reads.where, table)


def file_key(value: Mapping[str, Any], root: str) -> FileKey:
    """Return what a file action is compared by."""
    return canonical_path(value["path"], root), dv_id(value.get("deletionVector"))


def _is_same(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> bool:
    return old is not None and without_mappings(old) == without_mappings(new)


def _refuse_new_head(kind: str, version: int, table: str) -> None:
    if kind == "metaData":
        raise MetadataChangedError(table, version, "changed the table's metadata")
    raise ProtocolChangedError(table, version, "changed the table's protocol")


def _refuse_same_file(action: LineAction, version: int, removed: set[FileKey], table: str) -> None:
    if not removed or file_key(action.value, table) not in removed:
        return
    path = action.value["path"]
    if action.kind == "remove":
        raise ConcurrentDeleteError(table, version, f"removed {path}, which this commit removes")
    raise ConcurrentAppendError(table, version, f"added {path} anew, which this commit removes")


def _refuse_read_file(
    action: LineAction, version: int, where: Predicate | None, table: str
) -> None:
    if where is None or action.value.get("dataChange") is False:
        return
    values = action.value.get("partitionValues")
    # A remove may not tell its partition: then it may be one that was read.
    if values is not None and not where.mask(pa.array([values], STRING_MAP))[0].as_py():
        return
    path = action.value["path"]
    if action.kind == "add":
        raise ConcurrentAppendError(table, version, f"added {path} to what this commit had read")
    raise ConcurrentDeleteError(table, version, f"removed {path}, which this commit had read")
