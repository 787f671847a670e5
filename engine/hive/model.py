"""The values the room speaks in: files, listings, tables, units of work, options."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
MIB: Final = 1024 * 1024


class Swap(str, Enum):
    """How rewritten files take the place of the originals."""

    RENAME = "rename"
    LOCATION = "location"


class Stats(str, Enum):
    """What happens to a table's statistics after its files changed."""

    AUTO = "auto"
    SCAN = "scan"
    NONE = "none"


@dataclass(frozen=True, slots=True, order=True)
class FileEntry:
    """One data file of a directory. Two entries are equal when nobody touched the file between."""

    name: str
    size: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Listing:
    """What one directory holds.

    `files` are the data files, by name. `folders` are visible sub-directories, `hidden` the
    directories a reader ignores, with their times; `marked` says that `_SUCCESS` is there.
    """

    files: tuple[FileEntry, ...] = ()
    folders: tuple[str, ...] = ()
    hidden: tuple[tuple[str, int], ...] = ()
    marked: bool = False

    @property
    def size(self) -> int:
        """The bytes of all data files."""
        return sum(entry.size for entry in self.files)


@dataclass(frozen=True, slots=True)
class Unit:
    """The smallest thing compacted at once: one partition, or a whole table without partitions.

    `name` is the partition's path as Hive escapes it (`dt=x%2Fy/n=5`), and empty for a flat table.
    A null partition value is None.
    """

    name: str
    spec: tuple[tuple[str, str | None], ...]
    location: str
    rows: int | None = None
    sized: bool = False
    plain: bool = True

    @property
    def label(self) -> str:
        """The unit's name for people."""
        return self.name or "(whole table)"


@dataclass(frozen=True, slots=True)
class Table:
    """What the metastore says of a table. `identity` differs for one dropped and made anew."""

    database: str
    name: str
    identity: str
    kind: str
    location: str
    format: str
    partition_columns: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    sort_columns: tuple[str, ...] = ()
    buckets: int = 0
    rows: int | None = None
    sized: bool = False

    @property
    def full_name(self) -> str:
        """`database.table`."""
        return f"{self.database}.{self.name}"


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked of a compaction.

    `now_ms` is the clock of the run; a file younger than `min_age_ms` at that time leaves its
    partition alone. `max_bytes` of 0 is no budget.
    """

    block_bytes: int = 128 * MIB
    ratio: float = 10.0
    min_age_ms: int = 0
    where: str = ""
    swap: Swap | None = None
    sort_columns: tuple[str, ...] = ()
    parallelism: int = 2
    max_bytes: int = 0
    managed: bool = False
    stats: Stats = Stats.AUTO

    @property
    def threshold_bytes(self) -> int:
        """The effective file size under which a directory is worth rewriting."""
        return int(self.block_bytes / self.ratio)
