"""What can be asked of an open log that keeps it? Each question is one piece of upkeep."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from engine.config import ENGINE
from engine.errors import ReplayError
from engine.replay.engines import active_session
from engine.upkeep.checksum import write_checksum

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from engine.commit.hooks import Hook
    from engine.commit.transaction import Clock, Committed
    from engine.config import Config
    from engine.log.listing import Listing, LogDirectory
    from engine.replay import Gauge
    from engine.replay.heads import Head
    from engine.snapshot import Snapshot, Watch
    from engine.upkeep.checkpoint.outcome import CheckpointResult
    from engine.upkeep.cleanup.clean import Cleaner
    from engine.upkeep.cleanup.verdicts import Cleaned
    from engine.upkeep.compaction.write import Compacted
    from engine.upkeep.hook import Due
    from engine.upkeep.repair.derived import DerivedRepair
    from engine.upkeep.repair.repair import Repaired
    from engine.upkeep.verify.verify import Verification


class Keeping(ABC):
    """The half of a table's log that keeps it. What a method needs is imported when it is used."""

    config: Config
    clock: Clock
    spark: SparkSession | None

    @cached_property
    def due(self) -> Due:
        """When the next checkpoint after a commit is to be written."""
        from engine.upkeep.hook import Due

        return Due()

    @property
    @abstractmethod
    def directory(self) -> LogDirectory:
        """Where the log is."""

    @abstractmethod
    def head(self, version: int | None = None) -> Head:
        """Return the protocol and metaData of a version."""

    def compact(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        repair: bool = False,
        widen: bool = False,
        engine: str | None = None,
        dry_run: bool = False,
        progress: Gauge | None = None,
    ) -> list[Compacted]:
        """Write log compactions: of a range of commits, or of all that have none yet.

        Without a range, the commits after the newest checkpoint are tiled. With `repair`,
        compactions that are there are compared with their commits, and wrong ones replaced; with
        `widen`, many narrow ones in a row get a wide one over them. Nothing that a reader sees
        changes. `progress` is told of the bytes there are, and of those that are done. Raises
        VersionNotFoundError, CompactionRefusedError, and CatalogManagedError and its kin where
        the log is not ours to keep.
        """
        from engine.log.listing import list_log
        from engine.upkeep.allowed import refuse_unkept
        from engine.upkeep.compaction.compact import Asked, Compactor, plan, with_properties

        head, directory = self.head(), self.directory
        refuse_unkept(head.protocol, head.metadata, directory)
        config = with_properties(self.config, head.metadata.get("configuration") or {})
        asked = Asked(start, end, repair=repair, widen=widen)
        windows = plan(list_log(directory).refs, asked, config, directory.url)
        compactor = Compactor(
            directory, config, self.clock.now_ms(), self.spark, engine, dry_run=dry_run
        )
        advance = progress and progress(sum(window.size for window in windows))
        done = []
        for window in windows:
            done += compactor.run([window], repairing=repair)
            if advance:
                advance(window.size)
        return done

    @abstractmethod
    def listing(self, version: int | None = None) -> Listing:
        """List what `version`, or the latest, may need."""

    @abstractmethod
    def _properties(self) -> Mapping[str, str] | None:
        """Return the table's properties, if they were read already."""

    @abstractmethod
    def _in_memory(self, version: int | None) -> Snapshot | None:
        """Return the state of a version, or of the latest, if it was read already."""

    def due_hooks(self, done: Committed) -> list[Hook]:
        """Return what the settings want done after a commit, where it is the time for it.

        A checkpoint, and then a look at what it made superfluous; or else a compaction.
        """
        from engine.upkeep.cleanup.clean import clean_after
        from engine.upkeep.compaction.compact import compact_after, is_time
        from engine.upkeep.hook import write_checkpoint

        properties = self._properties() if done.is_new else None
        if properties is None:
            return []
        found = self._checkpoint_hooks(done, properties)
        if write_checkpoint in found:
            return [*found, clean_after]
        if is_time(done.version, self.config, properties):
            found.append(compact_after)
        return found

    def _checkpoint_hooks(self, done: Committed, properties: Mapping[str, str]) -> list[Hook]:
        from engine.upkeep import hook

        log_format = self.directory.log_format
        found: list[Hook] = []
        try:
            if hook.wants_checksum(self.config, properties, log_format):
                found.append(write_checksum)
            interval = hook.interval_of(self.config, properties, log_format)
            if interval is None or not self.due.is_now(done.version, interval, self.directory):
                return found
        except ReplayError as error:
            return [*found, hook.failing(error)]
        return [*found, hook.write_checkpoint]

    def checkpoint(
        self,
        version: int | None = None,
        *,
        shape: str | None = None,
        engine: str | None = None,
        repair: bool = False,
        dry_run: bool = False,
        progress: Watch | None = None,
    ) -> CheckpointResult:
        """Write a checkpoint of a version, or of the latest, and point the hint at it.

        What is staged is read back and compared before any reader can see it. A sound checkpoint
        that is there is enough. One that is damaged is left where it is, and with `repair`
        another is written that every reader prefers. `shape` is that of the table's properties
        unless given, such as `classic` or `v2-parquet`. `progress` is as for `snapshot`.

        Raises CheckpointCorruptionError, CheckpointWriteError, CheckpointValidationError, and
        what makes the log unreadable.
        """
        from engine.upkeep.checkpoint.checkpoint import Asked, checkpoint
        from engine.upkeep.checkpoint.shape import shape_called

        wanted = shape_called(shape, self.directory.log_format)
        name = engine or self.config[ENGINE]
        known = self._in_memory(version) if engine is None and not repair else None
        return checkpoint(
            self.directory,
            self.listing(version),
            self.config,
            Asked(version, wanted, repair, dry_run, "local" if name == "reference" else name),
            now_ms=self.clock.now_ms(),
            known=known,
            spark=self.spark or active_session(),
            progress=progress,
        )

    def cleanup(self, *, older_than: timedelta | None = None, dry_run: bool = False) -> Cleaned:
        """Delete the log files that nobody needs: below a checkpoint, and past their retention.

        The checkpoint is read and proven first; every version from it on reads as before. With
        `older_than`, that age counts and not the settings'. Raises CleanupError, and
        CatalogManagedError and its kin where the log is not ours to keep.
        """
        age = None if older_than is None else older_than // timedelta(milliseconds=1)
        return self._cleaner(older_than_ms=age).run(dry_run=dry_run)

    def truncate(self, *, dry_run: bool = False) -> Cleaned:
        """Drop all history before the latest version, after making and proving its checkpoint.

        Older versions cannot be read any more, whatever their retention.
        """
        from engine.log.paths import FileKind
        from engine.log.segment import Checkpoint

        cleaner = self._cleaner(everything=True)
        version = self.head().version
        if dry_run:
            return cleaner.run(dry_run=True, planned=Checkpoint(version, FileKind.CHECKPOINT, ()))
        self.checkpoint()
        return cleaner.run()

    def _cleaner(self, *, older_than_ms: int | None = None, everything: bool = False) -> Cleaner:
        from engine.upkeep.cleanup.clean import cleaner_of

        return cleaner_of(
            self.head(),
            self.directory,
            self.config,
            self.clock.now_ms(),
            older_than_ms=older_than_ms,
            everything=everything,
        )

    def verify(
        self,
        *,
        deep: bool = False,
        engine: str | None = None,
        progress: Gauge | None = None,
    ) -> Verification:
        """Prove the log, or name what is wrong with it. Nothing is written.

        With `deep`, the files that the latest version names are looked for too. With `engine`
        "spark", executors read the log and settle its keys; else this process does. `progress`
        is told of the bytes there are, and of those that are done.
        """
        from engine.errors import DistributedError
        from engine.upkeep.verify.verify import verify

        spark = self.spark or active_session() if engine == "spark" else None
        if engine == "spark" and spark is None:
            reason = "there is no Spark session; give one with open_log(..., spark=...)"
            raise DistributedError(reason, is_setup=True)

        return verify(
            self.directory,
            self.config,
            now_ms=self.clock.now_ms(),
            deep=deep,
            spark=spark,
            progress=progress,
        )

    def repair(
        self,
        to: str,
        *,
        version: int | None = None,
        deep: bool = False,
        paths: str = "relative",
        dry_run: bool = False,
    ) -> Repaired:
        """Write the newest provable state of this log as a new log elsewhere, and prove it.

        This log is only read. `to` is an empty table root, or the log directory in it. `paths`
        is "relative" (the new log is to take the place of this one) or "absolute" (it is a table
        of its own, for readers that follow absolute paths). With `deep`, files that are gone are
        left out. Versions that cannot be proven are given up only with `version`, or where they
        are a torn end.

        Raises NotProvableError, with what is missing, and TargetNotEmptyError.
        """
        from engine.storage import open_storage
        from engine.upkeep.repair.repair import Asked, repair, target_directory
        from engine.upkeep.repair.write import Paths

        here = self.directory
        storage, root = open_storage(to, here.storage.options, self.config)
        target = target_directory(storage, root, here.log_format)
        asked = Asked(version, deep, Paths(paths), dry_run)
        return repair(here, target, self.config, asked, now_ms=self.clock.now_ms())

    def repair_derived(self, *, dry_run: bool = False) -> DerivedRepair:
        """Write damaged checkpoints, compactions, checksums and the hint anew, in place.

        Only derived files are touched, and only where the commits, or a sound checkpoint and the
        commits after it, prove what they must say. No commit is ever edited or deleted.
        """
        from engine.upkeep.repair.derived import repair_derived

        return repair_derived(
            self.directory, self.config, now_ms=self.clock.now_ms(), dry_run=dry_run
        )
