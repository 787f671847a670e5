"""How does a run come to its end? The same code for a command at work and for its recovery.

Every command writes its intent into the journal and calls `finish`. When it dies on the way, the
next command finds the intent and calls `finish` again.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from engine.errors import HiveRefusedError
from engine.hive import journal as journals
from engine.hive import layout
from engine.hive.journal import Event, open_journal
from engine.hive.lock import Lock, acquire, beating
from engine.hive.model import Stats, Swap
from engine.hive.purge import purge
from engine.hive.reason import first_line
from engine.hive.state import Course, Phase, Run, UnitState, Way, entries_of, fold, rows_of, ways
from engine.hive.steps import Step
from engine.hive.swap import ChangedError, Doors, Job, move_back, move_forward, overtaken
from engine.hive.trust import refuse_foreign, vouched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.hive.model import FileEntry, Table


@dataclass(frozen=True, slots=True)
class Held:
    """A table that is ours, brought in order first. `recovered` tells what that took."""

    home: str
    lock: Lock
    recovered: tuple[dict[str, Any], ...]


@contextmanager
def holding(
    doors: Doors,
    table: Table,
    command: str,
    *,
    break_lock: bool = False,
    dry_run: bool = False,
) -> Iterator[Held]:
    """Take the table's lock and bring interrupted runs to their end before the body works.

    A dry run takes nothing and recovers nothing: it sees the table as it lies there.

    Raises:
        HiveLockedError: someone alive holds the table.
    """
    home = home_of(table)
    if dry_run:
        yield Held(home, Lock(doors.files, f"{home}/{journals.LOCK}", 0), ())
        return
    lock = acquire(
        doors.files,
        home,
        table=table.full_name,
        command=command,
        clock=doors.clock,
        take_over=break_lock,
    )
    doors.hook(Step.LOCKED, "")
    try:
        with beating(lock, doors.clock):
            yield Held(home, lock, tuple(_recover(doors, table, home, lock)))
    finally:
        # A lock that cannot be freed is that of a dead process soon; the body's error matters more.
        with suppress(Exception):
            lock.release()
        doors.hook(Step.RELEASED, "")


def home_of(table: Table) -> str:
    """Return where a table's journal and lock are.

    Raises:
        HiveRefusedError: the table has no directory of its own.
    """
    if layout.is_root(table.location) and not (table.partition_columns and "://" in table.location):
        raise HiveRefusedError(table.full_name, "it has no directory of its own")
    return layout.home(table.location, partitioned=bool(table.partition_columns))


def open_runs(doors: Doors, home: str) -> list[Run]:
    """Return the runs that are not closed, oldest first."""
    found = []
    for run in journals.run_folders(doors.files, home):
        state = fold(run, open_journal(doors.files, f"{home}/{run}")[1])
        if state is not None and state.course is not Course.CLOSED:
            found.append(state)
    return found


def files_made(doors: Doors, home: str) -> dict[str, tuple[FileEntry, ...]]:
    """Return, for each unit, the files that the newest run standing there wrote."""
    made: dict[str, tuple[str, tuple[FileEntry, ...]]] = {}
    for record in journals.past_runs(doors.files, home):
        for name, unit in record["units"].items():
            made[name] = (record["run"], entries_of(unit["outputs"]))
    for run in open_runs(doors, home):
        for state in run.standing():
            if state.unit.name not in made or made[state.unit.name][0] < run.run:
                made[state.unit.name] = (run.run, state.outputs or ())
    return {name: files for name, (_, files) in made.items()}


def finish(doors: Doors, job: Job, *, strict: bool = False) -> Run:
    """Bring a run to the end that its journal asks for, and return what it became.

    Statistics that cannot be computed are a warning, and an error when `strict`.
    """
    run = _read(doors, job)
    if run.course is Course.CLOSED:
        _file_away(doors, job, run)
        return run
    if run.course is Course.PURGING:
        left = purge(doors, job, run)
        return _close(doors, job, run, "cleaned up", left=left)
    going_back = [run.units[name] for name, way in ways(run).items() if way is Way.BACK]
    for name, way in ways(run).items():
        if way is Way.FORWARD:
            step_forward(doors, job, run.units[name])
    # All files first, then what the metastore is told: it may be what failed.
    back = [state for state in going_back if _bring_back(doors, job, state, drop_new=run.force)]
    for state in back:
        _brought_back(doors, job, state)
    run = _read(doors, job)
    doors.catalog.refresh(job.table)
    warning = ""
    try:
        measure(doors, job, run)
    except Exception as error:
        if strict:
            raise
        warning = f"its statistics are not fresh: {first_line(error)}"
    if not run.standing():
        outcome = "rolled back" if run.chosen else "aborted"
        return replace(_close(doors, job, run, outcome), warning=warning)
    if run.course is not Course.COMMITTED:
        job.journal.record(Event.COMMITTED, at_ms=doors.clock())
        doors.hook(Step.COMMITTED, "")
    return replace(_read(doors, job), warning=warning)


def step_forward(doors: Doors, job: Job, state: UnitState) -> tuple[bool, int]:
    """Finish one unit's swap; say whether it stands, and how long readers saw nothing."""
    try:
        gap_ms = move_forward(doors, job, state)
    except ChangedError:
        return not step_back(doors, job, state), 0
    job.journal.record(Event.SWAPPED, state.unit.name, gap_ms=gap_ms)
    doors.hook(Step.SWAPPED, state.unit.name)
    return True, gap_ms


