"""What is there to say of a checkpoint that is there already? Its hint, its metadata, its content.

A run that died after the last name, or lost a race, leaves both to whoever looks next.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson

from engine.errors import AlreadyExistsError, CheckpointCorruptionError
from engine.log import paths
from engine.log.listing import list_log
from engine.log.paths import FileKind
from engine.log.segment import complete_checkpoints
from engine.replay.checkpoints import json_parts, read_checkpoint, sidecars
from engine.replay.content import Content
from engine.replay.state import Singles
from engine.upkeep.checkpoint.rows import Few, content_of_rows, few_rows, to_rows
from engine.upkeep.checkpoint.shape import CheckpointPlan, Shape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.actions import ActionBatch
    from engine.log.listing import LogDirectory
    from engine.log.paths import TransactionFileRef
    from engine.log.segment import Checkpoint

# What two writers of one version must agree on: of the others, some may have run out in between.
SETTLED: Final = frozenset({"add", "metaData", "protocol"})

_SHAPES: Final = {
    FileKind.CHECKPOINT: Shape.CLASSIC,
    FileKind.CHECKPOINT_PART: Shape.MULTI_PART,
    FileKind.CHECKPOINT_V2: Shape.V2_PARQUET,
    FileKind.CHECKPOINT_JSON: Shape.JSON,
}


@dataclass(slots=True)
class Told:
    """What a checkpoint told when it was read whole: its actions by kind, and its other files."""

    checkpoint: Checkpoint
    counts: Counter[str] = field(default_factory=Counter)
    others: dict[str, int] = field(default_factory=dict)

    def take(self, batch: ActionBatch) -> None:
        """Count what a batch holds."""
        for kind, column in batch.columns.items():
            self.counts[kind] += len(column) - column.null_count
        named = sidecars(batch, self.checkpoint.version)
        self.others.update((ref.path, ref.size) for ref in named)

    @property
    def shape(self) -> Shape:
        """The shape it has."""
        kind = self.checkpoint.kind
        if kind is FileKind.CHECKPOINT_V2 and self.checkpoint.name.endswith(".json"):
            return Shape.V2_JSON
        if kind is FileKind.CHECKPOINT_JSON and self.others:
            return Shape.JSON_PARTS
        return _SHAPES[kind]

    @property
    def files(self) -> tuple[str, ...]:
        """Its own files; for JSON in parts, the parts before their manifest."""
        own = tuple(ref.path for ref in self.checkpoint.files)
        return (*self.others, *own) if self.shape is Shape.JSON_PARTS else own

    @property
    def size_bytes(self) -> int:
        """The bytes of all its files, sidecars included."""
        return sum(ref.size for ref in self.checkpoint.files) + sum(self.others.values())


def read_whole(
    directory: LogDirectory, checkpoint: Checkpoint, refs: Iterable[TransactionFileRef]
) -> Told:
    """Read a checkpoint to its end. Raises CorruptCheckpointError where that cannot be done."""
    told = Told(checkpoint)
    for batch in read_checkpoint(directory, checkpoint):
        told.take(batch)
    if checkpoint.kind is FileKind.CHECKPOINT_JSON:
        sizes = {ref.path: ref.size for ref in refs}
        parts = json_parts(directory, checkpoint.files[0])
        told.others.update((part, sizes.get(part, 0)) for part in parts)
    return told


def winner(
    directory: LogDirectory, name: str, plan: CheckpointPlan, few: Few, wanted: Content
) -> Told:
    """Return the checkpoint of a writer who was first, if it says what ours would have said.

    Raises CheckpointCorruptionError where it is not whole, or its live files, protocol or
    metaData are others.
    """
    refs = list_log(directory, plan.version).refs
    at_name = (c for c in complete_checkpoints(refs) if c.files[-1].path == name)
    checkpoint = next(at_name, None)
    if checkpoint is None:
        raise CheckpointCorruptionError(directory.file(name), "it was there, and is not whole now")
    said, singles = Content(), Singles()
    for batch in read_checkpoint(directory, checkpoint, wanted=tuple(SETTLED)):
        said += _adds(batch, plan)
        singles.take(batch)
    # Where a format has a protocol by default, a checkpoint need not name it.
    default = few.protocol if directory.log_format.default_protocol else None
    protocol, metadata = singles.winner("protocol") or default, singles.winner("metaData")
    if protocol is not None and metadata is not None:
        said += content_of_rows(few_rows(Few(protocol, metadata), plan)).of(SETTLED)
    if differences := wanted.of(SETTLED).differences(said):
        raise CheckpointCorruptionError(directory.file(name), "; ".join(differences))
    return read_whole(directory, checkpoint, refs)


def hint_to(told: Told, directory: LogDirectory, now_ms: int) -> dict[str, Any]:
    """Return the hint to a checkpoint that was read whole."""
    checkpoint, adds = told.checkpoint, told.counts["add"]
    hint: dict[str, Any] = {
        "version": checkpoint.version,
        "size": told.counts.total(),
        "sizeInBytes": told.size_bytes,
    }
    if checkpoint.kind is FileKind.CHECKPOINT_PART:
        hint["parts"] = len(checkpoint.files)
    if directory.log_format.checkpoint_directory is None:
        if told.shape.is_v2:
            manifest = checkpoint.files[0]
            hint["v2Checkpoint"] = {
                "path": manifest.path,
                "sizeInBytes": manifest.size,
                "modificationTime": manifest.modification_time,
            }
        return {**hint, "numOfAddFiles": adds}
    hint |= {"numFiles": adds, "createdTime": now_ms, "format": "parquet"}
    if told.shape is Shape.JSON:
        hint["format"] = "json"
    elif told.shape is Shape.JSON_PARTS:
        unique = next(iter(told.others)).split(".")[2]
        parts = len(told.others)
        hint |= {"format": "json-multipart", "parts": parts, "checkpointId": unique}
    return hint


def write_metadata(
    directory: LogDirectory, version: int, adds: int, parts: int | None, now_ms: int
) -> None:
    """Write the metadata beside a Parquet checkpoint of `_transaction_log`, if it has none."""
    below = directory.log_format.checkpoint_directory
    if below is None:
        return
    more = {} if parts is None else {"parts": parts}
    about = {"version": version, "size": adds, **more, "createdTime": now_ms}
    path = directory.file(f"{below}/{paths.checkpoint_json_name(version)}")
    try:
        directory.storage.write_new(path, orjson.dumps(about))
    except AlreadyExistsError:
        return


def complete_metadata(told: Told, directory: LogDirectory, now_ms: int) -> None:
    """Write the metadata that a checkpoint which is there should have beside it."""
    checkpoint = told.checkpoint
    if checkpoint.kind in {FileKind.CHECKPOINT, FileKind.CHECKPOINT_PART}:
        is_split = checkpoint.kind is FileKind.CHECKPOINT_PART
        parts = len(checkpoint.files) if is_split else None
        write_metadata(directory, checkpoint.version, told.counts["add"], parts, now_ms)


def _adds(batch: ActionBatch, plan: CheckpointPlan) -> Content:
    column = batch.columns.get("add")
    if column is None or column.null_count == len(column):
        return Content()
    return content_of_rows(to_rows("add", column.filter(column.is_valid()), plan))
