"""What must any engine keep of a window of commits, or of a state? The least that may not differ.

Engines differ in what they write back: Spark marks every add of a checkpoint as no change of data,
others drop the statistics of removes or sort the features. None of that is damage. A file that is
missing or added, another size, another deletion vector, a lost tombstone, another protocol is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from engine.replay.content import Content, content_of
from engine.replay.keys import canonical_paths, dv_ids
from engine.replay.rules import FILE_KINDS, STATE_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine.actions import ActionBatch

_KEPT: Final = {"add": ("size", "baseRowId", "defaultRowCommitVersion"), "remove": ()}
_SINGLE_FIELDS: Final = {
    "protocol": ("minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures"),
    "metaData": ("id", "schemaString", "partitionColumns", "configuration"),
    "txn": ("appId", "version"),
    "domainMetadata": ("domain", "configuration", "removed"),
    "mergeskip": ("path", "skipTimestamp", "retryAfter"),
}
_SETS: Final = frozenset({"readerFeatures", "writerFeatures"})


@dataclass(slots=True)
class Essence:
    """The files of a set of actions, added up, and its other actions one by one."""

    root: str
    files: Content = field(default_factory=Content)
    singles: dict[tuple[str, str], str] = field(default_factory=dict)

    def take_files(self, kind: str, actions: pa.StructArray) -> None:
        """Enter file actions of one kind; none of their keys twice."""
        paths = canonical_paths(actions.field("path"), self.root)
        members = {"path": paths}
        if actions.type.get_field_index("deletionVector") >= 0:
            members["dvId"] = dv_ids(pc.struct_field(actions, "deletionVector"))
        for name in _KEPT[kind]:
            if actions.type.get_field_index(name) >= 0:
                members[name] = pc.struct_field(actions, name)
        mask = actions.is_null() if actions.null_count else None
        struct = pa.StructArray.from_arrays(list(members.values()), list(members), mask=mask)
        self.files += content_of({kind: struct})

    def take_single(self, kind: str, value: Mapping[str, Any]) -> None:
        """Enter one action of another kind; the last of its key stands."""
        key = STATE_KEYS[kind]
        told = {name: _plain(name, value.get(name)) for name in _SINGLE_FIELDS[kind]}
        text = orjson.dumps(
            {name: found for name, found in told.items() if found is not None},
            option=orjson.OPT_SORT_KEYS,
        )
        self.singles[kind, str(value[key]) if key else ""] = text.decode()

    def take(self, batches: Iterable[ActionBatch]) -> None:
        """Enter all actions of batches in which no key occurs twice."""
        for batch in batches:
            for kind, column in batch.columns.items():
                if column.null_count == len(column):
                    continue
                if kind in FILE_KINDS:
                    self.take_files(kind, column)
                elif kind in STATE_KEYS:
                    for value in column.filter(column.is_valid()).to_pylist(
                        maps_as_pydicts="lossy"
                    ):
                        self.take_single(kind, value)

    def of_kinds(self, *kinds: str) -> dict[tuple[str, str], str]:
        """Return the single actions of some kinds."""
        return {key: text for key, text in self.singles.items() if key[0] in kinds}


def compaction_differences(wanted: Essence, found: Essence) -> list[str]:
    """Return, in words, what a compaction has otherwise than its commits. All must be there."""
    told = wanted.files.differences(found.files)
    return told + _single_differences(wanted.singles, found.singles)


def checkpoint_differences(
    wanted: Essence, found: Essence, *, protocol: bool, txns_expire: bool
) -> list[str]:
    """Return, in words, what a checkpoint has otherwise than the replay of its version.

    Tombstones and skips may have expired, and so may txns where the table says so; a domain that
    was removed is gone from it. Some writers raise the `protocol` of an IndexTables log in it.
    """
    told = wanted.files.of(FILE_KINDS[:1]).differences(found.files.of(FILE_KINDS[:1]))
    exact = ["metaData", *(["protocol"] if protocol else []), *([] if txns_expire else ["txn"])]
    told += _single_differences(wanted.of_kinds(*exact), found.of_kinds(*exact))
    for kind in ("mergeskip", *(["txn"] if txns_expire else [])):
        theirs = found.of_kinds(kind)
        mine = {key: text for key, text in wanted.of_kinds(kind).items() if key in theirs}
        told += _single_differences(mine, theirs)
    return told + _single_differences(_live_domains(wanted), _live_domains(found))


def _single_differences(
    wanted: Mapping[tuple[str, str], str], found: Mapping[tuple[str, str], str]
) -> list[str]:
    told = []
    for key in sorted({*wanted, *found}):
        name = " ".join(filter(None, key))
        if key not in found:
            told.append(f"{name} is missing")
        elif key not in wanted:
            told.append(f"{name} should not be there")
        elif wanted[key] != found[key]:
            told.append(f"{name} differs")
    return told


def _live_domains(of: Essence) -> dict[tuple[str, str], str]:
    domains = of.of_kinds("domainMetadata").items()
    return {key: text for key, text in domains if not orjson.loads(text).get("removed")}


def _plain(name: str, value: Any) -> Any:
    if name in _SETS:
        return sorted(value) if value else None
    return None if value is False or value == {} else value
