"""What can be asked of an open log that writes to it? Each question is one change, committed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from engine.commit import changes, skips
from engine.commit.conflicts import Reads
from engine.commit.transaction import Clock, Committed, commit
from engine.config import SKIP_COOLDOWN_HOURS, SKIP_TRACKING_ENABLED
from engine.replay.predicate import parse_predicate

if TYPE_CHECKING:
    import pyarrow as pa

    from engine.commit.cache import CacheCounts
    from engine.commit.changes import Change
    from engine.commit.follow import Follower
    from engine.commit.serialize import Action
    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.snapshot import Snapshot

# Run after a commit, with the log and what was committed.
Hook = Callable[["Any", Committed], object]

_logger: Final = logging.getLogger(__name__)


class Writing:
    """The half of a table's log that writes."""

    directory: LogDirectory
    config: Config
    hooks: list[Hook]
    clock: Clock = Clock()
    _follower: Follower
    _cache_counts: CacheCounts

    def snapshot(self) -> Snapshot:
        """Return the latest state."""
        raise NotImplementedError

    def commit(
        self,
        actions: Iterable[Mapping[str, Mapping[str, Any]]],
        *,
        txn: tuple[str, int] | None = None,
        operation: str = "WRITE",
        read_version: int | None = None,
        read_where: str | None = None,
        dry_run: bool = False,
    ) -> Committed:
        """Commit actions in wire names, such as `{"add": {…}}`, as the next version.

        `txn` is an application and its own version: one that is in the log already is not
        committed again. `read_version` and `read_where`, a condition on partition columns, tell
        what the actions were decided by: files that others added there or removed since are a
        conflict. Raises InvalidCommitError, ConflictError, ContentionError and their kin.
        """
        reads = Reads()
        if read_where is not None:
            view = self._follower.view(self._cache_counts)
            columns = view.metadata.get("partitionColumns") or ()
            schema = str(view.metadata.get("schemaString"))
            read_version = view.version if read_version is None else read_version
            reads = Reads(parse_predicate(read_where, schema, columns), head=True)
        change = changes.of_actions(
            list(actions),
            operation=operation,
            txn=txn,
            reads=reads,
            read_version=read_version,
        )
        return self._commit(change, dry_run=dry_run)

    def add_files(
        self,
        files: Iterable[Mapping[str, Any]],
        *,
        txn: tuple[str, int] | None = None,
        dry_run: bool = False,
    ) -> Committed:
        """Append files: mappings with `path`, `size` and what else an add has. Never conflicts."""
        change = changes.of_actions(
            self._adds(files), operation="WRITE", txn=txn, parameters={"mode": "Append"}
        )
        return self._commit(change, dry_run=dry_run)

    def remove_files(
        self,
        paths: Sequence[str],
        *,
        txn: tuple[str, int] | None = None,
        dry_run: bool = False,
    ) -> Committed:
        """Remove live files by their paths; a path that is not live is refused."""
        change = changes.removing(paths, self.directory.table_url, txn=txn)
        return self._commit(change, dry_run=dry_run)

    def overwrite_files(
        self,
        files: Iterable[Mapping[str, Any]],
        *,
        txn: tuple[str, int] | None = None,
        dry_run: bool = False,
    ) -> Committed:
        """Put files in the place of all that are live when this is committed."""
        return self._replace(files, None, txn, dry_run=dry_run)

    def replace_where(
        self,
        where: str,
        files: Iterable[Mapping[str, Any]],
        *,
        txn: tuple[str, int] | None = None,
        dry_run: bool = False,
    ) -> Committed:
        """Put files in the place of those a condition on partition columns holds for.

        The condition must hold for the new files too.
        """
        return self._replace(files, where, txn, dry_run=dry_run)

    def update_metadata(
        self,
        *,
        schema: Any = None,
        configuration: Mapping[str, str | None] | None = None,
        name: str | None = None,
        description: str | None = None,
    ) -> Committed:
        """Change the schema, the properties (None drops one), the name or the description.

        A schema may gain columns that may be null; whatever files written before could not be
        read by is refused.
        """
        change = changes.updating_metadata(
            self.directory.table_url,
            schema=schema,
            configuration=configuration,
            name=name,
            description=description,
        )
        return self._commit(change)

    def upgrade_protocol(
        self,
        min_reader_version: int = 1,
        min_writer_version: int = 1,
        *,
        reader_features: Sequence[str] = (),
        writer_features: Sequence[str] = (),
    ) -> Committed:
        """Raise the protocol; it never goes down, and one that is high enough is left alone."""
        change = changes.upgrading(
            self.directory.table_url,
            min_reader_version,
            min_writer_version,
            writer_features,
            reader_features,
        )
        return self._commit(change)

    # --- skipped files -------------------------------------------------------------------------

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

        The cooldown is that of the settings unless given. Raises UnsupportedActionError where
        the log's format has no skips.
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

    # --- how -----------------------------------------------------------------------------------

    def _adds(self, files: Iterable[Mapping[str, Any]]) -> list[Action]:
        now_ms = self.clock.now_ms()
        return changes.wrapped(
            "add", files, partitionValues={}, modificationTime=now_ms, dataChange=True
        )

    def _replace(
        self,
        files: Iterable[Mapping[str, Any]],
        where: str | None,
        txn: tuple[str, int] | None,
        *,
        dry_run: bool,
    ) -> Committed:
        parameters = {"mode": "Overwrite", **({"predicate": where} if where else {})}
        change = changes.overwriting(
            self._adds(files), self.directory.table_url, where, txn=txn, parameters=parameters
        )
        return self._commit(change, dry_run=dry_run)

    def _commit(self, change: Change, *, dry_run: bool = False) -> Committed:
        done = commit(self._follower, change, self._cache_counts, self.clock, dry_run=dry_run)
        if not done.is_new:
            return done
        failures = tuple(why for why in (self._run(hook, done) for hook in self.hooks) if why)
        return replace(done, hook_failures=failures) if failures else done

    def _run(self, hook: Hook, done: Committed) -> str:
        """Return why a hook failed. The commit stands: a hook has no say in it."""
        try:
            hook(self, done)
        except Exception as error:
            name = getattr(hook, "__name__", type(hook).__name__)
            failure = f"{name}: {type(error).__name__}: {error}"
            _logger.warning("after version %d: %s", done.version, failure)
            return failure
        return ""
