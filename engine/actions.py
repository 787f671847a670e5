"""What an action is: the wire names and types of every action, as one Arrow schema a format.

A VersionedAction is one row: where it stands in the log (`version`, `ordinal`) and one nullable
struct a kind, of which exactly one is set. Spark's schema is derived from this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from engine.formats import DELTA, INDEXTABLES, LogFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

STRING: Final = pa.string()
LONG: Final = pa.int64()
BOOL: Final = pa.bool_()
STRINGS: Final = pa.list_(STRING)
STRING_MAP: Final = pa.map_(STRING, STRING)

DELETION_VECTOR: Final = pa.struct(
    {
        "storageType": STRING,
        "pathOrInlineDv": STRING,
        "offset": LONG,
        "sizeInBytes": LONG,
        "cardinality": LONG,
    }
)

_METADATA: Final = {
    "id": STRING,
    "name": STRING,
    "description": STRING,
    "format": pa.struct({"provider": STRING, "options": STRING_MAP}),
    "schemaString": STRING,
    "partitionColumns": STRINGS,
    "configuration": STRING_MAP,
    "createdTime": LONG,
}
_PROTOCOL: Final = {
    "minReaderVersion": LONG,
    "minWriterVersion": LONG,
    "readerFeatures": STRINGS,
    "writerFeatures": STRINGS,
}
_ADD: Final = {
    "path": STRING,
    "partitionValues": STRING_MAP,
    "size": LONG,
    "modificationTime": LONG,
    "dataChange": BOOL,
    "stats": STRING,
    "tags": STRING_MAP,
}
_REMOVE: Final = {
    "path": STRING,
    "deletionTimestamp": LONG,
    "dataChange": BOOL,
    "extendedFileMetadata": BOOL,
    "partitionValues": STRING_MAP,
    "size": LONG,
    "tags": STRING_MAP,
}
_ROW_TRACKING: Final = {"baseRowId": LONG, "defaultRowCommitVersion": LONG}

# commitInfo is free-form: its JSON text is kept as it stands.
_KINDS: Final[dict[str, dict[str, pa.DataType]]] = {
    DELTA.name: {
        "add": pa.struct(
            _ADD
            | {"deletionVector": DELETION_VECTOR}
            | _ROW_TRACKING
            | {"clusteringProvider": STRING}
        ),
        "remove": pa.struct(
            _REMOVE | {"stats": STRING, "deletionVector": DELETION_VECTOR} | _ROW_TRACKING
        ),
        "metaData": pa.struct(_METADATA),
        "protocol": pa.struct(_PROTOCOL),
        "txn": pa.struct({"appId": STRING, "version": LONG, "lastUpdated": LONG}),
        "domainMetadata": pa.struct({"domain": STRING, "configuration": STRING, "removed": BOOL}),
        "cdc": pa.struct(
            {
                "path": STRING,
                "partitionValues": STRING_MAP,
                "size": LONG,
                "dataChange": BOOL,
                "tags": STRING_MAP,
            }
        ),
        "commitInfo": STRING,
        "checkpointMetadata": pa.struct({"version": LONG, "tags": STRING_MAP}),
        "sidecar": pa.struct(
            {"path": STRING, "sizeInBytes": LONG, "modificationTime": LONG, "tags": STRING_MAP}
        ),
    },
    INDEXTABLES.name: {
        "add": pa.struct(
            _ADD
            | {
                "minValues": STRING_MAP,
                "maxValues": STRING_MAP,
                "numRecords": LONG,
                "footerStartOffset": LONG,
                "footerEndOffset": LONG,
                "hotcacheStartOffset": LONG,
                "hotcacheLength": LONG,
                "hasFooterOffsets": BOOL,
                "timeRangeStart": STRING,
                "timeRangeEnd": STRING,
                "splitTags": STRINGS,
                "deleteOpstamp": LONG,
                "numMergeOps": LONG,
                "docMappingJson": STRING,
                "docMappingRef": STRING,
                "uncompressedSizeBytes": LONG,
                "companionSourceFiles": STRINGS,
                "companionDeltaVersion": LONG,
                "companionFastFieldMode": STRING,
            }
        ),
        "remove": pa.struct(_REMOVE),
        "metaData": pa.struct(_METADATA),
        "protocol": pa.struct(_PROTOCOL),
        "txn": pa.struct({"appId": STRING, "version": LONG, "lastUpdated": LONG}),
        "mergeskip": pa.struct(
            {
                "path": STRING,
                "skipTimestamp": LONG,
                "reason": STRING,
                "operation": STRING,
                "partitionValues": STRING_MAP,
                "size": LONG,
                "retryAfter": LONG,
                "skipCount": LONG,
            }
        ),
        "commitInfo": STRING,
    },
}

# The field that must be there, kind by kind: without it an action speaks of nothing.
REQUIRED: Final[Mapping[str, str]] = {
    "add": "path",
    "remove": "path",
    "txn": "appId",
    "domainMetadata": "domain",
    "mergeskip": "path",
    "sidecar": "path",
}

# What a file action is compared by: never pruned.
KEY_FIELDS: Final = frozenset({"path", "deletionVector"})

# Lists of names that must all be there: who reads a table may not guess the missing one.
NO_HOLES: Final = frozenset(
    {"protocol.readerFeatures", "protocol.writerFeatures", "metaData.partitionColumns"}
)

# Statistics as a struct, in checkpoints: they stand in for `stats` where there is no text.
PARSED_STATS: Final = "stats_parsed"

# Written as numbers by some engines and as text by others; the text is what we keep.
NUMBER_OR_TEXT: Final = frozenset({"timeRangeStart", "timeRangeEnd"})


@cache
def kinds(log_format: LogFormat) -> Mapping[str, pa.DataType]:
    """Return the action kinds of a format and their types, in wire names."""
    return _KINDS[log_format.name]


@cache
def pruned_kinds(
    log_format: LogFormat, fields: tuple[str, ...] | None
) -> Mapping[str, pa.DataType]:
    """Return `kinds` with only the key and these fields of file actions; None keeps all."""
    known = dict(kinds(log_format))
    for kind in ("add", "remove") if fields is not None else ():
        kept = [f for f in known[kind] if f.name in KEY_FIELDS or f.name in (fields or ())]
        known[kind] = pa.struct(kept)
    return known


@cache
def schema(log_format: LogFormat) -> pa.Schema:
    """Return the schema of a VersionedAction."""
    position = [
        pa.field("version", LONG, nullable=False),
        pa.field("ordinal", LONG, nullable=False),
    ]
    return pa.schema(position + [pa.field(k, t) for k, t in kinds(log_format).items()])


@cache
def files_schema(log_format: LogFormat) -> pa.Schema:
    """Return the schema of live files: the fields of `add`, then the deletion vector's id."""
    return pa.schema([*kinds(log_format)["add"], pa.field("dvId", STRING)])


