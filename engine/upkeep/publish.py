"""How does a derived file become part of a log? Staged, proven, then named; the hint comes last.

Unfinished files lie in a hidden folder of the log directory, one folder a run, that no reader
looks into. Nothing has a log file's name before it was read back, and a name that is taken is
never taken over. A process that dies leaves its folder behind; a later run that finds it older
than a safe age removes it.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from engine.errors import AlreadyExistsError, CorruptCheckpointError, StorageError
from engine.log.hint import Hint, checksums, parse_hint
from engine.log.listing import list_log
from engine.log.paths import HINT, FileKind
from engine.log.segment import complete_checkpoints
from engine.replay.checkpoints import json_parts, read_checkpoint_file, sidecars
from engine.storage import join

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.log.listing import LogDirectory
    from engine.log.segment import Checkpoint
    from engine.storage import Storage

# It sorts before every version, so that a listing from a version on does not see it.
STAGING: Final = ".txlog-staging"

INTENT: Final = "intent.json"

# How often a hint is pointed at something newer still before that is left to others.
_HINT_TRIES: Final = 8

_logger: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Staging:
    """The folder of one run. `run` begins with the time at which it began, in milliseconds.

    Where several write into it, each puts a `prefix` of its own before its names.
    """

    directory: LogDirectory
    run: str
    prefix: str = ""

    def name(self, name: str) -> str:
        """Return a staged file's path inside the log directory."""
        return f"{STAGING}/{self.run}/{self.prefix}{name}"

    def path(self, name: str) -> str:
        """Return a staged file's path in the storage."""
        return self.directory.file(self.name(name))

    def publish(self, name: str, final: str) -> bool:
        """Give a staged file its final name in the log; return whether the name was still free.

        Where another file has it, that file stays and the staged one is dropped.
        """
        storage = self.directory.storage
        try:
            storage.publish(self.path(name), self.directory.file(final))
        except AlreadyExistsError:
            storage.delete_many([self.path(name)])
            return False
        return True

    def intend(self, finals: Sequence[str], *, unique: bool) -> None:
        """Write down the names that only together make something, before the first is given.

        Should this run die in between, a later one takes back those that it did give. Names that
        are `unique` are nobody else's, and in use when a manifest names them; others are in use
        when all of them are there.
        """
        told = {"finals": list(finals), "unique": unique}
        with self.directory.storage.open_output(self.path(INTENT)) as file:
            file.write(orjson.dumps(told))

    def withdraw(self, finals: Sequence[str]) -> None:
        """Take back files of this run that nothing names."""
        self.directory.storage.delete_many([self.directory.file(final) for final in finals])

    def clear(self) -> None:
        """Remove what is left of this run. What cannot be removed is left to a later run."""
        _remove(self.directory, [self.run])


def new_staging(directory: LogDirectory, now_ms: int) -> Staging:
    """Return the folder of a new run; nothing is written yet."""
    return Staging(directory, f"{now_ms:013d}-{uuid.uuid4().hex[:12]}")


def remove_leftovers(directory: LogDirectory, *, now_ms: int, safe_age_ms: int) -> list[str]:
    """Remove the folders of runs that began more than `safe_age_ms` ago; return their names.

    A run that is still alive after that long finds its staged files gone, and fails.
    """
    dead = expired_runs(_runs(directory), now_ms=now_ms, safe_age_ms=safe_age_ms)
    for run in dead:
        _withdraw_unfinished(Staging(directory, run))
    _remove(directory, dead)
    # A run that died at its very end left this one, empty.
    directory.storage.remove_directory(directory.file(STAGING))
    below = directory.log_format.checkpoint_directory
    for folder in (directory.path, *([directory.file(below)] if below else ())):
        found = directory.storage.unfinished(folder)
        old = [f.path for f in found if f.modification_time_ms < now_ms - safe_age_ms]
        directory.storage.delete_many(old)
    return dead


def expired_runs(runs: Iterable[str], *, now_ms: int, safe_age_ms: int) -> list[str]:
    """Return the runs that began more than `safe_age_ms` ago. What is not a run's name is kept."""
    return [
        run
        for run in runs
        if run.partition("-")[0].isdecimal() and int(run.partition("-")[0]) < now_ms - safe_age_ms
    ]


