"""What can go wrong: one tree of errors, each a fact with fields and a stable code.

`str(error)` is one line a user can act on; `error.code` is what programs match on.
A wrong argument to a Python function is a plain `ValueError`, never one of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from collections.abc import Sequence


class ReplayError(Exception):
    """Anything txlog refuses to do, or cannot do, with a table."""

    code: ClassVar[str] = "ERROR"


# --- finding the log ---------------------------------------------------------------------------


class LogNotFoundError(ReplayError):
    """There is no transaction log at the path."""

    code = "NO_LOG"

    def __init__(self, table: str, reason: str = "") -> None:
        super().__init__(
            f"{table}: no transaction log here"
            f"{f' ({reason})' if reason else ''}; "
            "expected a table root that holds _delta_log/ or _transaction_log/"
        )
        self.table = table


class EmptyLogError(ReplayError):
    """The log directory exists and holds no commit and no checkpoint."""

    code = "EMPTY_LOG"

    def __init__(self, directory: str) -> None:
        super().__init__(
            f"{directory}: the log directory holds no commit and no checkpoint; "
            "nothing was ever committed here, or everything was deleted"
        )
        self.directory = directory


class UnsupportedLogFormatError(ReplayError):
    """The log is kept in a layout that txlog knows by name and does not replay."""

    code = "UNSUPPORTED_LOG_FORMAT"

    def __init__(self, directory: str, layout: str) -> None:
        super().__init__(
            f"{directory}: the state of this log is kept as {layout}, which txlog does not replay; "
            "its commits alone are not the table's state"
        )
        self.directory, self.layout = directory, layout


# --- choosing the files of a version -----------------------------------------------------------


class LogGapError(ReplayError):
    """A commit between two known versions is missing.

    `later` are the versions behind it, from a checkpoint on, that can be read all the same.
    """

    code = "GAP"

    def __init__(
        self, directory: str, after: int, found: int, later: tuple[int, int] | None = None
    ) -> None:
        beyond = f", or one from {later[0]} to {later[1]}" if later else ""
        super().__init__(
            f"{directory}: commit {after + 1} is missing (found {after}, then {found}); "
            f"restore it, or read a version up to {after} with --version {after}{beyond}"
        )
        self.directory, self.after, self.found, self.later = directory, after, found, later


class LogStartError(ReplayError):
    """The first commits are gone and no usable checkpoint stands in for them."""

    code = "NO_START"

    def __init__(self, directory: str, first: int, reason: str = "") -> None:
        super().__init__(
            f"{directory}: the log starts at version {first} and no readable checkpoint covers "
            f"what came before{f' ({reason})' if reason else ''}; "
            "the earlier commits or a checkpoint must be restored"
        )
        self.directory, self.first = directory, first


class CleanedUpError(LogStartError):
    """The version asked for is older than anything the log can still be read from."""

    def __init__(self, directory: str, asked: int, earliest: int, latest: int) -> None:
        ReplayError.__init__(
            self,
            f"{directory}: the commits of version {asked} were cleaned up; "
            f"versions {earliest} to {latest} can be read",
        )
        self.directory, self.first = directory, earliest
        self.asked, self.latest = asked, latest


class VersionNotFoundError(ReplayError):
    """The version asked for is not in the log: it was never written, or its file is gone."""

    code = "VERSION_NOT_FOUND"

    def __init__(self, directory: str, asked: str, earliest: int | None, latest: int) -> None:
        if earliest is None:
            known = f"the latest is {latest}"
        else:
            known = f"versions {earliest} to {latest} can be read"
        super().__init__(f"{directory}: no {asked}; {known}")
        self.directory, self.asked = directory, asked
        self.earliest, self.latest = earliest, latest


# --- reading the files -------------------------------------------------------------------------


class UnreadableLogFileError(ReplayError):
    """A log file does not say what its kind must say."""

    code = "CORRUPT_JSON"
    advice: ClassVar[str] = "restore this file, or replay a version before it with --version"

    def __init__(
        self, path: str, reason: str, line: int | None = None, column: int | None = None
    ) -> None:
        self.place = f"{path}{f':{line}' if line else ''}{f':{column}' if line and column else ''}"
        super().__init__(f"{self.place}: {reason}; {self.advice}")
        self.path, self.reason, self.line, self.column = path, reason, line, column


class CorruptCheckpointError(UnreadableLogFileError):
    """A checkpoint cannot be read and the commits cannot stand in for it."""

    code = "CORRUPT_CHECKPOINT"
    advice = "restore this file, or the commits that came before the checkpoint"


class MissingSidecarError(CorruptCheckpointError):
    """A V2 checkpoint names a sidecar that does not exist."""

    code = "MISSING_SIDECAR"


class InvalidCheckpointError(CorruptCheckpointError):
    """A checkpoint can be read, and breaks the rules for what it must hold."""

    code = "INVALID_CHECKPOINT"


_HEADLESS: Final = "; restore the commit or the checkpoint that had it"


class MissingProtocolError(ReplayError):
    """No protocol action is left after replay."""

    code = "MISSING_PROTOCOL"

    def __init__(self, directory: str, version: int) -> None:
        super().__init__(f"{directory}: version {version} has no protocol action{_HEADLESS}")
        self.directory, self.version = directory, version


class MissingMetadataError(ReplayError):
    """No metaData action is left after replay."""

    code = "MISSING_METADATA"

    def __init__(self, directory: str, version: int) -> None:
        super().__init__(f"{directory}: version {version} has no metaData action{_HEADLESS}")
        self.directory, self.version = directory, version


class MissingSchemaError(ReplayError):
    """The metaData action has no schemaString, and the schema was asked for."""

    code = "MISSING_SCHEMA"

    def __init__(self, directory: str) -> None:
        super().__init__(
            f"{directory}: the table's metaData has no schemaString; commit one that has"
        )
        self.directory = directory


# --- protocol ----------------------------------------------------------------------------------


class UnsupportedProtocolError(ReplayError):
    """The table asks for a reader that txlog is not."""

    code = "UNSUPPORTED_READER_VERSION"

    def __init__(self, directory: str, needs: str) -> None:
        super().__init__(f"{directory}: {needs}; upgrade txlog or use an engine that supports it")
        self.directory, self.needs = directory, needs


class UnsupportedFeatureError(UnsupportedProtocolError):
    """The table uses a reader feature that txlog does not know."""

    code = "UNSUPPORTED_READER_FEATURE"


class CatalogManagedError(UnsupportedProtocolError):
    """A catalog, not the file system, decides which commits of this table count."""

    code = "CATALOG_MANAGED"


class MissingDocMappingError(ReplayError):
    """Files name mappings that the table's metadata does not hold."""

    code = "MISSING_DOC_MAPPING"

    def __init__(self, directory: str, hashes: Sequence[str]) -> None:
        super().__init__(
            f"{directory}: files name the mapping {', '.join(hashes)}, which the table's metadata "
            "does not hold; commit a metaData action that has it, under docMappingSchema.<hash>"
        )
        self.directory, self.hashes = directory, tuple(hashes)


