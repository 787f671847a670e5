"""The durable steps of every command, in one list, so that a test can die after each of them."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable


class Step(str, Enum):
    """Something that is still there after a crash. The hook is called right after it."""

    LOCKED = "the lock is ours"
    RUN_PLANNED = "the run is in the journal"
    BACKUP_MADE = "the backup table exists"
    UNIT_PLANNED = "the unit and its input files are in the journal"
    WRITTEN = "the rewritten files are there, not verified"
    VERIFIED = "their fingerprint is in the journal"
    SWAP_INTENT = "the swap is in the journal"
    BACKUP_POINTED = "the backup reads the place where the originals will be"
    SET_ASIDE = "the originals were renamed; the gap is open"
    PUT_IN_PLACE = "the rewritten files were renamed; the gap is closed"
    MERGED_FILE = "one file was moved into a directory that a writer made in the gap"
    REPOINTED = "the metastore says the other location"
    CARRIED = "a file that came late was moved to where readers look"
    SWAPPED = "the finished swap is in the journal"
    MEASURED = "statistics are fresh"
    COMMITTED = "the finished run is in the journal"
    UNDO_INTENT = "the way back is in the journal"
    TAKEN_OUT = "the rewritten files were renamed away; the gap is open"
    PUT_BACK = "the originals were renamed back; the gap is closed"
    DISCARDED = "the rewritten files are deleted"
    UNDONE = "the unit's way back is complete in the journal"
    BACKUP_DROPPED = "the backup table is gone"
    PURGE_INTENT = "the deletion is in the journal"
    DELETED = "the originals of one unit are deleted"
    CLOSED = "the run's last word is in the journal"
    FILED = "the run is in the history"
    FORGOTTEN = "the run's journal folder is gone"
    RELEASED = "the lock is free"


# After these, and until the next step, a rename swap shows readers no directory at all.
GAP: Final = frozenset({Step.SET_ASIDE, Step.TAKEN_OUT})

if TYPE_CHECKING:
    Hook = Callable[[Step, str], None]


def ignore(step: Step, unit: str) -> None:
    """Do nothing after a step."""
