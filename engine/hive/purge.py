"""When may the originals go, and which files exactly? Only what the journal names, never more."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from engine.errors import HiveSupersededError
from engine.hive import layout
from engine.hive.fingerprint import fingerprint
from engine.hive.model import Swap
from engine.hive.rewrite import Recipe
from engine.hive.steps import Step
from engine.hive.swap import absent, carry, late

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.hive.model import Table
    from engine.hive.state import Run, UnitState
    from engine.hive.swap import Doors, Job


def verify_live(doors: Doors, table: Table, run: Run, later: Sequence[Run]) -> None:
    """Prove that what readers see of each unit is what the run wrote, or a later run made of it.

    Raises:
        HiveSupersededError: it is not; the originals must stay.
    """
    for state in run.standing():
        witness = _witness(doors, table, run, state, later)
        place = live_place(run, state) if witness is state else live_place(later[-1], witness)
        recipe = Recipe.from_json(witness.verified["recipe"])
        paths = [f"{place}/{entry.name}" for entry in witness.outputs or ()]
        found = fingerprint(recipe.read(doors.catalog.spark, paths)) if paths else None
        if found is not None and found.as_json() != witness.verified["fingerprint"]:
            raise HiveSupersededError(
                table.full_name, state.unit.label, "its live files no longer hold what was verified"
            )


def purge(doors: Doors, job: Job, run: Run) -> None:
    """Delete the originals of every standing unit; what came late to them is carried out first.

    Raises:
        HiveSupersededError: some table or partition still reads a directory that would go.
    """
    doors.catalog.drop_backup(job.table, job.backup, job.journal.run)
    doors.hook(Step.BACKUP_DROPPED, "")
    read = doors.catalog.table_locations(job.table.database, but_not=job.backup)
    read += [unit.location for unit in doors.catalog.units(job.table)]
    for state in run.standing():
        job.lock.check()
        refuse_read(job.table, run, state, read)
        _delete(doors, job, run, state)
        doors.hook(Step.DELETED, state.unit.name)


def refuse_read(table: Table, run: Run, state: UnitState, read: Sequence[str]) -> None:
    """Raise when a location of the metastore is, or lies in, what would be deleted."""
    doomed = state.places.kept_shell if run.swap is Swap.RENAME else state.places.live
    if run.swap is Swap.LOCATION:
        # Only the directory's own files go; a location below it keeps its own.
        clash = [place for place in read if place == doomed]
    else:
        clash = [place for place in read if layout.holds(doomed, place)]
    if clash:
        raise HiveSupersededError(
            table.full_name, state.unit.label, f"{clash[0]} is still the LOCATION of a table"
        )


def live_place(run: Run, state: UnitState) -> str:
    """Return the directory where readers see the run's files."""
    return state.places.live if run.swap is Swap.RENAME else state.places.staged


def _witness(
    doors: Doors, table: Table, run: Run, state: UnitState, later: Sequence[Run]
) -> UnitState:
    chain = [state] + [r.units[state.unit.name] for r in later if state.unit.name in r.units]
    newest = chain[-1]
    owner = later[-1] if newest is not state else run
    if absent(newest.outputs or (), doors.files.listing(live_place(owner, newest))):
        raise HiveSupersededError(
            table.full_name, state.unit.label, "it was overwritten since; add --force to clean up"
        )
    for older, newer in pairwise(chain):
        if set(older.outputs or ()) - set(newer.inputs):
            raise HiveSupersededError(
                table.full_name,
                state.unit.label,
                "it was overwritten since; add --force to clean up",
            )
    return newest


def _delete(doors: Doors, job: Job, run: Run, state: UnitState) -> None:
    files, places = doors.files, state.places
    found = files.listing(places.kept)
    if found is not None:
        carry(
            doors, late(state.inputs, found), places.kept, live_place(run, state), job.journal.run
        )
    if run.swap is Swap.RENAME:
        files.delete(places.kept_shell)
        return
    if found is None:
        return
    for entry in set(state.inputs) & set(found.files):
        files.delete(f"{places.live}/{entry.name}")
    files.delete(f"{places.live}/_SUCCESS")
    shell = layout.parent(places.live)
    if files.delete_empty(places.live) and shell != layout.base_of(places.live):
        files.delete_empty(shell)
