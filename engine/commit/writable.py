"""May txlog write to this table? Only where it understands everything a writer must do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from engine.errors import UnsupportedWriterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from engine.formats import LogFormat

# Features that older writer versions imply. They bind a writer only where the table uses them.
_COLUMN_MARKS: Final = {
    "delta.invariants": "invariants",
    "delta.generationExpression": "generatedColumns",
    "delta.identity.start": "identityColumns",
    "CURRENT_DEFAULT": "allowColumnDefaults",
}
_SWITCHES: Final = {
    "delta.enableRowTracking": "rowTracking",
    "delta.enableTypeWidening": "typeWidening",
    "delta.enableIcebergCompatV1": "icebergCompatV1",
    "delta.enableIcebergCompatV2": "icebergCompatV2",
}
_CONSTRAINT: Final = "delta.constraints."
_MAPPING: Final = "delta.columnMapping.mode"


def refuse_unwritable(
    protocol: Mapping[str, Any],
    metadata: Mapping[str, Any],
    log_format: LogFormat,
    table: str,
    *,
    by_version: bool = True,
) -> None:
    """Refuse, by name, whatever a writer of this table must do and txlog does not.

    Without `by_version`, the number of the version is not held against it. Raises
    UnsupportedWriterError.
    """
    wanted = protocol.get("minWriterVersion") or 0
    if by_version and wanted > log_format.max_writer_version:
        needs = f"needs writer version {wanted}; txlog writes up to {log_format.max_writer_version}"
        raise UnsupportedWriterError(table, needs)
    if wanted >= log_format.feature_writer_version:
        listed = set(protocol.get("writerFeatures") or ())
        unknown = sorted(listed - log_format.writer_features)
        if unknown:
            needs = f"needs the writer feature {', '.join(unknown)}, which txlog does not write"
            raise UnsupportedWriterError(table, needs)
    for feature, where in used_features(metadata):
        needs = f"uses the writer feature {feature} ({where}), which txlog does not write"
        raise UnsupportedWriterError(table, needs)


def used_features(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each feature in use that binds writers in a way txlog does not follow, and where."""
    configuration = metadata.get("configuration") or {}
    for key, value in configuration.items():
        if key in _SWITCHES and str(value).lower() == "true":
            yield _SWITCHES[key], key
        if key.startswith(_CONSTRAINT):
            yield "checkConstraints", key
    if configuration.get(_MAPPING, "none").lower() != "none":
        yield "columnMapping", _MAPPING
    for path, marks in _columns(orjson.loads(metadata.get("schemaString") or "{}"), ""):
        for mark, feature in _COLUMN_MARKS.items():
            if mark in marks:
                yield feature, f"column {path}"


def _columns(kind: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the metadata of every column, nested ones too."""
    if not isinstance(kind, dict):
        return
    for field in kind.get("fields") or ():
        inside = f"{path}.{field.get('name')}".lstrip(".")
        yield inside, field.get("metadata") or {}
        yield from _columns(field.get("type"), inside)
    for part in ("elementType", "keyType", "valueType"):
        yield from _columns(kind.get(part), path)
