"""How is a table compacted? Backup, rewrite, verify, swap; several partitions at once."""

from __future__ import annotations

import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Final

from engine.errors import HiveFailedError, HiveFencedError, ReplayError
from engine.hive import finish as finishing
from engine.hive import layout, rewrite, verify
from engine.hive.inspect import assess
from engine.hive.journal import Entry, Event, Journal
from engine.hive.model import Swap
from engine.hive.plan import Plan, plan, refuse
from engine.hive.reason import first_line
from engine.hive.report import RunReport, UnitReport
from engine.hive.state import UnitState, fold, plan_body, rows_of
from engine.hive.steps import Step
from engine.hive.swap import Doors, Job

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.types import StructType

    from engine.hive.inspect import Assessment
    from engine.hive.model import Listing, Options, Table, Unit

    Progress = Callable[[int, int, str], None]  # units done, units in all, the last one


_AS_BEFORE: Final = "the table is as it was before"
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
    refuse(doors, table, options)
    with finishing.holding(doors, table, "compact", break_lock=break_lock) as held:
        # As it is now: recovery may have moved it since the caller looked.
        table = doors.catalog.table(table.database, table.name)
        planned = plan(doors, table, options)
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
            started_ms=doors.clock(),
            stats=options.stats.value,
        )
        doors.hook(Step.RUN_PLANNED, "")
        try:
            doors.files.write(f"{journal.directory}/{_RESERVE}", " " * _RESERVE_BYTES)
            units = [unit for unit, _ in planned.taken]
            doors.catalog.create_backup(table, job.backup, run, units)
            doors.hook(Step.BACKUP_MADE, "")
            results = _work(doors, job, planned, options, progress or (lambda *_: None))
            finishing.finish(doors, job, strict=True)
        except HiveFencedError:
            raise
        except BaseException as error:
            outcome = _abort(doors, job, error)
            if isinstance(error, KeyboardInterrupt):
                raise
            if isinstance(error, ReplayError) and outcome == _AS_BEFORE:
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
    stop, finished, total = threading.Event(), count(1), len(planned.taken)
    progress(0, total, "")

    def one(pair: tuple[Unit, Assessment]) -> UnitReport | None:
        if stop.is_set():
            return None
        try:
            report = _compact_unit(doors, job, pair[0], options, columns, sort)
        except BaseException:
            stop.set()
            raise
        progress(next(finished), total, report.unit)
        return report

    if options.parallelism == 1:
        return [report for pair in planned.taken if (report := one(pair))]
    pool = ThreadPoolExecutor(options.parallelism, thread_name_prefix="txlog-hive")
    try:
        futures = [pool.submit(one, pair) for pair in planned.taken]
        wait(futures)
    finally:
        # Also when this thread is interrupted: nothing goes back while another still goes forward.
        stop.set()
        _end(pool)
    return [report for future in futures if (report := future.result())]


def _end(pool: ThreadPoolExecutor) -> None:
    try:
        pool.shutdown(cancel_futures=True)
    except KeyboardInterrupt:
        _end(pool)
        raise


def _compact_unit(
    doors: Doors,
    job: Job,
    unit: Unit,
    options: Options,
    columns: StructType,
    sort: tuple[str, ...],
) -> UnitReport:
    begun = time.monotonic()
    # Hours may have passed since the plan.
    found = doors.files.listing(unit.location)
    verdict = assess(unit, found, options, now_ms=doors.clock())
    if found is None or not verdict.due:
        return UnitReport.untouched(verdict)
    files = 1 if job.table.buckets == 1 else verdict.target_files
    state, warning = _rewrite(doors, job, unit, found, files, columns, sort)
    stands, gap_ms = _swap(doors, job, state)
    return UnitReport.of(state, stands, gap_ms, time.monotonic() - begun, warning)


def _rewrite(
    doors: Doors,
    job: Job,
    unit: Unit,
    found: Listing,
    target_files: int,
    columns: StructType,
    sort: tuple[str, ...],
) -> tuple[UnitState, str]:
    files, spark = doors.files, doors.catalog.spark
    places = layout.places(unit.location, job.journal.run, job.swap)
    hidden = [name for name, _ in found.hidden]
    body = plan_body(unit, places, found.files, hidden)
    entries = [job.journal.record(Event.PLANNED, unit.name, **body)]
    doors.hook(Step.UNIT_PLANNED, unit.name)
    paths = [f"{places.live}/{entry.name}" for entry in found.files]
    try:
        # Until the rewritten files have the access of the originals, they are nobody else's.
        files.make_private(places.staged_shell)
        recipe = rewrite.recipe(spark, job.table, columns, paths, sort)
        original = verify.write(spark, recipe, paths, places.staged, target_files)
        doors.hook(Step.WRITTEN, unit.name)
        rewritten = verify.read(spark, recipe, places.staged)
        verify.refuse_difference(job.table.full_name, unit.label, original, rewritten)
        if found.marked:
            files.write(f"{places.staged}/_SUCCESS", "")
        staged = files.listing(places.staged)
        outputs = staged.files if staged else ()
        names = [entry.name for entry in outputs]
        warning = files.copy_access(places.live, places.staged, names, found.files[0].name)
        if job.swap is Swap.LOCATION:
            # Here readers come through it.
            warning = files.copy_access(places.live, places.staged_shell) or warning
        entries.append(
            job.journal.record(
                Event.VERIFIED,
                unit.name,
                outputs=rows_of(outputs),
                rows=rewritten.fingerprint.rows,
                fingerprint=rewritten.fingerprint.as_json(),
                recipe=recipe.as_json(),
            )
        )
    except BaseException:
        # Before the journal is asked for anything more: the disk may be full of these. And when
        # another run took over, it looked for them before they were there.
        with suppress(Exception):
            files.delete(places.staged_shell)
        raise
    doors.hook(Step.VERIFIED, unit.name)
    return _state(job, entries, unit), warning


def _swap(doors: Doors, job: Job, state: UnitState) -> tuple[bool, int]:
    job.lock.check()
    if job.swap is Swap.RENAME:
        doors.files.mkdirs(state.places.kept_shell)
    job.journal.record(Event.SWAP, state.unit.name)
    doors.hook(Step.SWAP_INTENT, state.unit.name)
    return finishing.step_forward(doors, job, replace(state, begun=True))


def _state(job: Job, entries: list[Entry], unit: Unit) -> UnitState:
    start = Entry(-1, Event.RUN, "", {"swap": job.swap.value})
    run = fold(job.journal.run, [start, *entries])
    assert run is not None
    return run.units[unit.name]


def _abort(doors: Doors, job: Job, cause: BaseException) -> str:
    try:
        # On a full disk, the way back is written where the reserve was.
        doors.files.delete(f"{job.journal.directory}/{_RESERVE}")
        job.journal.record(Event.ABORT)
        ended = finishing.finish(doors, job)
    except Exception as error:
        why = first_line(error)
        again = "" if why == first_line(cause) else f" ({why})"
        return f"and going back stopped too{again}; run `txlog hive recover {job.table.full_name}`"
    stays = ", ".join(state.unit.label for state in ended.standing())
    return f"{_AS_BEFORE}, but for {stays}, overwritten meanwhile" if stays else _AS_BEFORE