# --- writing -----------------------------------------------------------------------------------


class TableExistsError(ReplayError):
    """A table was to be created where there is one already."""

    code = "TABLE_EXISTS"

    def __init__(self, table: str, difference: str = "") -> None:
        but = f", and {difference}" if difference else ""
        super().__init__(f"{table}: there is a table here already{but}; open it instead")
        self.table, self.difference = table, difference


class InvalidCommitError(ReplayError):
    """What was to be committed breaks a rule. Nothing was written.

    `at` is the place, from 0, of the action that breaks it, where one does by itself.
    """

    code = "INVALID_COMMIT"
    at: int | None = None

    def __init__(self, table: str, reason: str, at: int | None = None) -> None:
        super().__init__(f"{table}: nothing was committed: {reason}")
        self.table, self.reason, self.at = table, reason, at


class AppendOnlyError(InvalidCommitError):
    """The table's files may not be removed."""

    code = "APPEND_ONLY"


class SchemaChangeError(InvalidCommitError):
    """A commit would change the schema in a way nobody asked for, or that its files do not bear."""

    code = "SCHEMA_CHANGE"


class UnsupportedActionError(InvalidCommitError):
    """The log's format has no such action."""

    code = "UNSUPPORTED_ACTION"


class NoSkipsError(UnsupportedActionError):
    """The log's format has no skipped files, to write or to list."""

    def __init__(self, table: str, log_format: str) -> None:
        reason = f"a {log_format} log has no skipped files; only IndexTables logs have"
        ReplayError.__init__(self, f"{table}: {reason}")
        self.table, self.reason = table, reason


