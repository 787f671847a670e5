"""Which names do the files of a checkpoint get, and in which order? The one that counts comes last.

Until the last name is given no reader sees a checkpoint, and none ever sees half of one. The hint
is moved when all is there.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson
import pyarrow as pa

from engine.errors import CheckpointValidationError
from engine.log import paths
from engine.log.listing import list_log
from engine.log.segment import complete_checkpoints
from engine.replay.claims import PART_ACTIONS
from engine.upkeep.checkpoint.found import SETTLED, write_metadata
from engine.upkeep.checkpoint.manifest import Sidecar, stage_manifest, tags_of
from engine.upkeep.checkpoint.shape import CheckpointPlan, Shape
from engine.upkeep.checkpoint.staged import StagedFile, read_back

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from engine.log.listing import LogDirectory
    from engine.upkeep.checkpoint.laying import Laid
    from engine.upkeep.publish import Staging


class TakenError(Exception):
    """Another file has the name of one of ours, and does not hold what ours does."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


@dataclass(frozen=True, slots=True)
class Placed:
    """A checkpoint that is part of the log: its files, their bytes, and the hint to it.

    Where it is not new, another writer was first with the last of these names: the rest tells of
    what was withdrawn.
    """

    files: tuple[str, ...]
    size_bytes: int
    hint: dict[str, Any]
    is_new: bool = True


def place(
    laid: Laid,
    staging: Staging,
    plan: CheckpointPlan,
    kept: Sequence[Sidecar] = (),
    known: Collection[str] = (),
) -> Placed:
    """Give the files of a checkpoint their names; `kept` are sidecars that are there already.

    `known` are checkpoints of this version that were there before, by their last file: what ours
    stands in for. Of a V2 checkpoint, any other that is there by now was first.
    Raises TakenError where a name is another's. What this run placed before that stays, and is no
    checkpoint without the rest.
    """
    if laid.shape.is_v2:
        return _place_v2(laid, staging, plan, kept, known)
    return _PLACES[laid.shape](laid, staging, plan)


def _place_classic(laid: Laid, staging: Staging, plan: CheckpointPlan) -> Placed:
    (file,) = laid.files
    final = _inside(paths.checkpoint_name(plan.version), plan)
    is_new = staging.publish(file.name, final)
    if is_new:
        _tell(laid, staging, plan)
    return Placed((final,), file.size_bytes, _hint(laid, plan, file.size_bytes), is_new)


def _place_parts(laid: Laid, staging: Staging, plan: CheckpointPlan) -> Placed:
    count = len(laid.files)
    finals = [
        _inside(paths.checkpoint_part_name(plan.version, number, count), plan)
        for number in range(1, count + 1)
    ]
    pairs = list(zip(laid.files, finals, strict=True))
    storage = staging.directory.storage
    for file, final in pairs:
        if storage.exists(staging.directory.file(final)):
            _refuse_other_part(file, final, staging)
    staging.intend(finals, unique=False)
    placed: list[str] = []
    for file, final in pairs:
        if staging.publish(file.name, final):
            placed.append(final)
            continue
        try:
            _refuse_other_part(file, final, staging)
        except TakenError:
            staging.withdraw(placed)  # beside another's parts ours would make a wrong whole
            raise
    _tell(laid, staging, plan, parts=count)
    size = sum(file.size_bytes for file in laid.files)
    return Placed(tuple(finals), size, _hint(laid, plan, size, parts=count), bool(placed))


def _refuse_other_part(file: StagedFile, final: str, staging: Staging) -> None:
    """Refuse a part that does not hold the same live files: ours and it make no checkpoint."""
    directory = staging.directory
    try:
        found = read_back(directory, directory.file(final))
    except (pa.ArrowException, OSError, ValueError):
        raise TakenError(final) from None
    # Tombstones and txns may have run out between two writers; nothing else may differ.
    if file.content.of(SETTLED) != found.of(SETTLED):
        raise TakenError(final)


def _place_line(laid: Laid, staging: Staging, plan: CheckpointPlan) -> Placed:
    (file,) = laid.files
    final = paths.checkpoint_json_name(plan.version)
    is_new = staging.publish(file.name, final)
    hint = _hint(laid, plan, file.size_bytes, format="json")
    return Placed((final,), file.size_bytes, hint, is_new)


