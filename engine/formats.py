"""How the two log formats differ. Everything else in txlog reads these values, never a name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class LogFormat:
    """What a reader must know of a log format before it reads a byte of it.

    A table without a protocol action has `default_protocol`, where that is not None; otherwise
    such a table is refused. Reader features outside `reader_features` are refused by name, and so
    are, before a commit, writer features outside `writer_features`. `new_protocol` is that of a
    table we create, and `provider` what its files are said to be.
    """

    name: str
    directory: str
    default_protocol: tuple[int, int] | None
    max_reader_version: int
    feature_reader_version: int
    reader_features: frozenset[str]
    new_protocol: tuple[int, int]
    provider: str
    max_writer_version: int
    feature_writer_version: int
    writer_features: frozenset[str]
    catalog_features: frozenset[str]
    encodes_paths: bool
    compressed_commits: bool
    checkpoint_directory: str | None
    foreign_state_prefix: str | None
    foreign_layout: str | None
    needed_versions: tuple[tuple[str, int], ...]

    def needs(self, name: str) -> int:
        """Return the protocol version that brought an action or a field of an add; 0 for none."""
        return dict(self.needed_versions).get(name, 0)

    @property
    def lists_features(self) -> bool:
        """Whether a protocol names features from some version on, and only from there."""
        return self.feature_writer_version > 1

    def __repr__(self) -> str:
        return self.name.upper()

    def __reduce__(self) -> tuple[object, tuple[str]]:
        """Formats are values of this module: a copy on an executor is the same value."""
        return (by_name, (self.name,))


DELTA: Final = LogFormat(
    name="delta",
    directory="_delta_log",
    default_protocol=None,
    max_reader_version=3,
    feature_reader_version=3,
    # They change how data or statistics decode, not which files are live; v2Checkpoint and
    # deletionVectors do, and are implemented.
    reader_features=frozenset(
        {
            "columnMapping",
            "deletionVectors",
            "timestampNtz",
            "v2Checkpoint",
            "vacuumProtocolCheck",
            "typeWidening",
            "typeWidening-preview",
            "variantType",
            "variantType-preview",
            "variantShredding",
            "variantShredding-preview",
            "geospatial",
        }
    ),
    new_protocol=(1, 2),
    provider="parquet",
    max_writer_version=7,
    feature_writer_version=7,
    # The first line is handled; the second is allowed in the list, and refused where it is in
    # use: see `engine.commit.writable`.
    writer_features=frozenset(
        {
            *("appendOnly", "deletionVectors", "domainMetadata", "inCommitTimestamp"),
            *("timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"),
            *("invariants", "checkConstraints", "generatedColumns", "changeDataFeed"),
            *("columnMapping", "identityColumns"),
        }
    ),
    catalog_features=frozenset({"catalogManaged", "catalogOwned-preview"}),
    encodes_paths=True,
    compressed_commits=False,
    checkpoint_directory=None,
    foreign_state_prefix=None,
    foreign_layout=None,
    needed_versions=(),  # here features tell
)

INDEXTABLES: Final = LogFormat(
    name="indextables",
    directory="_transaction_log",
    default_protocol=(1, 1),
    max_reader_version=4,
    feature_reader_version=1,
    # avroState is left out on purpose: such a log's commits are not its state.
    reader_features=frozenset(
        {
            "skippedFiles",
            "extendedMetadata",
            "footerOffsets",
            "multiPartCheckpoint",
            "schemaDeduplication",
        }
    ),
    new_protocol=(2, 2),
    provider="indextables",
    max_writer_version=4,
    feature_writer_version=1,
    writer_features=frozenset(
        {
            *("skippedFiles", "extendedMetadata", "footerOffsets", "multiPartCheckpoint"),
            *("schemaDeduplication", "checkpoint", "optimizeWrite"),
        }
    ),
    catalog_features=frozenset(),
    encodes_paths=False,
    compressed_commits=True,
    checkpoint_directory="_checkpoints",
    foreign_state_prefix="state-v",
    foreign_layout="avro-state",
    needed_versions=(
        *(("mergeskip", 2), ("footerStartOffset", 2), ("footerEndOffset", 2)),
        ("docMappingRef", 3),
    ),
)

FORMATS: Final = (DELTA, INDEXTABLES)


def by_name(name: str) -> LogFormat:
    """Return the format called `name`; raise ValueError for any other word."""
    for log_format in FORMATS:
        if log_format.name == name:
            return log_format
    raise ValueError(f"unknown log format {name!r}; use {' or '.join(f.name for f in FORMATS)}")
