"""Real log files for the tests, on axes that do not depend on each other.

A `LogBuilder` holds the actions it committed, so it can say the truth of any version; how a commit
is laid out, which checkpoints, compactions and hints stand beside it, and what was cleaned up is
chosen apart from that.
"""

from __future__ import annotations

import gzip
import json
import os
import uuid
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests import model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

Action = dict[str, Any]

STRINGS = pa.map_(pa.string(), pa.string())
VECTOR = pa.struct(
    {
        "storageType": pa.string(),
        "pathOrInlineDv": pa.string(),
        "offset": pa.int32(),
        "sizeInBytes": pa.int32(),
        "cardinality": pa.int64(),
    }
)
ROW_TRACKING = {"baseRowId": pa.int64(), "defaultRowCommitVersion": pa.int64()}
METADATA = pa.struct(
    {
        "id": pa.string(),
        "name": pa.string(),
        "description": pa.string(),
        "format": pa.struct({"provider": pa.string(), "options": STRINGS}),
        "schemaString": pa.string(),
        "partitionColumns": pa.list_(pa.string()),
        "configuration": STRINGS,
        "createdTime": pa.int64(),
    }
)
PROTOCOL = pa.struct(
    {
        "minReaderVersion": pa.int32(),
        "minWriterVersion": pa.int32(),
        "readerFeatures": pa.list_(pa.string()),
        "writerFeatures": pa.list_(pa.string()),
    }
)
TXN = pa.struct({"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()})
ADD = {
    "path": pa.string(),
    "partitionValues": STRINGS,
    "size": pa.int64(),
    "modificationTime": pa.int64(),
    "dataChange": pa.bool_(),
    "tags": STRINGS,
    "stats": pa.string(),
}
REMOVE = {
    "path": pa.string(),
    "deletionTimestamp": pa.int64(),
    "dataChange": pa.bool_(),
    "extendedFileMetadata": pa.bool_(),
    "partitionValues": STRINGS,
    "size": pa.int64(),
    "tags": STRINGS,
}
SIDECAR = pa.struct(
    {
        "path": pa.string(),
        "sizeInBytes": pa.int64(),
        "modificationTime": pa.int64(),
        "tags": STRINGS,
    }
)

# The checkpoint columns as Spark writes them: int32 where Java has an int.
COLUMNS: dict[str, dict[str, pa.DataType]] = {
    "delta": {
        "txn": TXN,
        "add": pa.struct(
            ADD | {"deletionVector": VECTOR} | ROW_TRACKING | {"clusteringProvider": pa.string()}
        ),
        "remove": pa.struct(
            REMOVE | {"stats": pa.string(), "deletionVector": VECTOR} | ROW_TRACKING
        ),
        "metaData": METADATA,
        "protocol": PROTOCOL,
        "domainMetadata": pa.struct(
            {"domain": pa.string(), "configuration": pa.string(), "removed": pa.bool_()}
        ),
    },
    "indextables": {
        "txn": TXN,
        "add": pa.struct(
            ADD
            | {
                "minValues": STRINGS,
                "maxValues": STRINGS,
                "numRecords": pa.int64(),
                "footerStartOffset": pa.int64(),
                "footerEndOffset": pa.int64(),
                "hotcacheStartOffset": pa.int64(),
                "hotcacheLength": pa.int64(),
                "hasFooterOffsets": pa.bool_(),
                "timeRangeStart": pa.string(),
                "timeRangeEnd": pa.string(),
                "splitTags": pa.list_(pa.string()),
                "deleteOpstamp": pa.int64(),
                "numMergeOps": pa.int32(),
                "docMappingJson": pa.string(),
                "docMappingRef": pa.string(),
                "uncompressedSizeBytes": pa.int64(),
                "companionSourceFiles": pa.list_(pa.string()),
                "companionDeltaVersion": pa.int64(),
                "companionFastFieldMode": pa.string(),
            }
        ),
        "remove": pa.struct(REMOVE),
        "metaData": METADATA,
        "protocol": PROTOCOL,
        "mergeskip": pa.struct(
            {
                "path": pa.string(),
                "skipTimestamp": pa.int64(),
                "reason": pa.string(),
                "operation": pa.string(),
                "partitionValues": STRINGS,
                "size": pa.int64(),
                "retryAfter": pa.int64(),
                "skipCount": pa.int32(),
            }
        ),
    },
}
DIRECTORIES = {"delta": "_delta_log", "indextables": "_transaction_log"}


def snappy(data: bytes) -> bytes:
    return pa.compress(data, codec="snappy", asbytes=True)


def framed(codec: str) -> Callable[[bytes], bytes]:
    def pack(data: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as stream:
            stream.write(data)
        return sink.getvalue().to_pybytes()

    return pack


# How the bytes of an IndexTables file may be packed.
PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda data: data,
    "gzip": lambda data: b"\x01\x01" + gzip.compress(data, 1),
    "zstd": lambda data: b"\x01\x02" + framed("zstd")(data),
    "lz4": lambda data: b"\x01\x03" + framed("lz4")(data),
    "snappy": lambda data: b"\x01\x04" + snappy(data),
    "raw gzip": lambda data: gzip.compress(data, 1),
}


@dataclass(frozen=True)
class Layout:
    """How the lines of a file are written. None of it may change what they say."""

    separators: tuple[str, str] = (",", ":")
    indent: str = ""
    newline: str = "\n"
    blank_after: frozenset[int] = frozenset()
    ends_with_newline: bool = True
    packing: str = "plain"
    ascii_only: bool = False

    def render(self, actions: Iterable[Action]) -> bytes:
        lines: list[str] = []
        for index, action in enumerate(actions):
            text = json.dumps(action, separators=self.separators, ensure_ascii=self.ascii_only)
            lines.append(self.indent + text)
            if index in self.blank_after:
                lines += ["", "  \t"]
        # An empty file is an error in one format, an empty commit in none.
        end = self.newline if self.ends_with_newline or not lines else ""
        return PACKINGS[self.packing]((self.newline.join(lines) + end).encode())


class Shape(Enum):
    """Every shape of a checkpoint that a reader must know."""

    CLASSIC = "classic"
    MULTI_PART = "multi-part"
    V2_JSON = "v2 json"
    V2_JSON_SIDECARS = "v2 json, sidecars"
    V2_PARQUET = "v2 parquet"
    V2_PARQUET_SIDECARS = "v2 parquet, sidecars"
    V2_CLASSIC_NAME = "v2, classic name, sidecars"
    JSON_LINES = "json lines"
    JSON_OBJECT = "json object"
    JSON_PARTS = "json parts"


DELTA_SHAPES = (
    Shape.CLASSIC,
    Shape.MULTI_PART,
    Shape.V2_JSON,
    Shape.V2_JSON_SIDECARS,
    Shape.V2_PARQUET,
    Shape.V2_PARQUET_SIDECARS,
    Shape.V2_CLASSIC_NAME,
)
INDEXTABLES_SHAPES = (
    Shape.CLASSIC,
    Shape.MULTI_PART,
    Shape.JSON_LINES,
    Shape.JSON_OBJECT,
    Shape.JSON_PARTS,
)
SHAPES = {"delta": DELTA_SHAPES, "indextables": INDEXTABLES_SHAPES}


def protocol(reader: int = 1, writer: int = 2, **features: list[str]) -> Action:
    return {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer, **features}}


def metadata(*partition_columns: str, **fields: Any) -> Action:
    names = ["id", *partition_columns]
    columns = [{"name": n, "type": "string", "nullable": True, "metadata": {}} for n in names]
    return {
        "metaData": {
            "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": columns}),
            "partitionColumns": list(partition_columns),
            "configuration": {},
            "createdTime": 1_700_000_000_000,
            **fields,
        }
    }


