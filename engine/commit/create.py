"""How does a table begin? Version 0: what a reader and a writer must support, and what it is."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from engine.commit import validate
from engine.commit.schema import column_types, schema_text
from engine.commit.serialize import Body, commit_bytes, engine_info
from engine.commit.writable import refuse_unwritable
from engine.errors import (
    AlreadyExistsError,
    InvalidCommitError,
    LogNotFoundError,
    TableExistsError,
)
from engine.formats import DELTA, LogFormat
from engine.log.listing import LogDirectory, list_log
from engine.log.paths import commit_name
from engine.replay.rules import check_protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.config import Config

# Properties that ask for a table feature, and whether readers must know it too.
_FEATURES: Final = {
    ("delta.enableInCommitTimestamps", "true"): ("inCommitTimestamp", False),
    ("delta.enableDeletionVectors", "true"): ("deletionVectors", True),
    ("delta.checkpointPolicy", "v2"): ("v2Checkpoint", True),
}


@dataclass(frozen=True)
class TableSpec:
    """A table that is to be."""

    schema: Any
    partition_columns: Sequence[str] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None


def create(
    directory: LogDirectory, spec: TableSpec, config: Config, now_ms: int, *, dry_run: bool = False
) -> None:
    """Write version 0 of a new table.

    Raises TableExistsError where the log holds anything already, and InvalidCommitError where the
    table could not be.
    """
    table = directory.table_url
    body = Body(_actions(directory.log_format, spec, now_ms, table))
    try:
        listing = list_log(directory)
    except LogNotFoundError:
        listing = None
    if listing is not None and listing.refs:
        raise TableExistsError(table)
    if dry_run:
        return
    info = {
        "timestamp": now_ms,
        "operation": "CREATE TABLE",
        "operationParameters": {},
        "isolationLevel": "Serializable",
        "isBlindAppend": True,
        "engineInfo": engine_info(),
        "txnId": str(uuid.uuid4()),
    }
    if dict(spec.configuration).get("delta.enableInCommitTimestamps", "").lower() == "true":
        info = {"inCommitTimestamp": now_ms, **info}
    encoded = commit_bytes(info, body, directory.log_format, config, now_ms)
    try:
        directory.storage.write_new(directory.file(commit_name(0)), encoded.data)
    except AlreadyExistsError:
        raise TableExistsError(table) from None


def _actions(
    log_format: LogFormat, spec: TableSpec, now_ms: int, table: str
) -> list[dict[str, Any]]:
    try:
        text = schema_text(spec.schema)
        metadata = {
            "id": str(uuid.uuid4()),
            "name": spec.name,
            "description": spec.description,
            "format": {"provider": log_format.provider, "options": {}},
            "schemaString": text,
            "partitionColumns": list(spec.partition_columns),
            "configuration": dict(spec.configuration),
            "createdTime": now_ms,
        }
        validate.check_metadata(metadata, log_format)
    except ValueError as error:
        raise InvalidCommitError(table, str(error)) from None
    protocol = _protocol(log_format, spec.configuration, text)
    check_protocol(protocol, log_format, table)
    refuse_unwritable(protocol, metadata, log_format, table)
    return [{"protocol": protocol}, {"metaData": metadata}]


def _protocol(
    log_format: LogFormat, configuration: Mapping[str, str], schema_string: str
) -> dict[str, Any]:
    reader, writer = log_format.new_protocol
    features = [
        feature
        for (key, value), feature in _FEATURES.items()
        if str(configuration.get(key, "")).lower() == value
    ]
    if "timestamp_ntz" in str(column_types(schema_string).values()):
        features.append(("timestampNtz", True))
    if log_format is not DELTA or not features:
        return {"minReaderVersion": reader, "minWriterVersion": writer}
    both = sorted(name for name, for_readers in features if for_readers)
    every = sorted({"appendOnly", "invariants", *(name for name, _ in features)})
    protocol: dict[str, Any] = {
        "minReaderVersion": log_format.feature_reader_version if both else reader,
        "minWriterVersion": log_format.feature_writer_version,
    }
    if both:
        protocol["readerFeatures"] = both
    return {**protocol, "writerFeatures": every}
