"""What does a checkpoint look like? Its shape, its columns and its settings, decided beforehand.

A plan is all that a writer needs besides the actions. It is made once, from the protocol, the
table's properties and the settings, and travels to executors.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from engine import config as c
from engine.actions import kinds
from engine.errors import ConfigError
from engine.replay.truncation import uncut_columns
from engine.upkeep.checkpoint.parsed import partition_type, stats_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.config import Config
    from engine.formats import LogFormat

SIDECAR_ROWS: Final = 50_000
ROW_GROUP_ROWS: Final = 128 * 1024

_INT: Final = pa.int32()
_NARROW: Final = {
    "protocol": {"minReaderVersion": _INT, "minWriterVersion": _INT},
    "deletionVector": {"offset": _INT, "sizeInBytes": _INT},
    "numMergeOps": {"": _INT},
    "skipCount": {"": _INT},
}
_NOT_IN_REMOVES: Final = frozenset({"stats", "tags"})
_SINGLES: Final = ("txn", "metaData", "protocol", "domainMetadata", "mergeskip")
_MANIFEST: Final = ("checkpointMetadata", "sidecar")


class Shape(Enum):
    """How a checkpoint is laid out. Those of `_transaction_log` are called as those of Delta."""

    CLASSIC = "classic"
    MULTI_PART = "multi-part"
    V2_PARQUET = "v2-parquet"
    V2_JSON = "v2-json"
    JSON = "json"
    JSON_PARTS = "json-parts"

    @property
    def is_v2(self) -> bool:
        """Whether file actions stand in sidecars."""
        return self in {Shape.V2_PARQUET, Shape.V2_JSON}

    @property
    def is_json(self) -> bool:
        """Whether file actions are JSON lines."""
        return self in {Shape.JSON, Shape.JSON_PARTS}

    @property
    def is_split(self) -> bool:
        """Whether it has parts that lie beside each other, each with some of the rows."""
        return self in {Shape.MULTI_PART, Shape.JSON_PARTS}


SHAPES: Final[Mapping[str, tuple[Shape, ...]]] = {
    "delta": (Shape.CLASSIC, Shape.MULTI_PART, Shape.V2_PARQUET, Shape.V2_JSON),
    "indextables": (Shape.CLASSIC, Shape.MULTI_PART, Shape.JSON, Shape.JSON_PARTS),
}


def shape_called(name: str | None, log_format: LogFormat) -> Shape | None:
    """Return the shape of that name, None for none; raise ConfigError for any other word."""
    shapes = SHAPES[log_format.name]
    if name is not None and name not in {shape.value for shape in shapes}:
        allowed = "one of " + ", ".join(shape.value for shape in shapes)
        raise ConfigError("shape", name, allowed, f"{log_format.name} log")
    return None if name is None else Shape(name)


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """How the checkpoint of one version is written.

    `schema` has every column; `row_schema` those of a file with all kinds of actions, and
    `file_schema` those that file actions use. A shape that may have parts has them beyond
    `max_rows` actions or `max_bytes` bytes, where these are not 0; a sidecar has up to
    `max_rows`. Removes up to `tombstone_cutoff_ms` and txns up to `txn_cutoff_ms` are left out.
    A checkpoint that is to stand in for a damaged one has `least_parts`, or a V2 name after that
    of `outranks`, so that every reader takes it.
    """

    log_format: LogFormat
    version: int
    shape: Shape
    now_ms: int
    schema: pa.Schema
    tombstone_cutoff_ms: int
    txn_cutoff_ms: int | None
    max_rows: int
    max_bytes: int
    codec: str
    rewrites_data_change: bool
    uncut: frozenset[str] | None
    max_length: int
    line_codec: tuple[str, int, int]
    least_parts: int = 1
    outranks: str | None = None

    @property
    def row_schema(self) -> pa.Schema:
        """The columns of a checkpoint file: a manifest has two more than the others."""
        dropped = () if self.shape.is_v2 else _MANIFEST
        return pa.schema([field for field in self.schema if field.name not in dropped])

    @property
    def file_schema(self) -> pa.Schema:
        """The columns of a sidecar."""
        return pa.schema([self.schema.field(kind) for kind in ("add", "remove")])

    @property
    def rows_key(self) -> str:
        """Tells whether rows that another plan wrote are what this one would write."""
        said = (str(self.file_schema), self.uncut and sorted(self.uncut), self.max_length)
        return hashlib.md5(repr(said).encode(), usedforsecurity=False).hexdigest()

    @property
    def stats_struct(self) -> pa.StructType | None:
        """The type of `stats_parsed`, where it is written."""
        return _member(self.schema, "stats_parsed")

    @property
    def partition_struct(self) -> pa.StructType | None:
        """The type of `partitionValues_parsed`, where it is written."""
        return _member(self.schema, "partitionValues_parsed")

    @property
    def keeps_removes(self) -> bool:
        """Whether tombstones are carried at all."""
        return not self.shape.is_json

    def with_shape(self, shape: Shape) -> CheckpointPlan:
        """Return the same plan for another shape of the same format."""
        return replace(self, shape=shape)


def plan_checkpoint(
    version: int,
    protocol: Mapping[str, Any],
    metadata: Mapping[str, Any],
    log_format: LogFormat,
    config: Config,
    *,
    now_ms: int,
    shape: Shape | None = None,
) -> CheckpointPlan:
    """Return the plan for a version; its `protocol` and `metadata` are that version's own.

    Raises ConfigError where the shape asked for is not one of the table's, or a property has a
    value that is not allowed.
    """
    config = config.of_table(metadata.get("configuration"))
    chosen, max_rows, max_bytes = _shape(shape, protocol, log_format, config)
    retention = config[c.TXN_RETENTION_MS]
    is_cut = log_format.checkpoint_directory is not None and config[c.STATS_TRUNCATION_ENABLED]
    return CheckpointPlan(
        log_format=log_format,
        version=version,
        shape=chosen,
        now_ms=now_ms,
        schema=_schema(metadata, log_format, config),
        tombstone_cutoff_ms=now_ms - config[c.TOMBSTONE_RETENTION_MS],
        txn_cutoff_ms=now_ms - retention if retention else None,
        max_rows=max_rows,
        max_bytes=max_bytes,
        codec=config[c.CHECKPOINT_CODEC],
        rewrites_data_change=log_format.checkpoint_directory is None,
        uncut=uncut_columns(metadata) if is_cut else None,
        max_length=config[c.STATS_MAX_LENGTH],
        line_codec=_line_codec(log_format, config),
    )


def _shape(
    asked: Shape | None, protocol: Mapping[str, Any], log_format: LogFormat, config: Config
) -> tuple[Shape, int, int]:
    """Return the shape, and from how many rows or bytes on it has parts."""
    if asked is not None and asked not in SHAPES[log_format.name]:
        allowed = "one of " + ", ".join(shape.value for shape in SHAPES[log_format.name])
        raise ConfigError("shape", asked.value, allowed, f"{log_format.name} log")
    if log_format.checkpoint_directory is not None:
        default = Shape.JSON if config[c.CHECKPOINT_FORMAT] == "json" else Shape.CLASSIC
        shape = asked or default
        has_parts = config[c.CHECKPOINT_MULTI_PART] or shape.is_split
        max_rows = config[c.CHECKPOINT_ACTIONS_PER_PART] if shape.is_json else 0
        max_bytes = 0 if shape.is_json else config[c.CHECKPOINT_MAX_FILE_SIZE]
        return shape, max_rows if has_parts else 0, max_bytes if has_parts else 0
    has_v2 = "v2Checkpoint" in (protocol.get("readerFeatures") or ())
    part_size = config[c.CHECKPOINT_PART_SIZE]
    if asked is not None and asked.is_v2 and not has_v2:
        allowed = "a table with the feature v2Checkpoint"
        raise ConfigError("shape", asked.value, allowed, "protocol")
    if asked is Shape.MULTI_PART and has_v2:
        allowed = "classic or V2: the feature v2Checkpoint forbids parts"
        raise ConfigError("shape", asked.value, allowed, "protocol")
    is_v2 = has_v2 and config[c.CHECKPOINT_POLICY] == "v2"
    wanted = Shape.V2_JSON if config[c.CHECKPOINT_V2_FORMAT] == "json" else Shape.V2_PARQUET
    shape = asked or (wanted if is_v2 else Shape.CLASSIC)
    if shape.is_v2:
        return shape, part_size or SIDECAR_ROWS, 0
    return shape, 0 if has_v2 else part_size, 0


def _line_codec(log_format: LogFormat, config: Config) -> tuple[str, int, int]:
    """Return the codec of JSON files, its level, and from how many bytes on it is used."""
    if not log_format.compressed_commits or not config[c.CHECKPOINT_COMPRESSION_ENABLED]:
        return "none", 0, 0
    return config[c.COMPRESSION_CODEC], config[c.GZIP_LEVEL], config[c.COMPRESSION_MIN_BYTES]


def _schema(metadata: Mapping[str, Any], log_format: LogFormat, config: Config) -> pa.Schema:
    known = kinds(log_format)
    add = _narrow("add", known["add"])
    if log_format.checkpoint_directory is None:
        add = _with_statistics(add, metadata, config)
    fields = [pa.field("add", add), pa.field("remove", _narrow("remove", known["remove"]))]
    others = [name for name in (*_SINGLES, *_MANIFEST) if name in known]
    return pa.schema(fields + [pa.field(name, _narrow(name, known[name])) for name in others])


def _with_statistics(
    add: pa.StructType, metadata: Mapping[str, Any], config: Config
) -> pa.StructType:
    as_json, as_struct = config[c.STATS_AS_JSON], config[c.STATS_AS_STRUCT]
    schema_string = metadata.get("schemaString") or ""
    columns = tuple(metadata.get("partitionColumns") or ())
    # What is not kept as text must all be kept as columns.
    indexed = config[c.INDEXED_COLUMNS] if as_json else -1
    stats = stats_type(schema_string, columns, indexed) if as_struct else None
    fields = [field for field in add if field.name != "stats" or as_json or stats is None]
    if as_struct and columns and (parts := partition_type(schema_string, columns)) is not None:
        fields.append(pa.field("partitionValues_parsed", parts))
    if stats is not None:
        fields.append(pa.field("stats_parsed", stats))
    return pa.struct(fields)


def _narrow(name: str, found: pa.DataType) -> pa.DataType:
    """Return the type in which a checkpoint has an action or a field: bare removes, 32-bit ints."""
    narrow = _NARROW.get(name, {})
    if not pa.types.is_struct(found):
        return narrow.get("", found)
    dropped = _NOT_IN_REMOVES if name == "remove" else frozenset()
    return pa.struct(
        [
            pa.field(field.name, narrow.get(field.name) or _narrow(field.name, field.type))
            for field in found
            if field.name not in dropped
        ]
    )


def _member(schema: pa.Schema, name: str) -> pa.StructType | None:
    add = schema.field("add").type
    at = add.get_field_index(name)
    return add.field(at).type if at >= 0 else None
