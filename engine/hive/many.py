"""The commands that go over many tables: one that fails does not stop the others."""

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


def clean_all(
    console: Console,
    doors: Doors,
    targets: list[str],
    *,
    as_json: bool,
    older_than_ms: int,
    force: bool,
    dry_run: bool,
    break_lock: bool,
) -> None:
    """Delete the originals of each table's finished runs and print what that freed."""
    from engine.hive.inspect import human
    from engine.hive.upkeep import cleanup

    def one(table: Table) -> None:
        done = cleanup(
            doors,
            table,
            older_than_ms=older_than_ms,
            force=force,
            dry_run=dry_run,
            break_lock=break_lock,
        )
        freed = sum(item["bytes"] for item in done)
        verb = "would free" if dry_run else "freed"
        text = f"{table.full_name}: {len(done)} run(s), {verb} {human(freed)}"
        say(console, {"table": table.full_name, "runs": done}, text, as_json=as_json)

    _each(console, doors, targets, one, as_json=as_json, of_old=True)


def recover_all(
    console: Console, doors: Doors, targets: list[str], *, as_json: bool, break_lock: bool
) -> None:
    """Bring each table's interrupted runs to their end and print what they became."""
    from engine.hive.upkeep import recover

    def one(table: Table) -> None:
        done = recover(doors, table, break_lock=break_lock)
        told = "; ".join(f"run {item['run']} was {item['was']}, is {item['now']}" for item in done)
        text = f"{table.full_name}: {told or 'nothing to recover'}"
        say(console, {"table": table.full_name, "recovered": done}, text, as_json=as_json)

    _each(console, doors, targets, one, as_json=as_json, of_old=True)


def _each(
    console: Console,
    doors: Doors,
    targets: list[str],
    act: Callable[[Table], None],
    *,
    as_json: bool,
    of_old: bool = False,
) -> None:
    # Of a table that fails nothing is lost, and the others are still worth it. One that was only
    # met in its database may be left alone; one that was named may not. What looks after `of_old`
    # runs passes by tables that never had one.
    from engine.hive.reason import first_line
    from engine.hive.targets import keeps_runs, resolve

    outcome = "run `txlog hive recover` on it" if of_old else "nothing was changed"
    failed = False
    for table, named in list(resolve(doors.catalog, targets)):
        try:
            if named or not of_old or keeps_runs(doors, table):
                act(table)
        except Exception as error:
            if named and len(targets) == 1:
                raise
            told = (
                error
                if isinstance(error, ReplayError)
                else HiveFailedError(table.full_name, first_line(error), outcome)
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
