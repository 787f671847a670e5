"""Who wins: the rules of action reconciliation, stated once (PROTOCOL.md#action-reconciliation).

Of the actions that share a key, the newest counts. Newest is by (version, ordinal): within one
commit, the later line. Expiry is a filter on what won, never a part of who wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from engine.errors import (
    CatalogManagedError,
    UnsupportedFeatureError,
    UnsupportedProtocolError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.formats import LogFormat

NEWEST: Final = ("version", "ordinal")

# add and remove share one key space; each of the others has its own.
FILE_KINDS: Final = ("add", "remove")

# The field that keys the kind; None where there is only one of it in a table.
STATE_KEYS: Final[Mapping[str, str | None]] = {
    "protocol": None,
    "metaData": None,
    "txn": "appId",
    "domainMetadata": "domain",
    "mergeskip": "path",
}


def tombstone_is_kept(deletion_timestamp: int | None, *, now_ms: int, retention_ms: int) -> bool:
    """Tell whether a checkpoint still carries a tombstone. No timestamp counts as the oldest."""
    return (deletion_timestamp or 0) > now_ms - retention_ms


def skip_is_running(skip: Mapping[str, Any], *, now_ms: int) -> bool:
    """Tell whether a skipped file's cooldown is still running."""
    return (skip.get("retryAfter") or 0) > now_ms


def check_protocol(
    protocol: Mapping[str, Any] | None,
    log_format: LogFormat,
    directory: str,
    *,
    by_version: bool = True,
) -> None:
    """Refuse, by name, whatever a reader must support and txlog does not.

    Without `by_version`, the number of the version is not held against it.
    """
    if protocol is None:
        return
    wanted = protocol.get("minReaderVersion")
    if wanted is None:
        raise UnsupportedProtocolError(directory, "its protocol does not say which reader it needs")
    features: Sequence[str] = protocol.get("readerFeatures") or ()
    managed = sorted(log_format.catalog_features.intersection(features))
    if managed:
        raise CatalogManagedError(
            directory,
            f"this table is managed by a catalog (reader feature {managed[0]}), which "
            "alone knows its commits",
        )
    if by_version and wanted > log_format.max_reader_version:
        raise UnsupportedProtocolError(
            directory,
            f"needs reader version {wanted}; txlog reads up to {log_format.max_reader_version}",
        )
    if wanted >= log_format.feature_reader_version:
        unknown = sorted(set(features) - log_format.reader_features)
        if unknown:
            raise UnsupportedFeatureError(
                directory, f"needs the reader feature {', '.join(unknown)}, unknown to txlog"
            )