class UnsupportedWriterError(UnsupportedProtocolError):
    """The table asks for a writer that txlog is not."""

    code = "UNSUPPORTED_WRITER"


class ConflictError(ReplayError):
    """Another writer's commit and ours cannot both stand. Ours was not written."""

    code = "CONFLICT"

    def __init__(self, table: str, version: int, reason: str) -> None:
        super().__init__(
            f"{table}: not committed: version {version}, by another writer, {reason}; "
            "read the table again and decide anew"
        )
        self.table, self.version, self.reason = table, version, reason


class ConcurrentAppendError(ConflictError):
    """Another writer added files to what this commit had read."""

    code = "CONCURRENT_APPEND"


class ConcurrentDeleteError(ConflictError):
    """Another writer removed files that this commit had read, or removes too."""

    code = "CONCURRENT_DELETE"


class MetadataChangedError(ConflictError):
    """Another writer changed the table's metadata."""

    code = "METADATA_CHANGED"


class ProtocolChangedError(ConflictError):
    """Another writer changed the table's protocol."""

    code = "PROTOCOL_CHANGED"


class ContentionError(ReplayError):
    """Other writers were faster, every time."""

    code = "CONTENTION"

    def __init__(self, table: str, attempts: int, version: int) -> None:
        super().__init__(
            f"{table}: not committed: other writers were faster {attempts} times, up to version "
            f"{version}; try again, or raise spark.indextables.transaction.retry.maxAttempts"
        )
        self.table, self.attempts, self.version = table, attempts, version


# --- storage, options --------------------------------------------------------------------------


class StorageError(ReplayError):
    """The storage refused, or did not answer, after retries."""

    code = "STORAGE"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = path, reason


class AlreadyExistsError(StorageError):
    """A file that must be new exists already."""

    code = "ALREADY_EXISTS"

    def __init__(self, path: str, advice: str = "") -> None:
        super().__init__(path, f"exists already{advice or ', and is never overwritten'}")


class ConfigError(ReplayError):
    """A setting has a value that is not allowed."""

    code = "CONFIG"

    def __init__(self, key: str, value: object, allowed: str, source: str = "") -> None:
        super().__init__(
            f"{key}={value!r}{f' (from {source})' if source else ''} is not allowed; use {allowed}"
        )
        self.key, self.value, self.allowed, self.source = key, value, allowed, source


class UnknownKeyError(ConfigError):
    """A setting that nobody has. Its value is not told."""

    def __init__(self, key: str, allowed: str, source: str = "") -> None:
        ReplayError.__init__(
            self, f"{key}: there is no such key{f' (from {source})' if source else ''}; {allowed}"
        )
        self.key, self.value, self.allowed, self.source = key, None, allowed, source


class ConfFileError(ConfigError):
    """A file of settings that cannot be read."""

    def __init__(self, path: str, reason: str, allowed: str) -> None:
        ReplayError.__init__(self, f"{path}: {reason}; name {allowed}")
        self.key, self.value, self.allowed, self.source = "conf", path, allowed, reason


