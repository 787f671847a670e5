"""What can be asked of an open log about its commits? What they said, and when."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final, overload

from engine.errors import EmptyLogError, VersionNotFoundError
from engine.log.paths import FileKind, TransactionFileRef
from engine.log.segment import LogSegment, latest_version
from engine.log.timestamps import (
    commit_times,
    in_commit_start,
    version_at,
    version_at_in_commit_time,
)
from engine.replay.commits import commit_actions, commit_infos, in_commit_timestamp, own_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from engine.commit.cache import Caches
    from engine.config import Config
    from engine.log.listing import Listing, LogDirectory
    from engine.replay.heads import Head
    from engine.replay.lines import LineAction
    from engine.replay.spark import ReplayFrames

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Telling(ABC):
    """The half of a table's log that tells of its commits, one by one."""

    config: Config
    _caches: Caches

    @property
    @abstractmethod
    def directory(self) -> LogDirectory:
        """Where the log is."""

    @abstractmethod
    def head(self, version: int | None = None) -> Head:
        """Return the protocol and metaData of a version."""

    @abstractmethod
    def _whole(self) -> Listing: ...

    def version_at(self, moment: datetime) -> int:
        """Return the version that was the latest at `moment` (UTC where it has no zone)."""
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        moment_ms = (moment - _EPOCH) // timedelta(milliseconds=1)
        commits = {ref.version: ref for ref in self._commits()}
        times = commit_times(list(commits.values()))
        head = self.head()
        start = in_commit_start(head.metadata.get("configuration") or {})
        found = None
        if start is not None:
            own = [version for version, _ in times if version >= start]
            found = version_at_in_commit_time(own, moment_ms, lambda v: self._own_time(commits[v]))
        if found is None:
            found = version_at([t for t in times if start is None or t[0] < start], moment_ms)
        if found is None:
            earliest, latest = (times[0][0], times[-1][0]) if times else (None, head.version)
            why = "the first commit is later" if times else "no commit is left to tell the time by"
            asked = f"version at {moment.isoformat()}: {why}"
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
            own = own_time(info)
            moment = info.get("timestamp", times[ref.version]) if own is None else own
            yield {"version": ref.version, "timestamp": moment, **_known_info(info)}

    def commit_actions(self, version: int) -> list[LineAction]:
        """Return the actions of one commit, in the order of its lines."""
        commits = {ref.version: ref for ref in self._commits()}
        if version not in commits:
            earliest, latest = min(commits, default=None), max(commits, default=-1)
            raise VersionNotFoundError(self.directory.url, f"commit {version}", earliest, latest)
        ref = commits[version]
        kept = self._caches.versions.get(version)
        data = kept[1] if kept is not None and kept[0] == ref else None
        if data is None:
            data = self.directory.storage.read(self.directory.file(ref.path))
            self._caches.versions.put(version, (ref, data), len(data))
        return commit_actions(self.directory, ref, data, self.config)

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

    def _commits(self) -> list[TransactionFileRef]:
        refs = self._whole().refs
        if latest_version(refs) < 0:
            raise EmptyLogError(self.directory.url)
        commits = (ref for ref in refs if ref.kind is FileKind.COMMIT)
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

    def _own_time(self, ref: TransactionFileRef) -> int:
        return in_commit_timestamp(self.directory, ref, self.config) or ref.modification_time


def _known_info(info: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in info.items() if name not in {"version", "timestamp"}}