@cache
def tombstones_schema(log_format: LogFormat) -> pa.Schema:
    """Return the schema of tombstones: the fields of `remove`, then the deletion vector's id."""
    return pa.schema([*kinds(log_format)["remove"], pa.field("dvId", STRING)])


@dataclass(frozen=True, slots=True)
class ActionBatch:
    """VersionedActions in columns, holding only the kinds and fields that occur.

    `version` and `ordinal` are int64 arrays; each column is as long as they are, and null where
    the row is of another kind.
    """

    version: pa.Array
    ordinal: pa.Array
    columns: Mapping[str, pa.Array]

    def __len__(self) -> int:
        return len(self.version)

    def to_record_batch(self, wanted: pa.Schema) -> pa.RecordBatch:
        """Return these rows with the columns and types of `wanted`; what does not occur is null."""
        arrays = [self.version, self.ordinal]
        for field in list(wanted)[2:]:
            column = self.columns.get(field.name)
            arrays.append(
                nulls(len(self), field.type) if column is None else conform(column, field.type)
            )
        return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def conform(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return `array` as `wanted`: struct fields it does not have are null, others are dropped."""
    if array.type == wanted:
        return array
    if not (pa.types.is_struct(wanted) and pa.types.is_struct(array.type)):
        return array.cast(wanted)
    have = {field.name: index for index, field in enumerate(array.type)}
    children = [
        conform(array.field(have[field.name]), field.type)
        if field.name in have
        else nulls(len(array), field.type)
        for field in wanted
    ]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)


def nulls(count: int, kind: pa.DataType) -> pa.Array:
    """Return `count` nulls; many batches share the memory of one array of them."""
    if count > _SHARED_NULLS:
        return pa.nulls(count, kind)
    return _shared_nulls(kind).slice(0, count)


_SHARED_NULLS: Final = 1 << 17


@cache
def _shared_nulls(kind: pa.DataType) -> pa.Array:
    return pa.nulls(_SHARED_NULLS, kind)
