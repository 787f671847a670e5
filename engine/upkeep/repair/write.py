"""What does a repaired log say? The live files anew, in commits of bounded size, read back."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from engine.actions import ActionBatch, conform, files_schema, kinds
from engine.commit.serialize import Body, commit_bytes, encoded, engine_info
from engine.config import STATS_MAX_LENGTH, STATS_TRUNCATION_ENABLED, Config
from engine.errors import RepairError
from engine.log.paths import FileKind, TransactionFileRef, commit_name
from engine.log.timestamps import in_commit_start
from engine.replay.jsontext import json_objects
from engine.replay.keys import canonical_paths
from engine.replay.truncation import truncate_statistics, uncut_columns
from engine.upkeep.verify.data import missing, wanted_files
from engine.upkeep.verify.ledger import content_sum
from engine.upkeep.verify.reading import Reader
from engine.upkeep.verify.surviving import entries
from engine.upkeep.verify.vectors import vector_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.log.listing import LogDirectory

# Adds of one commit: some ten megabytes, which every reader takes at once.
ADDS_PER_COMMIT: Final = 20_000

# Properties that speak of versions of the old log.
_OF_VERSIONS: Final = frozenset(
    {
        "delta.inCommitTimestampEnablementVersion",
        "delta.inCommitTimestampEnablementTimestamp",
        "delta.requireCheckpointProtectionBeforeVersion",
    }
)


class Paths(Enum):
    """How the files of a repaired log are named.

    RELATIVE leaves their names as they are: the log is whole once it lies in the place of the
    damaged one. ABSOLUTE names them where they lie, so that the target is a table of its own, for
    readers that follow such names; not all do.
    """

    RELATIVE = "relative"
    ABSOLUTE = "absolute"


@dataclass
class Adds:
    """Takes live files and writes them as commits 1, 2, … of the target; counts what it left out.

    `metadata` is that of the state. With `deep`, files that are not where they should be are
    left out, each with its reason.
    """

    source: LogDirectory
    target: LogDirectory
    config: Config
    metadata: Mapping[str, Any]
    paths: Paths
    now_ms: int
    source_version: int
    deep: bool = False
    dry_run: bool = False
    count: int = 0
    version: int = 0
    missing: list[tuple[str, str]] = field(default_factory=list)
    _waiting: list[pa.StructArray] = field(default_factory=list)
    _folders: dict[str, dict[str, int]] = field(default_factory=dict)

    def take(self, actions: pa.StructArray) -> None:
        """Enter live files."""
        wanted = kinds(self.source.log_format)["add"]
        rows = self._present(conform(actions, wanted)) if self.deep else conform(actions, wanted)
        if not len(rows):
            return
        self.count += len(rows)
        self._waiting.append(self._anew(rows))
        while sum(map(len, self._waiting)) >= ADDS_PER_COMMIT:
            rows = pa.concat_arrays(self._waiting)
            self._waiting = [rows.slice(ADDS_PER_COMMIT)]
            self._write(rows.slice(0, ADDS_PER_COMMIT))

    def finish(self) -> None:
        """Write what is left."""
        if rows := [part for part in self._waiting if len(part)]:
            self._write(pa.concat_arrays(rows))
        self._waiting = []

    def head(self, actions: Sequence[Mapping[str, Any]]) -> bytes:
        """Return the bytes of version 0."""
        configuration = {
            key: value
            for key, value in (self.metadata.get("configuration") or {}).items()
            if key not in _OF_VERSIONS
        }
        metadata = {**self.metadata, "configuration": configuration}
        body = Body([*actions[:1], {"metaData": metadata}, *actions[1:]])
        log_format = self.target.log_format
        return commit_bytes(self._info(0), body, log_format, self.config, self.now_ms).data

    def _present(self, rows: pa.StructArray) -> pa.StructArray:
        """Return the files that are there, with their deletion vectors."""
        schema = files_schema(self.source.log_format)
        columns = [*rows.flatten(), pa.nulls(len(rows), pa.string())]
        live = pa.Table.from_batches([pa.RecordBatch.from_arrays(columns, schema=schema)])
        data, vectors, _ = wanted_files(live, self.source.table_url)
        gone = {
            m.wanted.named: "it is not there"
            for m in missing(self.source, data, self.config, self._folders)
            if m.size is None
        }
        lost = {
            m.wanted.named
            for m in missing(self.source, vectors, self.config, self._folders)
            if m.size is None
        }
        keep = []
        has_vectors = "deletionVector" in live.column_names
        paths = canonical_paths(rows.field("path"), self.source.table_url).to_pylist()
        held = live["deletionVector"].to_pylist() if has_vectors else [None] * len(rows)
        for path, vector in zip(paths, held, strict=True):
            why = gone.get(path)
            if why is None and vector and vector.get("storageType"):
                where = vector_path(vector)
                why = "its deletion vector is not there" if where in lost else None
            keep.append(why is None)
            if why is not None:
                self.missing.append((path, why))
        return rows.filter(pa.array(keep, pa.bool_()))

    def _anew(self, rows: pa.StructArray) -> pa.StructArray:
        """Return the files as a new log adds them."""
        fields = {f.name: rows.field(i) for i, f in enumerate(rows.type)}
        fields["dataChange"] = pa.repeat(pa.scalar(value=True), len(rows))
        if self.paths is Paths.ABSOLUTE:
            fields["path"] = _absolute(fields["path"], self.source.table_url)
            if "deletionVector" in fields:
                fields["deletionVector"] = self._vectors(fields["deletionVector"])
        anew = pa.StructArray.from_arrays(list(fields.values()), fields=list(rows.type))
        is_cut = self.source.log_format.checkpoint_directory is not None
        if is_cut and self.config[STATS_TRUNCATION_ENABLED]:
            uncut = uncut_columns(self.metadata)
            return truncate_statistics(anew, uncut, self.config[STATS_MAX_LENGTH])
        return anew

    def _vectors(self, vectors: pa.StructArray) -> pa.StructArray:
        if vectors.null_count == len(vectors):
            return vectors
        root = _url(self.source.table_url)
        found = [_anywhere(vector, root) for vector in vectors.to_pylist()]
        return pa.array(found, vectors.type)

    def _write(self, rows: pa.StructArray) -> None:
        self.version += 1
        if self.dry_run:
            return
        lines = pc.binary_join_element_wise('{"add":', json_objects(rows), "}", "").to_pylist()
        log_format = self.target.log_format
        plain = "\n".join([orjson.dumps({"commitInfo": self._info(self.version)}).decode(), *lines])
        data = encoded(f"{plain}\n".encode(), log_format, self.config).data
        name = commit_name(self.version)
        self.target.storage.write_new(self.target.file(name), data)
        self._prove(rows, TransactionFileRef(
            self.version, name, len(data), self.now_ms, FileKind.COMMIT, self.version
        ))  # fmt: skip

    def _prove(self, rows: pa.StructArray, ref: TransactionFileRef) -> None:
        """Read a commit back; refuse to go on where it does not say what was written."""
        count = len(rows)
        numbers = pa.array(range(count), pa.int64())
        versions = pa.repeat(pa.scalar(ref.version, pa.int64()), count)
        wanted = entries([ActionBatch(versions, numbers, {"add": rows})], self.target.table_url)
        reader = Reader(self.target, self.config)
        found = entries(reader.batches(ref), self.target.table_url)
        if len(found) != count or content_sum(found) != content_sum(wanted):
            raise RepairError(self.target.url, f"{ref.path}, read back, is not what was written")

    def _info(self, version: int) -> dict[str, Any]:
        own = {}
        if in_commit_start(self.metadata.get("configuration") or {}) is not None:
            own = {"inCommitTimestamp": self.now_ms + version}
        return {
            **own,
            "timestamp": self.now_ms + version,
            "operation": "REPAIR",
            "operationParameters": {
                "source": self.source.url,
                "sourceVersion": str(self.source_version),
            },
            "isBlindAppend": True,
            "engineInfo": engine_info(),
        }


def _anywhere(vector: dict[str, Any] | None, root: str) -> dict[str, Any] | None:
    """Return a deletion vector that is found from anywhere."""
    where = vector_path(vector) if vector and vector.get("storageType") == "u" else None
    if vector is None or where is None:
        return vector
    return {**vector, "storageType": "p", "pathOrInlineDv": f"{root}/{quote(where)}"}


def _absolute(paths: pa.Array, root: str) -> pa.Array:
    """Return paths that lead to the files from anywhere."""
    own = canonical_paths(paths, root)
    elsewhere = pc.or_(pc.starts_with(own, "/"), pc.match_substring_regex(own, r"^[\w.+-]+:/"))
    joined = pc.binary_join_element_wise(f"{_url(root)}/", own, "")
    return pc.if_else(elsewhere, paths, joined)


def _url(root: str) -> str:
    """Return a table's root as paths of a log have it: a URL, escaped."""
    return f"file://{quote(root)}" if root.startswith("/") else root
