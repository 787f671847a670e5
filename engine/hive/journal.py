"""What has been promised and what has been done? One immutable file for each transition.

A transition is written before its act, under a number that nobody else can take. So a run that
lost its table to another one cannot write its next transition, and therefore does nothing more.
"""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from engine.errors import AlreadyExistsError, HiveFencedError
from engine.hive.layout import last

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.hive.files import Files

HISTORY: Final = "history"
LOCK: Final = "lock"
_READERS: Final = 8


class Event(str, Enum):
    """The transitions. Those of a unit carry its name, the others are the run's."""

    RUN = "run"
    PLANNED = "planned"
    VERIFIED = "verified"
    SWAP = "swap"
    SWAPPED = "swapped"
    COMMITTED = "committed"
    ABORT = "abort"
    ROLLBACK = "rollback"
    UNDO = "undo"
    UNDONE = "undone"
    PURGE = "purge"
    RECOVER = "recover"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Entry:
    """One transition as it was written."""

    number: int
    event: Event
    unit: str
    body: dict[str, Any]


class Journal:
    """The transitions of one run, in the order of their numbers. Threads may share it."""

    def __init__(self, files: Files, directory: str, next_number: int = 0) -> None:
        self.directory = directory
        self._files = files
        self._next = next_number
        self._turn = threading.Lock()

    @property
    def run(self) -> str:
        """The run's id."""
        return last(self.directory)

    def record(self, event: Event, unit: str = "", **body: Any) -> Entry:
        """Write the next transition and return it.

        Raises:
            HiveFencedError: another run wrote in this journal.
        """
        with self._turn:
            entry = Entry(self._next, event, unit, body)
            path = f"{self.directory}/{entry.number:06d}.json"
            try:
                self._files.write_new(path, to_text(entry))
            except AlreadyExistsError as error:
                raise HiveFencedError(path) from error
            self._next += 1
        return entry


def open_journal(files: Files, directory: str) -> tuple[Journal, tuple[Entry, ...]]:
    """Return a journal that goes on after what is there, and what is there.

    A transition that was not written to its end is passed over: its act had not begun. A journal
    that its owner forgets while it is read here holds nothing.
    """
    names = [name for name in files.names(directory) if name.endswith(".json") and name[0] != "."]
    try:
        with ThreadPoolExecutor(_READERS) as pool:
            texts = list(pool.map(files.read, (f"{directory}/{name}" for name in names)))
    except Exception:
        if names and files.exists(_first(directory)):
            raise
        texts = []
    entries = tuple(entry for text in texts if (entry := from_text(text)) is not None)
    following = 1 + int(names[-1].removesuffix(".json")) if names else 0
    return Journal(files, directory, following), entries


def run_folders(files: Files, home: str) -> tuple[str, ...]:
    """Return the ids of the runs that have a journal folder, oldest first."""
    listing = files.listing(home)
    folders = listing.folders if listing else ()
    return tuple(name for name in folders if name not in (HISTORY, LOCK))


def forget(files: Files, directory: str) -> None:
    """Delete a journal, first the transition without which the others are no run.

    A deletion that stops half way must not leave a journal that tells of less than was done.
    """
    files.delete(_first(directory))
    files.delete(directory)


def file_away(files: Files, home: str, record: dict[str, Any]) -> None:
    """Put a closed run's summary into the history; doing it twice is no error."""
    try:
        files.write_new(f"{home}/{HISTORY}/{record['run']}.json", json.dumps(record))
    except AlreadyExistsError:
        return


def past_runs(files: Files, home: str) -> list[dict[str, Any]]:
    """Return the summaries of the closed runs, oldest first."""
    folder = f"{home}/{HISTORY}"
    names = [name for name in files.names(folder) if name.endswith(".json") and name[0] != "."]
    with ThreadPoolExecutor(_READERS) as pool:
        return [json.loads(text) for text in pool.map(files.read, (f"{folder}/{n}" for n in names))]


def _first(directory: str) -> str:
    return f"{directory}/{0:06d}.json"


def to_text(entry: Entry) -> str:
    """Return the file of a transition."""
    return json.dumps(
        {"n": entry.number, "event": entry.event.value, "unit": entry.unit, **entry.body}
    )


def from_text(text: str) -> Entry | None:
    """Return the transition of a file, or None when it was not written to its end."""
    try:
        body = json.loads(text)
        return Entry(body.pop("n"), Event(body.pop("event")), body.pop("unit"), body)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def in_order(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return transitions by their number."""
    return tuple(sorted(entries, key=lambda entry: entry.number))
