"""The two commands that go over many tables: what is due in each, and compacting each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from engine.errors import HiveFailedError, HiveRefusedError, ReplayError
from engine.hive.answers import emit, progress, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from engine.hive.model import Options, Table
    from engine.hive.swap import Doors


def show_plans(
    console: Console,
    doors: Doors,
    targets: list[str],
    options: Options,
    *,
    as_json: bool,
    dry_run: bool = False,
) -> None:
    """Print what is due in each table; interrupted runs come first, unless this is a dry run."""
    from engine.hive import show
    from engine.hive.plan import plan
    from engine.hive.upkeep import mend

    def one(table: Table) -> None:
        recovered = [] if dry_run else mend(doors, table)
        planned = plan(doors, table, options)
        verdicts = [verdict for _, verdict in planned.taken]
        verdicts += [verdict for _, verdict, _ in planned.left]
        verdicts.sort(key=lambda verdict: verdict.unit)
        if as_json:
            body: dict[str, Any] = {"table": table.full_name, "format": table.format}
            body |= {"location": table.location, "swap": planned.swap.value}
            body |= {"threshold_bytes": options.threshold_bytes, "recovered": recovered}
            body["taken"] = [unit.label for unit, _ in planned.taken]
            body["units"] = [verdict.as_json() for verdict in verdicts]
            emit(body)
        else:
            show.recovered(console, recovered)
            show.analysis(console, table.full_name, verdicts, options)

    _each(console, doors, targets, one, as_json=as_json)


def run_all(
    console: Console,
    doors: Doors,
    targets: list[str],
    options: Options,
    *,
    as_json: bool,
    break_lock: bool,
) -> None:
    """Compact each table and print its report."""
    from engine.hive import show
    from engine.hive.compact import compact

    def one(table: Table) -> None:
        with progress(table.full_name, quiet=as_json) as advance:
            report = compact(doors, table, options, progress=advance, break_lock=break_lock)
        if as_json:
            emit(report.as_json())
        else:
            show.run(console, report.as_json())

    _each(console, doors, targets, one, as_json=as_json)


def _each(
    console: Console,
    doors: Doors,
    targets: list[str],
    act: Callable[[Table], None],
    *,
    as_json: bool,
) -> None:
    # A table that fails is as it was before, and the others are still worth it. One that was only
    # met in its database may be left alone; one that was named may not.
    from engine.hive.reason import first_line
    from engine.hive.targets import resolve

    failed = False
    for table, named in list(resolve(doors.catalog, targets)):
        try:
            act(table)
        except Exception as error:
            if named and len(targets) == 1:
                raise
            told = (
                error
                if isinstance(error, ReplayError)
                else HiveFailedError(table.full_name, first_line(error), "nothing was changed")
            )
            refused = isinstance(told, HiveRefusedError) and not named
            failed = failed or not refused
            body: dict[str, Any] = {"table": table.full_name}
            if isinstance(told, HiveRefusedError):
                body["left_alone"] = told.reason
            else:
                body["error"] = {"code": told.code, "message": str(told)}
            say(console, body, str(told), as_json=as_json)
    if failed:
        raise typer.Exit(1)
