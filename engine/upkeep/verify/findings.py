"""What can be wrong with a log? Every finding has a stable code, a severity and an advice."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

ERROR: Final = "error"
WARNING: Final = "warning"
INFO: Final = "info"
SEVERITIES: Final = (ERROR, WARNING, INFO)

# As many findings of one code are told apart; the rest are counted.
_EACH: Final = 20
_NAMES: Final = 3


@dataclass(frozen=True, slots=True)
class Rule:
    """What a code stands for, how bad it is, and what to do about it."""

    severity: str
    says: str
    advice: str


_RESTORE: Final = "restore the file from a backup, or write a sound log with txlog repair --to"
_DERIVED: Final = "the commits are sound: txlog repair --derived writes it anew"
_WRITER: Final = "find the writer and mend it; readers do not agree on what this means"

RULES: Final[dict[str, Rule]] = {
    # The files of the log.
    "NO_START": Rule(ERROR, "the log begins after version 0, without a checkpoint", _RESTORE),
    "GAP": Rule(ERROR, "a commit is missing and nothing stands in for it", _RESTORE),
    "OLD_GAP": Rule(
        WARNING,
        "a commit is missing below a checkpoint: its version cannot be read any more",
        "the newer versions are whole; clean up what lies before that checkpoint",
    ),
    "EMPTY_COMMIT": Rule(
        WARNING,
        "a commit of 0 bytes, which some readers take and some refuse",
        "find out what was to be committed; txlog repair --to writes a log without it",
    ),
    "UNREADABLE_COMMIT": Rule(ERROR, "a commit is damaged", _RESTORE),
    "UNREADABLE_CHECKPOINT": Rule(ERROR, "a checkpoint is damaged", _DERIVED),
    "EMPTY_CHECKPOINT": Rule(ERROR, "a file of a checkpoint has 0 bytes", _DERIVED),
    "INCOMPLETE_CHECKPOINT": Rule(ERROR, "a checkpoint has not all of its parts", _DERIVED),
    "MISSING_SIDECAR": Rule(ERROR, "a checkpoint names a sidecar that is not there", _DERIVED),
    "SIDECAR_SIZE": Rule(WARNING, "a sidecar has another size than its checkpoint says", _DERIVED),
    "UNREADABLE_COMPACTION": Rule(ERROR, "a compaction is damaged or empty", _DERIVED),
    "UNREADABLE_CHECKSUM": Rule(WARNING, "a checksum file is damaged or empty", _DERIVED),
    "HINT_UNREADABLE": Rule(WARNING, "_last_checkpoint is damaged", _DERIVED),
    "HINT_DANGLING": Rule(
        ERROR, "_last_checkpoint names a checkpoint that is not whole; some readers fail", _DERIVED
    ),
    "HINT_WRONG": Rule(WARNING, "_last_checkpoint says what is not so of its checkpoint", _DERIVED),
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
    "NO_PROTOCOL": Rule(ERROR, "no commit and no checkpoint tells the protocol", _RESTORE),
    "NO_METADATA": Rule(ERROR, "no commit and no checkpoint tells the metaData", _RESTORE),
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
        ERROR, "a checkpoint without protocol or metaData, or with two of them", _DERIVED
    ),
    "CHECKPOINT_V2_METADATA": Rule(
        ERROR,
        "a V2 checkpoint without its checkpointMetadata, or with that of another version",
        _DERIVED,
    ),
    "CHECKPOINT_LOST_FILES": Rule(
        ERROR, "a checkpoint lost live files: readers miss their rows", _DERIVED
    ),
    "CHECKPOINT_EXTRA_FILES": Rule(
        ERROR, "a checkpoint has files that are not live: readers see deleted rows", _DERIVED
    ),
    "CHECKPOINT_DIFFERS": Rule(
        ERROR, "a checkpoint tells of files otherwise than their commits do", _DERIVED
    ),
    "CHECKPOINT_DUPLICATE": Rule(ERROR, "a checkpoint has a file twice", _DERIVED),
    "CHECKPOINT_ADD_AND_REMOVE": Rule(
        ERROR, "a checkpoint has an add and a remove of one file", _DERIVED
    ),
    "CHECKPOINT_LOST_TOMBSTONES": Rule(
        WARNING, "a checkpoint lost tombstones that are still within retention", _DERIVED
    ),
    "CHECKPOINT_LOST_TXN": Rule(
        ERROR,
        "a checkpoint lost, or changed, an application's version: it may write twice",
        _DERIVED,
    ),
    "CHECKPOINT_LOST_DOMAIN": Rule(
        ERROR, "a checkpoint lost, changed or revived a domain", _DERIVED
    ),
    "CHECKPOINT_PROTOCOL": Rule(ERROR, "a checkpoint has another protocol", _DERIVED),
    "CHECKPOINT_METADATA": Rule(ERROR, "a checkpoint has another metaData", _DERIVED),
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
        ERROR, "a compaction lost removes: deleted files come back to life", _DERIVED
    ),
    "COMPACTION_LOST_FILES": Rule(ERROR, "a compaction lost files", _DERIVED),
    "COMPACTION_EXTRA_FILES": Rule(
        ERROR, "a compaction has actions that are not its commits'", _DERIVED
    ),
    "COMPACTION_DIFFERS": Rule(
        ERROR, "a compaction tells of files otherwise than their commits do", _DERIVED
    ),
    "COMPACTION_LOST_DOMAIN": Rule(
        ERROR, "a compaction lost or changed a domain, or the removal of one", _DERIVED
    ),
    "COMPACTION_LOST_TXN": Rule(
        ERROR, "a compaction lost or changed an application's version", _DERIVED
    ),
    "COMPACTION_LOST_SKIP": Rule(WARNING, "a compaction lost or changed a skip", _DERIVED),
    "COMPACTION_METADATA": Rule(
        ERROR, "a compaction lost or changed the protocol or the metaData", _DERIVED
    ),
    "COMPACTION_UNPROVEN": Rule(
        INFO,
        "not all commits of a compaction are there: it can be read, and not be compared",
        "nothing; readers use it only where its commits are",
    ),
    # Checksums.
    "CHECKSUM_DIFFERS": Rule(
        ERROR, "a checksum file does not agree with the replay of the commits", _DERIVED
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


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or worth knowing: where, what, and what to do."""

    severity: str
    code: str
    path: str
    version: int | None
    message: str
    advice: str

    def summary(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "severity": self.severity,
            "code": self.code,
            "path": self.path,
            "version": self.version,
            "message": self.message,
            "advice": self.advice,
        }


