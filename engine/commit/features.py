"""Which table features does a table ask for, and does its protocol have them?

Formats whose protocol goes by version alone have no features to ask for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.formats import LogFormat

# Properties that ask for a feature, and whether readers must know it too.
_PROPERTIES: Final = {
    ("delta.enableInCommitTimestamps", "true"): ("inCommitTimestamp", False),
    ("delta.enableDeletionVectors", "true"): ("deletionVectors", True),
    ("delta.checkpointPolicy", "v2"): ("v2Checkpoint", True),
    ("delta.enableChangeDataFeed", "true"): ("changeDataFeed", False),
}
# What came with each writer version, before features were listed by name.
_IMPLIED: Final = (
    (2, ("appendOnly", "invariants")),
    (3, ("checkConstraints",)),
    (4, ("changeDataFeed", "generatedColumns")),
    (5, ("columnMapping",)),
    (6, ("identityColumns",)),
)
_MAPPING_READER: Final = 2
_NTZ: Final = "timestamp_ntz"


def asked_features(metadata: Mapping[str, Any]) -> dict[str, bool]:
    """Return the features that a table's metadata asks for, and whether of readers too."""
    configuration = metadata.get("configuration") or {}
    found = dict(
        feature
        for (key, value), feature in _PROPERTIES.items()
        if str(configuration.get(key, "")).lower() == value
    )
    schema = orjson.loads(metadata.get("schemaString") or "{}")
    if _has_type(schema, _NTZ):
        found["timestampNtz"] = True
    return found


def has_feature(protocol: Mapping[str, Any], name: str, log_format: LogFormat) -> bool:
    """Tell whether a protocol has a feature, listed or implied by its version."""
    if (protocol.get("minWriterVersion") or 1) >= log_format.feature_writer_version:
        return name in (protocol.get("writerFeatures") or ())
    return name in implied_features(protocol)


def implied_features(protocol: Mapping[str, Any]) -> list[str]:
    """Return the writer features that a version without a list stands for."""
    writer = protocol.get("minWriterVersion") or 1
    return [name for version, names in _IMPLIED if version <= writer for name in names]


def with_implied(
    old: Mapping[str, Any], new: dict[str, Any], log_format: LogFormat
) -> dict[str, Any]:
    """Return a raised protocol that lists what the old one, by its version, asked for already."""
    first = log_format.feature_writer_version
    if not log_format.lists_features or new["minWriterVersion"] < first:
        return new
    listed = set(new.get("writerFeatures") or ())
    if (old.get("minWriterVersion") or 1) < first:
        listed.update(implied_features(old))
    raised = {**new, "writerFeatures": sorted(listed)}
    if new["minReaderVersion"] >= log_format.feature_reader_version:
        readers = set(new.get("readerFeatures") or ())
        if (old.get("minReaderVersion") or 1) == _MAPPING_READER:
            readers.add("columnMapping")
        raised["readerFeatures"] = sorted(readers)
    return raised


def refuse_shapeless(protocol: Mapping[str, Any], log_format: LogFormat) -> None:
    """Raise ValueError for a protocol whose lists and versions do not go together."""
    if not log_format.lists_features:
        return
    reader, writer = protocol.get("minReaderVersion") or 1, protocol.get("minWriterVersion") or 1
    readers, writers = protocol.get("readerFeatures"), protocol.get("writerFeatures")
    first_reader, first_writer = (
        log_format.feature_reader_version,
        log_format.feature_writer_version,
    )
    if (writers is not None) != (writer >= first_writer):
        raise ValueError(f"writerFeatures are listed at writer version {first_writer}, and only so")
    if (readers is not None) != (reader >= first_reader):
        raise ValueError(f"readerFeatures are listed at reader version {first_reader}, and only so")
    if readers is not None and writers is None:
        raise ValueError(f"reader version {reader} needs writer version {first_writer}")
    if lost := sorted(set(readers or ()) - set(writers or ())):
        raise ValueError(f"the reader feature {', '.join(lost)} must be a writer feature too")


def refuse_lowered(old: Mapping[str, Any], new: Mapping[str, Any], log_format: LogFormat) -> None:
    """Raise ValueError for a protocol that asks for less than the table's: its files stay."""
    for name in ("minReaderVersion", "minWriterVersion"):
        if (new.get(name) or 1) < (old.get(name) or 1):
            raise ValueError(f"the protocol's {name} would go down from {old[name]} to {new[name]}")
    first = log_format.feature_writer_version
    had = {*(old.get("writerFeatures") or ()), *(old.get("readerFeatures") or ())}
    if log_format.lists_features and (old.get("minWriterVersion") or 1) < first:
        had.update(implied_features(old))
    if lost := sorted(name for name in had if not has_feature(new, name, log_format)):
        raise ValueError(
            f"the protocol would no longer have {', '.join(lost)}; upgrade_protocol keeps what "
            "a table has"
        )


def refuse_unlisted(
    protocol: Mapping[str, Any], metadata: Mapping[str, Any], log_format: LogFormat
) -> None:
    """Raise ValueError where metadata asks for a feature that the protocol does not have."""
    if not log_format.lists_features:
        return
    for name, for_readers in asked_features(metadata).items():
        if not has_feature(protocol, name, log_format):
            reader = log_format.feature_reader_version if for_readers else 1
            also = f", reader_features=[{name!r}]" if for_readers else ""
            raise ValueError(
                f"the table would use the feature {name}, which its protocol does not have; first "
                f"upgrade_protocol({reader}, {log_format.feature_writer_version}"
                f"{also}, writer_features=[{name!r}])"
            )


def _has_type(schema: Any, name: str) -> bool:
    if isinstance(schema, dict):
        return any(_has_type(schema.get(part), name) for part in _PARTS)
    if isinstance(schema, list):
        return any(_has_type(field, name) for field in schema)
    return bool(schema == name)


_PARTS: Final = ("type", "fields", "elementType", "keyType", "valueType")
