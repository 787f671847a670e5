"""What is said of how much a checkpoint holds, and is that much there?

JSON lines that were cut at a line end look whole. Only a number somebody wrote down tells: the
tags of a V2 checkpoint's own `checkpointMetadata`, a manifest that counts its parts, or the hint
that names this very checkpoint.
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

# In the manifest of JSON parts: how many actions each of them has. Other readers pass over it.
PART_ACTIONS: Final = "partActions"

# The tags that need the actions of sidecars counted.
_COUNTS: Final = ("sidecarNumActions", "numOfAddFiles")

# What a hint may call a JSON checkpoint; the oldest writers did not say.
_LAYOUTS: Final = frozenset({None, "json", "json-multipart"})


class Tally:
    """Counts what was read of one checkpoint, and holds it against what is said of it.

    Of its own files the kinds `wanted` are read; of JSON, whatever a line holds.
    """

    def __init__(self, checkpoint: Checkpoint, wanted: Collection[str]) -> None:
        self._checkpoint = checkpoint
        self._has_own_adds = "add" in wanted or checkpoint.files[0].is_json
        self._tags: Mapping[str, Any] = {}
        self._own: Counter[str] = Counter()
        self._aside: Counter[str] = Counter()
        self._sidecar_bytes: list[int | None] = []
        self._lines: list[tuple[str, int]] = []
        self._manifest: Mapping[str, Any] = {}

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

    def take_footer(self, adds: int, others: int) -> None:
        """Count what the footer of a sidecar tells."""
        self._aside.update(add=adds, remove=others)

    def take_lines(self, name: str, count: int) -> None:
        """Count lines of JSON, of whatever kind: there are actions that we do not know."""
        self._lines.append((name, count))

    def take_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Note what the manifest of JSON parts says of them."""
        self._manifest = manifest

    def asks_for_sidecars(self, directory: LogDirectory) -> bool:
        """Whether it is said anywhere how many actions the sidecars should hold."""
        if not self._sidecar_bytes:
            return False
        return any(tag in self._tags for tag in _COUNTS) or self._hint(directory) is not None

    def settle(self, directory: LogDirectory, of_sidecars: Collection[str]) -> None:
        """Raise CorruptCheckpointError where less, or more, was read than there should be.

        Of the sidecars only the kinds `of_sidecars` were read and are compared.
        """
        self._refuse_short_parts()
        self._refuse("sidecarSizeInBytes", "bytes of sidecars", self._sidecars_size())
        adds = self._aside["add"], self._aside["add"] + self._own["add"]
        if self._has_own_adds and ("add" in of_sidecars or not self._sidecar_bytes):
            self._refuse("numOfAddFiles", "add actions", *adds)
        is_whole = not self._sidecar_bytes or {"add", "remove"} <= set(of_sidecars)
        if is_whole:
            self._refuse("sidecarNumActions", "actions in sidecars", self._aside.total())
            self._refuse_cut(self._hint(directory))

    def _refuse(self, tag: str, what: str, *found: int | None) -> None:
        said = str(self._tags.get(tag) or "")
        if not said.isdecimal() or None in found or int(said) in found:
            return
        raise CorruptCheckpointError(
            self._checkpoint.name, f"it says that it has {said} {what}, and {found[-1]} are there"
        )

    def _refuse_short_parts(self) -> None:
        told = self._manifest.get(PART_ACTIONS)
        if not isinstance(told, list) or len(told) != len(self._lines):
            return
        for said, (name, found) in zip(told, self._lines, strict=True):
            if isinstance(said, int) and said > found:
                reason = f"{name} is cut short: the manifest says {said} actions, {found} are there"
                raise CorruptCheckpointError(self._checkpoint.name, reason)

    def _refuse_cut(self, hint: Hint | None) -> None:
        if hint is None:
            return
        actions = sum(count for _, count in self._lines) + self._aside.total()
        adds = self._aside["add"] + self._own["add"]
        for said, found, what in ((hint.size, actions, "actions"), (hint.adds, adds, "files")):
            if said is not None and said > found:
                reason = f"cut short: its hint says {said} {what}, and {found} are there"
                raise CorruptCheckpointError(self._checkpoint.name, reason)

    def _hint(self, directory: LogDirectory) -> Hint | None:
        """Return the hint, if it speaks of this JSON checkpoint and no other of its version."""
        hint = read_hint(directory)[0] if self._lines else None
        if hint is None or hint.version != self._checkpoint.version:
            return None
        if self._checkpoint.kind is FileKind.CHECKPOINT_V2:
            return hint if hint.v2_name == self._checkpoint.name else None
        is_ours = hint.checkpoint_id in {None, self._manifest.get("checkpointId")}
        return hint if is_ours and hint.v2_name is None and hint.layout in _LAYOUTS else None

    def _sidecars_size(self) -> int | None:
        known = [size for size in self._sidecar_bytes if size is not None]
        return sum(known) if len(known) == len(self._sidecar_bytes) else None


def _counts(batch: ActionBatch) -> dict[str, int]:
    return {kind: len(column) - column.null_count for kind, column in batch.columns.items()}


def _set(column: pa.StructArray | None) -> list[dict[str, Any]]:
    if column is None or column.null_count == len(column):
        return []
    found: list[dict[str, Any]] = column.filter(column.is_valid()).to_pylist()
    return found
