"""How does a range of commits become one file? Reconciled, staged, read back, published.

A compaction keeps every winner of its range: all removes, removed domains, txns and skips, however
old. It stands in for its commits only, and what they hid must stay hidden. If the process dies, the
log is as it was: the file has no name that a reader knows before it was proven.
"""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

import orjson

from engine.config import COMPACTION_FORMAT, COMPACTION_MAX_WINDOW_BYTES
from engine.log.paths import compaction_name
from engine.upkeep.compaction.local import Local, Written, damage, essence_of
from engine.upkeep.publish import Staging, new_staging

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.log.paths import TransactionFileRef
    from engine.upkeep.compaction.tiles import Tile

_EVENT: Final = "delta.logCompaction.stats"

_logger: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Compacted:
    """What became of one range. `status` is completed, skipped, repaired, sound or planned.

    Of one that failed, the log alone is told.
    """

    tile: Tile
    status: str
    name: str = ""
    skip_reason: str | None = None
    duration_ms: int = 0
    commits: int = 0
    actions: int = 0
    file_size: int = 0
    window_size: int = 0
    engine: str | None = None
    found: str | None = None

    def summary(self) -> dict[str, Any]:
        """Return what `txlog compact --json` prints, and what the log is told."""
        return {
            "startVersion": self.tile.start,
            "endVersion": self.tile.end,
            "status": self.status,
            "name": self.name,
            "duration": self.duration_ms,
            "commits": self.commits,
            "actions": self.actions,
            "fileSize": self.file_size,
            "windowSize": self.window_size,
            "skipReason": self.skip_reason,
            "engine": self.engine,
            "found": self.found,
        }


class Writer(Protocol):
    """Who writes compactions: this process, or Spark."""

    @property
    def name(self) -> str:
        """What the engine is called."""

    def write(self, commits: Sequence[TransactionFileRef], staging: Staging, name: str) -> Written:
        """Write the winners of commits, as JSON lines or Parquet by the name, and read them back.

        Raises CompactionValidationError where what is read back is not what was written.
        """


@dataclass(frozen=True, slots=True)
class Window:
    """One range to compact, with its commits, and the compaction it has already."""

    tile: Tile
    commits: tuple[TransactionFileRef, ...]
    existing: TransactionFileRef | None = None

    @property
    def size(self) -> int:
        """The bytes of its commits, as the listing shows them."""
        return sum(ref.size for ref in self.commits)


def suffix(directory: LogDirectory, config: Config) -> str:
    """Return how compactions of this log end: JSON is all that Delta's protocol knows."""
    is_free = directory.log_format.compressed_commits
    return config[COMPACTION_FORMAT] if is_free else "json"


def compact(
    window: Window,
    directory: LogDirectory,
    config: Config,
    *,
    now_ms: int,
    dry_run: bool = False,
    writer: Writer | None = None,
) -> Compacted:
    """Compact one range, and tell what became of it. Existing files are left as they are.

    Commits that say nothing get no compaction: an empty file is one that readers do without.
    Raises CompactionValidationError where what was written is not what the commits say.
    """
    started = time.perf_counter()
    writer = writer or Local(directory, config)
    done = Compacted(
        window.tile,
        "completed",
        compaction_name(window.tile.start, window.tile.end, suffix(directory, config)),
        commits=len(window.commits),
        window_size=window.size,
        engine=writer.name,
    )
    limit = config[COMPACTION_MAX_WINDOW_BYTES]
    if window.existing is not None:
        done = replace(done, name=window.existing.path, file_size=window.existing.size)
        return _told(_skipped(done, "alreadyExists"), started)
    if 0 < limit < window.size:
        return _told(_skipped(done, "windowTooLarge"), started)
    if dry_run:
        return _told(replace(done, status="planned", engine=None), started)
    with _telling_failure(done, started), staged(directory, now_ms) as staging:
        name = f"0.{done.name.rpartition('.')[2]}"
        written = writer.write(window.commits, staging, name)
        if not written.actions:
            return _told(_skipped(done, "noActions"), started)
        is_ours = staging.publish(written.name or name, done.name)
    done = replace(done, actions=written.actions, file_size=written.size)
    if not is_ours:  # another writer was first, and says the same
        done = _skipped(done, "alreadyExists")
    return _told(done, started)


def repair(
    window: Window, directory: LogDirectory, config: Config, *, now_ms: int, dry_run: bool = False
) -> Compacted:
    """Replace a compaction that is torn or says something else than its commits.

    The new file is made and proven first. Then the wrong one is moved out of the log, and a
    reader finds the commits; then the new one gets the name. At no moment does a reader find
    anything but commits, a wrong compaction that was there before, or a right one. Where the
    commits say nothing, none is left.
    """
    assert window.existing is not None
    started = time.perf_counter()
    old = window.existing
    done = Compacted(
        window.tile,
        "sound",
        old.path,
        commits=len(window.commits),
        file_size=old.size,
        window_size=window.size,
        engine="local",
    )
    with _telling_failure(done, started):
        wanted = essence_of(window.commits, directory, config)
        differences = damage(old, directory, config, wanted)
    if not differences:
        return _told(done, started)
    done = replace(done, status="planned" if dry_run else "repaired", found="; ".join(differences))
    if dry_run:
        return _told(done, started)
    with _telling_failure(done, started), staged(directory, now_ms) as staging:
        name = f"0.{old.path.rpartition('.')[2]}"
        written = Local(directory, config).write(window.commits, staging, name)
        aside = f"aside.{name}"
        directory.storage.publish(directory.file(old.path), staging.path(aside))
        if written.actions:
            staging.publish(name, old.path)
    return _told(replace(done, actions=written.actions, file_size=written.size), started)


@contextmanager
def staged(directory: LogDirectory, now_ms: int) -> Iterator[Staging]:
    """Give a run its staging folder, and remove what is left of it whatever happens."""
    staging = new_staging(directory, now_ms)
    try:
        yield staging
    finally:
        staging.clear()


@contextmanager
def _telling_failure(done: Compacted, started: float) -> Iterator[None]:
    """Tell the log of a range that could not be compacted; what was raised goes on."""
    try:
        yield
    except Exception as error:
        text = " ".join(str(error).split())
        _told(replace(done, status="failed", found=text or type(error).__name__), started)
        raise


def _skipped(done: Compacted, reason: str) -> Compacted:
    return replace(done, status="skipped", skip_reason=reason, engine=None)


def _told(done: Compacted, started: float) -> Compacted:
    done = replace(done, duration_ms=round((time.perf_counter() - started) * 1000))
    _logger.info("%s %s", _EVENT, orjson.dumps(done.summary()).decode())
    return done
