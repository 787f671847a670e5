"""What do people read of a run over many tables? A line a table that has something to tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.report.terminal import human_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.upkeep.fleet.maintain import Report, TableReport

_COUNTED = ("done", "nothing due", "due", "skipped", "failed")


def report_lines(report: Report, *, quiet: bool = False) -> Iterator[str]:
    """Yield the tables that something was due in or wrong with, then the sums of the run."""
    for table in report.tables:
        if table.outcome != "nothing due" and not (quiet and table.outcome == "done"):
            yield f"{table.table}: {_line(table)}\n"
        for note in table.notes:
            yield f"{table.table}: {note}\n"
    counts = [f"{report.count(name):,} {name}" for name in _COUNTED if report.count(name)]
    written = sum(table.bytes_written for table in report.tables)
    size = f", {human_bytes(written)} written" if written else ""
    tables = f"{len(report.tables):,} table{'' if len(report.tables) == 1 else 's'}"
    yield f"{tables} in {report.seconds:.1f} s: {', '.join(counts)}{size}\n"


def _line(table: TableReport) -> str:
    if table.problem is not None:
        return f"failed: {table.problem.code}: {table.problem.message}"
    if table.outcome == "skipped":
        return f"skipped: {table.reason}"
    if table.outcome == "due":
        return "; ".join(f"{task.name} is due: {task.reason}" for task in table.due)
    return "; ".join(f"{done.task} in {done.seconds:.2f} s" for done in table.done)
