"""What does a V2 manifest say of its sidecars? Names, proof, and what they add up to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from engine.replay.content import Content
from engine.upkeep.checkpoint.laying import proven_lines
from engine.upkeep.checkpoint.rows import content_of_rows, few_rows, rows_of, to_lines
from engine.upkeep.checkpoint.staged import StagedFile, parquet_rows, proven

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.upkeep.checkpoint.laying import Laid
    from engine.upkeep.checkpoint.shape import CheckpointPlan
    from engine.upkeep.publish import Staging

CONTENT_TAG: Final = "txlog.content"
ROWS_TAG: Final = "txlog.rows"
NEWEST_TAG: Final = "txlog.newestDeletion"


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A sidecar as a manifest names it. `content` is known of those that txlog wrote."""

    path: str
    size_bytes: int
    modification_time: int
    tags: Mapping[str, str]

    def content(self) -> Content | None:
        """Return what it says, if it was written down."""
        text = self.tags.get(CONTENT_TAG)
        if text is None:
            return None
        found = orjson.loads(text)
        return Content(
            {kind: count for kind, (count, _) in found.items()},
            {kind: int(total, 16) for kind, (_, total) in found.items()},
        )

    def to_action(self) -> dict[str, Any]:
        """Return it in wire names."""
        return {
            "path": self.path,
            "sizeInBytes": self.size_bytes,
            "modificationTime": self.modification_time,
            "tags": dict(self.tags),
        }


def stage_manifest(
    laid: Laid, named: Sequence[Sidecar], staging: Staging, plan: CheckpointPlan, suffix: str
) -> StagedFile:
    """Stage and prove the manifest that names these sidecars.

    Raises CheckpointValidationError where it, read back, is not what was written.
    """
    contents = [content for content in map(Sidecar.content, named) if content is not None]
    about = {
        "sidecarNumActions": str(sum(content.size for content in contents)),
        "sidecarSizeInBytes": str(sum(sidecar.size_bytes for sidecar in named)),
        "numOfAddFiles": str(sum(content.counts.get("add", 0) for content in contents)),
    }
    actions: list[tuple[str, Mapping[str, Any]]] = [
        ("checkpointMetadata", {"version": plan.version, "tags": about}),
        *(("sidecar", sidecar.to_action()) for sidecar in named),
    ]
    batches = [rows_of(actions, plan), few_rows(laid.few, plan)]
    name = f"manifest.{suffix}"
    wanted = sum(map(content_of_rows, batches), Content())
    with staging.directory.storage.open_output(staging.path(name)) as sink:
        if suffix == "json":
            lines = [line for batch in batches for line in to_lines(batch).to_pylist()]
            sink.write("".join(f"{line}\n" for line in lines).encode())
        else:
            with parquet_rows(sink, plan.row_schema, plan.codec) as writer:
                for batch in batches:
                    writer.write(batch)
    prove = proven_lines if suffix == "json" else proven
    return prove(staging, name, wanted, plan)


def tags_of(file: StagedFile, plan: CheckpointPlan) -> dict[str, str]:
    """Return what a manifest says of a sidecar that this plan wrote."""
    content = file.content
    said = {kind: (count, f"{content.sums[kind]:x}") for kind, count in content.counts.items()}
    newest = {NEWEST_TAG: str(file.newest_deletion)} if file.newest_deletion is not None else {}
    return {CONTENT_TAG: orjson.dumps(said).decode(), ROWS_TAG: plan.rows_key, **newest}
