"""How do actions become the bytes of a commit?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import metadata
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from engine.actions import kinds
from engine.config import (
    COMPRESSION_CODEC,
    COMPRESSION_ENABLED,
    COMPRESSION_MIN_BYTES,
    GZIP_LEVEL,
    Config,
)
from engine.replay.compression import Encoded, encode
from engine.replay.jsontext import json_objects

if TYPE_CHECKING:
    from engine.formats import LogFormat

# One kind and its value, in wire names: {"add": {"path": …}}
Action = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Body:
    """What a commit says: actions as given, and live files that it removes."""

    actions: Sequence[Action] = ()
    removed: pa.Table | None = field(default=None, compare=False)

    @property
    def removes(self) -> int:
        """How many files go."""
        given = sum("remove" in action for action in self.actions)
        return given + (0 if self.removed is None else self.removed.num_rows)

    @property
    def adds(self) -> int:
        """How many files come."""
        return sum("add" in action for action in self.actions)


def commit_bytes(
    info: Mapping[str, Any], body: Body, log_format: LogFormat, config: Config, now_ms: int
) -> Encoded:
    """Return a commit: its commitInfo first, what goes before what comes, a line each."""
    lines = [orjson.dumps({"commitInfo": info})]
    lines += [_line(action) for action in body.actions if "add" not in action]
    if body.removed is not None and body.removed.num_rows:
        lines += _remove_lines(body.removed, log_format, now_ms)
    lines += [_line(action) for action in body.actions if "add" in action]
    return encoded(b"\n".join(lines) + b"\n", log_format, config)


def encoded(data: bytes, log_format: LogFormat, config: Config) -> Encoded:
    """Return the lines of a commit as its file has them: compressed where that is asked for."""
    if not log_format.compressed_commits or not config[COMPRESSION_ENABLED]:
        return encode(data, "none")
    codec, level = config[COMPRESSION_CODEC], config[GZIP_LEVEL]
    return encode(data, codec, level, config[COMPRESSION_MIN_BYTES])


@lru_cache(maxsize=1)
def engine_info() -> str:
    """Return who writes: txlog and its version."""
    try:
        return f"txlog/{metadata.version('txlog-engine')}"
    except metadata.PackageNotFoundError:
        return "txlog"


def _line(action: Action) -> bytes:
    kind, value = next(iter(action.items()))
    kept = {k: v for k, v in value.items() if v is not None}
    return orjson.dumps({kind: kept})


def _remove_lines(files: pa.Table, log_format: LogFormat, now_ms: int) -> list[bytes]:
    """Return the remove of each live file, with what it takes to undo it, without a row loop."""
    known = [f.name for f in kinds(log_format)["remove"]]
    given = {
        "deletionTimestamp": pa.scalar(now_ms),
        "dataChange": pa.scalar(value=True),
        "extendedFileMetadata": pa.scalar(value=True),
    }
    lines: list[bytes] = []
    for batch in files.to_batches():
        columns = {
            name: pa.repeat(given[name], len(batch)) if name in given else batch[name]
            for name in known
            if name != "stats" and (name in given or name in batch.schema.names)
        }
        rows = pa.StructArray.from_arrays(list(columns.values()), list(columns))
        texts = pc.binary_join_element_wise('{"remove":', json_objects(rows), "}", "")
        lines += [text.encode() for text in texts.to_pylist()]
    return lines
