"""What does a checkpoint say? Every shape of both formats, read in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.actions import ActionBatch, conform, kinds
from engine.errors import CorruptCheckpointError, MissingSidecarError, UnreadableLogFileError
from engine.log.listing import LogDirectory
from engine.log.paths import SIDECARS, FileKind, TransactionFileRef, parse_path
from engine.log.segment import Checkpoint
from engine.replay.compression import DEFAULT_LIMIT_BYTES, decode
from engine.replay.lines import LineAction, action_value, to_batch
from engine.replay.parse import Parser
from engine.replay.stats import stats_json

BATCH_ROWS: Final = 64 * 1024

ALL_KINDS: Final = (
    "add",
    "remove",
    "metaData",
    "protocol",
    "txn",
    "domainMetadata",
    "mergeskip",
)


@dataclass(frozen=True, slots=True)
class CheckpointFile:
    """One file that holds rows of a checkpoint: the file itself, a part or a sidecar."""

    path: str
    version: int
    size: int


def read_checkpoint(
    directory: LogDirectory,
    checkpoint: Checkpoint,
    *,
    wanted: Sequence[str] = ALL_KINDS,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
) -> Iterator[ActionBatch]:
    """Yield the actions of a checkpoint, of the kinds `wanted`, sidecars included.

    Raises CorruptCheckpointError, or its kind MissingSidecarError, where it cannot be read whole.
    """
    try:
        for ref in checkpoint.files:
            for batch in _read_file(directory, ref, wanted, limit_bytes):
                yield batch
                if "add" in wanted or "remove" in wanted:
                    for sidecar in sidecar_files(directory, batch, ref.version):
                        yield from read_parquet(directory, sidecar, wanted)
    except CorruptCheckpointError:
        raise
    except UnreadableLogFileError as error:
        raise CorruptCheckpointError(
            error.path, f"unreadable checkpoint: {error.reason}", error.line, error.column
        ) from None
    except FileNotFoundError as error:
        raise CorruptCheckpointError(checkpoint.name, f"a file is missing: {error}") from None


def sidecar_files(
    directory: LogDirectory, batch: ActionBatch, version: int
) -> list[CheckpointFile]:
    """Return the sidecars that the rows of a V2 checkpoint name, always inside `_sidecars`."""
    column = batch.columns.get("sidecar")
    if column is None or column.null_count == len(column):
        return []
    found = column.filter(column.is_valid())
    names = [unquote(path).rpartition("/")[2] for path in found.field("path").to_pylist()]
    sizes = (
        found.field("sizeInBytes").to_pylist()
        if found.type.get_field_index("sizeInBytes") >= 0
        else [0] * len(names)
    )
    return [
        CheckpointFile(f"{SIDECARS}/{name}", version, size or 0)
        for name, size in zip(names, sizes, strict=True)
    ]


def read_parquet(
    directory: LogDirectory,
    file: CheckpointFile | TransactionFileRef,
    wanted: Iterable[str],
    first_ordinal: int = 0,
) -> Iterator[ActionBatch]:
    """Yield the actions of one Parquet file, reading only the columns that are known."""
    known = kinds(directory.log_format)
    names = [kind for kind in (*wanted, "sidecar") if kind in known]
    try:
        source = directory.storage.open_input(directory.file(file.path))
        with pq.ParquetFile(source) as parquet:
            fields = {field.name: field.type for field in parquet.schema_arrow}
            columns = [
                leaf
                for kind in names
                if kind in fields
                for leaf in _leaves(kind, fields[kind], known[kind])
            ]
            if not columns:
                return
            ordinal = first_ordinal
            for batch in parquet.iter_batches(batch_size=BATCH_ROWS, columns=columns):
                yield _to_actions(batch, known, file.version, ordinal)
                ordinal += batch.num_rows
    except FileNotFoundError:
        if file.path.startswith(f"{SIDECARS}/"):
            raise MissingSidecarError(file.path, "a sidecar of the checkpoint is missing") from None
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CorruptCheckpointError(file.path, f"unreadable Parquet: {reason}") from None


def _read_file(
    directory: LogDirectory, ref: TransactionFileRef, wanted: Sequence[str], limit_bytes: int
) -> Iterator[ActionBatch]:
    if not ref.is_json:
        yield from read_parquet(directory, ref, wanted)
        return
    parser = Parser(directory.log_format, limit_bytes)
    data = directory.storage.read(directory.file(ref.path))
    if ref.kind is not FileKind.CHECKPOINT_JSON:
        yield from parser.parse([(ref, data)])
        return
    plain = decode(data, ref.path, limit_bytes)
    whole = _single_object(plain)
    if whole is None:
        yield from parser.parse([(ref, plain)])
    elif "parts" in whole:
        for part in _parts(whole, ref, directory):
            content = directory.storage.read(directory.file(part.path))
            yield from parser.parse([(part, content)])
    else:
        yield _from_object(whole, ref, directory)


def _single_object(plain: bytes) -> dict[str, Any] | None:
    """Return the one object a checkpoint consists of, or None when it is JSON lines."""
    first, _, rest = plain.partition(b"\n")
    for text in (first, plain) if not rest.strip() else (plain,):
        if text is plain and len(plain) > len(first) and _is_action_line(first):
            return None
        try:
            found = orjson.loads(text)
        except orjson.JSONDecodeError:
            continue
        if isinstance(found, dict) and ("parts" in found or isinstance(found.get("add"), list)):
            return found
    return None


def _is_action_line(line: bytes) -> bool:
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False


def _parts(
    manifest: dict[str, Any], ref: TransactionFileRef, directory: LogDirectory
) -> list[TransactionFileRef]:
    parts = []
    names = manifest["parts"]
    for name in names if isinstance(names, list) else ():
        part = parse_path(str(name), 0, 0, directory.log_format)
        if part is None or part.kind is not FileKind.CHECKPOINT_JSON_PART:
            raise CorruptCheckpointError(ref.path, f"{name!r} is not the name of a part")
        parts.append(part)
    if not parts:
        raise CorruptCheckpointError(ref.path, "the manifest names no parts")
    return parts


def _from_object(
    whole: dict[str, Any], ref: TransactionFileRef, directory: LogDirectory
) -> ActionBatch:
    known = kinds(directory.log_format)
    actions = []
    for kind, value in whole.items():
        if kind not in known or value is None:
            continue
        for item in value if isinstance(value, list) else [value]:
            try:
                converted = action_value(item, kind, known[kind])
            except ValueError as error:
                raise CorruptCheckpointError(ref.path, str(error)) from None
            actions.append(LineAction(ref.version, len(actions), kind, converted))
    return to_batch(actions, directory.log_format)


def _leaves(kind: str, found: pa.DataType, known: pa.DataType) -> list[str]:
    """Return the column paths of one action to read: its known fields, and parsed statistics."""
    if not pa.types.is_struct(found) or not pa.types.is_struct(known):
        return []
    names = {field.name for field in found}
    wanted = [field.name for field in known if field.name in names]
    if kind == "add" and "stats_parsed" in names and "stats" not in names:
        wanted.append("stats_parsed")
    return [f"{kind}.{name}" for name in wanted]


def _to_actions(
    batch: pa.RecordBatch, known: Any, version: int, first_ordinal: int
) -> ActionBatch:
    columns = {}
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        if array.null_count == len(array):
            continue
        columns[name] = _known_fields(array, known[name])
    rows = batch.num_rows
    return ActionBatch(
        pa.array(np.full(rows, version, dtype=np.int64)),
        pa.array(np.arange(first_ordinal, first_ordinal + rows, dtype=np.int64)),
        columns,
    )


def _known_fields(array: pa.StructArray, known: pa.StructType) -> pa.StructArray:
    """Return the struct with the known types; fields it does not have are left out."""
    names, children = [], []
    for field in array.type:
        child = array.field(field.name)
        if field.name == "stats_parsed":
            names.append("stats")
            children.append(stats_json(pc.struct_field(array, "stats_parsed")))
            continue
        wanted = known.field(known.get_field_index(field.name)).type
        names.append(field.name)
        children.append(conform(child, wanted))
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, names=names, mask=mask)
