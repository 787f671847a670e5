"""What can be done with a run afterwards? Roll it back, clean up after it, recover it, list it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine.errors import (
    HiveLockedError,
    HiveNoRunError,
    HiveRefusedError,
    HiveRollbackRefusedError,
    HiveSupersededError,
)
from engine.hive import journal as journals
from engine.hive.decide import Pointer
from engine.hive.finish import disown, finish, holding, home_of, job_of, open_runs, summary
from engine.hive.inspect import at_work
from engine.hive.journal import Event
from engine.hive.model import Swap
from engine.hive.purge import refuse_changed, refuse_others, refuse_read, verify_live
from engine.hive.state import Course
from engine.hive.steps import Step
from engine.hive.swap import absent, late, look
from engine.hive.trust import is_own, refuse_foreign, same_name, vouched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.hive.model import Table
    from engine.hive.state import Run, UnitState
    from engine.hive.swap import Doors, Job


def rollback(
    doors: Doors,
    table: Table,
    *,
    run: str = "",
    partitions: Sequence[str] = (),
    force: bool = False,
    keep_new: bool = False,
    dry_run: bool = False,
    break_lock: bool = False,
) -> dict[str, Any]:
    """Bring the originals of a run back, of all its partitions or of those named.

    Rolling back twice is no error: the second time there is nothing to do. A run before the one
    that was rolled back last has to be named.

    Raises:
        HiveNoRunError: there never was such a run.
        HiveRollbackRefusedError: rows added since would be dropped, and `force` was not given.
        HiveSupersededError: the originals, or the rewritten files, are no longer what they were.
    """
    with holding(doors, table, "rollback", break_lock=break_lock, dry_run=dry_run) as held:
        found = _chosen_run(doors, table, held.home, run)
        if found is None:
            return {"table": table.full_name, "run": run, "units": [], "outcome": "nothing to do"}
        units = _chosen_units(table, found, partitions)
        job = job_of(doors, table, held.home, held.lock, found)
        for state in units:
            _refuse_rollback(doors, job, state, force=force, keep_new=keep_new)
        if found.swap is Swap.LOCATION:
            refuse_others(doors, table, found, units)
        names = [state.unit.name for state in units]
        outcome, warning = "would be rolled back" if names else "nothing to do", ""
        if names and not dry_run:
            job.journal.record(Event.ROLLBACK, units=names, force=force)
            doors.hook(Step.UNDO_INTENT, "")
            ended = finish(doors, job)
            outcome = "rolled back" if ended.course is Course.CLOSED else "partly rolled back"
            warning = ended.warning
        done = {"table": table.full_name, "run": found.run, "units": names, "outcome": outcome}
        return done | ({"warning": warning} if warning else {})


def cleanup(
    doors: Doors,
    table: Table,
    *,
    older_than_ms: int = 0,
    force: bool = False,
    dry_run: bool = False,
    break_lock: bool = False,
) -> list[dict[str, Any]]:
    """Delete the originals and the backup of each finished run that is old enough.

    The live files are verified first; `force` skips that, for partitions that were overwritten.
    `left` tells of directories that hold more than the journal names.

    Raises:
        HiveSupersededError: the live data could not be verified, or an original was changed;
            nothing was deleted.
    """
    done = []
    with holding(doors, table, "cleanup", break_lock=break_lock, dry_run=dry_run) as held:
        runs = [run for run in open_runs(doors, held.home) if run.course is Course.COMMITTED]
        for number, run in enumerate(runs):
            young = doors.clock() - int(run.about["started_ms"]) < older_than_ms
            if young or not is_own(doors, table, run):
                continue
            if not force:
                verify_live(doors, table, run, runs[number + 1 :])
            refuse_changed(doors, table, run, force=force)
            refuse_read(doors, table, run)
            freed = sum(entry.size for state in run.standing() for entry in state.inputs)
            files = sum(len(state.inputs) for state in run.standing())
            outcome, left = "would be cleaned up", []
            if not dry_run:
                job = job_of(doors, table, held.home, held.lock, run)
                job.journal.record(Event.PURGE)
                doors.hook(Step.PURGE_INTENT, "")
                if force:
                    disown(doors, job, replace(run, course=Course.PURGING))
                closing = finish(doors, job).closing
                outcome, left = str(closing["outcome"]), closing.get("left", [])
            done.append(
                {
                    "table": table.full_name,
                    "run": run.run,
                    "outcome": outcome,
                    "files": files,
                    "bytes": freed,
                    "left": left,
                }
            )
    return done


def recover(doors: Doors, table: Table, *, break_lock: bool = False) -> list[dict[str, Any]]:
    """Bring interrupted runs to their end and return what each was and became."""
    with holding(doors, table, "recover", break_lock=break_lock) as held:
        return list(held.recovered)


def mend(doors: Doors, table: Table) -> list[dict[str, Any]]:
    """Recover what was interrupted, for commands that otherwise only look.

    Nothing is written when nothing was interrupted, or when a run that is alive is at work.
    """
    runs = open_runs(doors, home_of(table)) if table.location else []
    if all(run.course is Course.COMMITTED for run in runs):
        return []
    try:
        return recover(doors, table)
    except HiveLockedError:
        return []


def history(doors: Doors, table: Table) -> list[dict[str, Any]]:
    """Return every run of a table, oldest first; changes nothing."""
    home = home_of(table)
    runs = journals.past_runs(doors.files, home) + [summary(run) for run in open_runs(doors, home)]
    return sorted(runs, key=lambda record: str(record["run"]))


def _chosen_run(doors: Doors, table: Table, home: str, run: str) -> Run | None:
    standing = [found for found in open_runs(doors, home) if found.course is Course.COMMITTED]
    mine = [found for found in standing if is_own(doors, table, found)]
    past = [
        record
        for record in journals.past_runs(doors.files, home)
        if same_name(record["table"], table.full_name)
    ]
    undone = [record["run"] for record in past if record["outcome"] == "rolled back"]
    if run in undone or (not run and undone and undone[-1] == max(_ids(mine, past))):
        return None
    for found in reversed(standing if run or not mine else mine):
        if run in ("", found.run):
            refuse_foreign(doors, table, found)
            return found
    raise HiveNoRunError(table.full_name, run)


def _ids(standing: list[Run], past: list[dict[str, Any]]) -> list[str]:
    # A run that was aborted changed nothing that could be rolled back.
    ended = [str(record["run"]) for record in past if record["outcome"] != "aborted"]
    return [found.run for found in standing] + ended


def _chosen_units(table: Table, run: Run, partitions: Sequence[str]) -> list[UnitState]:
    standing = {state.unit.name: state for state in run.standing()}
    for name in partitions:
        if name not in run.units:
            raise HiveNoRunError(f"{table.full_name} {name}", run.run)
    return [state for name, state in standing.items() if not partitions or name in partitions]


def _refuse_rollback(
    doors: Doors, job: Job, state: UnitState, *, force: bool, keep_new: bool
) -> None:
    table, label = job.table.full_name, state.unit.label
    pointer = look(doors, job, state).pointer
    if pointer is Pointer.ELSEWHERE or not vouched(doors, job.table, state):
        raise HiveSupersededError(table, label, "its LOCATION was set to another place since")
    if absent(state.inputs, doors.files.listing(state.places.kept)):
        raise HiveSupersededError(table, label, "its original files are no longer complete")
    found = doors.files.listing(state.places.after)
    if force:
        return
    if found and found.folders:
        raise HiveRefusedError(f"{table} {label}", f"it holds the directory {found.folders[0]}")
    if found and (busy := at_work(found, doors.clock())):
        raise HiveRefusedError(f"{table} {label}", f"{busy}; wait for it, or add --force")
    if absent(state.outputs or (), found):
        raise HiveSupersededError(
            table, label, "it was overwritten since; add --force to bring the originals back"
        )
    added = late(state.outputs or (), found)
    if added and not keep_new:
        raise HiveRollbackRefusedError(table, label, len(added))
