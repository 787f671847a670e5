"""What came of a checkpoint? Its size, its proof, its times, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.replay.content import Content

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.log.segment import Fallback
    from engine.upkeep.checkpoint.shape import Shape


@dataclass(frozen=True, slots=True)
class CheckpointResult:
    """What was done, or why nothing was. Times are in seconds, sizes in bytes.

    `replaced_bytes` is what was read to make the checkpoint, and what the next reader is spared.
    `content` is what was proven of it.
    """

    table: str
    version: int
    shape: Shape
    created: bool
    reason: str = ""
    files: tuple[str, ...] = ()
    size_bytes: int = 0
    replaced_bytes: int = 0
    content: Content = field(default_factory=Content)
    sidecars_kept: int = 0
    bytes_written: int = 0
    fallbacks: tuple[Fallback, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    engine: str = "local"

    def metrics(self) -> dict[str, Any]:
        """Return what `txlog checkpoint --json` prints."""
        counts = self.content.counts
        ratio = self.replaced_bytes / self.size_bytes if self.size_bytes else None
        return {
            "table": self.table,
            "version": self.version,
            "shape": self.shape.value,
            "created": self.created,
            "reason": self.reason,
            "files": list(self.files),
            "sizeInBytes": self.size_bytes,
            "bytesWritten": self.bytes_written,
            "bytesReplaced": self.replaced_bytes,
            "compressionRatio": ratio and round(ratio, 3),
            "numActions": self.content.size,
            "numFiles": counts.get("add", 0),
            "numTombstones": counts.get("remove", 0),
            "sidecarsKept": self.sidecars_kept,
            "proof": {kind: [counts[kind], f"{self.content.sums[kind]:016x}"] for kind in counts},
            "fallbacks": [str(fallback) for fallback in self.fallbacks],
            "engine": self.engine,
            "seconds": dict(self.seconds),
        }
