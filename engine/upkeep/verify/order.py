"""What of a log is read, in which order? Version by version: its commit, then what is derived."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from engine.log.paths import FileKind
from engine.replay.parse import chunks
from engine.upkeep.verify.commits import take_commits
from engine.upkeep.verify.taking import take_checkpoint, take_checksum, take_compaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from engine.log.paths import TransactionFileRef
    from engine.upkeep.verify.walk import Walk


@dataclass(frozen=True)
class Step:
    """One thing to read, and what to do with it then, in the order of versions."""

    read: Callable[[], Any]
    take: Callable[[Any], None]
    size: int = 0


def steps(walk: Walk) -> Iterator[Step]:
    """Yield what is to be read, in the order of versions, and what is then done with it."""
    files, reader = walk.files, walk.reader
    commits = files.commits
    derived: dict[int, list[Step]] = defaultdict(list)
    for checkpoint in files.checkpoints:
        derived[checkpoint.version].append(
            Step(
                partial(reader.checkpoint, checkpoint),
                partial(take_checkpoint, walk, checkpoint),
                sum(ref.size for ref in checkpoint.files),
            )
        )
    for ref in files.of(FileKind.COMPACTION):
        take = partial(take_compaction, walk, ref)
        derived[ref.version].append(Step(partial(reader.compaction, ref), take, ref.size))
    checksums = {ref.version: ref for ref in files.of(FileKind.CHECKSUM)}
    for version, ref in checksums.items():
        if version not in commits:
            look = partial(take_checksum, walk, ref)
            derived[version].append(Step(partial(reader.checksum, ref), look, ref.size))
    run: list[TransactionFileRef] = []
    for version in sorted({*commits, *derived}):
        if run and version != run[-1].version + 1:
            yield from _commit_steps(walk, run, checksums)
            run = []
        if version in commits:
            run.append(commits[version])
        if version in derived:
            yield from _commit_steps(walk, run, checksums)
            run = []
            yield from derived[version]
    yield from _commit_steps(walk, run, checksums)


def _commit_steps(
    walk: Walk, run: list[TransactionFileRef], checksums: Mapping[int, TransactionFileRef]
) -> Iterator[Step]:
    for refs in chunks(run):
        beside = [checksums[ref.version] for ref in refs if ref.version in checksums]
        read = partial(walk.reader.commits, refs, beside)
        yield Step(read, partial(take_commits, walk), sum(ref.size for ref in refs))