def move_hint(
    directory: LogDirectory, hint: dict[str, Any], *, checksum: bool, only_forward: bool = False
) -> bool:
    """Point `_last_checkpoint` at a checkpoint that is published; never backwards.

    Returns whether it was moved. A hint to a newer checkpoint that is listed stays, as does one
    of the same version with `only_forward`; one that names what is not there does not. Nothing is
    written over a hint that cannot be looked at. After the write the log is listed: where another
    process wrote a newer checkpoint meanwhile, the hint is pointed at that one. A storage that
    fails on the way is told in the log: the checkpoint is there without its hint.
    """
    moved = False
    try:
        for _ in range(_HINT_TRIES):
            known = _hint_there(directory)
            if known is not None:
                stays = known.version > hint["version"] - only_forward
                if stays and _newest_from(directory, known.version) is not None:
                    _logger.info("%s: the hint is at %d already", directory.url, known.version)
                    break
            said = {**hint, "checksum": checksums(hint)[0]} if checksum else hint
            directory.storage.replace(directory.file(HINT), orjson.dumps(said))
            moved = True
            newest = _newest_from(directory, hint["version"])
            if newest is None or newest.version == hint["version"]:
                break
            hint, only_forward = bare_hint(newest), True
    except StorageError as error:
        _logger.warning("%s: the hint is left as it is: %s", directory.url, error.reason)
    return moved


def bare_hint(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the hint to a checkpoint that was listed and not read."""
    parts = len(checkpoint.files)
    is_split = checkpoint.kind is FileKind.CHECKPOINT_PART
    return {"version": checkpoint.version, "size": -1, **({"parts": parts} if is_split else {})}


def _hint_there(directory: LogDirectory) -> Hint | None:
    """Return the hint; None where there is none or it is garbage. Raises StorageError."""
    try:
        hint = parse_hint(directory.storage.read(directory.file(HINT)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    return None if isinstance(hint, str) else hint


def _newest_from(directory: LogDirectory, version: int) -> Checkpoint | None:
    """Return the newest complete checkpoint of this version or a later one."""
    found = complete_checkpoints(list_log(directory, version).refs)
    return max(
        (c for c in found if all(f.size for f in c.files)), key=lambda c: c.rank, default=None
    )


def _withdraw_unfinished(staging: Staging) -> None:
    """Take back what a dead run named of something it did not finish, unless it is in use."""
    directory = staging.directory
    try:
        told = orjson.loads(directory.storage.read(staging.path(INTENT)))
    except (FileNotFoundError, orjson.JSONDecodeError):
        return  # it died before it named anything
    finals = told["finals"]
    there = [final for final in finals if directory.storage.exists(directory.file(final))]
    if not told["unique"]:
        staging.withdraw(there if len(there) < len(finals) else ())
    elif there and (used := _named(directory)) is not None:
        staging.withdraw([final for final in there if final not in used])


def _named(directory: LogDirectory) -> set[str] | None:
    """Return the sidecars and parts that a manifest names; None where one cannot be read."""
    named: set[str] = set()
    try:
        for ref in list_log(directory).refs:
            if ref.kind is FileKind.CHECKPOINT_V2:
                for batch in read_checkpoint_file(directory, ref, wanted=("sidecar",)):
                    named.update(sidecar.path for sidecar in sidecars(batch, ref.version))
            elif ref.kind is FileKind.CHECKPOINT_JSON:
                named.update(json_parts(directory, ref))
    except CorruptCheckpointError as error:
        _logger.warning("%s: files of a dead run are left: %s", directory.url, error)
        return None
    return named


def _runs(directory: LogDirectory) -> Sequence[str]:
    try:
        return directory.storage.list_directories(directory.file(STAGING))
    except FileNotFoundError:
        return []


def _remove(directory: LogDirectory, runs: Iterable[str]) -> None:
    storage = directory.storage
    for run in runs:
        _remove_folder(storage, join(directory.file(STAGING), run))
        storage.remove_directory(directory.file(STAGING))


def _remove_folder(storage: Storage, folder: str) -> None:
    """Remove what a run staged, and the folders that Spark makes for its tasks."""
    try:
        inside, folders = storage.list_both(folder)
    except FileNotFoundError:
        return
    for name in folders:
        _remove_folder(storage, join(folder, name))
    for path, why in storage.delete_many([file.path for file in inside]).items():
        _logger.warning("%s: left behind: %s", path, why)
    storage.remove_directory(folder)
