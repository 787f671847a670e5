"""When may the originals go, and which files exactly? Only what the journal names, never more."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

from engine.errors import AlreadyExistsError, HiveSupersededError
from engine.hive import layout
from engine.hive.fingerprint import fingerprint
from engine.hive.model import Swap
from engine.hive.rewrite import Recipe
from engine.hive.steps import Step
from engine.hive.swap import absent, carry, late
from engine.hive.trust import vouched

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from pyspark.sql import SparkSession

    from engine.hive.fingerprint import Fingerprint
    from engine.hive.model import Table
    from engine.hive.state import Run, UnitState
    from engine.hive.swap import Doors, Job


def verify_live(doors: Doors, table: Table, run: Run, later: Sequence[Run]) -> None:
    """Prove that what readers see of each unit is what the run wrote, or a later run made of it.

    Raises:
        HiveSupersededError: it is not; the originals must stay.
    """
    for state in run.standing():
        if not vouched(doors, table, state):
            raise HiveSupersededError(
                table.full_name,
                state.unit.label,
                "its LOCATION was set to another place since; add --force to clean up",
            )
        witness = _witness(doors, table, state, later)
        recipe = Recipe.from_json(witness.verified["recipe"])
        paths = [f"{witness.places.after}/{entry.name}" for entry in witness.outputs or ()]
        found = live_fingerprint(doors.catalog.spark, recipe, paths) if paths else None
        if found is not None and found.as_json() != witness.verified["fingerprint"]:
            raise HiveSupersededError(
                table.full_name, state.unit.label, "its live files no longer hold what was verified"
            )


def refuse_changed(doors: Doors, table: Table, run: Run, *, force: bool) -> None:
    """Raise when the originals are not those that were rewritten, as far as their names tell.

    One of another size holds what nobody verified: it can be neither deleted nor carried to
    where its first content stands already, not even with `force`.
    """
    for state in run.standing():
        found = doors.files.listing(state.places.kept)
        sizes = {entry.name: entry.size for entry in found.files} if found else {}
        for entry in state.inputs:
            size = sizes.get(entry.name)
            if size is None and not force:
                why = f"its original {entry.name} is gone; add --force to clean up"
            elif size not in (None, entry.size):
                why = f"its original {state.places.kept}/{entry.name} was changed; move it away"
            else:
                continue
            raise HiveSupersededError(table.full_name, state.unit.label, why)


def purge(doors: Doors, job: Job, run: Run) -> list[str]:
    """Delete the originals of every standing unit; what came late to them is carried out first.

    So is what the journal does not name. Returns the directories that still hold something.

    Raises:
        HiveSupersededError: some table or partition still reads a directory that would go.
    """
    doors.catalog.drop_backup(job.table, job.backup, job.journal.run)
    doors.hook(Step.BACKUP_DROPPED, "")
    refuse_read(doors, job.table, run)
    for state in run.standing():
        job.lock.check()
        _delete(doors, job, run, state)
        doors.hook(Step.DELETED, state.unit.name)
    # Under the location swap, a unit that went back lives where its originals were kept.
    rename = run.swap is Swap.RENAME
    ours = [state for state in run.units.values() if state.stood] if rename else run.standing()
    return [state.places.kept for state in ours if doors.files.names(state.places.kept)]


def refuse_read(doors: Doors, table: Table, run: Run) -> None:
    """Raise when a table or partition of the database reads what would be deleted."""
    # The directory that a location swap left is an ordinary one, which any table may read.
    ordinary = run.swap is Swap.LOCATION
    read = doors.catalog.locations(table.database, but_not=run.backup, partitions=ordinary)
    # As it is now: recovery may have moved the table since the command first looked at it.
    now = doors.catalog.table(table.database, table.name)
    read += [unit.location for unit in doors.catalog.units(now)]
    for state in run.standing():
        if ordinary:
            # Only the directory's own files go; a location below it keeps its own.
            clash = [place for place in read if place == state.places.live]
        else:
            clash = [place for place in read if layout.holds(state.places.kept_shell, place)]
        if clash:
            raise HiveSupersededError(
                table.full_name, state.unit.label, f"{clash[0]} is the LOCATION of a table"
            )


def refuse_others(doors: Doors, table: Table, run: Run, units: Sequence[UnitState]) -> None:
    """Raise when another table or partition reads what a location swap made of `units`."""
    every = doors.catalog.locations(table.database, but_not=run.backup, partitions=True)
    read = Counter(every)
    for state in units:
        place = state.places.staged
        if read[place] > (doors.catalog.location(table, state.unit) == place):
            raise HiveSupersededError(
                table.full_name, state.unit.label, f"{place} is the LOCATION of another table"
            )


def live_fingerprint(spark: SparkSession, recipe: Recipe, paths: Sequence[str]) -> Fingerprint:
    """Return what the files at `paths` add up to now."""
    return fingerprint(recipe.read(spark, paths))


def _witness(doors: Doors, table: Table, state: UnitState, later: Sequence[Run]) -> UnitState:
    on_top = [unit for run in later for unit in run.standing() if unit.unit.name == state.unit.name]
    chain = [state, *on_top]
    newest = chain[-1]
    if absent(newest.outputs or (), doors.files.listing(newest.places.after)):
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
        # To where readers look now, which a later run may have changed.
        target = doors.catalog.location(job.table, state.unit) or places.after
        if added := late(state.inputs, found):
            files.mkdirs(target)
            carry(doors, added, places.kept, target, job.journal.run)
        sizes = {entry.name: entry.size for entry in state.inputs}
        for entry in found.files:
            if sizes.get(entry.name) == entry.size:
                files.delete(f"{places.kept}/{entry.name}")
        files.delete(f"{places.kept}/_SUCCESS")
        if run.swap is Swap.RENAME:
            _carry_rest(doors, places.kept, target, sizes)
    shell = layout.parent(places.kept)
    if files.delete_empty(places.kept) and shell != layout.base_of(places.live):
        files.delete_empty(shell)


def _carry_rest(doors: Doors, source: str, target: str, known: Container[str]) -> None:
    # Notes, a log, hidden directories: they were the table's before the swap and still are.
    for name in doors.files.names(source):
        if name in known:
            continue
        doors.files.mkdirs(target)
        # A name that is taken stays where it is, and is told of.
        with suppress(AlreadyExistsError):
            doors.files.rename(f"{source}/{name}", f"{target}/{name}")
