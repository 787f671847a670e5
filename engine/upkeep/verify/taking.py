"""What does a walk do when it comes to a checkpoint, a compaction or a checksum?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.formats import DELTA
from engine.log.paths import FileKind
from engine.upkeep.verify.derived import checkpoint_singles, compaction_singles, head_problems
from engine.upkeep.verify.reading import sidecar_size
from engine.upkeep.verify.table import declares, metadata_complaints, protocol_complaints

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.log.paths import TransactionFileRef
    from engine.log.segment import Checkpoint
    from engine.upkeep.verify.reading import Derived
    from engine.upkeep.verify.walk import Walk


def take_checkpoint(walk: Walk, checkpoint: Checkpoint, read: Derived) -> None:
    """Judge a checkpoint by itself, and hold it against its version where that is known."""
    walk.counts["checkpoints"] += 1
    name, version = checkpoint.name, checkpoint.version
    if read.damage:
        code = read.damage_code or "UNREADABLE_CHECKPOINT"
        walk.found.add(code, read.damage, path=read.damaged, version=version)
        walk.unusable[name] = read.damage
        return
    _check_sidecars(walk, checkpoint, read)
    is_v2 = checkpoint.kind is FileKind.CHECKPOINT_V2
    if is_v2 and not read.counts["checkpointMetadata"]:
        walk.wrong("CHECKPOINT_V2_METADATA", "it has no checkpointMetadata", name, version)
    elif is_v2 and read.said_version not in {None, version}:
        message = f"its checkpointMetadata is of version {read.said_version}"
        walk.wrong("CHECKPOINT_V2_METADATA", message, name, version)
    problems = list(head_problems(read.counts, walk.directory.log_format))
    for code, message in problems:
        walk.wrong(code, message, name, version)
    walk.compare_alone(checkpoint, read)
    _remember(walk, read)
    protocol = read.singles.winner("protocol") or walk.singles.winner("protocol")
    if is_v2 and not declares(protocol, "v2Checkpoint"):
        message = "a V2 checkpoint, and no feature v2Checkpoint"
        walk.found.add("FEATURE_NOT_DECLARED", message, path=name, version=version)
    if walk.is_known and walk.version == version:
        cutoff = walk.cutoff_ms() if walk.directory.log_format is DELTA else None
        walk.compare_checkpoint(checkpoint, read, cutoff)
        for code, message in (
            *checkpoint_singles(read.singles, walk.truth()),
            *_illegal(walk, read),
        ):
            walk.unsound(code, message, name, version)
    else:
        message = "the commits do not reach back to what it holds"
        walk.found.add("CHECKPOINT_UNPROVEN", message, path=name, version=version)
        if all(code != "CHECKPOINT_HEADLESS" for code, _ in problems):
            _start_from(walk, checkpoint, read)
    if checkpoint.version == max(c.version for c in walk.files.checkpoints):
        walk.check_expired(checkpoint, read)


def _check_sidecars(walk: Walk, checkpoint: Checkpoint, read: Derived) -> None:
    for ref in read.sidecars:
        name, size = sidecar_size(ref)
        walk.named.add(name)
        walk.counts["sidecars"] += 1
        there = walk.files.sidecars.get(name)
        if there is not None and size and there.size != size:
            walk.found.add(
                "SIDECAR_SIZE",
                f"{there.size:,} bytes; {checkpoint.name} says {size:,}",
                path=ref.path,
                version=checkpoint.version,
            )


def _start_from(walk: Walk, checkpoint: Checkpoint, read: Derived) -> None:
    walk.singles = read.singles
    walk.start_ledger(checkpoint, read)
    walk.version = walk.base = checkpoint.version
    walk.is_known = True
    walk.base_files = checkpoint.files
    walk.last_time = None
    for code, message in (
        *protocol_complaints(
            walk.singles.winner("protocol") or {"minReaderVersion": 1, "minWriterVersion": 1},
            walk.directory.log_format,
            walk.directory.url,
        ),
        *metadata_complaints(walk.singles.winner("metaData") or {}),
    ):
        walk.found.add(code, message, path=checkpoint.name, version=checkpoint.version)
    # The commit of this version came first, when nothing was known to hold its checksum against.
    if checkpoint.version in walk.files.commits:
        for ref in walk.files.of(FileKind.CHECKSUM):
            if ref.version == checkpoint.version:
                content = walk.reader.checksum(ref)
                if not isinstance(content, str):
                    walk.hold_checksum(ref, content, walk.ledger.sums, None)


def _remember(walk: Walk, read: Derived) -> None:
    for kind in ("protocol", "metaData"):
        walk.remember(kind, read.singles.winner(kind))


def _illegal(walk: Walk, read: Derived) -> Iterator[tuple[str, str]]:
    """Yield the rules that a derived file's protocol breaks and that of the commits does not."""
    log_format, url = walk.directory.log_format, walk.directory.url
    found, known = read.singles.winner("protocol"), walk.singles.winner("protocol")
    told = set(protocol_complaints(known, log_format, url)) if known else ()
    for complaint in protocol_complaints(found, log_format, url) if found else ():
        if complaint not in told:
            yield complaint


def take_compaction(walk: Walk, ref: TransactionFileRef, read: Derived) -> None:
    """Hold a compaction against its commits, where they are all there."""
    walk.counts["compactions"] += 1
    if read.damage:
        walk.found.add("UNREADABLE_COMPACTION", read.damage, path=ref.path, version=ref.version)
        walk.unusable[ref.path] = read.damage
        return
    for kind in ("commitInfo", "cdc"):
        if read.counts.get(kind):
            message = f"a compaction with {read.counts[kind]:,} {kind}"
            walk.found.add("ILLEGAL_ACTION", message, path=ref.path, version=ref.version)
    _remember(walk, read)
    for code, message in _illegal(walk, read):
        walk.unsound(code, message, ref.path, ref.version)
    if not (walk.is_known and walk.version == ref.version and walk.base < ref.start_version):
        message = f"not all of the commits {ref.start_version} to {ref.version} can be read"
        walk.found.add("COMPACTION_UNPROVEN", message, path=ref.path, version=ref.version)
        return
    walk.compare_compaction(ref, read)
    for code, message in compaction_singles(read.singles, walk.truth(), ref.start_version):
        walk.unsound(code, message, ref.path, ref.version)


def take_checksum(walk: Walk, ref: TransactionFileRef, content: Any) -> None:
    """Hold the checksum of a version without a commit against its checkpoint."""
    is_here = walk.is_known and walk.version == ref.version
    walk.compare_checksum(ref, content, walk.ledger.sums if is_here else None, None)
