"""One table's log: open it, and ask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from engine.config import ENGINE, Config
from engine.errors import VersionNotFoundError
from engine.log.listing import Listing, LogDirectory, find_log, list_latest, list_log
from engine.log.paths import FileKind, TransactionFileRef
from engine.log.timestamps import (
    commit_times,
    in_commit_start,
    version_at,
    version_at_in_commit_time,
)
from engine.replay import Replay, local, reference
from engine.replay.cache import Generation
from engine.replay.commits import commit_actions, commit_infos, in_commit_timestamp
from engine.replay.engines import Engines
from engine.replay.lines import LineAction
from engine.snapshot import Snapshot, Watch, load_snapshot
from engine.storage import open_storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

def open_log(
    table: str,
    config: Config | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    spark: SparkSession | None = None,
) -> TableLog:
    """Open the transaction log of the table at a path or URL.

    Logs that outgrow this process are replayed on `spark`, or on the session that is active.

    Raises LogNotFoundError where there is no log, and UnsupportedLogFormatError where there is
    one of a layout that txlog does not replay.
    """
    config = config or Config()
    storage, root = open_storage(table, storage_options, config)
    directory, listing = find_log(storage, root)
    return TableLog(directory, config, listing, spark)


class TableLog:
    """The log of one table. Cheap to open; every question looks at the storage again."""

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
        self._spark = spark
        self._generation = Generation.first()
        self._counts: dict[str, int] = {}

    def snapshot(
        self,
        version: int | None = None,
        *,
        timestamp: datetime | None = None,
        engine: str | None = None,
        progress: Watch | None = None,
    ) -> Snapshot:
        """Return the table's state at a version, at a moment, or at the latest version.

        `progress` is told of the segment before it is read, and returns what is then called
        with the bytes of each file as it is done. Raises VersionNotFoundError, and whatever
        makes the log unreadable as a ReplayError.
        """
        if version is not None and timestamp is not None:
            raise ValueError("give a version or a timestamp, not both")
        if timestamp is not None:
            version = self.version_at(timestamp)
        listing = self._latest() if version is None else self._whole()
        engines = Engines(
            engine or self.config[ENGINE], self._spark, self._generation, self._count
        )
        return load_snapshot(self.directory, listing, version, engines, self.config, progress)

    def cache_stats(self) -> dict[str, float]:
        """Return how often parsed files were found in the executors' caches by this log."""
        hits, misses = self._counts.get("cacheHits", 0), self._counts.get("cacheMisses", 0)
        rate = hits / (hits + misses) if hits + misses else 0.0
        return {"hits": hits, "misses": misses, "hitRate": rate}

    def invalidate_caches(self, *, everywhere: bool = False) -> None:
        """Forget what was parsed of this table, or of all tables, before the next read.

        Takes effect on every executor: each task brings the number of the last invalidation with
        it, and drops what is older before it reads.
        """
        self._generation = self._generation.next(everywhere=everywhere)

    def version_at(self, moment: datetime) -> int:
        """Return the version that was the latest at `moment` (UTC where it has no zone)."""
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        moment_ms = int(moment.timestamp() * 1000)
        refs = self._whole().refs
        times = commit_times(refs)
        commits = {ref.version: ref for ref in refs if ref.kind is FileKind.COMMIT}
        start = in_commit_start(self.snapshot().configuration)
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

    def history(self, limit: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield what each commit says of itself, the newest first."""
        refs = self._whole().refs
        times = dict(commit_times(refs))
        commits = sorted(
            (ref for ref in refs if ref.kind is FileKind.COMMIT), key=lambda r: -r.version
        )
        for ref, info in commit_infos(self.directory, commits[:limit], self.config):
            own = info.get("inCommitTimestamp")
            moment = own if isinstance(own, int) else info.get("timestamp", times[ref.version])
            yield {"version": ref.version, "timestamp": moment, **_known_info(info)}

    def actions(self, version: int) -> list[LineAction]:
        """Return the actions of one commit, in the order of its lines."""
        refs = self._whole().refs
        commits = {ref.version: ref for ref in refs if ref.kind is FileKind.COMMIT}
        if version not in commits:
            earliest, latest = min(commits, default=None), max(commits, default=-1)
            raise VersionNotFoundError(self.directory.url, f"commit {version}", earliest, latest)
        return commit_actions(self.directory, commits[version], self.config)

    def diff(self, old: int, new: int) -> tuple[pa.Table, pa.Table]:
        """Return the files live at `new` and not at `old`, and those live at `old` only."""
        return self.snapshot(old).diff(self.snapshot(new))

    def _latest(self) -> Listing:
        listing, self._fresh = self._fresh, None
        return listing if listing is not None else list_latest(self.directory)

    def _whole(self) -> Listing:
        listing = self._fresh
        return listing if listing is not None and listing.is_whole else list_log(self.directory)

    def _count(self, counts: Mapping[str, int]) -> None:
        for name, number in counts.items():
            self._counts[name] = self._counts.get(name, 0) + number

    def _own_time(self, ref: TransactionFileRef) -> int:
        return in_commit_timestamp(self.directory, ref) or ref.modification_time


def _known_info(info: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in info.items() if name not in {"version", "timestamp"}}