class PredicateError(ReplayError):
    """A `--where` that cannot be read, or does not speak of partition columns."""

    code = "BAD_WHERE"

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(f"cannot use --where {text!r}: {reason}")
        self.text, self.reason = text, reason


# --- Spark -------------------------------------------------------------------------------------


class DistributedError(ReplayError):
    """Spark failed, not the log. `is_setup` tells a cluster that was not set up for txlog."""

    code = "DISTRIBUTED"

    def __init__(self, reason: str, *, is_setup: bool = False) -> None:
        super().__init__(f"the distributed replay failed: {reason}")
        self.reason, self.is_setup = reason, is_setup


# --- hive --------------------------------------------------------------------------------------


class HiveTableNotFoundError(ReplayError):
    """The metastore knows no such database or table."""

    code = "HIVE_NO_TABLE"

    def __init__(self, table: str) -> None:
        super().__init__(
            f"{table}: the metastore knows no such table; use DATABASE or DATABASE.TABLE"
        )
        self.table = table


class HiveRefusedError(ReplayError):
    """A table that compaction must leave alone."""

    code = "HIVE_REFUSED"

    def __init__(self, table: str, reason: str) -> None:
        super().__init__(f"{table}: left alone, {reason}")
        self.table, self.reason = table, reason


class HiveLockedError(ReplayError):
    """Another run holds the table."""

    code = "HIVE_LOCKED"

    def __init__(self, table: str, owner: str, command: str, age_s: int) -> None:
        super().__init__(
            f"{table}: {command} by {owner} holds the table, last heard of {age_s} s ago; "
            "wait for it, or run again with --break-lock if that process is dead"
        )
        self.table, self.owner, self.command, self.age_s = table, owner, command, age_s


class HiveFencedError(ReplayError):
    """This run lost its lock to another one and must not touch the table again."""

    code = "HIVE_FENCED"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path}: another run took the table over; this one stopped and did no more"
        )
        self.path = path


class HiveMismatchError(ReplayError):
    """The rewritten files do not hold what the originals hold."""

    code = "HIVE_MISMATCH"

    def __init__(self, table: str, unit: str, original: str, rewritten: str) -> None:
        super().__init__(
            f"{table} {unit}: the rewritten files differ from the originals "
            f"({original} became {rewritten}); the table is as it was before"
        )
        self.table, self.unit, self.original, self.rewritten = table, unit, original, rewritten


class HiveSchemaError(ReplayError):
    """The files of one directory have schemas that no single schema can hold."""

    code = "HIVE_SCHEMA"

    def __init__(self, location: str, reason: str) -> None:
        super().__init__(f"{location}: {reason}; nothing was rewritten")
        self.location, self.reason = location, reason


class HiveRollbackRefusedError(ReplayError):
    """A rollback would drop rows that were added after the compaction."""

    code = "HIVE_WOULD_DROP_ROWS"

    def __init__(self, table: str, unit: str, files: int) -> None:
        super().__init__(
            f"{table} {unit}: {files} file(s) were added since the compaction "
            "and would be dropped; add --keep-new to carry them over, or --force to drop them"
        )
        self.table, self.unit, self.files = table, unit, files


class HiveSupersededError(ReplayError):
    """What a run left behind is no longer what is there, so it cannot be undone or removed."""

    code = "HIVE_SUPERSEDED"

    def __init__(self, table: str, unit: str, reason: str) -> None:
        super().__init__(f"{table} {unit}: {reason}; nothing was changed or deleted")
        self.table, self.unit, self.reason = table, unit, reason


class HiveNoRunError(ReplayError):
    """There is no run to roll back."""

    code = "HIVE_NO_RUN"

    def __init__(self, table: str, asked: str = "") -> None:
        super().__init__(
            f"{table}: no {f'run {asked}' if asked else 'compaction'} that can be rolled back; "
            "see `txlog hive history`"
        )
        self.table, self.asked = table, asked


