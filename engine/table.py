"""One table's log: open it, and ask."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from engine.commit.cache import caches_of, rated
from engine.commit.follow import Follower, size_of
from engine.commit.older import from_checkpoint
from engine.commit.writing import Writing
from engine.config import (
    CACHE_ENABLED,
    ENGINE,
    MAX_STALENESS_MS,
    SETTINGS,
    Config,
)
from engine.errors import LogNotFoundError, TableExistsError
from engine.formats import FORMATS, LogFormat, by_name
from engine.log.listing import Listing, LogDirectory, find_log, list_latest, list_log
from engine.log.segment import LogSegment, latest_version
from engine.replay.cache import invalidate
from engine.replay.engines import Engines
from engine.replay.heads import Head, read_head
from engine.replay.state import LocalState
from engine.snapshot import Snapshot, Watch, load_snapshot
from engine.storage import open_storage
from engine.telling import Telling
from engine.upkeep.checksum import cross_checked
from engine.upkeep.keeping import Keeping

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from engine.commit.hooks import Hook
    from engine.log.segment import Fallback
    from engine.replay import Progress
    from engine.replay.state import State


def open_log(
    table: str | os.PathLike[str],
    config: Config | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    spark: SparkSession | None = None,
    log_format: str | None = None,
) -> TableLog:
    """Open the transaction log of the table at a path or URL.

    Where there is no log, all that can be done is to `initialize` it, by default as a Delta log;
    everything else raises LogNotFoundError. Given `log_format`, logs of other formats are not
    looked at.

    Logs that outgrow this process are replayed on `spark`, or on the session that is active. What
    `spark` was configured with counts, unless `config` brings a session's settings of its own.

    Raises UnsupportedLogFormatError where the log has a layout that txlog does not replay.
    """
    config = config or Config()
    if spark is not None and not config.session:
        found = {key: spark.conf.get(key, None) for key in SETTINGS}
        config = replace(config, session={k: v for k, v in found.items() if v is not None})
    storage, root = open_storage(os.fspath(table), storage_options, config)
    formats = FORMATS if log_format is None else (by_name(log_format),)
    try:
        directory, listing = find_log(storage, root, formats)
    except LogNotFoundError:
        return TableLog(LogDirectory(storage, root, formats[0]), config, None, spark, formats)
    return TableLog(directory, config, listing, spark, formats)


def create_log(  # noqa: PLR0913
    table: str | os.PathLike[str],
    schema: Any,
    partition_columns: Sequence[str] = (),
    *,
    configuration: Mapping[str, str] | None = None,
    log_format: str = "delta",
    name: str | None = None,
    config: Config | None = None,
    storage_options: Mapping[str, Any] | None = None,
    exist_ok: bool = False,
    dry_run: bool = False,
) -> TableLog:
    """Create a table that is not there yet, and open it: `open_log` and `initialize` in one.

    With `exist_ok`, a table that is there already is opened as it is. Raises TableExistsError,
    and InvalidCommitError where the table could not be.
    """
    log = open_log(table, config, storage_options=storage_options, log_format=log_format)
    try:
        done = log.initialize(schema, partition_columns, configuration, name=name, dry_run=dry_run)
    except TableExistsError:
        if not exist_ok:
            raise
        return open_log(table, config, storage_options=storage_options)
    if not (done.is_new or dry_run or exist_ok):
        raise TableExistsError(log.place.table_url)
    return log


class TableLog(Telling, Keeping, Writing):
    """The log of one table. Cheap to open; every question looks at the storage again.

    What was read stays, and only what is new is read; snapshots never change. `place` is where
    the log is, or is to be.
    """

    def __init__(
        self,
        place: LogDirectory,
        config: Config,
        listing: Listing | None,
        spark: SparkSession | None = None,
        formats: Sequence[LogFormat] = FORMATS,
    ) -> None:
        self.place = place
        self.config = config
        self.spark = spark
        self._formats = formats
        self._fresh = listing if listing is not None and listing.refs else None
        self._is_there = listing is not None
        self._counts: dict[str, int] = {}
        self._caches = caches_of(config)
        self._following: Follower | None = None
        self.hooks: list[Hook] = []

    @property
    def directory(self) -> LogDirectory:
        """Where the log is. Raises LogNotFoundError while there is none."""
        if not self._is_there:
            self.place, _ = find_log(self.place.storage, self.place.root, self._formats)
            self._is_there = True
        return self.place

    @property
    def exists(self) -> bool:
        """Whether there is a log, as far as was looked."""
        try:
            return bool(self.directory)
        except LogNotFoundError:
            return False

    @property
    def _follower(self) -> Follower:
        if self._following is None:
            self._following = Follower(
                self.directory, self.config, self._caches, self._load_latest, cross_checked
            )
        return self._following

    def snapshot(
        self,
        version: int | None = None,
        *,
        timestamp: datetime | None = None,
        engine: str | None = None,
        progress: Watch | None = None,
        max_staleness: timedelta | None = None,
    ) -> Snapshot:
        """Return the table's state at a version, at a moment, or at the latest version.

        The latest is what this log knows and the commits that are new since; with
        `max_staleness`, what it knew that long ago will do. An `engine` asked for by name
        replays from the files.

        `progress` is told of the segment before it is read, and returns what is then called
        with the bytes of each file as it is done. Raises VersionNotFoundError, and whatever
        makes the log unreadable as a ReplayError.
        """
        if version is not None and timestamp is not None:
            raise ValueError("give a version or a timestamp, not both")
        if timestamp is not None:
            version = self.version_at(timestamp)
        is_kept = engine is None and progress is None and self.config[CACHE_ENABLED]
        if not is_kept or self.config[ENGINE] not in {"auto", "local"}:
            return self._load(version, engine, progress)
        if max_staleness is None:
            staleness_ms = self.config[MAX_STALENESS_MS]
        else:
            staleness_ms = max_staleness // timedelta(milliseconds=1)
        if version is not None:
            return self._at(version)
        return self._follower.snapshot(staleness_ms)

    def head(self, version: int | None = None) -> Head:
        """Return the protocol and metaData of a version, or of the latest, without a full replay.

        The newest commits are looked at first, and no more of them than it takes.
        """
        if version is None and self._following is not None and self.config[CACHE_ENABLED]:
            kept = self._following.head()
            if kept is not None:
                return kept

        def run(
            segment: LogSegment, directory: LogDirectory, config: Config, _: Progress | None = None
        ) -> tuple[str, State, tuple[Fallback, ...]]:
            return "head", read_head(segment, directory, config), ()

        found = load_snapshot(self.directory, self.listing(version), version, run, self.config)
        return Head(found.version, found.protocol, found.metadata)

    def cache_stats(self) -> dict[str, Any]:
        """Return how often parsed files were found in the executors' caches by this log.

        Under `caches`, the same figures for what this process keeps of the log.
        """
        hits, misses = self._counts.get("cacheHits", 0), self._counts.get("cacheMisses", 0)
        return {**rated(hits, misses), "caches": self._caches.stats()}

    def invalidate_caches(self, *, everywhere: bool = False) -> None:
        """Forget what was parsed of this table, or of all tables, before the next read.

        Takes effect on every executor: each task brings the number of the last invalidation with
        it, and drops what is older before it reads.
        """
        invalidate(self.directory.table_url, everywhere=everywhere)
        self._follower.forget()
        self._caches.forget_older()

    def latest_version(self) -> int:
        """Return the latest version in the log, reading none of its files."""
        return latest_version(self._latest().refs)

    def listing(self, version: int | None = None) -> Listing:
        """List what `version`, or the latest, may need."""
        return self._latest() if version is None else self._whole()

    def diff(self, old: int, new: int) -> tuple[pa.Table, pa.Table]:
        """Return the files live at `new` and not at `old`, and those live at `old` only."""
        return self.snapshot(old).diff(self.snapshot(new))

    def _load_latest(self, engine: str | None) -> Snapshot:
        self._caches.forget_older()
        return self._load(None, engine, None)

    def _load(self, version: int | None, engine: str | None, progress: Watch | None) -> Snapshot:
        run, listing = self._engines(engine).replay, self.listing(version)
        found = load_snapshot(self.directory, listing, version, run, self.config, progress)
        return cross_checked(found, listing.refs)

    def _engines(self, engine: str | None = None) -> Engines:
        return Engines(engine or self.config[ENGINE], self.spark, self._count)

    def _at(self, version: int) -> Snapshot:
        latest = self._follower.latest_known()
        if version == latest:
            return self._follower.snapshot()
        listing = self._whole() if latest is None else None
        kept = self._caches.snapshots.get(version)
        # Where the latest is not known, the version's own commit tells whether it is that table's.
        if kept is not None and (listing is None or kept.segment.last_commit in listing.refs):
            return kept
        run = from_checkpoint(self._engines().replay, self._caches.checkpoint)
        listing = listing or self._whole()
        snapshot = load_snapshot(self.directory, listing, version, run, self.config)
        snapshot = cross_checked(snapshot, listing.refs)
        if isinstance(snapshot.state, LocalState):
            self._caches.snapshots.put(version, snapshot, size_of(snapshot))
        return snapshot

    def _properties(self) -> Mapping[str, str] | None:
        return None if self._following is None else self._following.properties()

    def _in_memory(self, version: int | None) -> Snapshot | None:
        return None if self._following is None else self._following.in_memory(version)

    def _latest(self) -> Listing:
        listing, self._fresh = self._fresh, None
        return listing if listing is not None else list_latest(self.directory)

    def _whole(self) -> Listing:
        listing, self._fresh = self._fresh, None
        return listing if listing is not None and listing.is_whole else list_log(self.directory)

    def _count(self, counts: Mapping[str, int]) -> None:
        for name, number in counts.items():
            self._counts[name] = self._counts.get(name, 0) + number
