"""How is a fleet of tables kept up? Each by its own log: look, decide, do, report.

First every table is looked at, then those with something due are worked on, the most urgent
first. Small ones go to a pool, of threads or of executors; large ones follow, one after the other.
A table that fails is reported and stops no other. Nothing is locked: what two runs do at the same
time, one of them did first, and the other finds done.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from engine.config import Config
from engine.errors import ReplayError, StorageError
from engine.replay.choice import choose_engine
from engine.replay.heads import sidecars_of
from engine.upkeep.fleet.due import Due, due, look
from engine.upkeep.fleet.tables import Target
from engine.upkeep.fleet.tasks import TASKS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine.upkeep.fleet.tables import Fleet

Item = TypeVar("Item")
Result = TypeVar("Result")

_logger: Final = logging.getLogger(__name__)


class Each(Protocol):
    """Does the same work on every item, wherever it has hands, and keeps their order."""

    def __call__(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Return the result of each item."""


@dataclass(frozen=True)
class Request:
    """What is asked of a run. All but `spark` travels to executors.

    `open` is `open_log`; `deadline_ms` is when no more tables are begun, and `now_ms` tells the
    time to hold against it. With `deep`, the newest checkpoint of every table is read whole. With
    `measure`, a table is loaded before and after its checkpoint, to tell what that is worth. With
    `verify`, every table is verified when all else is done.
    """

    open: Callable[..., Any]
    now_ms: Callable[[], int]
    config: Config = field(default_factory=Config)
    deadline_ms: int | None = None
    max_tables: int | None = None
    deep: bool = False
    measure: bool = False
    verify: bool = False
    dry_run: bool = False
    spark: Any = None

    def log(self, target: Target) -> Any:
        """Open a table, by its own options where it has any."""
        config = replace(self.config, options={**target.options, **self.config.options})
        options = target.storage_options
        return self.open(target.table, config, storage_options=options, spark=self.spark)


@dataclass(frozen=True)
class Problem:
    """Why a table failed."""

    code: str
    message: str


@dataclass(frozen=True)
class Done:
    """A task that was done, how long it took, and what it says of itself."""

    task: str
    seconds: float
    summary: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TableReport:
    """What was due in one table, and what became of it.

    `outcome` is `nothing due`, `due` (while nothing was tried yet), `done`, `skipped` or `failed`.
    `commits` counts those since the checkpoint that readers start from.
    """

    target: Target
    table: str
    outcome: str
    log_format: str = ""
    version: int | None = None
    checkpoint: int | None = None
    commits: int = 0
    due: tuple[Due, ...] = ()
    done: tuple[Done, ...] = ()
    notes: tuple[str, ...] = ()
    reason: str = ""
    problem: Problem | None = None
    is_large: bool = False
    size_bytes: int = 0
    seconds: float = 0.0

    @property
    def bytes_written(self) -> int:
        """How much the tasks wrote."""
        return sum(int(done.summary.get("bytesWritten") or 0) for done in self.done)

    def summary(self) -> dict[str, Any]:
        """Return this table's part of what `txlog maintain --json` prints."""
        return {
            "table": self.table,
            "outcome": self.outcome,
            **({"format": self.log_format} if self.log_format else {}),
            **({"version": self.version} if self.version is not None else {}),
            "checkpoint": self.checkpoint,
            "commits": self.commits,
            "due": [{"task": task.name, "reason": task.reason} for task in self.due],
            "done": [
                {**done.summary, "task": done.task, "seconds": round(done.seconds, 6)}
                for done in self.done
            ],
            **({"notes": list(self.notes)} if self.notes else {}),
            **({"reason": self.reason} if self.reason else {}),
            **({"error": vars(self.problem)} if self.problem else {}),
            "bytesWritten": self.bytes_written,
            "seconds": round(self.seconds, 6),
        }


@dataclass(frozen=True)
class Report:
    """What became of a run, table by table, in the order in which they were named."""

    tables: tuple[TableReport, ...]
    seconds: float
    dry_run: bool = False

    def count(self, outcome: str) -> int:
        """Return how many tables ended so."""
        return sum(table.outcome == outcome for table in self.tables)

    @property
    def status(self) -> int:
        """The exit status: 1 where a table failed, else 0."""
        return 1 if self.count("failed") else 0

    def summary(self) -> dict[str, Any]:
        """Return what `txlog maintain --json` prints."""
        outcomes = ("done", "nothing due", "skipped", "failed")
        return {
            "numTables": len(self.tables),
            "dryRun": self.dry_run,
            **{_camel(f"num {name}"): self.count(name) for name in outcomes},
            **({"numDue": self.count("due")} if self.dry_run else {}),
            "bytesWritten": sum(table.bytes_written for table in self.tables),
            "seconds": round(self.seconds, 6),
            "tables": [table.summary() for table in self.tables],
        }


def maintain(fleet: Fleet, request: Request, each: Each) -> Report:
    """Do what is due in every table of a fleet, and report it; never raises for one table."""
    started = time.perf_counter()
    travelling = replace(request, spark=None)
    plans = each(partial(plan, request=travelling), fleet.targets)
    for problem in fleet.problems.items():
        plans.append(_unfound(*problem))
    reports = {at: report for at, report in enumerate(plans) if report.outcome != "due"}
    if not request.dry_run:
        waiting = {at: report for at, report in enumerate(plans) if report.outcome == "due"}
        chosen, left = within(waiting, request.max_tables)
        reports |= left
        small = [at for at in chosen if not waiting[at].is_large]
        done = each(partial(keep, request=travelling), [waiting[at] for at in small])
        reports |= zip(small, done, strict=True)
        for at in chosen:
            if waiting[at].is_large:
                reports[at] = keep(waiting[at], request)
    tables = tuple(reports.get(at, report) for at, report in enumerate(plans))
    for table in tables:
        _tell(table)
    return Report(tables, time.perf_counter() - started, request.dry_run)


