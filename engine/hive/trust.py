"""Whose run is this, and does the metastore vouch for the places that its journal names?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import HiveRefusedError
from engine.hive import layout

if TYPE_CHECKING:
    from engine.hive.model import Table
    from engine.hive.state import Run, UnitState
    from engine.hive.swap import Doors


def is_own(doors: Doors, table: Table, run: Run) -> bool:
    """Say whether a run is this table's, and not another's that has the same directory.

    Two tables may share a directory, and with it the journal. A run belongs to the table that it
    names as long as that one is still there; a table that was renamed takes its runs along.
    """
    if same_name(run.table, table.full_name):
        return True
    database, _, name = run.table.partition(".")
    if not doors.catalog.knows(database, name):
        return True
    # Made anew under that name, it is not the table that the run knew.
    made = doors.catalog.table(database, name).identity.rpartition("@")[2]
    return made != str(run.about.get("identity")).rpartition("@")[2]


def refuse_foreign(doors: Doors, table: Table, run: Run) -> None:
    """Raise HiveRefusedError when a run is another table's."""
    if not is_own(doors, table, run):
        raise HiveRefusedError(
            table.full_name, f"{run.table} shares its directory, and run {run.run} there is its own"
        )


def same_name(one: str, other: str) -> bool:
    """Say whether two names are one table; a metastore does not look at their case."""
    return one.lower() == other.lower()


def vouched(doors: Doors, table: Table, state: UnitState) -> bool:
    """Say whether the unit lives where its journal says, by the metastore's word.

    A location swap, and any number of them, counts as no move. A partition that was dropped is
    looked for where its name would put it.
    """
    told = doors.catalog.location(table, state.unit)
    place = told or f"{table.location}/{state.unit.name}"
    return layout.origin(state.places.live) == layout.origin(place)
