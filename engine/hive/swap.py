"""How do rewritten files take the originals' place, and how do the originals come back?

Thin doing around `decide`: look at what exists, ask for the next act, do it, look again. Files
that a writer adds in the meantime are carried to where readers look; nothing is ever replaced.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import AlreadyExistsError, HiveLostError
from engine.hive import decide
from engine.hive.decide import Act, Facts, Pointer
from engine.hive.model import Swap
from engine.hive.steps import Step, ignore

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.hive.catalog import Catalog
    from engine.hive.files import Files
    from engine.hive.journal import Journal
    from engine.hive.lock import Lock
    from engine.hive.model import FileEntry, Listing, Table
    from engine.hive.state import UnitState
    from engine.hive.steps import Hook


@dataclass(frozen=True, slots=True)
class Doors:
    """The ways out of the process: storage, metastore, clock; and who is told of each step."""

    files: Files
    catalog: Catalog
    clock: Callable[[], int]
    hook: Hook = ignore


@dataclass(frozen=True, slots=True)
class Job:
    """A run at work: the table it holds, the lock it holds it by, the journal it writes."""

    table: Table
    swap: Swap
    backup: str
    journal: Journal
    lock: Lock


class ChangedError(Exception):
    """A writer changed the originals while they were rewritten; the rewritten files are stale."""


def move_forward(doors: Doors, job: Job, state: UnitState) -> int:
    """Put the rewritten files in place and return for how many milliseconds readers saw none.

    May be called again at any point of an earlier, interrupted call. The originals are compared
    with what was rewritten right before the first act, and again after the last.

    Raises:
        ChangedError: the originals are not those that were rewritten; go back.
    """
    opened = doors.clock()
    gap_ms = 0
    while True:
        act = decide.forward(job.swap, look(doors, job, state))
        job.lock.check()
        if act is Act.SETTLE:
            _settle(doors, job, state)
            return gap_ms
        if act in (Act.TURN_BACK, Act.ELSEWHERE):
            raise ChangedError(act.value)
        if act in (Act.SET_ASIDE, Act.REPOINT):
            _refuse_changed(state, doors.files.listing(state.places.live))
            opened = doors.clock()
        _perform(doors, job, state, act)
        if act in (Act.SET_ASIDE, Act.PUT_IN_PLACE, Act.MERGE_IN):
            gap_ms = doors.clock() - opened


def move_back(doors: Doors, job: Job, state: UnitState, *, drop_new: bool = False) -> None:
    """Bring the originals back and delete the rewritten files.

    Files that were added since are carried over, unless `drop_new`. May be called again at any
    point of an earlier, interrupted call.
    """
    while True:
        facts = look(doors, job, state)
        act = decide.back(job.swap, facts, verified=state.outputs is not None)
        job.lock.check()
        if act is Act.DONE:
            _tidy(doors, state)
            return
        if act is Act.DISCARD:
            _discard(doors, job, state, drop_new=drop_new)
        else:
            _perform(doors, job, state, act)


def overtaken(doors: Doors, job: Job, state: UnitState, *, drop_new: bool = False) -> bool:
    """Say whether going back would undo what a writer did after the swap, or lose rows.

    So it is when the unit was overwritten since, and when its originals are no longer complete.
    Originals that changed before the swap was complete are the writer's, and the way back is his.
    """
    if not decide.in_place(job.swap, look(doors, job, state)):
        return False
    if state.stood and absent(state.inputs, doors.files.listing(state.places.kept)):
        return True
    outputs = () if drop_new or state.outputs is None else state.outputs
    return bool(absent(outputs, doors.files.listing(state.places.after)))


def look(doors: Doors, job: Job, state: UnitState) -> Facts:
    """Return what exists of a unit now."""
    files, places = doors.files, state.places
    pointer = Pointer.LIVE
    if job.swap is Swap.LOCATION:
        at = doors.catalog.location(job.table, state.unit)
        pointer = {places.live: Pointer.LIVE, places.staged: Pointer.STAGED}.get(
            at, Pointer.ELSEWHERE
        )
    live, kept, aside = files.exists(places.live), files.exists(places.kept), True
    if not (live or kept or state.stood) and job.swap is Swap.RENAME:
        # The directory around `kept` is made before the swap is announced and goes when all is
        # done: it is empty only before the originals come and after they went back.
        aside = state.begun and not files.exists(places.kept_shell)
    return Facts(live, files.exists(places.staged), kept, pointer, aside)


def late(known: tuple[FileEntry, ...], found: Listing | None) -> tuple[FileEntry, ...]:
    """Return the files whose name was not known; one that was only touched is not late."""
    names = {entry.name for entry in known}
    return tuple(e for e in sorted(found.files) if e.name not in names) if found else ()


def absent(known: tuple[FileEntry, ...], found: Listing | None) -> tuple[FileEntry, ...]:
    """Return the files that were known and not found as they were."""
    return tuple(sorted(set(known) - set(found.files if found else ())))


def started(state: UnitState, found: Listing | None) -> tuple[str, ...]:
    """Return the directories of writers that began after the unit was planned."""
    if found is None:
        return ()
    return found.folders + tuple(name for name, _ in found.hidden if name not in state.hidden)


def carry(doors: Doors, files: tuple[FileEntry, ...], source: str, target: str, run: str) -> None:
    """Move files from one directory to another; a name that is taken is never replaced."""
    atomic = doors.files.renames_atomically(source)
    for entry in files:
        here = f"{source}/{entry.name}"
        own = f"{target}/{_own_name(entry, run)}"
        try:
            doors.files.rename(here, f"{target}/{entry.name}" if atomic else own)
        except AlreadyExistsError:
            if atomic:
                doors.files.rename(here, own)
            else:
                # Ours, by its name: a rename that is a copy ended before it deleted its source.
                doors.files.delete(here)
        doors.hook(Step.CARRIED, entry.name)


def _own_name(entry: FileEntry, run: str) -> str:
    return f"late-{run}-{entry.modified_ms}-{entry.name}"


def _settle(doors: Doors, job: Job, state: UnitState) -> None:
    places = state.places
    found = doors.files.listing(places.kept)
    _refuse_changed(state, found)
    if job.swap is Swap.RENAME:
        # After the renames and not between them: the gap is two renames and no more.
        doors.catalog.point_backup(job.table, job.backup, state.unit, places.kept)
        doors.hook(Step.BACKUP_POINTED, state.unit.name)
    carry(doors, late(state.inputs, found), places.kept, places.after, job.journal.run)
    if job.swap is Swap.RENAME:
        doors.files.delete_empty(places.staged_shell)


def _refuse_changed(state: UnitState, found: Listing | None) -> None:
    gone, begun = absent(state.inputs, found), started(state, found)
    if gone or begun:
        raise ChangedError(f"{len(gone)} file(s) changed" if gone else f"a writer began {begun[0]}")


def _discard(doors: Doors, job: Job, state: UnitState, *, drop_new: bool) -> None:
    places = state.places
    if state.outputs is not None and not drop_new:
        run, there = job.journal.run, doors.files.listing(places.live)
        # Where a rename is a copy, one that failed has left its source.
        copies = {_own_name(entry, run) for entry in there.files} if there else set()
        found = late(state.outputs, doors.files.listing(places.staged))
        added = tuple(entry for entry in found if entry.name not in copies)
        carry(doors, added, places.staged, places.live, run)
    doors.files.delete(places.staged_shell)
    doors.hook(Step.DISCARDED, state.unit.name)


def _tidy(doors: Doors, state: UnitState) -> None:
    for shell in (state.places.staged_shell, state.places.kept_shell):
        if shell and doors.files.exists(shell):
            doors.files.delete_empty(shell)


def _perform(doors: Doors, job: Job, state: UnitState, act: Act) -> None:
    files, places, name = doors.files, state.places, state.unit.name
    if act is Act.LOST:
        raise HiveLostError(job.table.full_name, state.unit.label, places.live, places.kept)
    if act in _RENAMES:
        if act is Act.TAKE_OUT:
            files.mkdirs(places.staged_shell)
        # The second rename of a pair follows at once, without another look: that is the gap.
        for each in _PAIRS.get(act, (act,)):
            source, target, step = _RENAMES[each]
            try:
                files.rename(getattr(places, source), getattr(places, target))
            except AlreadyExistsError:
                # A writer made the directory between look and act: the next look sees it.
                return
            doors.hook(step, name)
    elif act is Act.MERGE_IN:
        _merge(doors, job, places.staged, places.live, name)
    elif act is Act.MERGE_BACK:
        # What a merge brought in before it failed must not stand beside the originals.
        there = doors.files.listing(places.live)
        names = {entry.name for entry in state.outputs or ()}
        ours = tuple(entry for entry in there.files if entry.name in names) if there else ()
        carry(doors, ours, places.live, places.staged, job.journal.run)
        _merge(doors, job, places.kept, places.live, name)
    else:
        target = places.staged if act is Act.REPOINT else places.live
        doors.catalog.set_location(job.table, state.unit, target)
        doors.hook(Step.REPOINTED, name)


def _merge(doors: Doors, job: Job, source: str, target: str, name: str) -> None:
    for entry in sorted(doors.files.names(source)):
        try:
            doors.files.rename(f"{source}/{entry}", f"{target}/{entry}")
        except AlreadyExistsError:
            if entry.startswith(("_", ".")):
                doors.files.delete(f"{source}/{entry}")
            else:
                own = f"late-{job.journal.run}-{entry}"
                doors.files.rename(f"{source}/{entry}", f"{target}/{own}")
        doors.hook(Step.MERGED_FILE, name)
    # Whatever arrived in the meantime stays, and the next look sees it.
    doors.files.delete_empty(source)


_PAIRS = {
    Act.SET_ASIDE: (Act.SET_ASIDE, Act.PUT_IN_PLACE),
    Act.TAKE_OUT: (Act.TAKE_OUT, Act.PUT_BACK),
}
_RENAMES = {
    Act.SET_ASIDE: ("live", "kept", Step.SET_ASIDE),
    Act.PUT_IN_PLACE: ("staged", "live", Step.PUT_IN_PLACE),
    Act.TAKE_OUT: ("live", "staged", Step.TAKEN_OUT),
    Act.PUT_BACK: ("kept", "live", Step.PUT_BACK),
}
