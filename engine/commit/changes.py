"""What may be done to a table? Each change knows what it relies on and how to build itself.

`build` is called at every attempt with the version it is to follow: what a change removes, counts
or raises is read anew each time, so that nothing of another writer's is left half-done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from engine.actions import STRING_MAP
from engine.commit.conflicts import Reads, file_key
from engine.commit.schema import refuse_breaking, refuse_missing, schema_text
from engine.commit.serialize import Action, Body
from engine.commit.upgrades import raised
from engine.commit.values import check_values
from engine.commit.writable import used_features
from engine.errors import (
    ConcurrentDeleteError,
    InvalidCommitError,
    SchemaChangeError,
    UnsupportedWriterError,
)
from engine.replay.keys import canonical_path, may_be_absolute

if TYPE_CHECKING:
    from engine.commit.known import View
    from engine.formats import LogFormat
    from engine.snapshot import Snapshot


@dataclass(frozen=True)
class Change:
    """One change of a table.

    `given` is what the caller named and others may contradict. `txn` makes it happen once.
    """

    operation: str
    build: Callable[[View], Body]
    given: Sequence[Action] = ()
    reads: Reads = field(default_factory=Reads)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    txn: tuple[str, int] | None = None
    needs_files: bool = False
    schema_change: bool = False
    read_version: int | None = None

    @property
    def is_blind(self) -> bool:
        """Whether it adds, and relies on nothing it read."""
        kinds = {kind for action in self.given for kind in action}
        reads_nothing = self.reads == Reads() and not self.needs_files
        return reads_nothing and kinds <= {"add", "txn"}


def wrapped(kind: str, values: Iterable[Any], **defaults: Any) -> list[Mapping[str, Any]]:
    """Return actions of one kind from bare values or from whole actions, with defaults.

    What is no object at all is left for `given.taken` to refuse.
    """
    found: list[Mapping[str, Any]] = []
    for value in values:
        is_whole = isinstance(value, Mapping) and set(value) == {kind}
        inner = value[kind] if is_whole else value
        found.append({kind: {**defaults, **inner} if isinstance(inner, Mapping) else inner})
    return found


def of_actions(actions: Sequence[Action], **options: Any) -> Change:
    """Return the change that commits these actions as they are."""
    head = any(kind not in {"add", "txn", "mergeskip"} for action in actions for kind in action)
    reads = options.pop("reads", None) or Reads()
    reads = replace(reads, head=reads.head or head)
    return Change(build=lambda _: Body(actions), given=actions, reads=reads, **options)


def removing(paths: Sequence[Any], table: str, **options: Any) -> Change:
    """Return the change that removes live files by their paths."""
    if isinstance(paths, str):
        raise TypeError("give a list of paths")
    if odd := [path for path in paths if not isinstance(path, str)]:
        raise InvalidCommitError(table, f"a path is text, not {odd[0]!r}")
    wanted = {canonical_path(path, table): path for path in paths}
    first_version: list[int] = []

    def build(view: View) -> Body:
        first_version.append(view.version)
        snapshot = _files_of(view)
        hits = _hits(snapshot.files(), set(wanted), table)
        found = set(hits.values())
        for missing in (path for key, path in wanted.items() if key not in found):
            if len(first_version) > 1:
                raise ConcurrentDeleteError(
                    table, view.version, f"or one before it, removed {missing}"
                )
            raise InvalidCommitError(
                table, f"{missing} is not a live file of version {view.version}"
            )
        return Body(removed=snapshot.files().take(pa.array(list(hits), pa.int64())))

    return Change("DELETE", build, reads=Reads(head=True), needs_files=True, **options)


def overwriting(adds: Sequence[Action], table: str, where: str | None, **options: Any) -> Change:
    """Return the change that puts `adds` in the place of all live files, or of those `where` keeps.

    A file that is live and is added again is replaced by its add: a key has one action a commit.
    """

    def build(view: View) -> Body:
        snapshot = _files_of(view)
        files = snapshot.files(where)
        if where is not None:
            _refuse_outside(adds, view, where, table)
        again = {file_key(action["add"], table) for action in adds}
        hits = _hits(files, {path for path, _ in again}, table)
        ids = files["dvId"].take(pa.array(list(hits), pa.int64())).to_pylist()
        keep = np.ones(files.num_rows, dtype=bool)
        for (row, path), unique in zip(hits.items(), ids, strict=True):
            keep[row] = (path, unique) not in again
        files = files if keep.all() else files.filter(pa.array(keep))
        return Body(adds, files)

    return Change("WRITE", build, given=adds, reads=Reads(head=True), needs_files=True, **options)


def updating_metadata(
    table: str,
    *,
    schema: Any = None,
    configuration: Mapping[str, str | None] | None = None,
    name: str | None = None,
    description: str | None = None,
) -> Change:
    """Return the change of a table's metadata. A property set to None is dropped."""
    try:
        text = None if schema is None else schema_text(schema)
    except ValueError as error:
        raise SchemaChangeError(table, str(error)) from None

    def build(view: View) -> Body:
        metadata = dict(view.metadata)
        before = str(metadata.get("schemaString"))
        if text is not None and orjson.loads(text) != orjson.loads(before):
            try:
                refuse_breaking(before, text)
                refuse_missing(metadata.get("partitionColumns") or (), text)
            except ValueError as error:
                raise SchemaChangeError(table, str(error)) from None
            metadata["schemaString"] = text
        merged = {**view.configuration, **(configuration or {})}
        metadata["configuration"] = {k: v for k, v in merged.items() if v is not None}
        metadata.update({k: v for k, v in (("name", name), ("description", description)) if v})
        for feature, where in used_features(metadata):
            needs = f"would use the writer feature {feature} ({where}), which txlog does not write"
            raise UnsupportedWriterError(table, needs)
        same = {**view.metadata, "configuration": view.configuration}
        return Body() if metadata == same else Body([{"metaData": metadata}])

    parameters = {"properties": dict(configuration or {}), "schemaChanged": text is not None}
    operation = "SET TBLPROPERTIES" if text is None else "CHANGE COLUMNS"
    return Change(
        operation, build, reads=Reads(head=True), parameters=parameters, schema_change=True
    )