def step_back(doors: Doors, job: Job, state: UnitState) -> bool:
    """Bring one unit back to its originals; False when a writer overtook it and it stays."""
    if not _bring_back(doors, job, state, drop_new=False):
        return False
    _brought_back(doors, job, state)
    return True


def _bring_back(doors: Doors, job: Job, state: UnitState, *, drop_new: bool) -> bool:
    if overtaken(doors, job, state, drop_new=drop_new):
        job.journal.record(Event.SWAPPED, state.unit.name, overtaken=True)
        return False
    if state.phase is not Phase.UNDOING:
        job.journal.record(Event.UNDO, state.unit.name)
        doors.hook(Step.UNDO_INTENT, state.unit.name)
    move_back(doors, job, state, drop_new=drop_new)
    return True


def _brought_back(doors: Doors, job: Job, state: UnitState) -> None:
    doors.catalog.forget_in_backup(job.table, job.backup, state.unit)
    job.journal.record(Event.UNDONE, state.unit.name)
    doors.hook(Step.UNDONE, state.unit.name)


def measure(doors: Doors, job: Job, run: Run) -> None:
    """Compute anew the statistics that the table had, for the units whose files changed.

    A partition that was dropped since has none.
    """
    stats = Stats(run.about.get("stats", Stats.AUTO.value))
    if stats is Stats.NONE:
        return
    wanted = stats is Stats.SCAN
    for state in run.units.values():
        unit = state.unit
        due = unit.spec and (wanted or unit.sized) and state.outputs is not None
        if due and doors.catalog.location(job.table, unit):
            doors.catalog.measure(job.table, unit, rows=wanted or unit.rows is not None)
    if wanted or job.table.sized:
        doors.catalog.measure(job.table, None, rows=wanted or job.table.rows is not None)
    doors.hook(Step.MEASURED, "")


def job_of(doors: Doors, table: Table, home: str, lock: Lock, run: Run) -> Job:
    """Return a job that goes on with a run where its journal ends."""
    journal, _ = open_journal(doors.files, f"{home}/{run.run}")
    return Job(table, run.swap, run.backup, journal, lock)


def _recover(doors: Doors, table: Table, home: str, lock: Lock) -> Iterator[dict[str, Any]]:
    for name in journals.run_folders(doors.files, home):
        journal, entries = open_journal(doors.files, f"{home}/{name}")
        run = fold(name, entries)
        if run is None:
            doors.files.delete(f"{home}/{name}")
            continue
        if run.course is Course.COMMITTED:
            continue
        refuse_foreign(doors, table, run)
        job = Job(table, run.swap, run.backup, journal, lock)
        if run.course is not Course.CLOSED:
            journal.record(Event.RECOVER, epoch=lock.epoch)
        strays = () if run.course is Course.CLOSED else disown(doors, job, run)
        ended = finish(doors, job)
        outcome = ended.closing.get("outcome", ended.course.value)
        told = {"run": name, "was": run.course.value, "now": outcome}
        moved = [f"{unit} was moved, and its files were left as they lie" for unit in strays]
        warning = "; ".join([*moved, *([ended.warning] if ended.warning else [])])
        yield told | ({"warning": warning} if warning else {})


def disown(doors: Doors, job: Job, run: Run) -> list[str]:
    """Let go of the units for which the metastore does not vouch: nothing there is touched."""
    way, strays = ways(run), []
    for name, state in run.units.items():
        acted_on = run.course is Course.PURGING or way[name] is not Way.STAY
        if acted_on and state.phase is not Phase.UNDONE and not vouched(doors, job.table, state):
            job.journal.record(Event.UNDONE, name, strayed=True)
            strays.append(state.unit.label)
    return strays


def _read(doors: Doors, job: Job) -> Run:
    run = fold(job.journal.run, open_journal(doors.files, job.journal.directory)[1])
    assert run is not None, "a job is made after its run is in the journal"
    return run


def _close(doors: Doors, job: Job, run: Run, outcome: str, **more: Any) -> Run:
    doors.catalog.drop_backup(job.table, job.backup, job.journal.run)
    doors.hook(Step.BACKUP_DROPPED, "")
    job.journal.record(Event.CLOSED, outcome=outcome, at_ms=doors.clock(), **more)
    doors.hook(Step.CLOSED, "")
    closed = _read(doors, job)
    _file_away(doors, job, closed)
    return closed


def _file_away(doors: Doors, job: Job, run: Run) -> None:
    home = layout.parent(job.journal.directory)
    journals.file_away(doors.files, home, summary(run))
    doors.hook(Step.FILED, "")
    journals.forget(doors.files, job.journal.directory)
    doors.hook(Step.FORGOTTEN, "")


def summary(run: Run) -> dict[str, Any]:
    """Return what the history keeps of a run."""
    return {
        "run": run.run,
        "table": run.table,
        "swap": run.swap.value,
        "outcome": run.closing.get("outcome", run.course.value),
        "started_ms": run.about["started_ms"],
        "closed_ms": run.closing.get("at_ms"),
        "backup": run.backup if run.course is not Course.CLOSED else None,
        "units": {
            state.unit.name: {
                "files_before": len(state.inputs),
                "bytes_before": sum(entry.size for entry in state.inputs),
                "files_after": len(state.outputs or ()),
                "bytes_after": sum(entry.size for entry in state.outputs or ()),
                "rows": state.verified.get("rows"),
                "originals": state.places.kept if run.swap is Swap.RENAME else state.places.live,
                "outputs": rows_of(state.outputs or ()),
            }
            for state in run.standing()
        },
    }
