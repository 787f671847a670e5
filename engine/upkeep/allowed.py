"""May txlog keep this table's log? Only where it knows every rule that binds its writers.

Unlike a commit, a derived file need not do what writers of data must: it carries what they left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from engine.config import PROTECTED_BEFORE, Config
from engine.errors import CatalogManagedError, CheckpointWriteError, UnsupportedWriterError
from engine.replay.rules import check_protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.log.listing import LogDirectory

# What each of them leaves in the log is carried by a derived file as it stands.
_CARRIED: Final = frozenset(
    {
        *("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"),
        *("columnMapping", "identityColumns", "deletionVectors", "rowTracking", "timestampNtz"),
        *("domainMetadata", "v2Checkpoint", "icebergCompatV1", "icebergCompatV2"),
        *("icebergCompatV3", "icebergWriterCompatV1", "icebergWriterCompatV3", "clustering"),
        *("vacuumProtocolCheck", "inCommitTimestamp", "inCommitTimestamp-preview"),
        *("typeWidening", "typeWidening-preview", "variantType", "variantType-preview"),
        *("variantShredding", "variantShredding-preview", "geospatial", "allowColumnDefaults"),
        *("checkpointProtection", "materializePartitionColumns", "collations-preview"),
    }
)
_COORDINATED: Final = frozenset({"coordinatedCommits-preview"})
_COORDINATORS: Final = (
    "delta.coordinatedCommits.commitCoordinator-preview",
    "delta.coordinatedCommits.commitCoordinator",
)
_PROTECTION: Final = "checkpointProtection"


def refuse_unkept(
    protocol: Mapping[str, Any], metadata: Mapping[str, Any], directory: LogDirectory
) -> None:
    """Refuse, by name, a table whose log has rules that txlog does not know or cannot follow.

    Raises CatalogManagedError where someone else decides which commits count, and
    UnsupportedWriterError for a version or a feature that is unknown.
    """
    log_format = directory.log_format
    check_protocol(protocol, log_format, directory.url)
    features = {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
    properties = metadata.get("configuration") or {}
    managed = sorted(features & (log_format.catalog_features | _COORDINATED))
    managed += [key for key in _COORDINATORS if properties.get(key)]
    if managed:
        reason = f"this table is managed by a catalog ({managed[0]}), which alone knows its commits"
        raise CatalogManagedError(directory.url, reason)
    wanted = protocol.get("minWriterVersion") or 0
    if wanted > log_format.max_writer_version:
        needs = f"needs writer version {wanted}; txlog knows up to {log_format.max_writer_version}"
        raise UnsupportedWriterError(directory.table_url, needs)
    known = log_format.writer_features | log_format.reader_features
    if log_format.checkpoint_directory is None:
        known |= _CARRIED
    if unknown := sorted(set(protocol.get("writerFeatures") or ()) - known):
        needs = f"needs the writer feature {', '.join(unknown)}, unknown to txlog, which then "
        raise UnsupportedWriterError(directory.table_url, needs + "leaves the log alone")


def refuse_checkpoint(
    version: int,
    protocol: Mapping[str, Any],
    metadata: Mapping[str, Any],
    directory: LogDirectory,
) -> None:
    """Refuse what makes a checkpoint of this version unsafe.

    Raises what `refuse_unkept` does, and CheckpointWriteError where older ones are protected.
    """
    refuse_unkept(protocol, metadata, directory)
    if _PROTECTION not in (protocol.get("writerFeatures") or ()):
        return
    protected = Config(table=metadata.get("configuration") or {})[PROTECTED_BEFORE]
    if version < protected:
        reason = f"{PROTECTED_BEFORE.key} is {protected}: older checkpoints are protected"
        raise CheckpointWriteError(directory.url, version, reason)
