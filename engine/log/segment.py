"""Which files make exactly one version? Deciding only: no file is read here."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from engine.errors import (
    CleanedUpError,
    EmptyLogError,
    LogGapError,
    LogStartError,
    VersionNotFoundError,
)
from engine.log.paths import FileKind, TransactionFileRef

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from engine.formats import LogFormat

# What opening one more file is worth, in bytes: the cover prefers few files over few bytes.
FILE_COST: Final = 16 * 1024

_RANK: Final = {
    FileKind.CHECKPOINT_JSON: 0,
    FileKind.CHECKPOINT: 1,
    FileKind.CHECKPOINT_PART: 2,
    FileKind.CHECKPOINT_V2: 3,
}


@dataclass(frozen=True, slots=True)
class Fallback:
    """Something in the log that could not be used, and what was done without it."""

    what: str
    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.what} {self.path}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All the files of one complete checkpoint, in the order of their parts."""

    version: int
    kind: FileKind
    files: tuple[TransactionFileRef, ...]

    @property
    def name(self) -> str:
        """The first file's path, which tells this checkpoint from any other."""
        return self.files[0].path

    @property
    def rank(self) -> tuple[int, int, int, str]:
        """Orders checkpoints: the greatest is the one to read."""
        return self.version, _RANK[self.kind], len(self.files), self.name


@dataclass(frozen=True, slots=True)
class LogSegment:
    """The log files that make up exactly one version.

    `compactions` and `commits` together cover, once each, every version after the checkpoint
    up to `version`. A multi-part checkpoint has all its parts. `last_commit` is the commit of
    `version` itself, where its file still exists, whether or not it needs replaying.
    """

    log_format: LogFormat
    directory: str
    version: int
    checkpoint: Checkpoint | None
    compactions: tuple[TransactionFileRef, ...]
    commits: tuple[TransactionFileRef, ...]
    last_commit: TransactionFileRef | None
    fallbacks: tuple[Fallback, ...] = field(default=())

    @property
    def tail(self) -> tuple[TransactionFileRef, ...]:
        """The commits and compactions after the checkpoint, oldest first."""
        return tuple(sorted(self.commits + self.compactions, key=lambda ref: ref.start_version))

    @property
    def files(self) -> tuple[TransactionFileRef, ...]:
        """Every file that is read, the checkpoint's first."""
        return (self.checkpoint.files if self.checkpoint else ()) + self.tail

    @property
    def size_bytes(self) -> int:
        """How many bytes there are to read (sidecars not counted)."""
        return sum(ref.size for ref in self.files)


def segment_for(
    refs: Sequence[TransactionFileRef],
    version: int | None,
    *,
    log_format: LogFormat,
    directory: str,
    unusable: Mapping[str, str] | None = None,
    use_compactions: bool = True,
) -> LogSegment:
    """Return the files that make `version`, or the latest version.

    `unusable` names files found unreadable, and why: they are routed around. Raises
    EmptyLogError, VersionNotFoundError, LogStartError or LogGapError where nothing sound is left.
    """
    unusable = unusable or {}
    commits = {ref.version: ref for ref in refs if ref.kind is FileKind.COMMIT}
    checkpoints, skipped = _usable_checkpoints(refs, unusable)
    if not commits and not checkpoints:
        raise EmptyLogError(directory)
    known = _proven(refs)
    latest = max(known)
    target = latest if version is None else version
    if target > latest or target < 0:
        raise VersionNotFoundError(
            directory, f"version {target}", _earliest(commits, checkpoints), latest
        )
    eligible = [c for c in checkpoints if c.version <= target]
    checkpoint = max(eligible, key=lambda c: c.rank, default=None)
    first = checkpoint.version + 1 if checkpoint else 0
    earliest = _earliest(commits, checkpoints)
    if earliest is not None and target < earliest and not unusable:
        raise CleanedUpError(directory, target, earliest, latest)
    _refuse_gaps(commits, known, range(first, target + 1), checkpoints, directory)
    compactions = [
        ref
        for ref in refs
        if ref.kind is FileKind.COMPACTION and first <= ref.start_version and ref.version <= target
    ]
    fallbacks = [f for v, f in skipped if (checkpoint.version if checkpoint else -1) <= v <= target]
    usable = []
    for ref in compactions if use_compactions else ():
        reason = "it is empty" if not ref.size else unusable.get(ref.path)
        if reason:
            fallbacks.append(Fallback("compaction", ref.path, f"{reason}; its commits are read"))
        else:
            usable.append(ref)
    cover = cheapest_cover([commits[v] for v in range(first, target + 1)], usable)
    fallbacks += [
        Fallback("commit", ref.path, "it is empty; read as a commit without actions")
        for ref in cover
        if not ref.size
    ]
    return LogSegment(
        log_format=log_format,
        directory=directory,
        version=target,
        checkpoint=checkpoint,
        compactions=tuple(ref for ref in cover if ref.kind is FileKind.COMPACTION),
        commits=tuple(ref for ref in cover if ref.kind is FileKind.COMMIT),
        last_commit=commits.get(target),
        fallbacks=tuple(fallbacks),
    )


