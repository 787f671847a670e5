"""Is a checkpoint due after a commit, and who writes it? The commit never fails for it.

Looking costs nothing: what is known of the last checkpoint is kept with the log, and the hint is
asked only when the interval is over. In the background a few threads write, one checkpoint a
table at a time.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from engine.config import (
    CHECKPOINT_BACKGROUND,
    CHECKPOINT_ENABLED,
    CHECKPOINT_INTERVAL,
    CHECKSUM_WRITES,
    DELTA_CHECKPOINT_INTERVAL,
    Config,
)
from engine.errors import ReplayError
from engine.log.listing import list_latest, read_hint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.commit.hooks import Hook
    from engine.commit.transaction import Committed
    from engine.formats import LogFormat
    from engine.log.listing import LogDirectory

_MOST_AT_ONCE: Final = 2
_logger: Final = logging.getLogger(__name__)
_lock: Final = threading.Lock()
_running: dict[str, Future[None]] = {}
_pool: ThreadPoolExecutor | None = None


def interval_of(config: Config, properties: Mapping[str, str], log_format: LogFormat) -> int | None:
    """Return how many versions lie between two checkpoints; None where none are wanted."""
    config = config.of_table(properties)
    if not config[CHECKPOINT_ENABLED]:
        return None
    is_delta = log_format.checkpoint_directory is None
    return config[DELTA_CHECKPOINT_INTERVAL if is_delta else CHECKPOINT_INTERVAL]


def wants_checksum(config: Config, properties: Mapping[str, str], log_format: LogFormat) -> bool:
    """Tell whether a version checksum is to be written beside each commit."""
    config = config.of_table(properties)
    return log_format.checkpoint_directory is None and config[CHECKSUM_WRITES]


@dataclass(slots=True)
class Due:
    """When is the next checkpoint of one open log to be asked for?

    `last` is the version of the last one, as far as it is known. One that was asked for and is not
    there is asked for again by the next commit, then by the second one after that, the fourth, and
    so on up to the interval: a table that cannot have one is not tried at every commit.
    """

    last: int | None = None
    not_before: int = 0
    waits: int = 1

    def is_now(self, version: int, interval: int, directory: LogDirectory) -> bool:
        """Tell whether to write the checkpoint of a version; the hint is asked if it may be."""
        if version < self.not_before or not is_due(version, self.last, interval):
            return False
        # Somebody else may have written it meanwhile.
        self.last = last_checkpoint(directory)
        if not is_due(version, self.last, interval):
            self.not_before, self.waits = 0, 1
            return False
        self.not_before = version + min(self.waits, interval)
        self.waits *= 2
        return True

    def written(self, version: int) -> None:
        """Take note of a checkpoint."""
        self.last, self.not_before, self.waits = version, 0, 1


def is_due(version: int, last: int | None, interval: int) -> bool:
    """Tell whether a version is to have a checkpoint, the last one being that of `last`."""
    return version - (last or 0) >= interval


def last_checkpoint(directory: LogDirectory) -> int | None:
    """Return the version of the last checkpoint, as far as the hint tells."""
    hint, _ = read_hint(directory)
    return hint.version if hint else None


def write_checkpoint(log: Any, done: Committed) -> None:
    """Write the checkpoint that is due after a commit: a hook, here or in the background."""
    if not log.config[CHECKPOINT_BACKGROUND]:
        log.checkpoint()
        log.due.written(done.version)
        return
    _start(log.directory, log.config, log.clock.now_ms(), done.version)


def failing(error: ReplayError) -> Hook:
    """Return a hook that tells why it is not known whether a checkpoint is due."""

    def write_checkpoint(_: Any, __: Committed) -> None:
        raise error

    return write_checkpoint


def finish() -> None:
    """Wait until nothing is written in the background."""
    with _lock:
        waiting = list(_running.values())
    wait(waiting)


def _start(directory: LogDirectory, config: Config, now_ms: int, version: int) -> None:
    global _pool  # noqa: PLW0603
    with _lock:
        running = _running.get(directory.url)
        if running is not None and not running.done():
            return  # a later commit asks again
        if _pool is None:
            _pool = ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="txlog-checkpoint")
        _running[directory.url] = _pool.submit(_work, directory, config, now_ms, version)


def _work(directory: LogDirectory, config: Config, now_ms: int, version: int) -> None:
    from engine.upkeep.checkpoint.checkpoint import Asked, checkpoint

    try:
        checkpoint(directory, list_latest(directory), config, Asked(), now_ms=now_ms)
    except ReplayError as error:
        _logger.warning("after version %d: %s", version, error)
    except Exception:
        _logger.exception("after version %d: the checkpoint failed", version)
