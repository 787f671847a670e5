"""What is said of how much a checkpoint holds, and is that much there?

JSON lines that were cut at a line end look whole. Only a number somebody wrote down tells: the
tags of a V2 checkpoint's own `checkpointMetadata`, or the hint that names this very checkpoint.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from engine.errors import CorruptCheckpointError
from engine.log.listing import read_hint
from engine.log.paths import FileKind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import pyarrow as pa

    from engine.actions import ActionBatch
    from engine.log.hint import Hint
    from engine.log.listing import LogDirectory
    from engine.log.segment import Checkpoint

METADATA: Final = "checkpointMetadata"


class Tally:
    """Counts what was read of one checkpoint, and holds it against what is said of it."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._tags: Mapping[str, Any] = {}
        self._own: Counter[str] = Counter()
        self._aside: Counter[str] = Counter()
        self._sidecar_bytes: list[int | None] = []
        self._lines = 0

    def take(self, batch: ActionBatch) -> None:
        """Count rows of the checkpoint's own files."""
        self._own.update(_counts(batch))
        for metadata in _set(batch.columns.get(METADATA)):
            self._tags = dict(metadata.get("tags") or ())
        self._sidecar_bytes += [
            sidecar.get("sizeInBytes") for sidecar in _set(batch.columns.get("sidecar"))
        ]

    def take_sidecar(self, batch: ActionBatch) -> None:
        """Count rows of a sidecar."""
        self._aside.update(_counts(batch))

    def take_lines(self, count: int) -> None:
        """Count lines of JSON, of whatever kind: there are actions that we do not know."""
        self._lines += count

    def settle(self, directory: LogDirectory, of_sidecars: Collection[str]) -> None:
        """Raise CorruptCheckpointError where less, or more, was read than there should be.

        Of the sidecars only the kinds `of_sidecars` were read and are compared.
        """
        self._refuse("sidecarSizeInBytes", "bytes of sidecars", self._sidecars_size())
        adds = self._aside["add"], self._aside["add"] + self._own["add"]
        if "add" in of_sidecars or not self._sidecar_bytes:
            self._refuse("numOfAddFiles", "add actions", *adds)
        is_whole = not self._sidecar_bytes or {"add", "remove"} <= set(of_sidecars)
        if is_whole:
            self._refuse("sidecarNumActions", "actions in sidecars", self._aside.total())
        if is_whole and self._lines:
            self._refuse_cut(read_hint(directory)[0])

    def _refuse(self, tag: str, what: str, *found: int | None) -> None:
        said = str(self._tags.get(tag) or "")
        if not said.isdecimal() or None in found or int(said) in found:
            return
        raise CorruptCheckpointError(
            self._checkpoint.name, f"it says that it has {said} {what}, and {found[-1]} are there"
        )

    def _refuse_cut(self, hint: Hint | None) -> None:
        if hint is None or not _names(hint, self._checkpoint):
            return
        actions, adds = self._lines + self._aside.total(), self._aside["add"] + self._own["add"]
        for said, found, what in ((hint.size, actions, "actions"), (hint.adds, adds, "files")):
            if said is not None and said > found:
                reason = f"cut short: its hint says {said} {what}, and {found} are there"
                raise CorruptCheckpointError(self._checkpoint.name, reason)

    def _sidecars_size(self) -> int | None:
        known = [size for size in self._sidecar_bytes if size is not None]
        return sum(known) if len(known) == len(self._sidecar_bytes) else None


def _names(hint: Hint, checkpoint: Checkpoint) -> bool:
    """Whether a hint speaks of this JSON checkpoint and not of another one of the same version."""
    if hint.version != checkpoint.version:
        return False
    if checkpoint.kind is FileKind.CHECKPOINT_V2:
        return hint.v2_name == checkpoint.name
    return hint.v2_name is None and hint.layout in {None, "json"}


def _counts(batch: ActionBatch) -> dict[str, int]:
    return {kind: len(column) - column.null_count for kind, column in batch.columns.items()}


def _set(column: pa.StructArray | None) -> list[dict[str, Any]]:
    if column is None or column.null_count == len(column):
        return []
    found: list[dict[str, Any]] = column.filter(column.is_valid()).to_pylist()
    return found
