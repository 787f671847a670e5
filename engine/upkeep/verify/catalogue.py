"""What can be wrong with a log? Every code, how bad it is, what it says and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ERROR: Final = "error"
WARNING: Final = "warning"
INFO: Final = "info"
SEVERITIES: Final = (ERROR, WARNING, INFO)


@dataclass(frozen=True, slots=True)
class Rule:
    """What a code stands for, how bad it is, and what to do about it."""

    severity: str
    says: str
    advice: str


# Advice that depends on what else the log has: `Versions` says where it holds.
RESTORE: Final = "restore the file from a backup, or write a sound log with txlog repair --to"
DERIVED: Final = "the commits are sound: txlog repair --derived writes it anew"
_HARMLESS: Final = "find the writer and mend it; the files that readers see are the right ones"
_WRITER: Final = "find the writer and mend it; readers do not agree on what this means"

RULES: Final[dict[str, Rule]] = {
    # The files of the log.
    "NO_START": Rule(ERROR, "the log begins after version 0, without a checkpoint", RESTORE),
    "GAP": Rule(ERROR, "a commit is missing and nothing stands in for it", RESTORE),
    "OLD_GAP": Rule(
        WARNING,
        "a commit is missing below a checkpoint: its version cannot be read any more",
        "versions from that checkpoint on do not need it; clean up what lies before it",
    ),
    "EMPTY_COMMIT": Rule(
        WARNING,
        "a commit of 0 bytes, which some readers take and some refuse",
        "find out what was to be committed; txlog repair --to writes a log without it",
    ),
    "UNREADABLE_COMMIT": Rule(ERROR, "a commit is damaged", RESTORE),
    "UNREADABLE_CHECKPOINT": Rule(ERROR, "a checkpoint is damaged", DERIVED),
    "EMPTY_CHECKPOINT": Rule(ERROR, "a file of a checkpoint has 0 bytes", DERIVED),
    "INCOMPLETE_CHECKPOINT": Rule(ERROR, "a checkpoint has not all of its parts", DERIVED),
    "MISSING_SIDECAR": Rule(ERROR, "a checkpoint names a sidecar that is not there", DERIVED),
    "SIDECAR_SIZE": Rule(WARNING, "a sidecar has another size than its checkpoint says", _HARMLESS),
    "UNREADABLE_COMPACTION": Rule(ERROR, "a compaction is damaged or empty", DERIVED),
    "UNREADABLE_CHECKSUM": Rule(WARNING, "a checksum file is damaged or empty", DERIVED),
    "HINT_UNREADABLE": Rule(WARNING, "_last_checkpoint is damaged", DERIVED),
    "HINT_DANGLING": Rule(
        ERROR, "_last_checkpoint names a checkpoint that is not whole; some readers fail", DERIVED
    ),
    "HINT_WRONG": Rule(WARNING, "_last_checkpoint says what is not so of its checkpoint", DERIVED),
    "HINT_STALE": Rule(
        INFO, "_last_checkpoint names an older checkpoint than the newest", "the next one moves it"
    ),
    "ORPHAN_SIDECAR": Rule(
        INFO, "a sidecar or part that no checkpoint names", "txlog cleanup removes it in time"
    ),
    "STAGING_LEFTOVER": Rule(
        INFO, "unfinished files of a run that died, or still runs", "txlog cleanup removes them"
    ),
    "UNKNOWN_FILE": Rule(INFO, "a file that is no part of the log", "nothing, if it is yours"),
    "ORPHAN_CHECKSUM": Rule(
        INFO, "a checksum of a version that is not in the log", "nothing; readers ignore it"
    ),
    "OVERLAPPING_COMPACTIONS": Rule(
        INFO,
        "compactions that overlap: readers choose among them differently, all of them rightly",
        "nothing; windows that tile are read by all",
    ),
    # Time.
    "TIME_BACKWARDS": Rule(
        INFO,
        "a commit is older than the one before it: a copied log, or a clock that was set back",
        "time travel by timestamp takes it as a millisecond later than the one before",
    ),
    "COMMIT_TIME_BACKWARDS": Rule(
        ERROR, "an in-commit timestamp is not greater than the one before it", _WRITER
    ),
    "COMMIT_TIME_MISSING": Rule(
        ERROR, "a commit has no in-commit timestamp, though the table has them", _WRITER
    ),
    "COMMIT_INFO_NOT_FIRST": Rule(
        ERROR, "commitInfo is not the first action, though it holds the commit's time", _WRITER
    ),
    # What a table is.
    "NO_PROTOCOL": Rule(ERROR, "no commit and no checkpoint tells the protocol", RESTORE),
    "NO_METADATA": Rule(ERROR, "no commit and no checkpoint tells the metaData", RESTORE),
    "PROTOCOL_UNSUPPORTED": Rule(
        ERROR,
        "the table needs what txlog does not read: nothing else can be proven of it",
        "use an engine that reads it, or a newer txlog",
    ),
    "PROTOCOL_ILLEGAL": Rule(ERROR, "the protocol's versions and features do not fit", _WRITER),
    "PROTOCOL_EMPTY_FEATURES": Rule(
        WARNING, "a feature list where there must be none, not even an empty one", _WRITER
    ),
    "FEATURE_NOT_DECLARED": Rule(
        ERROR, "actions use a table feature that the protocol does not name", _WRITER
    ),
    "SCHEMA_INVALID": Rule(ERROR, "the schema cannot be read", _WRITER),
    "PARTITION_COLUMN_UNKNOWN": Rule(ERROR, "a partition column is not in the schema", _WRITER),
    "TABLE_ID_CHANGED": Rule(
        WARNING, "the table's id changes along the log: two tables in one place?", _WRITER
    ),
    # Actions.
    "CONFLICTING_ACTIONS": Rule(
        ERROR,
        "one commit both adds and removes a file, or has two of what there is one of",
        _WRITER,
    ),
    "DUPLICATE_ACTION": Rule(WARNING, "one commit says the same thing twice", _WRITER),
    "FILE_LIVE_TWICE": Rule(
        ERROR, "one file is live with two deletion vectors: its rows count twice", _WRITER
    ),
    "UNKNOWN_REMOVE": Rule(
        INFO, "a remove of a file that is not there", "nothing; it removes nothing"
    ),
    "PARTITION_VALUES": Rule(
        ERROR, "a file's partition values are not those of the partition columns", _WRITER
    ),
    "PARTITION_VALUE_TYPE": Rule(
        ERROR, "a partition value cannot be read as its column's type", _WRITER
    ),
    "PATH_OUTSIDE": Rule(
        ERROR, "a path leads out of the table, or into its log", "do not read it; find the writer"
    ),
    "PATH_ABSOLUTE": Rule(
        INFO, "files outside of the table's root", "keep them: a clone needs its origin"
    ),
    "MISSING_FIELD": Rule(WARNING, "an action lacks a field that the format asks for", _WRITER),
    "BAD_SIZE": Rule(ERROR, "a file of a negative size", _WRITER),
    "BAD_STATS": Rule(
        WARNING, "statistics that are not JSON: some readers fail, some skip nothing", _WRITER
    ),
    "APPEND_ONLY": Rule(WARNING, "data was removed from an append-only table", _WRITER),
    "ILLEGAL_ACTION": Rule(WARNING, "an action that has no place in this kind of file", _WRITER),
    # Checkpoints.
    "CHECKPOINT_HEADLESS": Rule(
        ERROR, "a checkpoint without protocol or metaData, or with two of them", DERIVED
    ),
    "CHECKPOINT_V2_METADATA": Rule(
        ERROR,
        "a V2 checkpoint without its checkpointMetadata, or with that of another version",
        DERIVED,
    ),
    "CHECKPOINT_LOST_FILES": Rule(
        ERROR, "a checkpoint lost live files: readers miss their rows", DERIVED
    ),
    "CHECKPOINT_EXTRA_FILES": Rule(
        ERROR, "a checkpoint has files that are not live: readers see deleted rows", DERIVED
    ),
    "CHECKPOINT_DIFFERS": Rule(
        ERROR, "a checkpoint tells of files otherwise than their commits do", DERIVED
    ),
    "CHECKPOINT_DUPLICATE": Rule(ERROR, "a checkpoint has a file twice", DERIVED),
    "CHECKPOINT_ADD_AND_REMOVE": Rule(
        ERROR, "a checkpoint has an add and a remove of one file", DERIVED
    ),
    "CHECKPOINT_LOST_TOMBSTONES": Rule(
        WARNING, "a checkpoint lost tombstones that are still within retention", _HARMLESS
    ),
    "CHECKPOINT_LOST_TXN": Rule(
        ERROR,
        "a checkpoint lost, or changed, an application's version: it may write twice",
        DERIVED,
    ),
    "CHECKPOINT_LOST_DOMAIN": Rule(
        ERROR, "a checkpoint lost, changed or revived a domain", DERIVED
    ),
    "CHECKPOINT_PROTOCOL": Rule(ERROR, "a checkpoint has another protocol", DERIVED),
    "CHECKPOINT_METADATA": Rule(ERROR, "a checkpoint has another metaData", DERIVED),
    "CHECKPOINTS_DISAGREE": Rule(
        ERROR,
        "a checkpoint contradicts another one, or a checksum, and no commit is old enough to tell "
        "who is right",
        "restore older commits, or move the wrong one out of the log: neither is written anew",
    ),
    "CHECKPOINT_UNPROVEN": Rule(
        INFO,
        "the commits before a checkpoint are gone: it can be read, and not be compared",
        "nothing; so it is after every cleanup",
    ),
    "TOMBSTONES_EXPIRED": Rule(
        INFO,
        "the newest checkpoint carries tombstones past retention",
        "the next checkpoint drops them",
    ),
    # Compactions.
    "COMPACTION_LOST_TOMBSTONES": Rule(
        ERROR, "a compaction lost removes: deleted files come back to life", DERIVED
    ),
    "COMPACTION_LOST_FILES": Rule(ERROR, "a compaction lost files", DERIVED),
    "COMPACTION_EXTRA_FILES": Rule(
        ERROR, "a compaction has actions that are not its commits'", DERIVED
    ),
    "COMPACTION_DIFFERS": Rule(
        ERROR, "a compaction tells of files otherwise than their commits do", DERIVED
    ),
    "COMPACTION_LOST_DOMAIN": Rule(
        ERROR, "a compaction lost or changed a domain, or the removal of one", DERIVED
    ),
    "COMPACTION_LOST_TXN": Rule(
        ERROR, "a compaction lost or changed an application's version", DERIVED
    ),
    "COMPACTION_LOST_SKIP": Rule(
        WARNING, "a compaction lost or changed a skip", "txlog compact --repair writes it anew"
    ),
    "COMPACTION_METADATA": Rule(
        ERROR, "a compaction lost or changed the protocol or the metaData", DERIVED
    ),
    "COMPACTION_UNPROVEN": Rule(
        INFO,
        "not all commits of a compaction are there: it can be read, and not be compared",
        "nothing; readers use it only where its commits are",
    ),
    # Checksums.
    "CHECKSUM_DIFFERS": Rule(
        ERROR, "a checksum file does not agree with the replay of the commits", DERIVED
    ),
    # Data files, with --deep.
    "DATA_FILE_MISSING": Rule(
        ERROR, "a live file is not there", "restore it, or drop it with txlog repair --to --deep"
    ),
    "DATA_FILE_SIZE": Rule(
        ERROR, "a live file has another size than its add says", "restore it, or add it anew"
    ),
    "DELETION_VECTOR_MISSING": Rule(
        ERROR, "the file of a deletion vector is not there: deleted rows come back", "restore it"
    ),
    "DELETION_VECTOR_SIZE": Rule(
        ERROR, "the file of a deletion vector ends before the vector does", "restore it"
    ),
    "DATA_FILE_ELSEWHERE": Rule(
        INFO, "live files outside of the table's root were not looked at", "look at them there"
    ),
}
