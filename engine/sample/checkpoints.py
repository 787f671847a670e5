"""How is the state of a sample written as a checkpoint, and a range of commits as a compaction?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from engine.actions import kinds
from engine.log import paths
from engine.log.paths import FileKind, TransactionFileRef
from engine.replay.parse import Parser
from engine.sample.history import FileKeys

if TYPE_CHECKING:
    from engine.formats import LogFormat
    from engine.sample.history import Actions
    from engine.sample.lines import Lines

Write = Callable[[str, bytes], None]

ROWS_A_PART: Final = 100_000
_CHECKPOINT_KINDS: Final = (
    "txn", "add", "remove", "metaData", "protocol", "domainMetadata", "mergeskip",
    "checkpointMetadata", "sidecar",
)  # fmt: skip
_NOT_IN_REMOVES: Final = {"stats", "tags"}
_INT: Final = pa.int32()
_NARROW: Final = {
    "protocol": {"minReaderVersion": _INT, "minWriterVersion": _INT},
    "deletionVector": {"offset": _INT, "sizeInBytes": _INT},
}


@dataclass(frozen=True, slots=True)
class Checkpointer:
    """Writes checkpoints and compactions of one sample. `write` takes a name inside the log."""

    log_format: LogFormat
    lines: Lines
    kind: str
    compress: Callable[[bytes, int], bytes]
    write: Write

    def checkpoint(self, state: Actions) -> dict[str, Any]:
        """Write the state of a version; return the hint to it."""
        written = _SHAPES[self.log_format.name, self.kind](self, state)
        rows = 2 + len(state)
        adds = {"delta": "numOfAddFiles", "indextables": "numFiles"}[self.log_format.name]
        return {"version": state.version, "size": rows, adds: len(state.added), **written}

    def compaction(self, actions: Actions) -> None:
        """Write the winners of a range of commits."""
        start, end = actions.start_version, actions.version
        head = self.lines.table() if start == 0 else []
        texts = [*head, *self.lines.others(actions), *self._files(actions.added, actions.removed)]
        if self.log_format.checkpoint_directory is None:
            self.write(paths.compaction_name(start, end), _text(texts))
        else:
            self.write(paths.compaction_name(start, end, "parquet"), self._parquet(iter([texts])))

    def _classic(self, state: Actions) -> dict[str, Any]:
        data = self._parquet(self._rows(state))
        self.write(self._inside(paths.checkpoint_name(state.version)), data)
        return {"sizeInBytes": len(data)}

    def _multi_part(self, state: Actions) -> dict[str, Any]:
        chunks = self._chunks(state)
        size = 0
        for part, (added, removed) in enumerate(chunks, 1):
            head = self._head(state) if part == 1 else []
            data = self._parquet(iter([head + self._files(added, removed)]))
            name = paths.checkpoint_part_name(state.version, part, len(chunks))
            self.write(self._inside(name), data)
            size += len(data)
        return {"sizeInBytes": size, "parts": len(chunks)}

    def _v2(self, state: Actions) -> dict[str, Any]:
        """The state's files in sidecars; the rest, with the sidecars' names, in a manifest."""
        version = state.version
        sidecars, size = [], 0
        for part, (added, removed) in enumerate(self._chunks(state), 1):
            data = self._parquet(iter([self._files(added, removed)]), ("add", "remove"))
            unique = self.lines.files.uuid(f"sidecar-{part}", version)
            self.write(f"{paths.SIDECARS}/{unique}.parquet", data)
            size += len(data)
            entry = {
                "path": f"{unique}.parquet",
                "sizeInBytes": len(data),
                "modificationTime": self.lines.time_ms(version),
            }
            sidecars.append(orjson.dumps({"sidecar": entry}).decode())
        metadata = orjson.dumps({"checkpointMetadata": {"version": version}}).decode()
        texts = [metadata, *self._head(state), *sidecars]
        unique = self.lines.files.uuid("checkpoint", version)
        if self.kind == "v2-json":
            data = _text(texts)
            self.write(paths.checkpoint_v2_name(version, unique, "json"), data)
        else:
            data = self._parquet(iter([texts]))
            own = paths.checkpoint_v2_name(version, unique, "parquet")
            classic = paths.checkpoint_name(version)
            self.write(classic if self.kind == "v2-classic" else own, data)
        return {"sizeInBytes": size + len(data)}

    def _json(self, state: Actions) -> dict[str, Any]:
        texts = self._head(state) + self._files(state.added, FileKeys())
        data = self.compress(_text(texts), state.version)
        self.write(paths.checkpoint_json_name(state.version), data)
        written = {"size": len(texts), "sizeInBytes": len(data)}
        return {**written, "createdTime": self.lines.time_ms(state.version)}

    def _json_parts(self, state: Actions) -> dict[str, Any]:
        unique = self.lines.files.uuid("checkpoint", state.version).replace("-", "")[:12]
        names, size, actions = [], 0, 0
        for part, (added, _) in enumerate(self._chunks(state), 1):
            head = self._head(state) if part == 1 else []
            texts = head + self._files(added, FileKeys())
            data = self.compress(_text(texts), state.version)
            actions += len(texts)
            names.append(paths.checkpoint_json_part_name(state.version, unique, part))
            self.write(names[-1], data)
            size += len(data)
        created = {"createdTime": self.lines.time_ms(state.version)}
        manifest = {"version": state.version, "checkpointId": unique, "parts": names}
        data = orjson.dumps({**manifest, **created, "format": "json"})
        self.write(paths.checkpoint_json_name(state.version), data)
        written = {"size": actions, "sizeInBytes": size, "parts": len(names)}
        return {**written, "checkpointId": unique, **created}

    def _inside(self, name: str) -> str:
        below = self.log_format.checkpoint_directory
        return f"{below}/{name}" if below else name

    def _head(self, state: Actions) -> list[str]:
        return self.lines.table() + self.lines.others(state)

    def _files(self, added: FileKeys, removed: FileKeys) -> list[str]:
        return self.lines.removes(removed) + self.lines.adds(added)

    def _rows(self, state: Actions) -> Iterator[list[str]]:
        yield self._head(state)
        for start in range(0, len(state.added), ROWS_A_PART):
            yield self.lines.adds(state.added.take(slice(start, start + ROWS_A_PART)))
        for start in range(0, len(state.removed), ROWS_A_PART):
            yield self.lines.removes(state.removed.take(slice(start, start + ROWS_A_PART)))

    def _chunks(self, state: Actions) -> list[tuple[FileKeys, FileKeys]]:
        """Return the files in two parts or more, each file in one by its number."""
        parts = max(2, -(-(len(state.added) + len(state.removed)) // ROWS_A_PART))
        return [
            (
                state.added.take(state.added.ids % parts == part),
                state.removed.take(state.removed.ids % parts == part),
            )
            for part in range(parts)
        ]

    def _parquet(self, texts: Iterator[list[str]], only: tuple[str, ...] = ()) -> bytes:
        """Return lines as a Parquet file, a column a kind of action."""
        whole = _checkpoint_schema(self.log_format)
        schema = pa.schema([field for field in whole if not only or field.name in only])
        positioned = pa.schema([*_POSITION, *schema])
        parser, sink = Parser(self.log_format), pa.BufferOutputStream()
        ref = TransactionFileRef(0, "sample", 0, 0, FileKind.COMMIT, 0)
        with pq.ParquetWriter(sink, schema, compression="snappy") as writer:
            for chunk in texts:
                for batch in parser.parse([(ref, _text(chunk))]) if chunk else ():
                    columns = batch.to_record_batch(positioned).columns[len(_POSITION) :]
                    writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
        return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


_SHAPES: Final[dict[tuple[str, str], Callable[[Checkpointer, Actions], dict[str, Any]]]] = {
    ("delta", "classic"): Checkpointer._classic,
    ("delta", "multi-part"): Checkpointer._multi_part,
    ("delta", "v2"): Checkpointer._v2,
    ("delta", "v2-json"): Checkpointer._v2,
    ("delta", "v2-classic"): Checkpointer._v2,
    ("indextables", "classic"): Checkpointer._classic,
    ("indextables", "multi-part"): Checkpointer._multi_part,
    ("indextables", "json"): Checkpointer._json,
    ("indextables", "json-parts"): Checkpointer._json_parts,
}
_POSITION: Final = (pa.field("version", pa.int64()), pa.field("ordinal", pa.int64()))


@cache
def _checkpoint_schema(log_format: LogFormat) -> pa.Schema:
    """Return the columns of a checkpoint: 32 bits where the protocol says int, bare removes."""
    known = kinds(log_format)
    return pa.schema(
        [(kind, _narrow(kind, known[kind])) for kind in _CHECKPOINT_KINDS if kind in known]
    )


def _narrow(name: str, found: pa.DataType) -> pa.DataType:
    if not pa.types.is_struct(found):
        return found
    narrow = _NARROW.get(name, {})
    dropped = _NOT_IN_REMOVES if name == "remove" else ()
    return pa.struct(
        [
            pa.field(field.name, narrow.get(field.name) or _narrow(field.name, field.type))
            for field in found
            if field.name not in dropped
        ]
    )


def _text(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()
