"""How is a table compacted? Backup, rewrite, verify, swap; several partitions at once."""

from __future__ import annotations

import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from engine.errors import HiveFailedError, HiveFencedError, HiveMismatchError, ReplayError
from engine.hive import finish as finishing
from engine.hive import layout, rewrite
from engine.hive.fingerprint import Fingerprint, fingerprints
from engine.hive.journal import Entry, Event, Journal
from engine.hive.model import Swap
from engine.hive.plan import Plan, plan
from engine.hive.reason import first_line
from engine.hive.report import RunReport, UnitReport
from engine.hive.state import UnitState, fold, plan_body, rows_of
from engine.hive.steps import Step
from engine.hive.swap import Doors, Job, absent, started

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.types import StructType

    from engine.hive.inspect import Assessment
    from engine.hive.model import Options, Table, Unit

    Progress = Callable[[UnitReport], None]


_RESERVE: Final = "reserve"
_RESERVE_BYTES: Final = 256 * 1024


def compact(
    doors: Doors,
    table: Table,
    options: Options,
    *,
    progress: Progress | None = None,
    break_lock: bool = False,
) -> RunReport:
    """Compact what is due in a table and return the report of the run.

    When anything fails, every partition of the run is brought back to its originals.

    Raises:
        HiveLockedError: another run holds the table.
        HiveRefusedError: the table must be left alone.
        HiveMismatchError: rewritten files differ from the originals; the table is as before.
        HiveFailedError: storage, Spark or metastore failed; the message says what state is left.
    """
    begun = time.monotonic()
    with finishing.holding(doors, table, "compact", break_lock=break_lock) as held:
        planned = plan(doors, doors.catalog.table(table.database, table.name), options)
        if not planned.taken:
            return RunReport.of(planned.table, "", planned.swap, (), planned.left, held.recovered)
        run = run_id(doors.clock())
        journal = Journal(doors.files, f"{held.home}/{run}")
        job = Job(table, planned.swap, layout.backup_name(table.name, run), journal, held.lock)
        journal.record(
            Event.RUN,
            table=table.full_name,
            identity=table.identity,
            swap=job.swap.value,
            backup=job.backup,
            started_ms=doors.clock(),
            stats=options.stats.value,
        )
        doors.files.write(f"{journal.directory}/{_RESERVE}", " " * _RESERVE_BYTES)
        doors.hook(Step.RUN_PLANNED, "")
        try:
            units = [unit for unit, _ in planned.taken]
            doors.catalog.create_backup(table, job.backup, run, units)
            doors.hook(Step.BACKUP_MADE, "")
            results = _work(doors, job, planned, options, progress or (lambda _: None))
            finishing.finish(doors, job)
        except HiveFencedError:
            raise
        except BaseException as error:
            outcome = _abort(doors, job)
            if isinstance(error, ReplayError | KeyboardInterrupt):
                raise
            raise HiveFailedError(table.full_name, first_line(error), outcome) from error
    seconds = time.monotonic() - begun
    return RunReport.of(
        table, run, job.swap, tuple(results), planned.left, held.recovered, seconds, job.backup
    )


def run_id(now_ms: int) -> str:
    """Return a new run's id; later runs sort after earlier ones."""
    stamp = time.strftime("%Y%m%d_%H%M%S", time.gmtime(now_ms / 1000))
    return f"{stamp}_{now_ms % 1000:03d}{secrets.token_hex(2)}"


def _work(
    doors: Doors, job: Job, planned: Plan, options: Options, progress: Progress
) -> list[UnitReport]:
    columns = doors.catalog.data_schema(job.table)
    sort = options.sort_columns or job.table.sort_columns
    stop = threading.Event()

    def one(pair: tuple[Unit, Assessment]) -> UnitReport | None:
        if stop.is_set():
            return None
        try:
            report = _compact_unit(doors, job, pair, columns, sort)
        except BaseException:
            stop.set()
            raise
        progress(report)
        return report

    if options.parallelism == 1:
        return [report for pair in planned.taken if (report := one(pair))]
    with ThreadPoolExecutor(options.parallelism, thread_name_prefix="txlog-hive") as pool:
        futures = [pool.submit(one, pair) for pair in planned.taken]
    return [report for future in futures if (report := future.result())]


