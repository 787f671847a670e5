"""What do people see of checkpoints, compactions and cleanups? A line for each, and the sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.report.terminal import human_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.upkeep.checkpoint.outcome import CheckpointResult
    from engine.upkeep.cleanup.verdicts import Cleaned
    from engine.upkeep.compaction.write import Compacted

_SKIPPED = {
    "alreadyExists": "is there already",
    "windowTooLarge": "is larger than the setting allows",
}


def checkpoint_lines(done: CheckpointResult) -> Iterator[str]:
    """Yield what was written and what of it is proven, or why nothing was."""
    if not done.created:
        planned = done.replaced_bytes and not done.files
        would = f"would write a {done.shape.value} checkpoint of version {done.version}\n"
        yield would if planned else f"nothing to do: {done.reason}\n"
        return
    counts = done.content.counts
    yield (
        f"checkpoint of version {done.version}: {done.shape.value}, {len(done.files)} file(s), "
        f"{done.size_bytes:,} bytes in {done.seconds['total']:.2f} s\n"
    )
    yield (
        f"proven: {counts.get('add', 0):,} live files, {counts.get('remove', 0):,} tombstones, "
        f"{done.content.size:,} actions\n"
    )
    if done.sidecars_kept:
        yield f"kept {done.sidecars_kept} sidecar(s), wrote {done.bytes_written:,} bytes anew\n"


def compaction_lines(done: Sequence[Compacted]) -> Iterator[str]:
    """Yield a line for each range."""
    if not done:
        yield "nothing to compact\n"
    for one in done:
        yield f"{one.tile}: {_became(one)}\n"


def cleanup_lines(done: Cleaned) -> Iterator[str]:
    """Yield, for a dry run, a line for each file; then what was done, or why nothing was."""
    for verdict in done.verdicts if done.dry_run else ():
        yield f"{'delete' if verdict.goes else 'keep':6}  {verdict.path}  ({verdict.rule})\n"
    if done.anchor is None:
        yield f"nothing to delete: {done.reason}\n"
        return
    going = done.going
    count = len(going) if done.dry_run else done.deleted
    size = sum(verdict.size for verdict in going) if done.dry_run else done.deleted_bytes
    verb = "would delete" if done.dry_run else "deleted"
    relied = f"versions from {done.anchor} on read as before"
    yield f"{verb} {count:,} files, {human_bytes(size)}; {relied}\n"
    if done.leftovers:
        yield f"removed what {len(done.leftovers)} unfinished writes left behind\n"


def _became(one: Compacted) -> str:
    if one.status == "skipped":
        return f"skipped: {_SKIPPED.get(one.skip_reason or '', one.skip_reason)}"
    if one.status == "sound":
        return "sound"
    if one.status == "planned":
        wrong = f", wrong: {one.found}" if one.found else ""
        return (
            f"would stand in for {one.commits:,} commits of {human_bytes(one.window_size)}{wrong}"
        )
    wrong = f"replaced ({one.found}); " if one.found else ""
    return (
        f"{wrong}{one.commits:,} commits of {human_bytes(one.window_size)} -> {one.actions:,} "
        f"actions, {human_bytes(one.file_size)}, in {one.duration_ms / 1000:.2f} s ({one.engine})"
    )
