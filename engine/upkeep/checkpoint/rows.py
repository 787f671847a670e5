"""Which rows does a checkpoint hold? Pure functions from reconciled actions to rows.

Both engines write what these return, and prove what they wrote by `content_of_rows`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.actions import conform, nulls
from engine.errors import CheckpointWriteError
from engine.replay.content import Content, content_of
from engine.replay.jsontext import json_objects
from engine.replay.rules import skip_is_running
from engine.replay.truncation import truncate_statistics
from engine.upkeep.checkpoint.parsed import parse_partitions, parse_stats

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from engine.upkeep.checkpoint.shape import CheckpointPlan

_FEATURES_FROM: Final = {
    "readerFeatures": ("minReaderVersion", 3),
    "writerFeatures": ("minWriterVersion", 7),
}


@dataclass(frozen=True, slots=True)
class Few:
    """The actions of a version that are not about files, as they won."""

    protocol: Mapping[str, Any]
    metadata: Mapping[str, Any]
    txns: Iterable[Mapping[str, Any]] = ()
    domains: Iterable[Mapping[str, Any]] = ()
    skips: Iterable[Mapping[str, Any]] = ()


def to_rows(kind: str, actions: pa.StructArray, plan: CheckpointPlan) -> pa.RecordBatch:
    """Return the rows of file actions that won, `add` or `remove`, in the columns of a sidecar.

    Tombstones whose time is over are left out. Raises CheckpointWriteError where a number does
    not fit the type that the protocol gives it.
    """
    if kind == "remove":
        actions = _kept(actions, plan)
    elif plan.uncut is not None:
        actions = truncate_statistics(actions, plan.uncut, plan.max_length)
    wanted = plan.schema.field(kind).type
    columns = []
    for field in plan.file_schema:
        if field.name == kind:
            columns.append(
                _adds(actions, plan) if kind == "add" else _conformed(actions, wanted, plan)
            )
        else:
            columns.append(nulls(len(actions), field.type))
    return pa.RecordBatch.from_arrays(columns, schema=plan.file_schema)


def few_rows(few: Few, plan: CheckpointPlan) -> pa.RecordBatch:
    """Return the rows of the other actions, in the columns of a whole checkpoint.

    Removed domains, txns whose time is over and skips that are over are left out.
    """
    found: list[tuple[str, Mapping[str, Any]]] = [
        ("protocol", _protocol(few.protocol, plan)),
        ("metaData", few.metadata),
        *(("txn", txn) for txn in few.txns if _txn_is_kept(txn, plan.txn_cutoff_ms)),
        *(("domainMetadata", domain) for domain in few.domains if not domain.get("removed")),
        *(("mergeskip", s) for s in few.skips if skip_is_running(s, now_ms=plan.now_ms)),
    ]
    return rows_of([(kind, value) for kind, value in found if kind in plan.schema.names], plan)


def rows_of(
    actions: Sequence[tuple[str, Mapping[str, Any]]], plan: CheckpointPlan
) -> pa.RecordBatch:
    """Return one row each of a few actions, given as (kind, value in wire names)."""
    columns = [
        pa.array([value if kind == field.name else None for kind, value in actions], field.type)
        for field in plan.schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=plan.schema)


def widened(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows with the columns of `schema`; those they do not have are null."""
    columns = [
        rows.column(field.name) if field.name in rows.schema.names else nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def content_of_rows(rows: pa.RecordBatch) -> Content:
    """Return what rows say: what was written and what is read back must say the same."""
    return content_of(dict(zip(rows.schema.names, rows.columns, strict=True)))


def to_lines(rows: pa.RecordBatch) -> pa.Array:
    """Return each row as one line of JSON, without its end."""
    lines = []
    for kind, column in zip(rows.schema.names, rows.columns, strict=True):
        if column.null_count < len(column):
            here = column.filter(column.is_valid())
            lines.append(pc.binary_join_element_wise(f'{{"{kind}":', json_objects(here), "}", ""))
    return pa.concat_arrays(lines) if lines else pa.array([], pa.string())


def _adds(actions: pa.StructArray, plan: CheckpointPlan) -> pa.StructArray:
    wanted = plan.schema.field("add").type
    plain = _conformed(actions, wanted, plan)
    children = {field.name: plain.field(index) for index, field in enumerate(wanted)}
    if plan.rewrites_data_change:
        children["dataChange"] = pa.repeat(pa.scalar(value=False), len(actions))
    if plan.stats_struct is not None:
        has_stats = actions.type.get_field_index("stats") >= 0
        texts = actions.field("stats") if has_stats else nulls(len(actions), pa.string())
        children["stats_parsed"] = parse_stats(texts, plan.stats_struct)
    if plan.partition_struct is not None:
        children["partitionValues_parsed"] = parse_partitions(
            children["partitionValues"], plan.partition_struct
        )
    return pa.StructArray.from_arrays(list(children.values()), fields=list(wanted))


def _kept(actions: pa.StructArray, plan: CheckpointPlan) -> pa.StructArray:
    if not plan.keeps_removes:
        return actions.slice(0, 0)
    if actions.type.get_field_index("deletionTimestamp") < 0:
        times = nulls(len(actions), pa.int64())
    else:
        times = actions.field("deletionTimestamp")
    return actions.filter(pc.greater(pc.fill_null(times, 0), plan.tombstone_cutoff_ms))


def _conformed(
    actions: pa.StructArray, wanted: pa.DataType, plan: CheckpointPlan
) -> pa.StructArray:
    try:
        return _without_blank_vectors(conform(actions, wanted))
    except pa.ArrowInvalid as error:
        reason = f"a value does not fit its type: {str(error).splitlines()[0]}"
        raise CheckpointWriteError(plan.log_format.directory, plan.version, reason) from None


def _without_blank_vectors(actions: pa.StructArray) -> pa.StructArray:
    """Return the actions with null for each deletion vector that has no storage type.

    Some writers fill the struct with blanks, and some readers then look for a vector.
    """
    at = actions.type.get_field_index("deletionVector")
    if at < 0 or actions.field(at).null_count == len(actions):
        return actions
    vectors = actions.field(at)
    types = pc.struct_field(vectors, "storageType")
    blank = pc.equal(pc.fill_null(pc.binary_length(types), 0), 0)
    if pc.sum(blank).as_py() == vectors.null_count:
        return actions
    fields = list(actions.type)
    children = [actions.field(index) for index in range(len(fields))]
    parts = [vectors.field(index) for index in range(vectors.type.num_fields)]
    children[at] = pa.StructArray.from_arrays(parts, fields=list(vectors.type), mask=blank)
    return pa.StructArray.from_arrays(children, fields=fields)


def _protocol(protocol: Mapping[str, Any], plan: CheckpointPlan) -> Mapping[str, Any]:
    """Return the protocol; of Delta, with a list of features from the version on that has them."""
    if plan.log_format.checkpoint_directory is not None:
        return protocol
    found = dict(protocol)
    for name, (version, first) in _FEATURES_FROM.items():
        has_features = (found.get(version) or 0) >= first
        found[name] = (found.get(name) or []) if has_features else None
    return found


def _txn_is_kept(txn: Mapping[str, Any], cutoff_ms: int | None) -> bool:
    # One that does not tell its time is never over.
    updated = txn.get("lastUpdated")
    return cutoff_ms is None or updated is None or updated > cutoff_ms
