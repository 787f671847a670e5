"""How does a table begin? Version 0: what a reader and a writer must support, and what it is."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson

from engine.commit import validate
from engine.commit.features import asked_features
from engine.commit.given import taken
from engine.commit.schema import schema_text
from engine.commit.serialize import Body, commit_bytes, engine_info
from engine.commit.transaction import DRY_RUN, Committed
from engine.commit.upgrades import raised
from engine.commit.writable import refuse_unwritable
from engine.errors import (
    AlreadyExistsError,
    InvalidCommitError,
    LogNotFoundError,
    TableExistsError,
)
from engine.log.listing import LogDirectory, find_log
from engine.log.paths import commit_name
from engine.replay.rules import check_protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.commit.serialize import Action
    from engine.config import Config
    from engine.formats import LogFormat

OPERATION: Final = "CREATE TABLE"


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
) -> Committed:
    """Write version 0 of a new table.

    Raises TableExistsError where there is a log already, of whichever format, and
    InvalidCommitError where the table could not be.
    """
    started = time.perf_counter()
    table, txn_id = directory.table_url, str(uuid.uuid4())
    body = Body(_actions(directory.log_format, spec, now_ms, table))
    try:
        _, listing = find_log(directory.storage, directory.root)
    except LogNotFoundError:
        listing = None
    if listing is not None and listing.refs:
        raise TableExistsError(table)
    info = {
        "timestamp": now_ms,
        "operation": OPERATION,
        "operationParameters": {},
        "isolationLevel": "Serializable",
        "isBlindAppend": True,
        "engineInfo": engine_info(),
        "txnId": txn_id,
    }
    if dict(spec.configuration).get("delta.enableInCommitTimestamps", "").lower() == "true":
        info = {"inCommitTimestamp": now_ms, **info}
    config = config.of_table(spec.configuration)
    encoded = commit_bytes(info, body, directory.log_format, config, now_ms)
    try:
        if not dry_run:
            directory.storage.write_new(directory.file(commit_name(0)), encoded.data)
    except AlreadyExistsError:
        raise TableExistsError(table) from None
    return Committed(
        version=0,
        is_new=not dry_run,
        reason=DRY_RUN if dry_run else "",
        txn_id=txn_id,
        operation=OPERATION,
        seconds=time.perf_counter() - started,
        compression=encoded.metrics(),
    )


def difference(spec: TableSpec, metadata: Mapping[str, Any]) -> str:
    """Return in what a table is not the one asked for; nothing where it is.

    It may have more properties than were asked for.
    """
    if orjson.loads(schema_text(spec.schema)) != orjson.loads(metadata.get("schemaString") or "0"):
        return "its schema is another"
    columns = list(metadata.get("partitionColumns") or ())
    if columns != list(spec.partition_columns):
        return f"its partition columns are {', '.join(columns) or 'none'}"
    properties = metadata.get("configuration") or {}
    for key, value in spec.configuration.items():
        if properties.get(key) != value:
            return f"its property {key} is {properties.get(key)!r}"
    for key, wanted in (("name", spec.name), ("description", spec.description)):
        if wanted is not None and metadata.get(key) != wanted:
            return f"its {key} is {metadata.get(key)!r}"
    return ""


def _actions(log_format: LogFormat, spec: TableSpec, now_ms: int, table: str) -> list[Action]:
    try:
        text = schema_text(spec.schema)
    except ValueError as error:
        raise InvalidCommitError(table, str(error)) from None
    given = {
        "id": str(uuid.uuid4()),
        "name": spec.name,
        "description": spec.description,
        "format": {"provider": log_format.provider, "options": {}},
        "schemaString": text,
        "partitionColumns": list(spec.partition_columns),
        "configuration": dict(spec.configuration),
        "createdTime": now_ms,
    }
    (action,) = taken([{"metaData": given}], log_format, table)
    metadata = action["metaData"]
    try:
        validate.check_metadata(metadata, None, log_format)
    except ValueError as error:
        raise InvalidCommitError(table, str(error)) from None
    protocol = _protocol(log_format, metadata)
    check_protocol(protocol, log_format, table)
    refuse_unwritable(protocol, metadata, log_format, table)
    return [{"protocol": protocol}, action]


def _protocol(log_format: LogFormat, metadata: Mapping[str, Any]) -> dict[str, Any]:
    reader, writer = log_format.new_protocol
    protocol: dict[str, Any] = {"minReaderVersion": reader, "minWriterVersion": writer}
    asked = asked_features(metadata)
    if not log_format.lists_features or not asked:
        return protocol
    both = sorted(name for name, for_readers in asked.items() if for_readers)
    return raised(
        protocol,
        log_format.feature_reader_version if both else reader,
        log_format.feature_writer_version,
        log_format,
        both,
        sorted(asked),
    )
