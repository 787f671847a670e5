"""Are the files of a log what a log has? By names, sizes and times alone: no file is read."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from engine.errors import EmptyLogError
from engine.log.listing import list_log
from engine.log.paths import HINT, SIDECARS, FileKind, TransactionFileRef
from engine.log.segment import Checkpoint, complete_checkpoints, latest_version
from engine.log.timestamps import commit_times
from engine.upkeep.publish import STAGING
from engine.upkeep.verify.findings import Findings, some

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.log.listing import LogDirectory
    from engine.storage import FileInfo

# Others' leavings beside a log that are no part of it and no surprise.
_USUAL: Final = (".", "_commits", "_staged_commits", "_changes")


@dataclass(frozen=True)
class LogFiles:
    """Everything that lies in a log directory."""

    refs: tuple[TransactionFileRef, ...]
    unknown: tuple[str, ...]
    sidecars: Mapping[str, FileInfo]
    staged: tuple[str, ...]
    has_hint: bool

    def of(self, *kinds: FileKind) -> list[TransactionFileRef]:
        """Return the files of some kinds, by version."""
        found = [ref for ref in self.refs if ref.kind in kinds]
        return sorted(found, key=lambda ref: (ref.version, ref.start_version, ref.path))

    @cached_property
    def commits(self) -> dict[int, TransactionFileRef]:
        """The commits by version."""
        return {ref.version: ref for ref in self.of(FileKind.COMMIT)}

    @cached_property
    def checkpoints(self) -> list[Checkpoint]:
        """The checkpoints that have all their files, none of them empty, oldest first."""
        whole = complete_checkpoints(self.refs)
        return sorted((c for c in whole if all(ref.size for ref in c.files)), key=lambda c: c.rank)

    @cached_property
    def latest(self) -> int:
        """The newest version that any file proves."""
        return latest_version(self.refs)


def list_everything(directory: LogDirectory) -> LogFiles:
    """Return what lies in the log directory, readable or not.

    Raises LogNotFoundError where there is no log, and EmptyLogError where nothing of one is left.
    """
    storage = directory.storage
    refs = list_log(directory).refs
    files, folders = storage.list_both(directory.path)
    if latest_version(refs) < 0:
        raise EmptyLogError(directory.url)
    known = {ref.path for ref in refs} | {HINT}
    below = directory.log_format.checkpoint_directory
    unknown = [f.name for f in files if f.name not in known and not f.name.startswith(_USUAL)]
    usual = {SIDECARS, STAGING, below}
    unknown += [f"{name}/" for name in folders if name not in usual and not name.startswith(_USUAL)]
    if below and below in folders:
        inside = (f"{below}/{file.name}" for file in storage.list_from(directory.file(below)))
        unknown += [name for name in inside if name not in known and not _is_hidden(name)]
    sidecars = (
        {f.name: f for f in storage.list_from(directory.file(SIDECARS))}
        if SIDECARS in folders
        else {}
    )
    staged = storage.list_directories(directory.file(STAGING)) if STAGING in folders else []
    has_hint = any(file.name == HINT for file in files)
    return LogFiles(refs, tuple(unknown), sidecars, tuple(staged), has_hint)


def check_listing(files: LogFiles, found: Findings) -> None:
    """Enter what names, sizes and times alone tell."""
    _check_checkpoints(files, found)
    _check_compactions(files, found)
    _check_times(files, found)
    latest = files.latest
    for ref in files.of(FileKind.CHECKSUM):
        if ref.version > latest:
            found.add(
                "ORPHAN_CHECKSUM",
                f"there is no version {ref.version}; the latest is {latest}",
                path=ref.path,
                version=ref.version,
            )
    for name in files.unknown:
        found.add("UNKNOWN_FILE", f"{name} is no part of the log", path=name)
    if files.staged:
        message = f"unfinished runs: {some(list(files.staged))}"
        found.add("STAGING_LEFTOVER", message, path=STAGING)


def _check_checkpoints(files: LogFiles, found: Findings) -> None:
    whole = {ref.path for c in complete_checkpoints(files.refs) for ref in c.files}
    parts: dict[tuple[int, int], list[TransactionFileRef]] = defaultdict(list)
    for ref in files.refs:
        if ref.kind.is_checkpoint and not ref.size:
            found.add("EMPTY_CHECKPOINT", "it has 0 bytes", path=ref.path, version=ref.version)
        if ref.kind is FileKind.CHECKPOINT_PART and ref.path not in whole:
            parts[ref.version, ref.parts].append(ref)
    for (version, count), refs in sorted(parts.items()):
        there = {ref.part for ref in refs}
        lost = [str(part) for part in range(1, count + 1) if part not in there]
        message = f"{len(there)} of its {count} parts are there; missing: {some(lost)}"
        found.add("INCOMPLETE_CHECKPOINT", message, path=refs[0].path, version=version)


def _check_compactions(files: LogFiles, found: Findings) -> None:
    before: TransactionFileRef | None = None
    for ref in sorted(files.of(FileKind.COMPACTION), key=lambda r: (r.start_version, r.version)):
        if before is not None and ref.start_version <= before.version:
            found.add(
                "OVERLAPPING_COMPACTIONS",
                f"it overlaps {before.path}",
                path=ref.path,
                version=ref.version,
            )
        if before is None or ref.version > before.version:
            before = ref


def _check_times(files: LogFiles, found: Findings) -> None:
    commits = files.of(FileKind.COMMIT)
    count = len(commits)
    newest = max((ref.modification_time for ref in commits), default=0)
    if commits and commits[0].version == 0 and commits[0].modification_time == newest:
        commits = commits[1:]  # a repair writes version 0 last of all: until then there is no log
    made = commit_times(commits)
    late = [
        ref
        for ref, (_, time) in zip(commits, made, strict=True)
        if ref.modification_time < time - len(commits)
    ]
    if late:
        first = late[0]
        message = (
            f"{len(late):,} of {count:,} commits were modified before the one before them; "
            f"the first is {first.version}"
        )
        found.add("TIME_BACKWARDS", message, path=first.path, version=first.version)


def _is_hidden(path: str) -> bool:
    return path.rpartition("/")[2].startswith(".")