def upgrading(
    log_format: LogFormat,
    reader: int,
    writer: int,
    reader_features: Sequence[str],
    writer_features: Sequence[str],
) -> Change:
    """Return the change that raises the protocol; what the table has already, it keeps."""

    def build(view: View) -> Body:
        new = raised(view.protocol, reader, writer, log_format, reader_features, writer_features)
        same = {key: value for key, value in view.protocol.items() if value is not None}
        return Body() if new == same else Body([{"protocol": new}])

    parameters = {"minReaderVersion": reader, "minWriterVersion": writer}
    return Change("UPGRADE PROTOCOL", build, parameters=parameters)


def _files_of(view: View) -> Snapshot:
    assert view.snapshot is not None, "the change said that it needs files"
    return view.snapshot


def _hits(files: pa.Table, wanted: set[str], table: str) -> dict[int, str]:
    """Return the rows whose canonical path is wanted, and that path, however it is spelled."""
    paths = files["path"]
    same = pc.is_in(paths, value_set=pa.array(wanted, pa.string()))
    maybe = pc.or_(same, may_be_absolute(paths, table)).combine_chunks()
    rows = np.flatnonzero(maybe.to_numpy(zero_copy_only=False))
    spelled = paths.take(pa.array(rows)).to_pylist()
    canonical = (canonical_path(path, table) for path in spelled)
    return {int(row): path for row, path in zip(rows, canonical, strict=True) if path in wanted}


def _refuse_outside(adds: Sequence[Action], view: View, where: str, table: str) -> None:
    if not adds:
        return
    try:
        check_values(adds, view.metadata)
    except ValueError as error:
        raise InvalidCommitError(table, str(error)) from None
    values = pa.array([action["add"]["partitionValues"] for action in adds], STRING_MAP)
    mask = _files_of(view).predicate(where).mask(values).to_pylist()
    outside = [action["add"]["path"] for action, ok in zip(adds, mask, strict=True) if not ok]
    if outside:
        raise InvalidCommitError(table, f"{outside[0]} is not in what is replaced, {where!r}")