def plan(target: Target, request: Request) -> TableReport:
    """Look at one table's log and decide what is due in it; never raises."""
    started = time.perf_counter()
    report = TableReport(target, target.table, "nothing due")
    try:
        log = request.log(target)
        found = look(log.directory, log.listing(), log.config, deep=request.deep)
        verify = request.verify or target.verify
        tasks = tuple(due(found, now_ms=request.now_ms(), verify=verify))
        engine, _ = choose_engine(
            "auto",
            found.segment,
            found.config,
            has_session=True,
            sidecars=partial(sidecars_of, found.segment, log.directory, found.config),
        )
        report = replace(
            report,
            table=log.directory.table_url,
            outcome="due" if tasks else "nothing due",
            log_format=log.directory.log_format.name,
            version=found.segment.version,
            checkpoint=found.checkpoint_version,
            commits=found.commits,
            due=tasks,
            notes=tuple(str(fallback) for fallback in found.fallbacks),
            is_large=engine == "spark",
            size_bytes=found.segment.size_bytes,
        )
    except Exception as error:
        report = replace(report, outcome="failed", problem=_problem(error))
    return replace(report, seconds=time.perf_counter() - started)


def keep(planned: TableReport, request: Request) -> TableReport:
    """Do what is due in one table, in order, up to the first task that fails; never raises."""
    if request.deadline_ms is not None and request.now_ms() >= request.deadline_ms:
        return replace(planned, outcome="skipped", reason="the time for this run was over")
    started, done = time.perf_counter(), []
    try:
        log = request.log(planned.target)
        for task in planned.due:
            is_measured = request.measure and task.name == "checkpoint"
            before = _load_seconds(planned.target, request) if is_measured else None
            began = time.perf_counter()
            summary = TASKS[task.name](log)
            seconds = time.perf_counter() - began
            if before is not None:
                after = _load_seconds(planned.target, request)
                summary = {**summary, "loadSeconds": {"before": before, "after": after}}
            done.append(Done(task.name, seconds, summary))
        ended = replace(planned, outcome="done")
        if unsound := [one for one in done if one.summary.get("sound") is False]:
            ended = replace(planned, outcome="failed", problem=_unsound(unsound[-1]))
    except Exception as error:
        ended = replace(planned, outcome="failed", problem=_problem(error))
    seconds = planned.seconds + time.perf_counter() - started
    return replace(ended, done=tuple(done), seconds=seconds)


def _load_seconds(target: Target, request: Request) -> float:
    log = request.log(target)
    started = time.perf_counter()
    log.snapshot().totals()
    return round(time.perf_counter() - started, 6)


def within(
    waiting: Mapping[int, TableReport], max_tables: int | None
) -> tuple[list[int], dict[int, TableReport]]:
    """Return which tables to work on, the most urgent first, and the others as skipped."""

    def urgency(at: int) -> float:
        return -max(task.urgency for task in waiting[at].due)

    order = sorted(waiting, key=urgency)
    reason = f"{max_tables} other tables were more urgent, and no more were asked for"
    left = {
        at: replace(waiting[at], outcome="skipped", reason=reason)
        for at in (order[max_tables:] if max_tables is not None else ())
    }
    return [at for at in order if at not in left], left


def threads(workers: int) -> Each:
    """Return the pool of this process, of so many threads."""

    def each(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        with ThreadPoolExecutor(workers, thread_name_prefix="txlog-maintain") as pool:
            return list(pool.map(work, items))

    return each


def lost(item: Target | TableReport, error: ReplayError) -> TableReport:
    """Return the report of a table that took down whatever worked on it."""
    report = item if isinstance(item, TableReport) else TableReport(item, item.table, "failed")
    return replace(report, outcome="failed", problem=_problem(error))


def _unfound(pattern: str, error: ReplayError) -> TableReport:
    return lost(Target(pattern), error)


def _unsound(done: Done) -> Problem:
    first = next(iter(done.summary["errors"]), {"path": "", "message": "it is not sound"})
    place = f"{first['path']}: " if first["path"] else ""
    return Problem("UNSOUND", f"{place}{first['message']}; see `txlog verify`")


def _problem(error: Exception) -> Problem:
    if isinstance(error, ReplayError):
        return Problem(error.code, str(error))
    if isinstance(error, OSError):
        return Problem(StorageError.code, " ".join(str(error).split()))
    text = " ".join(str(error).split())
    return Problem("INTERNAL", f"internal error: {type(error).__name__}: {text}")


def _tell(report: TableReport) -> None:
    for done in report.done:
        _logger.info("%s: %s in %.3f s: %s", report.table, done.task, done.seconds, done.summary)
    for note in report.notes:
        _logger.warning("%s: %s", report.table, note)
    if report.problem is not None:
        _logger.error("%s: %s: %s", report.table, report.problem.code, report.problem.message)


def _camel(words: str) -> str:
    first, *rest = words.split()
    return first + "".join(word.capitalize() for word in rest)
