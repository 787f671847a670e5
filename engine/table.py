"""One table's log: open it, and ask."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final, overload

from engine.commit.cache import CacheCounts, VersionCache, rated
from engine.commit.create import TableSpec, create
from engine.commit.follow import Follower
from engine.commit.writing import Hook, Writing
from engine.config import (
    CACHE_ENABLED,
    CACHE_EXPIRATION_SECONDS,
    CACHE_MAX_BYTES,
    CACHE_MAX_ENTRIES,
    ENGINE,
    MAX_STALENESS_MS,
    SETTINGS,
    Config,
)
from engine.errors import LogNotFoundError, TableExistsError, VersionNotFoundError
from engine.formats import by_name
from engine.log.listing import Listing, LogDirectory, find_log, list_latest, list_log
from engine.log.paths import FileKind, TransactionFileRef
from engine.log.segment import LogSegment, latest_version
from engine.log.timestamps import (
    commit_times,
    in_commit_start,
    version_at,
    version_at_in_commit_time,
)
from engine.replay.cache import invalidate
from engine.replay.commits import commit_actions, commit_infos, in_commit_timestamp
from engine.replay.engines import Engines
from engine.replay.heads import Head, read_head
from engine.replay.state import LocalState
from engine.snapshot import Snapshot, Watch, load_snapshot
from engine.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from engine.log.segment import Fallback
    from engine.replay import Progress
    from engine.replay.lines import LineAction
    from engine.replay.spark import ReplayFrames
    from engine.replay.state import State

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


def open_log(
    table: str,
    config: Config | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    spark: SparkSession | None = None,
) -> TableLog:
    """Open the transaction log of the table at a path or URL.

    Logs that outgrow this process are replayed on `spark`, or on the session that is active. What
    `spark` was configured with counts, unless `config` brings a session's settings of its own.

    Raises LogNotFoundError where there is no log, and UnsupportedLogFormatError where there is
    one of a layout that txlog does not replay.
    """
    config = config or Config()
    if spark is not None and not config.session:
        found = {key: spark.conf.get(key, None) for key in SETTINGS}
        config = replace(config, session={k: v for k, v in found.items() if v is not None})
    storage, root = open_storage(table, storage_options, config)
    directory, listing = find_log(storage, root)
    return TableLog(directory, config, listing, spark)


def create_log(  # noqa: PLR0913
    table: str,
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
    """Create a table: write version 0 of its log, and open it.

    `schema` is the text of Spark's JSON, the object it stands for, a StructType or an Arrow
    schema. With `exist_ok`, a table that is there already is opened as it is. Raises
    TableExistsError, and InvalidCommitError where the table could not be.
    """
    config = config or Config()
    storage, root = open_storage(table, storage_options, config)
    try:
        found, listing = find_log(storage, root)
    except LogNotFoundError:
        pass
    else:
        if listing.refs and not exist_ok:
            raise TableExistsError(found.table_url)
        if listing.refs:
            return TableLog(found, config, listing)
    directory = LogDirectory(storage, root, by_name(log_format))
    spec = TableSpec(schema, tuple(partition_columns), dict(configuration or {}), name)
    try:
        create(directory, spec, config, time.time_ns() // 1_000_000, dry_run=dry_run)
    except TableExistsError:
        if not exist_ok:
            raise
    listing = Listing((), 0) if dry_run else list_latest(directory)
    return TableLog(directory, config, listing)


class TableLog(Writing):
    """The log of one table. Cheap to open; every question looks at the storage again.

    What was read stays, and only what is new is read; snapshots never change.
    """

    def __init__(
        self,
        directory: LogDirectory,
        config: Config,
        listing: Listing,
        spark: SparkSession | None = None,
    ) -> None:
        self.directory = directory
        self.config = config
        self._fresh: Listing | None = listing
        self.spark = spark
        self._counts: dict[str, int] = {}
        self._cache_counts = CacheCounts()
        self._follower = Follower(directory, config, self._load_latest)
        self._versions = VersionCache(
            config[CACHE_MAX_ENTRIES], config[CACHE_MAX_BYTES], config[CACHE_EXPIRATION_SECONDS]
        )
        self.hooks: list[Hook] = []

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
        return self._follower.snapshot(self._cache_counts, staleness_ms)

    def head(self, version: int | None = None) -> Head:
        """Return the protocol and metaData of a version, or of the latest, without a full replay.

        The newest commits are looked at first, and no more of them than it takes.
        """

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
        return {**rated(hits, misses), "caches": self._cache_counts.stats()}

    def invalidate_caches(self, *, everywhere: bool = False) -> None:
        """Forget what was parsed of this table, or of all tables, before the next read.

        Takes effect on every executor: each task brings the number of the last invalidation with
        it, and drops what is older before it reads.
        """
        invalidate(self.directory.table_url, everywhere=everywhere)
        self._follower.forget()
        self._versions.clear()

    def version_at(self, moment: datetime) -> int:
        """Return the version that was the latest at `moment` (UTC where it has no zone)."""
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        moment_ms = (moment - _EPOCH) // timedelta(milliseconds=1)
        commits = {ref.version: ref for ref in self._commits()}
        times = commit_times(list(commits.values()))
        start = in_commit_start(self.head().metadata.get("configuration") or {})
        found = None
        if start is not None:
            own = [version for version, _ in times if version >= start]
            found = version_at_in_commit_time(own, moment_ms, lambda v: self._own_time(commits[v]))
        if found is None:
            found = version_at([t for t in times if start is None or t[0] < start], moment_ms)
        if found is None:
            earliest = times[0][0] if times else None
            latest = times[-1][0] if times else -1
            asked = f"version at {moment.isoformat()}: the first commit is later"
            raise VersionNotFoundError(self.directory.url, asked, earliest, latest)
        return found

    @overload
    def history(self, spark: SparkSession, *, limit: int | None = None) -> DataFrame: ...

    @overload
    def history(
        self, spark: None = None, *, limit: int | None = None
    ) -> Iterator[dict[str, Any]]: ...

    def history(
        self, spark: SparkSession | None = None, *, limit: int | None = None
    ) -> Iterator[dict[str, Any]] | DataFrame:
        """Return what each commit says of itself, the newest first; a DataFrame given `spark`."""
        commits = self._commits()
        newest = commits[::-1][:limit]
        if spark is not None:
            return self._frames(spark, newest).history().orderBy("version", ascending=False)
        # Times are made to grow along the whole log, however little of it is shown.
        return self._history(newest, dict(commit_times(commits)))

    def _history(
        self, commits: Sequence[TransactionFileRef], times: Mapping[int, int]
    ) -> Iterator[dict[str, Any]]:
        for ref, info in commit_infos(self.directory, commits, self.config):
            own = info.get("inCommitTimestamp")
            moment = own if isinstance(own, int) else info.get("timestamp", times[ref.version])
            yield {"version": ref.version, "timestamp": moment, **_known_info(info)}

    def commit_actions(self, version: int) -> list[LineAction]:
        """Return the actions of one commit, in the order of its lines."""
        commits = {ref.version: ref for ref in self._commits()}
        if version not in commits:
            earliest, latest = min(commits, default=None), max(commits, default=-1)
            raise VersionNotFoundError(self.directory.url, f"commit {version}", earliest, latest)
        return commit_actions(self.directory, commits[version], self.config)

    def actions(self, spark: SparkSession) -> DataFrame:
        """Return every VersionedAction of every commit that is still there, as a DataFrame."""
        return self._frames(spark, self._commits()).actions()

    def changes(
        self, spark: SparkSession, from_version: int, to_version: int | None = None
    ) -> DataFrame:
        """Return the file actions of an inclusive range of commits, as they were committed.

        Raises VersionNotFoundError where a commit of the range is not there.
        """
        return self._frames(spark, self.commits(from_version, to_version)).changes()

    def commits(self, start: int = 0, end: int | None = None) -> list[TransactionFileRef]:
        """Return the commits of an inclusive range, all of them there, oldest first.

        Raises VersionNotFoundError where a commit of the range is not there.
        """
        found = {ref.version: ref for ref in self._commits()}
        latest, earliest = max(found, default=-1), min(found, default=None)
        wanted = range(start, (latest if end is None else end) + 1)
        for version in wanted:
            if version not in found:
                asked = f"commit {version}"
                raise VersionNotFoundError(self.directory.url, asked, earliest, latest)
        return [found[version] for version in wanted]

    def earliest_commit(self) -> int:
        """Return the version of the first commit that is still there; 0 where there is none."""
        return next((ref.version for ref in self._commits()), 0)

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
        self._versions.clear()
        return self._load(None, engine, None)

    def _load(self, version: int | None, engine: str | None, progress: Watch | None) -> Snapshot:
        listing = self.listing(version)
        engines = Engines(engine or self.config[ENGINE], self.spark, self._count)
        return load_snapshot(
            self.directory, listing, version, engines.replay, self.config, progress
        )

    def _at(self, version: int) -> Snapshot:
        latest = self._follower.latest_known()
        if version == latest:
            return self._follower.snapshot(self._cache_counts)
        if latest is None:  # nothing tells whether what is kept is still this table
            self._versions.clear()
        elif (kept := self._versions.get(version)) is not None:
            self._cache_counts.hit("snapshots")
            return kept
        self._cache_counts.miss("snapshots")
        snapshot = self._load(version, None, None)
        if isinstance(snapshot.state, LocalState):
            self._versions.put(snapshot)
        return snapshot

    def _latest(self) -> Listing:
        listing, self._fresh = self._fresh, None
        return listing if listing is not None else list_latest(self.directory)

    def _whole(self) -> Listing:
        listing, self._fresh = self._fresh, None
        return listing if listing is not None and listing.is_whole else list_log(self.directory)

    def _commits(self) -> list[TransactionFileRef]:
        commits = (ref for ref in self._whole().refs if ref.kind is FileKind.COMMIT)
        return sorted(commits, key=lambda ref: ref.version)

    def _frames(self, spark: SparkSession, commits: Sequence[TransactionFileRef]) -> ReplayFrames:
        from engine.replay.spark import ReplayFrames

        segment = LogSegment(
            log_format=self.directory.log_format,
            directory=self.directory.url,
            version=max((ref.version for ref in commits), default=-1),
            checkpoint=None,
            compactions=(),
            commits=tuple(commits),
            last_commit=None,
        )
        return ReplayFrames(spark, segment, self.directory, self.config)

    def _count(self, counts: Mapping[str, int]) -> None:
        for name, number in counts.items():
            self._counts[name] = self._counts.get(name, 0) + number

    def _own_time(self, ref: TransactionFileRef) -> int:
        return in_commit_timestamp(self.directory, ref, self.config) or ref.modification_time


def _known_info(info: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in info.items() if name not in {"version", "timestamp"}}