def add(path: str, **fields: Any) -> Action:
    return {
        "add": {
            "path": path,
            "partitionValues": {},
            "size": 100,
            "modificationTime": 1_700_000_000_000,
            "dataChange": True,
            **fields,
        }
    }


def remove(path: str, **fields: Any) -> Action:
    return {
        "remove": {
            "path": path,
            "deletionTimestamp": 1_700_000_000_000,
            "dataChange": True,
            **fields,
        }
    }


def vector(unique: str, offset: int | None = 1) -> dict[str, Any]:
    return {
        "storageType": "u",
        "pathOrInlineDv": unique,
        "offset": offset,
        "sizeInBytes": 36,
        "cardinality": 2,
    }


@dataclass
class LogBuilder:
    """Writes the log of one table at `root`, and remembers what it says."""

    root: Path
    log_format: str = "delta"
    commits: list[list[Action]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)

    @property
    def directory(self) -> Path:
        return self.root / DIRECTORIES[self.log_format]

    @property
    def version(self) -> int:
        """The latest version."""
        return len(self.commits) - 1

    def file(self, name: str) -> Path:
        return self.directory / name

    def write(self, name: str, data: bytes) -> Path:
        path = self.file(name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        return path

    def start(self, *actions: Action) -> LogBuilder:
        """Commit version 0: protocol, metaData, and whatever else."""
        self.commit(protocol(), metadata(), *actions)
        return self

    def commit(self, *actions: Action, layout: Layout | None = None) -> Path:
        """Write the next commit."""
        self.commits.append(list(actions))
        return self.write(f"{self.version:020d}.json", (layout or Layout()).render(actions))

    def filler(self, count: int) -> LogBuilder:
        """Write `count` commits of one file each."""
        for _ in range(count):
            self.commit(add(f"file-{self.version + 1}"))
        return self

    def truth(self, version: int | None = None) -> model.Model:
        """Return what the model says of a version, from the commits alone."""
        end = len(self.commits) if version is None else version + 1
        return model.replay(self.commits[:end], str(self.root))

    def commit_path(self, version: int) -> Path:
        return self.file(f"{version:020d}.json")

    def modified(self, version: int, milliseconds: int) -> None:
        """Set the modification time of a commit."""
        os.utime(self.commit_path(version), ns=(milliseconds * 10**6,) * 2)

    def clean_up(self, before: int) -> None:
        """Delete the commits below a version, as a cleanup does."""
        for version in range(before):
            self.commit_path(version).unlink(missing_ok=True)

    def hint(self, version: int | bytes, **fields: Any) -> Path:
        """Write `_last_checkpoint`: a version, or any bytes."""
        if isinstance(version, int):
            version = json.dumps({"version": version, "size": 1, **fields}).encode()
        return self.write("_last_checkpoint", version)

    # --- compactions ---------------------------------------------------------------------------

    def compaction(
        self, start: int, end: int, *, suffix: str = "json", layout: Layout | None = None
    ) -> Path:
        """Write the compaction of an inclusive range: every winner of it."""
        won = model.replay(self.commits[start : end + 1], str(self.root))
        actions = state_actions(won, is_compaction=True)
        name = f"{start:020d}.{end:020d}.compacted.{suffix}"
        if suffix == "parquet":
            return self._write_parquet(name, actions)
        return self.write(name, (layout or Layout()).render(actions))

    # --- checkpoints ---------------------------------------------------------------------------

    def checkpoint(
        self,
        version: int,
        shape: Shape = Shape.CLASSIC,
        *,
        parts: int = 2,
        layout: Layout | None = None,
    ) -> list[Path]:
        """Write a checkpoint of a version; return its files, the one that names it first."""
        actions = state_actions(self.truth(version))
        name = f"{version:020d}.checkpoint"
        layout = layout or Layout()
        below = "_checkpoints/" if self.log_format == "indextables" else ""
        if shape is Shape.CLASSIC:
            return [self._write_parquet(f"{below}{name}.parquet", actions)]
        if shape is Shape.MULTI_PART:
            return [
                self._write_parquet(f"{below}{name}.{part + 1:010d}.{parts:010d}.parquet", chosen)
                for part, chosen in enumerate(split(actions, parts))
            ]
        if shape is Shape.JSON_LINES:
            return [self.write(f"{name}.json", layout.render(actions))]
        if shape is Shape.JSON_OBJECT:
            data = json.dumps(one_object(actions), separators=layout.separators).encode()
            return [self.write(f"{name}.json", PACKINGS[layout.packing](data))]
        if shape is Shape.JSON_PARTS:
            return self._json_parts(name, version, actions, parts, layout)
        return self._v2(name, version, shape, actions, parts, layout)

    def _json_parts(
        self, name: str, version: int, actions: list[Action], parts: int, layout: Layout
    ) -> list[Path]:
        unique = uuid.uuid4().hex[:12]
        files = [
            self.write(f"{name}.{unique}.{part + 1:05d}.json", layout.render(chosen))
            for part, chosen in enumerate(split(actions, parts))
        ]
        manifest = {
            "version": version,
            "checkpointId": unique,
            "parts": [path.name for path in files],
            "createdTime": 1,
            "format": "json",
        }
        return [self.write(f"{name}.json", json.dumps(manifest).encode()), *files]

    def _v2(
        self,
        name: str,
        version: int,
        shape: Shape,
        actions: list[Action],
        parts: int,
        layout: Layout,
    ) -> list[Path]:
        unique = "" if shape is Shape.V2_CLASSIC_NAME else f".{uuid.uuid4()}"
        sidecars: list[Path] = []
        if "sidecars" in shape.value:
            files = [a for a in actions if "add" in a or "remove" in a]
            actions = [a for a in actions if a not in files]
            sidecars = [
                self._write_parquet(f"_sidecars/{uuid.uuid4()}.parquet", chosen)
                for chosen in split(files, parts)
            ]
        named = [
            {"path": path.name, "sizeInBytes": path.stat().st_size, "modificationTime": 1}
            for path in sidecars
        ]
        actions = [
            {"checkpointMetadata": {"version": version}},
            *actions,
            *({"sidecar": value} for value in named),
        ]
        if "json" in shape.value:
            top = self.write(f"{name}{unique}.json", layout.render(actions))
        else:
            top = self._write_parquet(f"{name}{unique}.parquet", actions, {"sidecar": SIDECAR})
        return [top, *sidecars]

    def _write_parquet(
        self, name: str, actions: list[Action], extra: dict[str, pa.DataType] | None = None
    ) -> Path:
        types = COLUMNS[self.log_format] | (extra or {})
        columns = {
            kind: pa.array([with_map_items(a.get(kind), t) for a in actions], t)
            for kind, t in types.items()
        }
        path = self.file(name)
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table(columns), path)
        return path


