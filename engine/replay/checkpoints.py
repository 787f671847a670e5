"""What does a checkpoint say? Every shape of both formats, read in batches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.actions import NO_HOLES, PARSED_STATS, REQUIRED, ActionBatch, conform, pruned_kinds
from engine.errors import CorruptCheckpointError, MissingSidecarError, UnreadableLogFileError
from engine.log.paths import SIDECARS, FileKind, TransactionFileRef
from engine.replay.claims import METADATA, Tally
from engine.replay.compression import DEFAULT_LIMIT_BYTES, decode
from engine.replay.parse import Parser
from engine.replay.stats import lacks_texts, parsed_stats, stats_json
from engine.replay.wholes import from_object, parts_of, single_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.log.listing import LogDirectory
    from engine.log.segment import Checkpoint

BATCH_ROWS: Final = 64 * 1024
_ROW_GROUP_BITS: Final = 32

ALL_KINDS: Final = (
    "add",
    "remove",
    "metaData",
    "protocol",
    "txn",
    "domainMetadata",
    "mergeskip",
)


def read_checkpoint(
    directory: LogDirectory,
    checkpoint: Checkpoint,
    *,
    wanted: Sequence[str] = ALL_KINDS,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
) -> Iterator[ActionBatch]:
    """Yield the actions of a checkpoint, of the kinds `wanted`, sidecars included.

    Raises CorruptCheckpointError, or its kind MissingSidecarError, where it cannot be read whole,
    and, after the last of them, where there were fewer than it or its hint says.
    """
    tally = Tally(checkpoint, wanted)
    of_sidecars = wanted if "add" in wanted or "remove" in wanted else ()
    for ref in checkpoint.files:
        for batch in read_checkpoint_file(
            directory, ref, wanted=(*wanted, METADATA), limit_bytes=limit_bytes, tally=tally
        ):
            tally.take(batch)
            yield batch
            for sidecar in sidecars(batch, ref.version) if of_sidecars else ():
                for rows in read_checkpoint_file(directory, sidecar, wanted=wanted):
                    tally.take_sidecar(rows)
                    yield rows
    tally.settle(directory, of_sidecars)


def read_checkpoint_file(
    directory: LogDirectory,
    ref: TransactionFileRef,
    *,
    wanted: Sequence[str] = ALL_KINDS,
    fields: tuple[str, ...] | None = None,
    row_groups: tuple[int, int] = (0, 1),
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    tally: Tally | None = None,
) -> Iterator[ActionBatch]:
    """Yield the actions of one file of a checkpoint; of `fields` only, where they are given.

    With `row_groups=(i, n)`, of a Parquet file the i-th of n runs of its row groups. `tally` is
    told how many lines a JSON file has.
    """
    try:
        if ref.is_json:
            yield from _read_json(directory, ref, fields, limit_bytes, tally)
        else:
            yield from _read_parquet(directory, ref, wanted, fields, row_groups)
    except CorruptCheckpointError:
        raise
    except UnreadableLogFileError as error:
        raise CorruptCheckpointError(
            error.path, f"unreadable checkpoint: {error.reason}", error.line, error.column
        ) from None
    except FileNotFoundError as error:
        if ref.path.startswith(f"{SIDECARS}/"):
            raise MissingSidecarError(ref.path, "a sidecar of the checkpoint is missing") from None
        raise CorruptCheckpointError(ref.path, f"a file is missing: {error}") from None


def sidecars(batch: ActionBatch, version: int) -> list[TransactionFileRef]:
    """Return the sidecars that the rows of a V2 checkpoint name, always inside `_sidecars`."""
    column = batch.columns.get("sidecar")
    if column is None or column.null_count == len(column):
        return []
    found = column.filter(column.is_valid()).to_pylist()
    return [
        TransactionFileRef(
            version=version,
            path=f"{SIDECARS}/{_sidecar_name(sidecar['path'])}",
            size=sidecar.get("sizeInBytes") or 0,
            modification_time=sidecar.get("modificationTime") or 0,
            kind=FileKind.SIDECAR,
            start_version=version,
        )
        for sidecar in found
    ]


def json_parts(directory: LogDirectory, ref: TransactionFileRef) -> list[str]:
    """Return the parts that a JSON checkpoint names; none where it holds its actions itself."""
    try:
        data = directory.storage.read(directory.file(ref.path))
        whole = single_object(decode(data, ref.path, DEFAULT_LIMIT_BYTES), directory.log_format)
    except (UnreadableLogFileError, FileNotFoundError) as error:
        raise CorruptCheckpointError(ref.path, f"unreadable checkpoint: {error}") from None
    return [] if whole is None else parts_of(whole, ref, directory.log_format)


def _sidecar_name(path: str) -> str:
    name = unquote(path).rpartition("/")[2]
    if name in {"", ".", ".."} or "\0" in name:
        raise CorruptCheckpointError(SIDECARS, f"{path!r:.80} is not the name of a sidecar")
    return name


def _read_parquet(
    directory: LogDirectory,
    ref: TransactionFileRef,
    wanted: Iterable[str],
    fields: tuple[str, ...] | None,
    row_groups: tuple[int, int],
) -> Iterator[ActionBatch]:
    known = pruned_kinds(directory.log_format, fields)
    names = [kind for kind in (*wanted, "sidecar") if kind in known]
    try:
        # A listing knows a file's size; what a manifest says of its sidecars is hearsay.
        size = None if ref.kind is FileKind.SIDECAR else ref.size
        source = directory.storage.open_input(directory.file(ref.path), size)
        with pq.ParquetFile(source, page_checksum_verification=True) as parquet:
            found = {field.name: field.type for field in parquet.schema_arrow}
            columns = [
                leaf
                for kind in names
                if kind in found
                for leaf in _leaves(kind, found[kind], known[kind])
            ]
            if not columns:
                return
            parsed = parsed_stats(found, columns, known)
            at, of = row_groups
            count = parquet.num_row_groups
            for group in range(count * at // of, count * (at + 1) // of):
                ordinal = group << _ROW_GROUP_BITS
                is_short = parsed and lacks_texts(parquet.metadata.row_group(group))
                read_now = columns + parsed if is_short else columns
                for batch in parquet.iter_batches(BATCH_ROWS, [group], read_now):
                    yield _to_actions(batch, known, ref.version, ordinal)
                    ordinal += batch.num_rows
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CorruptCheckpointError(ref.path, f"unreadable Parquet: {reason}") from None


def _read_json(
    directory: LogDirectory,
    ref: TransactionFileRef,
    fields: tuple[str, ...] | None,
    limit_bytes: int,
    tally: Tally | None,
) -> Iterator[ActionBatch]:
    parser = Parser(directory.log_format, limit_bytes, fields)

    def lines_of(name: str, plain: bytes) -> list[ActionBatch]:
        if tally is not None:
            tally.take_lines(name, plain.count(b"\n") + (not plain.endswith(b"\n")))
        return parser.parse([(replace(ref, path=name), plain)])

    data = directory.storage.read(directory.file(ref.path))
    if ref.kind is FileKind.CHECKPOINT_JSON_PART:
        yield from parser.parse([(ref, data)])
        return
    if ref.kind is not FileKind.CHECKPOINT_JSON:
        yield from lines_of(ref.path, data)
        return
    plain = decode(data, ref.path, limit_bytes)
    whole = single_object(plain, directory.log_format)
    if whole is None:
        yield from lines_of(ref.path, plain)
        return
    parts = parts_of(whole, ref, directory.log_format)
    if tally is not None:
        tally.take_manifest(whole)
    for name in parts:
        content = directory.storage.read(directory.file(name))
        yield from lines_of(name, decode(content, name, limit_bytes))
    if not parts:
        yield from_object(whole, ref, directory.log_format)


def _leaves(kind: str, found: pa.DataType, known: pa.DataType) -> list[str]:
    """Return the column paths of one action to read: its known fields."""
    if pa.types.is_null(found) or not pa.types.is_struct(known):
        return []
    if not pa.types.is_struct(found):
        raise ValueError(f"the column {kind} is {found}, not a struct")
    names = {field.name for field in found}
    if (required := REQUIRED.get(kind)) and required not in names:
        raise ValueError(f"the column {kind} has no field {required}")
    return [f"{kind}.{field.name}" for field in known if field.name in names]


def _to_actions(batch: pa.RecordBatch, known: Any, version: int, first_ordinal: int) -> ActionBatch:
    columns = {}
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        if array.null_count == len(array):
            continue
        # Parquet promises UTF-8 and does not check it.
        array.validate(full=True)
        columns[name] = _known_fields(array, known[name])
        _refuse_missing(name, columns[name])
        _refuse_holes(name, columns[name])
    rows = batch.num_rows
    return ActionBatch(
        pa.array(np.full(rows, version, dtype=np.int64)),
        pa.array(np.arange(first_ordinal, first_ordinal + rows, dtype=np.int64)),
        columns,
    )


def _refuse_missing(kind: str, array: pa.StructArray) -> None:
    name = REQUIRED.get(kind)
    if name is None:
        return
    found = array.field(name)
    # A name may be empty, a path not.
    missing = pc.less(pc.binary_length(found).fill_null(-1), 1 if name == "path" else 0)
    if pc.any(pc.and_(missing, array.is_valid())).as_py():
        raise ValueError(f"a row of {kind} has no {name}")


def _refuse_holes(kind: str, array: pa.StructArray) -> None:
    for field in array.type:
        where = f"{kind}.{field.name}"
        if where in NO_HOLES and array.field(field.name).flatten().null_count:
            raise ValueError(f"{where} holds a null")


def _known_fields(array: pa.StructArray, known: pa.StructType) -> pa.StructArray:
    """Return the struct with the known types; fields it does not have are left out."""
    children = {
        field.name: conform(array.field(field.name), known.field(field.name).type)
        for field in array.type
        if field.name != PARSED_STATS
    }
    if array.type.get_field_index(PARSED_STATS) >= 0:
        texts = stats_json(pc.struct_field(array, PARSED_STATS))
        own = children.get("stats")
        children["stats"] = texts if own is None else pc.coalesce(own, texts)
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(list(children.values()), names=list(children), mask=mask)