@dataclass
class Findings:
    """Collects findings; of many alike, the first ones are kept and the others counted."""

    _kept: list[Finding] = field(default_factory=list)
    _counts: Counter[str] = field(default_factory=Counter)

    def add(self, code: str, message: str, *, path: str = "", version: int | None = None) -> None:
        """Enter a finding. Its severity and advice are those of its code."""
        rule = RULES[code]
        self._counts[code] += 1
        if self._counts[code] <= _EACH:
            self._kept.append(Finding(rule.severity, code, path, version, message, rule.advice))

    def __contains__(self, code: str) -> bool:
        return self._counts[code] > 0

    def all(self) -> list[Finding]:
        """Return what was found, the worst first, then by version."""
        more = [
            Finding(
                RULES[code].severity, code, "", None, f"{count - _EACH:,} more of this kind", ""
            )
            for code, count in self._counts.items()
            if count > _EACH
        ]
        # What is said of "more" stands behind the ones it is more of.
        return sorted(
            [*self._kept, *more],
            key=lambda f: (
                SEVERITIES.index(f.severity),
                f.version is None and not f.advice,
                -1 if f.version is None else f.version,
            ),
        )


def some(names: list[str], total: int | None = None) -> str:
    """Return a few names, and how many there are beside them."""
    count = len(names) if total is None else total
    shown = ", ".join(names[:_NAMES])
    left = count - min(len(names), _NAMES)
    if not shown:
        return f"{count:,}"
    return f"{shown} and {left:,} more" if left else shown