def state_actions(won: model.Model, *, is_compaction: bool = False) -> list[Action]:
    """Return the actions a checkpoint, or a compaction, of this state holds."""
    actions = [
        {kind: won.singles[kind]} for kind in ("protocol", "metaData") if kind in won.singles
    ]
    actions += [{"txn": value} for value in won.keyed["txn"].values()]
    actions += [
        {"domainMetadata": value}
        for value in won.keyed["domainMetadata"].values()
        if is_compaction or not value.get("removed")
    ]
    actions += [{"mergeskip": value} for value in won.keyed["mergeskip"].values()]
    actions += [{"remove": value} for value in won.tombstones.values()]
    return actions + [{"add": value} for value in won.files.values()]


def split(actions: Sequence[Action], parts: int) -> list[list[Action]]:
    return [list(actions[part::parts]) for part in range(parts)]


def one_object(actions: Iterable[Action]) -> dict[str, Any]:
    """Return the single-object form of a checkpoint: lists of what there may be many of."""
    whole: dict[str, Any] = {"add": []}
    for action in actions:
        for kind, value in action.items():
            if kind in {"protocol", "metaData"}:
                whole[kind] = value
            else:
                whole.setdefault(kind, []).append(value)
    return whole


def with_map_items(value: Any, kind: pa.DataType) -> Any:
    """Return a wire value as pyarrow wants it: maps as lists of pairs."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return list(value.items())
    if pa.types.is_struct(kind):
        return {f.name: with_map_items(value.get(f.name), f.type) for f in kind}
    return value
