"""Are the actions of commits legal, each by itself and beside the others of its commit?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from engine.formats import DELTA, FORMATS
from engine.replay.keys import canonical_path, dv_ids
from engine.replay.partitions import PartitionColumn, partition_columns_of, type_of
from engine.upkeep.verify.findings import some

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from engine.actions import ActionBatch
    from engine.formats import LogFormat
    from engine.log.listing import LogDirectory

_LOGS: Final = frozenset(log_format.directory for log_format in FORMATS)
_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:/")
_REQUIRED: Final = ("partitionValues", "size", "modificationTime")
_NOT_IN_COMMITS: Final = ("sidecar", "checkpointMetadata")
_TEXTS: Final = frozenset({"string", "binary", "char", "varchar"})


@dataclass(frozen=True, slots=True)
class Complaint:
    """A rule that was broken, and in which version."""

    code: str
    version: int
    message: str


@dataclass(frozen=True, slots=True)
class Use:
    """Something that is only allowed to some tables, and the first version that did it."""

    what: str
    version: int
    told: str


def feature_uses(batches: Sequence[ActionBatch]) -> list[Use]:
    """Return what actions do that their table must allow: vectors, domains, removed data."""
    found = []
    for batch in batches:
        add, remove = batch.columns.get("add"), batch.columns.get("remove")
        done: dict[str, pa.Array] = {}
        if add is not None and add.type.get_field_index("deletionVector") >= 0:
            done["deletionVectors"] = dv_ids(pc.struct_field(add, "deletionVector")).is_valid()
        if "domainMetadata" in batch.columns:
            done["domainMetadata"] = batch.columns["domainMetadata"].is_valid()
        if remove is not None:
            done["removes"] = remove.is_valid()
            if remove.type.get_field_index("dataChange") >= 0:
                kept = pc.fill_null(pc.struct_field(remove, "dataChange"), True)  # noqa: FBT003
                done["removes"] = pc.and_(done["removes"], kept)
        for what, where in done.items():
            at = np.flatnonzero(where.to_numpy(zero_copy_only=False))
            if len(at):
                names = (
                    remove.field("path").take(pa.array(at[:3])).to_pylist()
                    if what == "removes" and remove is not None
                    else []
                )
                version = batch.version[int(at[0])].as_py()
                found.append(Use(what, version, some(names, len(at))))
    return found


def action_complaints(
    batches: Sequence[ActionBatch], directory: LogDirectory, *, stats: bool = False
) -> list[Complaint]:
    """Return what is wrong with actions, each by itself. With `stats`, statistics are read too."""
    found: list[Complaint] = []
    for batch in batches:
        for kind, column in batch.columns.items():
            if column.null_count == len(column):
                continue
            if kind in {"add", "remove", "cdc"}:
                rows = _Rows.of(batch, column)
                found += _paths(rows, kind, directory.table_url)
                if kind == "add":
                    found += _fields(rows, directory.log_format)
                    found += _bad_stats(rows) if stats else ()
            elif kind in _NOT_IN_COMMITS:
                rows = _Rows.of(batch, column)
                found.append(
                    Complaint("ILLEGAL_ACTION", int(rows.versions[0]), f"a commit with a {kind}")
                )
    return found


def partition_complaints(
    batches: Sequence[ActionBatch], metadata: Mapping[str, Any], versions: tuple[int, int]
) -> Iterator[Complaint]:
    """Yield what is wrong with the partition values of adds in an inclusive range of versions."""
    try:
        columns = partition_columns_of(
            metadata.get("schemaString") or "", metadata.get("partitionColumns") or []
        )
    except ValueError:
        return  # the metaData has a finding of its own
    for batch in batches:
        column = batch.columns.get("add")
        if column is None or column.type.get_field_index("partitionValues") < 0:
            continue
        rows = _Rows.of(batch, column)
        inside = (rows.versions >= versions[0]) & (rows.versions <= versions[1])
        if inside.all():
            yield from _values(rows, columns)
        elif inside.any():
            yield from _values(rows.select(inside), columns)


def names_of(
    batches: Sequence[ActionBatch], rows: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], str]:
    """Return the paths of file actions by their (version, ordinal)."""
    wanted = set(rows)
    found = {}
    for batch in batches:
        places = list(zip(batch.version.to_pylist(), batch.ordinal.to_pylist(), strict=True))
        for index, place in enumerate(places):
            for kind in ("add", "remove") if place in wanted else ():
                value = batch.columns[kind][index].as_py() if kind in batch.columns else None
                if value is not None:
                    found[place] = value["path"]
    return found


@dataclass(frozen=True, slots=True)
class _Rows:
    """The actions of one kind, none of them null, and their versions."""

    actions: pa.StructArray
    versions: np.ndarray

    @classmethod
    def of(cls, batch: ActionBatch, column: pa.StructArray) -> _Rows:
        versions = batch.version.to_numpy(zero_copy_only=False)
        if not column.null_count:
            return cls(column, versions)
        here = column.is_valid()
        return cls(column.filter(here), versions[here.to_numpy(zero_copy_only=False)])

    def select(self, keep: np.ndarray) -> _Rows:
        return _Rows(self.actions.filter(pa.array(keep)), self.versions[keep])

    def field(self, name: str) -> pa.Array | None:
        at = self.actions.type.get_field_index(name)
        return None if at < 0 else self.actions.field(at)

    def complaint(self, code: str, bad: Any, says: str) -> Complaint:
        """Return the complaint about the rows that a mask marks, by the path of the first."""
        at = np.flatnonzero(np.asarray(bad))
        paths = self.actions.field("path").take(pa.array(at[:3])).to_pylist()
        return Complaint(code, int(self.versions[at[0]]), f"{says}: {some(paths, len(at))}")


def _paths(rows: _Rows, kind: str, root: str) -> Iterator[Complaint]:
    paths = rows.actions.field("path")
    odd = pc.or_(pc.starts_with(paths, "/"), pc.starts_with(paths, "_"))
    for text in ("..", "%2e", "%2E", ":/"):
        odd = pc.or_(odd, pc.match_substring(paths, text))
    if not pc.any(odd).as_py():
        return
    at = np.flatnonzero(odd.to_numpy(zero_copy_only=False))
    places = [_place(path, root) for path in paths.take(pa.array(at)).to_pylist()]
    says = {"PATH_OUTSIDE": f"{kind} of what is not inside the table", "PATH_ABSOLUTE": f"{kind}"}
    for code, said in says.items():
        bad = np.zeros(len(paths), dtype=bool)
        bad[at] = [place == code for place in places]
        if bad.any():
            yield rows.complaint(code, bad, said)


def _place(path: str, root: str) -> str:
    own = canonical_path(path, root)
    plain = unquote(own)
    parts = plain.split("/")
    if ".." in parts or parts[0] in _LOGS or "\0" in plain:
        return "PATH_OUTSIDE"
    return "PATH_ABSOLUTE" if own.startswith("/") or _SCHEME.match(own) else ""


def _fields(rows: _Rows, log_format: LogFormat) -> Iterator[Complaint]:
    required = (*_REQUIRED, "dataChange") if log_format is DELTA else _REQUIRED
    for name in required:
        column = rows.field(name)
        if column is None or column.null_count:
            lacking = (
                np.ones(len(rows.actions), dtype=bool)
                if column is None
                else column.is_null().to_numpy(zero_copy_only=False)
            )
            yield rows.complaint("MISSING_FIELD", lacking, f"add without {name}")
    size = rows.field("size")
    if size is not None:
        negative = pc.fill_null(pc.less(size, 0), False).to_numpy(zero_copy_only=False)  # noqa: FBT003
        if negative.any():
            yield rows.complaint("BAD_SIZE", negative, "add with a size below 0")


def _bad_stats(rows: _Rows) -> Iterator[Complaint]:
    stats = rows.field("stats")
    if stats is None:
        return
    bad = np.array([text is not None and not _is_object(text) for text in stats.to_pylist()])
    if bad.any():
        yield rows.complaint("BAD_STATS", bad, "statistics that are no JSON object")


def _is_object(text: str) -> bool:
    try:
        return isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError:
        return False


def _values(rows: _Rows, columns: Sequence[PartitionColumn]) -> Iterator[Complaint]:
    maps = rows.field("partitionValues")
    assert maps is not None
    if maps.null_count:  # a finding of its own
        here = maps.is_valid()
        rows = rows.select(here.to_numpy(zero_copy_only=False))
        maps = rows.actions.field("partitionValues")
    if not len(maps):
        return
    offsets = maps.offsets.to_numpy()
    start, end = int(offsets[0]), int(offsets[-1])
    names = maps.keys.slice(start, end - start)
    values = maps.items.slice(start, end - start)
    wanted = [column.key for column in columns]
    known = pc.is_in(names, value_set=pa.array(wanted, pa.string()))
    bad = np.diff(offsets) != len(wanted)
    if not pc.all(known).as_py():
        owner = np.repeat(np.arange(len(maps)), np.diff(offsets))
        bad[owner[~known.to_numpy(zero_copy_only=False)]] = True
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        has = ", ".join(key for key, _ in maps[at].as_py()) or "none"
        says = f"values for {has}, not for {', '.join(wanted) or 'none'}"
        yield rows.complaint("PARTITION_VALUES", bad, says)
    for column in columns:
        if column.type_name.partition("(")[0] in _TEXTS:
            continue
        given = pc.unique(values.filter(pc.equal(names, column.key)))
        wrong = _unreadable(given, column)
        if wrong is not None:
            looked = pc.map_lookup(maps, pa.scalar(column.key), "first")
            mask = pc.fill_null(pc.equal(looked, wrong), False)  # noqa: FBT003
            says = f"{wrong!r} for {column.name}, which is {column.type_name}"
            yield rows.complaint("PARTITION_VALUE_TYPE", mask.to_numpy(zero_copy_only=False), says)


def _unreadable(values: pa.Array, column: PartitionColumn) -> str | None:
    try:
        cast = type_of(column).cast
    except ValueError:
        return None  # a type that txlog does not compare is not judged either
    plain = pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)
    try:
        cast(plain)
    except pa.ArrowInvalid:
        for value in plain.to_pylist():
            try:
                cast(pa.array([value], pa.string()))
            except pa.ArrowInvalid:
                return str(value)
    return None
