"""Is what a log says of its table legal? Protocol and metaData, by the rules of their format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from engine.errors import ReplayError
from engine.formats import DELTA, LogFormat
from engine.replay.rules import check_protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Reader features that a table of an older reader version may have: it stands for the feature.
_IMPLIED: Final = {"columnMapping": 2}


def protocol_complaints(
    protocol: Mapping[str, Any], log_format: LogFormat, directory: str
) -> Iterator[tuple[str, str]]:
    """Yield (code, message) for each rule that a protocol action breaks."""
    try:
        check_protocol(protocol, log_format, directory)
    except ReplayError as error:
        yield "PROTOCOL_UNSUPPORTED", str(error).removeprefix(f"{directory}: ")
    if log_format is not DELTA:
        return
    reader, writer = protocol.get("minReaderVersion"), protocol.get("minWriterVersion")
    if not isinstance(reader, int) or not isinstance(writer, int):
        yield "PROTOCOL_ILLEGAL", f"its versions are {reader} and {writer}"
        return
    of_reader, of_writer = protocol.get("readerFeatures"), protocol.get("writerFeatures")
    by_reader, by_writer = log_format.feature_reader_version, log_format.feature_writer_version
    for name, version, listed, least in (
        ("readerFeatures", reader, of_reader, by_reader),
        ("writerFeatures", writer, of_writer, by_writer),
    ):
        if version >= least and listed is None:
            yield "PROTOCOL_ILLEGAL", f"version {version} without {name}"
        elif version < least and listed:
            yield "PROTOCOL_ILLEGAL", f"version {version} with {name} {', '.join(listed)}"
        elif version < least and listed is not None:
            yield "PROTOCOL_EMPTY_FEATURES", f"version {version} with {name} []; it must be absent"
    if reader >= by_reader and writer < by_writer:
        yield "PROTOCOL_ILLEGAL", f"reader version {reader} with writer version {writer}"
    yield from _one_sided(log_format, reader, of_reader or (), of_writer or ())


def declares(protocol: Mapping[str, Any] | None, feature: str) -> bool:
    """Tell whether a protocol names a feature, for readers or for writers."""
    if protocol is None:
        return False
    lists = (protocol.get("readerFeatures"), protocol.get("writerFeatures"))
    return any(feature in listed for listed in lists if listed)


def metadata_complaints(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (code, message) for each rule that a metaData action breaks."""
    text = metadata.get("schemaString")
    columns = metadata.get("partitionColumns") or []
    try:
        schema = orjson.loads(text or "")
        names = [field["name"] for field in schema["fields"]]
    except (orjson.JSONDecodeError, TypeError, KeyError) as error:
        reason = "it is missing" if not text else f"{type(error).__name__}: {error!s:.80}"
        yield "SCHEMA_INVALID", f"schemaString: {reason}"
        return
    if lost := [name for name in columns if name not in names]:
        message = f"{', '.join(lost)} is not in the schema; it has {', '.join(names)}"
        yield "PARTITION_COLUMN_UNKNOWN", message
    if len(set(columns)) != len(columns):
        yield "PARTITION_COLUMN_UNKNOWN", f"one is named twice: {', '.join(columns)}"


def same_protocol(
    wanted: Mapping[str, Any] | None, found: Mapping[str, Any] | None, log_format: LogFormat
) -> str:
    """Return in what two protocols differ; nothing where they ask the same of everybody."""
    if wanted is None or found is None:
        # Where a protocol may be absent, a checkpoint may state it.
        is_fine = wanted is found or (wanted is None and log_format.default_protocol is not None)
        return "" if is_fine else f"{_told(found)}, not {_told(wanted)}"
    for name in ("minReaderVersion", "minWriterVersion"):
        # Checkpoints of IndexTables raise the protocol to what their writer speaks.
        is_raised = log_format is not DELTA and (found.get(name) or 0) >= (wanted.get(name) or 0)
        if found.get(name) != wanted.get(name) and not is_raised:
            return f"{name} is {found.get(name)}, not {wanted.get(name)}"
    for name in ("readerFeatures", "writerFeatures"):
        mine, theirs = set(wanted.get(name) or ()), set(found.get(name) or ())
        if mine != theirs and log_format is DELTA:
            return f"{name} differ in {', '.join(sorted(mine ^ theirs))}"
    return ""


def same_metadata(wanted: Mapping[str, Any] | None, found: Mapping[str, Any] | None) -> str:
    """Return in what two metaData actions differ; nothing where they describe one table."""
    if wanted is None or found is None:
        return "" if wanted is found else f"{_told(found)}, not {_told(wanted)}"
    for name in ("id", "name", "description", "createdTime"):
        if (found.get(name) or None) != (wanted.get(name) or None):
            return f"{name} is {found.get(name)!r:.60}, not {wanted.get(name)!r:.60}"
    if list(found.get("partitionColumns") or ()) != list(wanted.get("partitionColumns") or ()):
        return "the partition columns are others"
    if _schema(found) != _schema(wanted):
        return "the schema is another"
    mine, theirs = _properties(wanted), _properties(found)
    if changed := sorted(k for k in {*mine, *theirs} if mine.get(k) != theirs.get(k)):
        return f"the table property {changed[0]} is {theirs.get(changed[0])!r:.60}"
    return ""


def _one_sided(
    log_format: LogFormat, reader: int, of_reader: Any, of_writer: Any
) -> Iterator[tuple[str, str]]:
    if lost := sorted(set(of_reader) - set(of_writer)):
        yield "PROTOCOL_ILLEGAL", f"writerFeatures lack {', '.join(lost)}, a reader feature"
    for_both = log_format.reader_features | log_format.catalog_features
    alone = (set(of_writer) & for_both) - set(of_reader)
    if lost := sorted(name for name in alone if _IMPLIED.get(name) != reader):
        yield "PROTOCOL_ILLEGAL", f"readerFeatures lack {', '.join(lost)}, which readers must know"


def _schema(metadata: Mapping[str, Any]) -> Any:
    text = metadata.get("schemaString") or ""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _properties(metadata: Mapping[str, Any]) -> dict[str, Any]:
    # Schemas of splits are gathered there by whoever writes a checkpoint.
    return {
        key: value
        for key, value in (metadata.get("configuration") or {}).items()
        if not key.startswith("docMappingSchema.")
    }


def _told(action: Mapping[str, Any] | None) -> str:
    return "none" if action is None else "one"
