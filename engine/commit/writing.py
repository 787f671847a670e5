"""What can be asked of an open log that writes to it? Each question is one change, committed."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from engine.commit import changes
from engine.commit.conflicts import Reads
from engine.commit.create import OPERATION, TableSpec, create, difference
from engine.commit.given import taken
from engine.commit.hooks import Hook, hooked
from engine.commit.skipping import Skipping
from engine.commit.transaction import Committed, commit
from engine.errors import LogNotFoundError, TableExistsError
from engine.replay.predicate import parse_predicate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from engine.commit.changes import Change
    from engine.commit.follow import Follower
    from engine.commit.serialize import Action
    from engine.log.listing import LogDirectory


class Writing(Skipping):
    """The half of a table's log that writes."""

    place: LogDirectory
    hooks: list[Hook]

    @property
    @abstractmethod
    def _follower(self) -> Follower: ...

    @abstractmethod
    def due_hooks(self, done: Committed) -> list[Hook]:
        """Return what the settings want done after a commit."""

    def initialize(
        self,
        schema: Any,
        partition_columns: Sequence[str] = (),
        configuration: Mapping[str, str] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        dry_run: bool = False,
    ) -> Committed:
        """Create the table: write version 0 of its log.

        `schema` is the text of Spark's JSON, the object it stands for, a StructType or an Arrow
        schema. A table that is there as asked is left alone, and the answer says so. Raises
        TableExistsError where it is another, and InvalidCommitError where it could not be.
        """
        spec = TableSpec(
            schema, tuple(partition_columns), dict(configuration or {}), name, description
        )
        try:
            done = create(self.place, spec, self.config, self.clock.now_ms(), dry_run=dry_run)
        except TableExistsError as exists:
            return self._as_asked(spec, exists)
        return hooked(self, done, [*self.hooks, *self.due_hooks(done)])

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
            view = self._follower.view()
            columns = view.metadata.get("partitionColumns") or ()
            schema = str(view.metadata.get("schemaString"))
            read_version = view.version if read_version is None else read_version
            reads = Reads(parse_predicate(read_where, schema, columns), head=True)
        change = changes.of_actions(
            taken(actions, self.directory.log_format, self.directory.table_url),
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
        dry_run: bool = False,
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
        return self._commit(change, dry_run=dry_run)

    def upgrade_protocol(
        self,
        min_reader_version: int = 1,
        min_writer_version: int = 1,
        *,
        reader_features: Sequence[str] = (),
        writer_features: Sequence[str] = (),
        dry_run: bool = False,
    ) -> Committed:
        """Raise the protocol; it never goes down, and one that is high enough is left alone."""
        change = changes.upgrading(
            self.directory.log_format,
            min_reader_version,
            min_writer_version,
            reader_features,
            writer_features,
        )
        return self._commit(change, dry_run=dry_run)

    # --- how -----------------------------------------------------------------------------------

    def _adds(self, files: Iterable[Mapping[str, Any]]) -> list[Action]:
        now_ms = self.clock.now_ms()
        adds = changes.wrapped(
            "add", files, partitionValues={}, modificationTime=now_ms, dataChange=True
        )
        return taken(adds, self.directory.log_format, self.directory.table_url)

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

    def _as_asked(self, spec: TableSpec, exists: TableExistsError) -> Committed:
        try:
            view = self._follower.view()
        except LogNotFoundError:
            raise TableExistsError(exists.table, "its log is of another format") from None
        if found := difference(spec, view.metadata):
            raise TableExistsError(exists.table, found)
        reason = "the table is there already, as asked"
        return Committed(view.version, is_new=False, reason=reason, operation=OPERATION)

    def _commit(self, change: Change, *, dry_run: bool = False) -> Committed:
        done = commit(self._follower, change, self.clock, dry_run=dry_run)
        return hooked(self, done, [*self.hooks, *self.due_hooks(done)])
