"""Names of log files <-> typed refs. A name is parsed here, once, and nowhere else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from engine.formats import LogFormat

HINT: Final = "_last_checkpoint"
SIDECARS: Final = "_sidecars"


class FileKind(Enum):
    """What a log file is, by its name."""

    COMMIT = "commit"
    COMPACTION = "compaction"
    CHECKPOINT = "classic"
    CHECKPOINT_PART = "multi-part"
    CHECKPOINT_V2 = "v2"
    CHECKPOINT_JSON = "json"
    CHECKPOINT_JSON_PART = "json-part"
    CHECKPOINT_METADATA = "checkpoint-metadata"
    SIDECAR = "sidecar"
    CHECKSUM = "checksum"

    @property
    def is_checkpoint(self) -> bool:
        """Whether a file of this kind can be, alone or with its parts, a whole checkpoint."""
        # By identity: asked of every file of a log, and a set would hash each of them.
        return (
            self is FileKind.CHECKPOINT
            or self is FileKind.CHECKPOINT_PART
            or self is FileKind.CHECKPOINT_V2
            or self is FileKind.CHECKPOINT_JSON
        )


@dataclass(frozen=True, slots=True)
class TransactionFileRef:
    """A log file known by name, size and time only.

    `path` is relative to the log directory. The version of a compaction is its last;
    `start_version` differs from `version` for compactions only. `etag` is the storage's, where it
    has one, and told of commits only.
    """

    version: int
    path: str
    size: int
    modification_time: int
    kind: FileKind
    start_version: int
    part: int = 1
    parts: int = 1
    unique: str = ""
    etag: str = ""

    @property
    def is_json(self) -> bool:
        """Whether the file holds JSON lines (else Parquet)."""
        return self.path.endswith(".json")


_V: Final = r"(?P<version>\d{20})"
_DELTA_PATTERNS: Final = (
    (FileKind.COMMIT, re.compile(rf"{_V}\.json")),
    (FileKind.CHECKSUM, re.compile(rf"{_V}\.crc")),
    (FileKind.COMPACTION, re.compile(r"(?P<start>\d{20})\.(?P<version>\d{20})\.compacted\.json")),
    (FileKind.CHECKPOINT, re.compile(rf"{_V}\.checkpoint\.parquet")),
    (
        FileKind.CHECKPOINT_PART,
        re.compile(rf"{_V}\.checkpoint\.(?P<part>\d{{10}})\.(?P<parts>\d{{10}})\.parquet"),
    ),
    (
        FileKind.CHECKPOINT_V2,
        re.compile(rf"{_V}\.checkpoint\.(?P<unique>[^./]+)\.(?:json|parquet)"),
    ),
)
_INDEXTABLES_PATTERNS: Final = (
    (FileKind.COMMIT, re.compile(rf"{_V}\.json")),
    (
        FileKind.COMPACTION,
        re.compile(r"(?P<start>\d{20})\.(?P<version>\d{20})\.compacted\.(?:json|parquet)"),
    ),
    (FileKind.CHECKPOINT, re.compile(rf"_checkpoints/{_V}\.checkpoint\.parquet")),
    (
        FileKind.CHECKPOINT_PART,
        re.compile(
            rf"_checkpoints/{_V}\.checkpoint\.(?P<part>\d{{10}})\.(?P<parts>\d{{10}})\.parquet"
        ),
    ),
    (FileKind.CHECKPOINT_METADATA, re.compile(rf"_checkpoints/{_V}\.checkpoint\.json")),
    (FileKind.CHECKPOINT_JSON, re.compile(rf"{_V}\.checkpoint\.json")),
    (
        FileKind.CHECKPOINT_JSON_PART,
        re.compile(rf"{_V}\.checkpoint\.(?P<unique>[0-9a-f]+)\.(?P<part>\d{{5}})\.json"),
    ),
)
_PATTERNS: Final = {"delta": _DELTA_PATTERNS, "indextables": _INDEXTABLES_PATTERNS}

_LAST_VERSION: Final = 2**63 - 1

# Plain ASCII digits: \d alone would take any script's, and a version has one spelling only.
_COMMIT: Final = re.compile(r"[0-9]{20}\.json")
_ASCII: Final = re.compile(r"[\x20-\x7e]+")


def parse_path(
    path: str, size: int, modification_time: int, log_format: LogFormat, etag: str = ""
) -> TransactionFileRef | None:
    """Return the ref for `path`, or None when the file is not part of the log."""
    if path.startswith("00") and _COMMIT.fullmatch(path):
        # What nearly every file of a log is, and nothing else has this shape.
        version = int(path[:20])
        kind = FileKind.COMMIT
        return TransactionFileRef(version, path, size, modification_time, kind, version, etag=etag)
    if not _ASCII.fullmatch(path):
        return None
    for kind, pattern in _PATTERNS[log_format.name]:
        if match := pattern.fullmatch(path):
            found = match.groupdict()
            version = int(found["version"])
            start = int(found.get("start") or version)
            part, parts = int(found.get("part") or 1), int(found.get("parts") or 1)
            if version > _LAST_VERSION:
                return None
            if start > version or part < 1 or (kind is FileKind.CHECKPOINT_PART and part > parts):
                return None
            if kind is FileKind.COMPACTION and start == version:
                return None
            return TransactionFileRef(
                version=version,
                path=path,
                size=size,
                modification_time=modification_time,
                kind=kind,
                start_version=start,
                part=part,
                parts=parts,
                unique=found.get("unique") or "",
            )
    return None


def commit_name(version: int) -> str:
    """Return the file name of the commit that makes `version`."""
    return f"{version:020d}.json"


def compaction_name(start_version: int, end_version: int, suffix: str = "json") -> str:
    """Return the file name of the compaction of an inclusive range."""
    return f"{start_version:020d}.{end_version:020d}.compacted.{suffix}"


def checkpoint_name(version: int) -> str:
    """Return the file name of a classic checkpoint."""
    return f"{version:020d}.checkpoint.parquet"


def checkpoint_part_name(version: int, part: int, parts: int) -> str:
    """Return the file name of one part, counted from 1, of a multi-part checkpoint."""
    return f"{version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet"


def checkpoint_v2_name(version: int, unique: str, suffix: str = "json") -> str:
    """Return the file name of a V2 checkpoint's manifest."""
    return f"{version:020d}.checkpoint.{unique}.{suffix}"


def checkpoint_json_name(version: int) -> str:
    """Return the file name of a JSON checkpoint, or of the manifest of its parts."""
    return f"{version:020d}.checkpoint.json"


def checkpoint_json_part_name(version: int, unique: str, part: int) -> str:
    """Return the file name of one part, counted from 1, of a multi-part JSON checkpoint."""
    return f"{version:020d}.checkpoint.{unique}.{part:05d}.json"


def checksum_name(version: int) -> str:
    """Return the file name of a version's checksum."""
    return f"{version:020d}.crc"


def first_name(version: int) -> str:
    """Return the smallest name a file of `version` can have: where a listing starts."""
    return f"{version:020d}"