def _compact_unit(
    doors: Doors,
    job: Job,
    pair: tuple[Unit, Assessment],
    columns: StructType,
    sort: tuple[str, ...],
) -> UnitReport:
    unit, verdict = pair
    begun = time.monotonic()
    files = 1 if job.table.buckets == 1 else verdict.target_files
    state, warning = _rewrite(doors, job, unit, files, columns, sort)
    stands, gap_ms = False, 0
    now = doors.files.listing(state.places.live)
    if absent(state.inputs, now) or started(state, now):
        finishing.step_back(doors, job, state)
    else:
        stands, gap_ms = _swap(doors, job, state)
    return UnitReport.of(state, stands, gap_ms, time.monotonic() - begun, warning)


def _rewrite(
    doors: Doors,
    job: Job,
    unit: Unit,
    target_files: int,
    columns: StructType,
    sort: tuple[str, ...],
) -> tuple[UnitState, str]:
    files, spark = doors.files, doors.catalog.spark
    places = layout.places(unit.location, job.journal.run, job.swap)
    found = files.listing(places.live)
    if found is None or not found.files:
        raise HiveFailedError(
            job.table.full_name, f"{places.live} went away", "nothing was changed"
        )
    hidden = [name for name, _ in found.hidden]
    body = plan_body(unit, places, found.files, hidden)
    entries = [job.journal.record(Event.PLANNED, unit.name, **body)]
    doors.hook(Step.UNIT_PLANNED, unit.name)
    paths = [f"{places.live}/{entry.name}" for entry in found.files]
    try:
        recipe = rewrite.recipe(spark, job.table, columns, paths, sort)
        recipe.write(recipe.read(spark, paths), places.staged, target_files)
        doors.hook(Step.WRITTEN, unit.name)
        original, rewritten = fingerprints(
            recipe.read(spark, paths), recipe.read(spark, [places.staged])
        )
        _refuse_difference(job, unit, original, rewritten)
    except BaseException:
        # Before the journal is asked for anything more: the disk may be full of these.
        with suppress(Exception):
            files.delete(places.staged_shell)
        raise
    if found.marked:
        files.write(f"{places.staged}/_SUCCESS", "")
    staged = files.listing(places.staged)
    outputs = staged.files if staged else ()
    names = [entry.name for entry in outputs]
    warning = files.copy_access(places.live, places.staged, names, found.files[0].name)
    entries.append(
        job.journal.record(
            Event.VERIFIED,
            unit.name,
            outputs=rows_of(outputs),
            rows=rewritten.rows,
            fingerprint=rewritten.as_json(),
            recipe=recipe.as_json(),
        )
    )
    doors.hook(Step.VERIFIED, unit.name)
    return _state(job, entries, unit), warning


def _refuse_difference(job: Job, unit: Unit, original: Fingerprint, rewritten: Fingerprint) -> None:
    if original != rewritten:
        raise HiveMismatchError(job.table.full_name, unit.label, original.label, rewritten.label)


def _swap(doors: Doors, job: Job, state: UnitState) -> tuple[bool, int]:
    job.lock.check()
    if job.swap is Swap.RENAME:
        doors.files.mkdirs(state.places.kept_shell)
    job.journal.record(Event.SWAP, state.unit.name)
    doors.hook(Step.SWAP_INTENT, state.unit.name)
    return finishing.step_forward(doors, job, state)


def _state(job: Job, entries: list[Entry], unit: Unit) -> UnitState:
    start = Entry(-1, Event.RUN, "", {"swap": job.swap.value})
    run = fold(job.journal.run, [start, *entries])
    assert run is not None
    return run.units[unit.name]


def _abort(doors: Doors, job: Job) -> str:
    try:
        # On a full disk, the way back is written where the reserve was.
        doors.files.delete(f"{job.journal.directory}/{_RESERVE}")
        job.journal.record(Event.ABORT)
        finishing.finish(doors, job)
    except Exception as error:
        return (
            f"and going back stopped too ({first_line(error)}); "
            f"run `txlog hive recover {job.table.full_name}`"
        )
    return "the table is as it was before"
