"""Which files in the folders of a log does nobody need? Unnamed sidecars, staged commits.

Sidecars are shared: a new checkpoint names those of an older one that still hold. So they are
judged when the checkpoints that go are gone, by reading every checkpoint that is there then.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Final

from engine.config import STAGING_RETENTION_MS
from engine.errors import StorageError, UnreadableLogFileError
from engine.log.paths import SIDECARS, FileKind, parse_path
from engine.replay.checkpoints import read_checkpoint_file, sidecars
from engine.upkeep.cleanup.verdicts import DAY_MS, Rules, Verdict
from engine.upkeep.publish import STAGING, expired_runs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.storage import FileInfo

STAGED_COMMITS: Final = "_staged_commits"

_MAY_NAME: Final = frozenset({FileKind.CHECKPOINT, FileKind.CHECKPOINT_V2})
# What Hadoop writes beside a file on a disk.
_SIBLING: Final = re.compile(r"^\.(.+)\.crc$")
_STAGED_COMMIT: Final = re.compile(r"(\d{20})\.[^.]+\.json")

_logger: Final = logging.getLogger(__name__)


def judge_sidecars(
    directory: LogDirectory, config: Config, now_ms: int, gone: Collection[str] = ()
) -> list[Verdict]:
    """Return a verdict on every sidecar of a log; checkpoints in `gone` count as gone."""
    found = _files(directory, SIDECARS)
    if not found:
        return []
    why = _alive(directory, config, now_ms)
    used: set[str] = set()
    if not why:
        used, why = _used(directory, gone)
    return decide_sidecars(found, frozenset(used), now_ms, doubt=why)


def decide_sidecars(
    files: Iterable[FileInfo], used: frozenset[str], now_ms: int, *, doubt: str = ""
) -> list[Verdict]:
    """Return a verdict on every sidecar. `used` are those that a checkpoint names.

    One that nobody names may be of a checkpoint that is being written: it has a day. With `doubt`
    none goes.
    """
    found = []
    for file in files:
        if doubt:
            verdict = False, doubt
        elif _SIBLING.sub(r"\1", file.name) in used:
            verdict = False, "in use"
        elif file.modification_time_ms > now_ms - DAY_MS:
            verdict = False, "less than a day old"
        else:
            verdict = True, "no checkpoint names it"
        found.append(Verdict(f"{SIDECARS}/{file.name}", *verdict, file.size, kind="sidecar"))
    return found


def judge_staged_commits(
    directory: LogDirectory, anchor: int, rules: Rules, now_ms: int
) -> list[Verdict]:
    """Return a verdict on what a catalog staged while it managed this table, which it no more does.

    Every version up to the checkpoint was published: nobody asks for its staged twin.
    """
    found = []
    cutoff = rules.cutoff_ms(now_ms)
    for file in _files(directory, STAGED_COMMITS):
        match = _STAGED_COMMIT.fullmatch(file.name)
        if match is None:
            continue
        version = int(match[1])
        if version > anchor:
            verdict = False, f"after checkpoint {anchor}"
        elif not rules.everything and file.modification_time_ms > cutoff:
            verdict = False, "within its retention"
        else:
            verdict = True, f"covered by checkpoint {anchor}"
        name = f"{STAGED_COMMITS}/{file.name}"
        found.append(Verdict(name, *verdict, file.size, version, "staged-commit"))
    return found


def _files(directory: LogDirectory, folder: str) -> list[FileInfo]:
    if directory.log_format.checkpoint_directory is not None:
        return []  # these are folders of Delta logs
    try:
        return directory.storage.list_from(directory.file(folder))
    except FileNotFoundError:
        return []


def _alive(directory: LogDirectory, config: Config, now_ms: int) -> str:
    """Tell of a run that may be writing a checkpoint with old sidecars in it just now."""
    try:
        runs = directory.storage.list_directories(directory.file(STAGING))
    except FileNotFoundError:
        return ""
    dead = expired_runs(runs, now_ms=now_ms, safe_age_ms=config[STAGING_RETENTION_MS])
    alive = sorted(set(runs) - set(dead))
    return f"the run {alive[0]} may be about to use it" if alive else ""


def _used(directory: LogDirectory, gone: Collection[str]) -> tuple[set[str], str]:
    """Return the sidecars that checkpoints name; and, where that cannot be told, why."""
    used: set[str] = set()
    for file in directory.storage.list_from(directory.path):
        ref = parse_path(file.name, file.size, file.modification_time_ms, directory.log_format)
        if ref is None and ".checkpoint." in file.name and not file.name.startswith("."):
            return used, f"{file.name} may be a checkpoint that names it"
        if ref is None or ref.kind not in _MAY_NAME or ref.path in gone:
            continue
        try:
            for batch in read_checkpoint_file(directory, ref, wanted=()):
                found = sidecars(batch, ref.version)
                used |= {sidecar.path.rpartition("/")[2] for sidecar in found}
        except (UnreadableLogFileError, StorageError) as error:
            _logger.warning("no sidecar is deleted: %s", error)
            return used, "not every checkpoint could be read: it may be in use"
    return used, ""