def _place_lines(laid: Laid, staging: Staging, plan: CheckpointPlan) -> Placed:
    unique = uuid.uuid4().hex[:12]
    final = paths.checkpoint_json_name(plan.version)
    names = [
        paths.checkpoint_json_part_name(plan.version, unique, number)
        for number in range(1, len(laid.files) + 1)
    ]
    manifest = {
        "version": plan.version,
        "checkpointId": unique,
        "parts": names,
        PART_ACTIONS: [file.rows for file in laid.files],
        "createdTime": plan.now_ms,
        "format": "json",
    }
    data = orjson.dumps(manifest)
    _stage_bytes(data, "manifest.json", staging, plan)
    staging.intend(names, unique=True)
    for file, name in zip(laid.files, names, strict=True):
        staging.publish(file.name, name)
    is_new = staging.publish("manifest.json", final)
    if not is_new:
        staging.withdraw(names)
    size = sum(file.size_bytes for file in laid.files) + len(data)
    extra = {"parts": len(names), "checkpointId": unique, "format": "json-multipart"}
    return Placed((*names, final), size, _hint(laid, plan, size, **extra), is_new)


def _stage_bytes(data: bytes, name: str, staging: Staging, plan: CheckpointPlan) -> None:
    """Stage a small file; raise CheckpointValidationError where other bytes are read back."""
    storage = staging.directory.storage
    with storage.open_output(staging.path(name)) as sink:
        sink.write(data)
    if storage.read(staging.path(name)) != data:
        reason = f"{name}: not the bytes that were written"
        raise CheckpointValidationError(staging.directory.url, plan.version, reason)


def _place_v2(
    laid: Laid,
    staging: Staging,
    plan: CheckpointPlan,
    kept: Sequence[Sidecar],
    known: Collection[str],
) -> Placed:
    unique = str(uuid.uuid4())
    if plan.outranks is not None and unique < plan.outranks:
        unique = f"{plan.outranks}0"
    count = len(laid.files)
    added = [
        Sidecar(
            f"{plan.version:020d}.checkpoint.{at:010d}.{count:010d}.{uuid.uuid4()}.parquet",
            file.size_bytes,
            plan.now_ms,
            tags_of(file, plan),
        )
        for at, file in enumerate(laid.files, 1)
    ]
    suffix = "json" if plan.shape is Shape.V2_JSON else "parquet"
    final = paths.checkpoint_v2_name(plan.version, unique, suffix)
    named = [*added, *kept]
    manifest = stage_manifest(laid, named, staging, plan, suffix)
    finals = [f"{paths.SIDECARS}/{sidecar.path}" for sidecar in added]
    staging.intend(finals, unique=True)
    for file, name in zip(laid.files, finals, strict=True):
        staging.publish(file.name, name)
    # A manifest's name is nobody else's: only a look tells whether another writer was first.
    first = _newcomer(staging.directory, plan.version, known)
    if first is not None:
        staging.withdraw(finals)
        return Placed((first,), 0, {}, is_new=False)
    staging.publish(manifest.name, final)
    size = manifest.size_bytes + sum(sidecar.size_bytes for sidecar in named)
    info = {
        "path": final,
        "sizeInBytes": manifest.size_bytes,
        "modificationTime": plan.now_ms,
    }
    rows = manifest.rows + sum(content.size for content in map(Sidecar.content, named) if content)
    adds = sum(c.counts.get("add", 0) for c in map(Sidecar.content, named) if c)
    hint = {
        "version": plan.version,
        "size": rows,
        "sizeInBytes": size,
        "numOfAddFiles": adds,
        "v2Checkpoint": info,
    }
    return Placed((*finals, final), size, hint)


def _newcomer(directory: LogDirectory, version: int, known: Collection[str]) -> str | None:
    """Return the last file of a checkpoint of this version that is not `known`."""
    at_version = (
        found
        for found in complete_checkpoints(list_log(directory, version).refs)
        if found.version == version and found.files[-1].path not in known
    )
    newest = max(at_version, key=lambda found: found.rank, default=None)
    return None if newest is None else newest.files[-1].path


def _tell(laid: Laid, staging: Staging, plan: CheckpointPlan, parts: int | None = None) -> None:
    """Write the metadata of a Parquet checkpoint of `_transaction_log` beside it."""
    adds = laid.content.counts.get("add", 0)
    write_metadata(staging.directory, plan.version, adds, parts, plan.now_ms)


def _hint(laid: Laid, plan: CheckpointPlan, size_bytes: int, **more: Any) -> dict[str, Any]:
    content = laid.content
    adds = content.counts.get("add", 0)
    hint = {"version": plan.version, "size": content.size, "sizeInBytes": size_bytes}
    if plan.log_format.checkpoint_directory is None:
        return {**hint, "numOfAddFiles": adds, **more}
    return {**hint, "numFiles": adds, "createdTime": plan.now_ms, "format": "parquet", **more}


def _inside(name: str, plan: CheckpointPlan) -> str:
    below = plan.log_format.checkpoint_directory
    return f"{below}/{name}" if below else name


_PLACES: Final = {
    Shape.CLASSIC: _place_classic,
    Shape.MULTI_PART: _place_parts,
    Shape.JSON: _place_line,
    Shape.JSON_PARTS: _place_lines,
}
