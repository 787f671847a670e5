"""What can be asked of an open log about files that failed? Each answer is what the log says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from engine.commit import skips
from engine.commit.transaction import Clock, Committed
from engine.config import SKIP_COOLDOWN_HOURS, SKIP_TRACKING_ENABLED

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from engine.commit.changes import Change
    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.snapshot import Snapshot


class Skipping(ABC):
    """The part of a table's log that knows its skipped files."""

    config: Config
    clock: Clock = Clock()

    @property
    @abstractmethod
    def directory(self) -> LogDirectory:
        """Where the log is."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Return the latest state."""

    @abstractmethod
    def _commit(self, change: Change, *, dry_run: bool = False) -> Committed: ...

    def skip(
        self,
        path: str,
        reason: str,
        operation: str = "merge",
        cooldown: timedelta | None = None,
        *,
        dry_run: bool = False,
    ) -> Committed:
        """Record that an operation failed on a file, which stays live and is left in peace.

        The cooldown is that of the settings unless given; one that runs longer goes on. Raises
        NoSkipsError where the log's format has no skips.
        """
        skips.refuse_without_skips(self.directory.log_format, self.directory.table_url)
        if cooldown is None:
            cooldown = timedelta(hours=self.config[SKIP_COOLDOWN_HOURS])
        change = skips.skipping(
            path,
            reason,
            operation,
            cooldown_ms=cooldown // timedelta(milliseconds=1),
            now_ms=self.clock.now_ms(),
        )
        if not self.config[SKIP_TRACKING_ENABLED]:
            off = f"{SKIP_TRACKING_ENABLED.key} is false"
            return Committed(self.snapshot().version, is_new=False, reason=off)
        return self._commit(change, dry_run=dry_run)

    def skipped_files(self) -> list[Mapping[str, Any]]:
        """Return the newest skip of each file that was ever skipped."""
        skips.refuse_without_skips(self.directory.log_format, self.directory.table_url)
        return list(self.snapshot().skips.values())

    def in_cooldown(self, path: str) -> bool:
        """Tell whether a file is not to be tried yet."""
        return path in self.files_in_cooldown()

    def files_in_cooldown(self) -> dict[str, int]:
        """Return the files not to be tried yet, each with when it may be, in ms since 1970."""
        skips.refuse_without_skips(self.directory.log_format, self.directory.table_url)
        return skips.in_cooldown(self.snapshot().skips, self.clock.now_ms())

    def without_cooldown(self, files: pa.Table) -> pa.Table:
        """Return the rows of `files`, as `Snapshot.files` has them, that may be tried now."""
        skips.refuse_without_skips(self.directory.log_format, self.directory.table_url)
        return skips.without_cooldown(files, self.snapshot().skips, self.clock.now_ms())