class HiveLostError(ReplayError):
    """Neither the originals nor the rewritten files of a unit exist."""

    code = "HIVE_LOST"

    def __init__(self, table: str, unit: str, live: str, kept: str) -> None:
        super().__init__(
            f"{table} {unit}: neither {live} nor {kept} exists; "
            "something outside txlog removed them, restore one of the two"
        )
        self.table, self.unit, self.live, self.kept = table, unit, live, kept


class HiveFailedError(ReplayError):
    """A step failed on the storage, on Spark or on the metastore; says what state is left."""

    code = "HIVE_FAILED"

    def __init__(self, table: str, reason: str, outcome: str) -> None:
        super().__init__(f"{table}: {reason}; {outcome}")
        self.table, self.reason, self.outcome = table, reason, outcome


# --- writing back ------------------------------------------------------------------------------


class CheckpointWriteError(ReplayError):
    """A checkpoint could not be written. The log is as it was."""

    code = "CHECKPOINT_WRITE"

    def __init__(self, directory: str, version: int, reason: str) -> None:
        super().__init__(
            f"{directory}: no checkpoint of version {version} was written: {reason}; "
            "the log is as it was"
        )
        self.directory, self.version, self.reason = directory, version, reason


class CheckpointValidationError(ReplayError):
    """A checkpoint that was staged does not hold what it should. Nothing of it was published."""

    code = "CHECKPOINT_VALIDATION"

    def __init__(self, directory: str, version: int, differences: str) -> None:
        super().__init__(
            f"{directory}: the checkpoint of version {version}, read back, is not what was "
            f"written ({differences}); nothing was published"
        )
        self.directory, self.version, self.differences = directory, version, differences


class CheckpointCorruptionError(ReplayError):
    """A checkpoint that is part of the log cannot be read, or holds something else."""

    code = "CHECKPOINT_CORRUPTION"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"{path}: this checkpoint is damaged ({reason}); "
            "txlog checkpoint --repair writes a new one beside it"
        )
        self.path, self.reason = path, reason


class CompactionRefusedError(ReplayError):
    """This range of commits is not compacted."""

    code = "COMPACTION_REFUSED"

    def __init__(self, directory: str, reason: str) -> None:
        super().__init__(f"{directory}: {reason}")
        self.directory, self.reason = directory, reason


class CompactionValidationError(ReplayError):
    """A compaction, read back, does not say what its commits say; it was not published."""

    code = "COMPACTION_VALIDATION"

    def __init__(self, directory: str, name: str, differences: str) -> None:
        super().__init__(
            f"{directory}: {name}, read back, is not what its commits say ({differences}); "
            "it was dropped and the log is as it was"
        )
        self.directory, self.name, self.differences = directory, name, differences


class CleanupError(ReplayError):
    """A log file could not be deleted, and that was asked to be an error."""

    code = "CLEANUP"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: not deleted: {reason}")
        self.path, self.reason = path, reason


class NotProvableError(ReplayError):
    """What is left of a log does not prove the state that a repair was to keep."""

    code = "NOT_PROVABLE"

    def __init__(self, directory: str, reason: str) -> None:
        super().__init__(f"{directory}: not repaired: {reason}")
        self.directory, self.reason = directory, reason


class RepairError(ReplayError):
    """A repaired log was not finished. No reader takes what is there of it for a table."""

    code = "REPAIR"

    def __init__(self, target: str, reason: str) -> None:
        super().__init__(f"{target}: the repair was not finished: {reason}; run it again")
        self.target, self.reason = target, reason


class TargetNotEmptyError(ReplayError):
    """A repaired log is to be written where something is already."""

    code = "TARGET_NOT_EMPTY"

    def __init__(self, target: str, found: str) -> None:
        super().__init__(f"{target}: holds {found} already; name a target that is empty")
        self.target, self.found = target, found
