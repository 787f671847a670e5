"""The two commands that go over many tables: what is due in each, and compacting each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from engine.errors import HiveRefusedError, ReplayError
from engine.hive.answers import emit, progress, say

if TYPE_CHECKING:
    from rich.console import Console

    from engine.hive.model import Options
    from engine.hive.swap import Doors


def show_plans(
    console: Console, doors: Doors, targets: list[str], options: Options, *, as_json: bool
) -> None:
    """Print what is due in each table; a table that was not named itself may be refused."""
    from engine.hive import show
    from engine.hive.plan import plan
    from engine.hive.targets import resolve

    for table, named in resolve(doors.catalog, targets):
        try:
            planned = plan(doors, table, options)
        except HiveRefusedError as error:
            if named:
                raise
            body: dict[str, Any] = {"table": table.full_name, "left_alone": error.reason}
            say(console, body, f"{table.full_name}: left alone, {error.reason}", as_json=as_json)
            continue
        verdicts = [verdict for _, verdict in planned.taken]
        verdicts += [verdict for _, verdict, _ in planned.left]
        verdicts.sort(key=lambda verdict: verdict.unit)
        if as_json:
            body = {"table": table.full_name, "format": table.format, "location": table.location}
            body |= {"swap": planned.swap.value, "threshold_bytes": options.threshold_bytes}
            body["taken"] = [unit.label for unit, _ in planned.taken]
            body["units"] = [verdict.as_json() for verdict in verdicts]
            emit(body)
        else:
            show.analysis(console, table.full_name, verdicts, options.block_bytes)


def run_all(
    console: Console,
    doors: Doors,
    targets: list[str],
    options: Options,
    *,
    as_json: bool,
    break_lock: bool,
) -> None:
    """Compact each table and print its report; one that fails does not stop the others."""
    from engine.hive import show
    from engine.hive.compact import compact as compact_table
    from engine.hive.targets import resolve

    failed: list[ReplayError] = []
    for table, named in list(resolve(doors.catalog, targets)):
        with progress(console, table.full_name, quiet=as_json) as advance:
            try:
                report = compact_table(
                    doors, table, options, progress=advance, break_lock=break_lock
                )
            except HiveRefusedError as error:
                if named:
                    raise
                body: dict[str, Any] = {"table": table.full_name, "left_alone": error.reason}
                say(console, body, str(error), as_json=as_json)
                continue
            except ReplayError as error:
                # One table that fails is as it was before; the others are still worth compacting.
                failed.append(error)
                if len(targets) == 1 and named:
                    raise
                problem = {"code": error.code, "message": str(error)}
                say(
                    console,
                    {"table": table.full_name, "error": problem},
                    str(error),
                    as_json=as_json,
                )
                continue
        if as_json:
            emit(report.as_json())
        else:
            show.run(console, report.as_json())
    if failed:
        raise typer.Exit(1)
