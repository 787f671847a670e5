"""What does a journal add up to? A pure fold of a run's transitions, and what recovery owes it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from engine.errors import HiveRefusedError
from engine.hive import layout
from engine.hive.journal import Entry, Event, in_order
from engine.hive.layout import Places
from engine.hive.model import FileEntry, Swap, Unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Phase(str, Enum):
    """How far one unit has come."""

    PLANNED = "planned"
    VERIFIED = "verified"
    SWAPPING = "swapping"
    SWAPPED = "swapped"
    UNDOING = "undoing"
    UNDONE = "undone"


class Course(str, Enum):
    """Where a run is going."""

    COMPACTING = "compacting"
    ABORTING = "aborting"
    COMMITTED = "committed"
    ROLLING_BACK = "rolling back"
    PURGING = "purging"
    CLOSED = "closed"


class Way(str, Enum):
    """What recovery does with a unit."""

    STAY = "stay"
    FORWARD = "forward"
    BACK = "back"


@dataclass(frozen=True, slots=True)
class UnitState:
    """One unit of a run: what it is, where its files are, what they were and what they became.

    `begun` says that its swap was announced, `stood` that it was once complete, whatever came
    after.
    """

    unit: Unit
    places: Places
    inputs: tuple[FileEntry, ...]
    hidden: tuple[str, ...] = ()
    phase: Phase = Phase.PLANNED
    begun: bool = False
    stood: bool = False
    outputs: tuple[FileEntry, ...] | None = None
    verified: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """A run as its journal tells it."""

    run: str
    about: dict[str, Any]
    swap: Swap
    course: Course
    units: dict[str, UnitState]
    force: bool = False
    chosen: tuple[str, ...] = ()
    closing: dict[str, Any] = field(default_factory=dict)
    warning: str = ""

    @property
    def table(self) -> str:
        """`database.table`, as the run was told it."""
        return str(self.about["table"])

    @property
    def backup(self) -> str:
        """The name of the run's backup table."""
        return layout.backup_name(self.table.partition(".")[2], self.run)

    def standing(self) -> list[UnitState]:
        """Return the units whose rewritten files are in place."""
        return [unit for unit in self.units.values() if unit.phase is Phase.SWAPPED]


def fold(run: str, entries: Sequence[Entry]) -> Run | None:
    """Return what a journal adds up to, or None when the run had not begun.

    Whoever may write into a table's folder may write a journal. So one that names places where a
    run does not work, or files that are paths, is not followed.

    Raises:
        HiveRefusedError: the journal is not one that a run wrote.
    """
    state: Run | None = None
    for entry in in_order(entries):
        if entry.event is Event.RUN:
            swap = Swap(entry.body["swap"])
            state = Run(run, entry.body, swap, Course.COMPACTING, {})
        elif state is not None:
            state = _step(state, entry)
    return state


def ways(run: Run) -> dict[str, Way]:
    """Return what recovery does with each unit of a run that did not come to its end.

    A swap that was begun is finished; everything before it is undone; a run that was on its way
    back goes on back.
    """
    return {name: _way(run, unit) for name, unit in run.units.items()}


def _way(run: Run, unit: UnitState) -> Way:
    if unit.phase is Phase.UNDONE:
        return Way.STAY
    if run.course is Course.ABORTING or unit.phase is Phase.UNDOING:
        return Way.BACK
    if run.course is Course.ROLLING_BACK:
        return Way.BACK if unit.unit.name in run.chosen else Way.STAY
    if run.course is Course.COMPACTING:
        if unit.phase is Phase.SWAPPING:
            return Way.FORWARD
        return Way.STAY if unit.phase is Phase.SWAPPED else Way.BACK
    return Way.STAY


def _step(run: Run, entry: Entry) -> Run:
    event, body = entry.event, entry.body
    if event is Event.PLANNED:
        return replace(run, units={**run.units, entry.unit: _planned(run, entry)})
    if event in _UNIT_PHASES:
        unit = run.units[entry.unit]
        begun = unit.begun or event is Event.SWAP
        stood = unit.stood or event is Event.SWAPPED
        unit = replace(unit, phase=_UNIT_PHASES[event], begun=begun, stood=stood)
        if event is Event.VERIFIED:
            unit = replace(unit, outputs=_files(run, body["outputs"]), verified=body)
        return replace(run, units={**run.units, entry.unit: unit})
    if event is Event.ROLLBACK:
        chosen = tuple(body["units"])
        return replace(run, course=Course.ROLLING_BACK, chosen=chosen, force=body["force"])
    if event is Event.CLOSED:
        return replace(run, course=Course.CLOSED, closing=body)
    return replace(run, course=_COURSES.get(event, run.course))


def _planned(run: Run, entry: Entry) -> UnitState:
    body, live = entry.body, str(entry.body["live"])
    spec = tuple((key, value) for key, value in body["spec"])
    places = Places(live, body["staged"], body["kept"])
    if ".." in live.split("/") or places != layout.places(live, run.run, run.swap):
        raise _planted(run, live)
    if entry.unit != layout.partition_name(spec):
        raise _planted(run, entry.unit)
    return UnitState(
        unit=Unit(entry.unit, spec, live, body.get("rows"), bool(body.get("sized"))),
        places=places,
        inputs=_files(run, body["inputs"]),
        hidden=tuple(body["hidden"]),
    )


def _files(run: Run, rows: Iterable[Sequence[Any]]) -> tuple[FileEntry, ...]:
    found = entries_of(rows)
    for entry in found:
        if "/" in entry.name or entry.name in ("", ".", ".."):
            raise _planted(run, entry.name)
    return found


def _planted(run: Run, claim: str) -> HiveRefusedError:
    return HiveRefusedError(
        str(run.about.get("table", "")),
        f"the journal of run {run.run} names {claim!r}, which no run writes; "
        "find out who did, and move that journal away",
    )


def plan_body(
    unit: Unit, places: Places, files: Iterable[FileEntry], hidden: Iterable[str]
) -> dict[str, Any]:
    """Return what the journal says of a planned unit."""
    return {
        "spec": [list(pair) for pair in unit.spec],
        "live": places.live,
        "staged": places.staged,
        "kept": places.kept,
        "inputs": rows_of(files),
        "hidden": list(hidden),
        "rows": unit.rows,
        "sized": unit.sized,
    }


def rows_of(files: Iterable[FileEntry]) -> list[list[Any]]:
    """Return file entries as the journal writes them."""
    return [[entry.name, entry.size, entry.modified_ms] for entry in files]


def entries_of(rows: Iterable[Sequence[Any]]) -> tuple[FileEntry, ...]:
    """Return file entries from the journal."""
    return tuple(FileEntry(str(name), int(size), int(time)) for name, size, time in rows)


_UNIT_PHASES = {
    Event.VERIFIED: Phase.VERIFIED,
    Event.SWAP: Phase.SWAPPING,
    Event.SWAPPED: Phase.SWAPPED,
    Event.UNDO: Phase.UNDOING,
    Event.UNDONE: Phase.UNDONE,
}
_COURSES = {
    Event.COMMITTED: Course.COMMITTED,
    Event.ABORT: Course.ABORTING,
    Event.PURGE: Course.PURGING,
}