def latest_version(refs: Sequence[TransactionFileRef]) -> int:
    """Return the newest version that a file proves was there, readable or not; -1 if none does."""
    return max(_proven(refs), default=-1)


def cheapest_cover(
    commits: Sequence[TransactionFileRef], compactions: Iterable[TransactionFileRef]
) -> list[TransactionFileRef]:
    """Return the files, oldest first, that read least and hold each commit's version once.

    `commits` is ascending and without gaps. The answer is a shortest path from the first version
    to the last, so it cannot overlap and cannot skip; compactions that do not fit are left out.
    """
    if not commits:
        return []
    ending_at: dict[int, list[TransactionFileRef]] = defaultdict(list)
    for ref in compactions:
        ending_at[ref.version].append(ref)
    if not ending_at:
        return list(commits)
    before = commits[0].version - 1
    cost = {before: 0}
    arrived: dict[int, TransactionFileRef] = {}
    for commit in commits:
        choices = [commit, *ending_at[commit.version]]
        reachable = [ref for ref in choices if ref.start_version - 1 in cost]
        best = min(reachable, key=lambda ref: cost[ref.start_version - 1] + ref.size + FILE_COST)
        arrived[commit.version] = best
        cost[commit.version] = cost[best.start_version - 1] + best.size + FILE_COST
    cover = []
    version = commits[-1].version
    while version > before:
        cover.append(arrived[version])
        version = arrived[version].start_version - 1
    return cover[::-1]


def complete_checkpoints(refs: Iterable[TransactionFileRef]) -> list[Checkpoint]:
    """Return the checkpoints whose files are all there (and may still be unreadable)."""
    groups: dict[tuple[object, ...], list[TransactionFileRef]] = defaultdict(list)
    for ref in refs:
        if ref.kind.is_checkpoint:
            alone = ref.kind is not FileKind.CHECKPOINT_PART
            groups[ref.version, ref.kind, ref.parts, ref.path if alone else ""].append(ref)
    found = []
    for files in groups.values():
        if len(files) == files[0].parts:
            ordered = tuple(sorted(files, key=lambda ref: ref.part))
            found.append(Checkpoint(files[0].version, files[0].kind, ordered))
    return found


def _proven(refs: Iterable[TransactionFileRef]) -> set[int]:
    # A checkpoint or compaction is written after its commit: even a damaged one proves that its
    # version was there, and no older one is the latest.
    return {
        ref.version
        for ref in refs
        if ref.kind is FileKind.COMMIT or ref.kind is FileKind.COMPACTION or ref.kind.is_checkpoint
    }


def _usable_checkpoints(
    refs: Sequence[TransactionFileRef], unusable: Mapping[str, str]
) -> tuple[list[Checkpoint], list[tuple[int, Fallback]]]:
    complete = complete_checkpoints(refs)
    usable, skipped = [], []
    for checkpoint in complete:
        empty = next((ref.path for ref in checkpoint.files if not ref.size), None)
        reason = f"{empty} is empty" if empty else unusable.get(checkpoint.name)
        if reason:
            skipped.append(_skipped(checkpoint.version, checkpoint.name, reason))
        else:
            usable.append(checkpoint)
    whole = {ref.path for checkpoint in complete for ref in checkpoint.files}
    partial = {
        (ref.version, ref.parts): ref.path
        for ref in refs
        if ref.kind is FileKind.CHECKPOINT_PART and ref.path not in whole
    }
    for (version, parts), path in partial.items():
        skipped.append(_skipped(version, path, f"not all of its {parts} parts are there"))
    return usable, skipped


def _skipped(version: int, path: str, reason: str) -> tuple[int, Fallback]:
    return version, Fallback("checkpoint", path, f"{reason}; an older start is used")


def _earliest(
    commits: Mapping[int, TransactionFileRef], checkpoints: Sequence[Checkpoint]
) -> int | None:
    if 0 in commits:
        return 0
    return min((c.version for c in checkpoints), default=None)


def _refuse_gaps(
    commits: Mapping[int, TransactionFileRef],
    known: Collection[int],
    needed: range,
    checkpoints: Iterable[Checkpoint],
    directory: str,
) -> None:
    for version in needed:
        if version in commits:
            continue
        if version == 0:
            raise LogStartError(directory, min(known))
        start = end = min((c.version for c in checkpoints if c.version > version), default=-1)
        while end + 1 in commits and end >= 0:
            end += 1
        later = (start, end) if start >= 0 else None
        raise LogGapError(directory, version - 1, min(v for v in known if v >= version), later)
