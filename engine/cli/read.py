"""The commands of `txlog` that look at a table: argv in, one answer out."""

import sys
import time
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.options import READ, DryRun, Engine, EngineName, Limit, Table, Timestamp, Version
from engine.cli.run import Run, command
from engine.report.outcome import say

if TYPE_CHECKING:
    from engine.snapshot import Snapshot
    from engine.table import TableLog

app = typer.Typer()


@command(
    app,
    "txlog replay /data/events",
    "txlog replay s3://lake/events --version 41 --json",
    "txlog replay /data/events --timestamp 2024-01-31T12:00:00Z --output state/",
)
def replay(
    run: Run,
    table: Table,
    *,
    version: Version = None,
    timestamp: Timestamp = None,
    output: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Also write files.parquet, tombstones.parquet and "
                     "summary.json there; nothing is overwritten."),
    ] = None,
    dry_run: DryRun = False,
    engine: EngineName = None,
) -> None:  # fmt: skip
    """Replay a table's log and print the state it adds up to."""
    import_module("engine.table")  # before the clock: loading Arrow is no part of a replay
    from engine.report.export import Export
    from engine.report.terminal import summary_text

    started = time.perf_counter()
    log = run.open(table, engine)
    export = None if output is None else Export(output, run.storage_options)
    opened = time.perf_counter()
    snapshot = read_snapshot(run, log, version, timestamp, engine)
    replayed = time.perf_counter()
    summary = snapshot.summary()
    partitions = 0 if run.as_json else snapshot.partition_count()
    summary["seconds"] = {
        "open": round(opened - started, 6),
        **summary["seconds"],
        "sum": round(time.perf_counter() - replayed, 6),
    }
    if export and not dry_run:
        export.write(snapshot, summary)
    names = export.names if export else []
    written = {"output": {"files": names, "dryRun": dry_run}} if export else {}
    said = "would write" if dry_run else "wrote"
    text = [summary_text(summary, partitions=partitions), *(f"{said} {name}\n" for name in names)]
    run.answer([summary | written], text)


@command(
    app,
    "txlog files /data/events --where \"date >= '2024-01-01' and hour = 3\"",
    "txlog files /data/events --json | jq -s 'map(.size) | add'",
    "txlog files /data/events --version 41 --limit 10",
)
def files(
    run: Run,
    table: Table,
    *,
    version: Version = None,
    timestamp: Timestamp = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="CONDITION", rich_help_panel=READ,
                     help="A condition on partition columns, in SQL."),
    ] = None,
    limit: Limit = None,
    engine: EngineName = None,
) -> None:  # fmt: skip
    """List the live files: a table in a terminal, paths in a pipe, add actions with --json."""
    from engine.report.lines import file_lines
    from engine.report.terminal import file_table, path_lines

    log = run.open(table, engine)
    found = read_snapshot(run, log, version, timestamp, engine).files(where)
    found = found if limit is None else found.slice(0, limit)
    if run.as_json:
        say(file_lines(found))
    else:
        say(file_table(found) if sys.stdout.isatty() else path_lines(found))


@command(
    app,
    "txlog history /data/events --limit 10",
    "txlog history /data/events --json | jq -r .operation | sort | uniq -c",
)
def history(run: Run, table: Table, *, limit: Limit = None) -> None:
    """Tell what each commit says of itself, the newest first."""
    from engine.report.lines import noting_gaps
    from engine.report.terminal import history_lines

    missing: list[str] = []
    commits = noting_gaps(run.open(table).history(limit=limit), missing)
    run.answer(commits, history_lines(commits))
    run.warn(f"{gap} missing; txlog verify tells what that means" for gap in missing)


@command(app, "txlog diff /data/events 41 42", "txlog diff /data/events 0 42 --json")
def diff(
    run: Run,
    table: Table,
    old: Annotated[int, typer.Argument(min=0, metavar="V1", help="The version to start from.")],
    new: Annotated[int, typer.Argument(min=0, metavar="V2", help="The version to compare with.")],
    *,
    engine: EngineName = None,
) -> None:
    """Tell which live files one version has and another has not."""
    from engine.report.lines import file_lines
    from engine.report.terminal import diff_total, path_lines

    log = run.open(table, engine)
    before = read_snapshot(run, log, old, None, engine)
    added, removed = before.diff(read_snapshot(run, log, new, None, engine))
    for found, change, mark in ((added, "added", "+ "), (removed, "removed", "- ")):
        say(file_lines(found, change) if run.as_json else path_lines(found, mark))
    if not run.as_json:
        say([diff_total(added, removed)])


@command(app, "txlog show /data/events 41", "txlog show /data/events 41 --json | jq .")
def show(
    run: Run,
    table: Table,
    version: Annotated[int, typer.Argument(min=0, metavar="VERSION", help="The version to show.")],
) -> None:
    """Print the actions of one commit, in the order of its lines."""
    from engine.report.lines import action_lines
    from engine.report.terminal import action_table

    actions = run.open(table).commit_actions(version)
    say(action_lines(actions) if run.as_json else action_table(actions))


def read_snapshot(
    run: Run,
    log: "TableLog",
    version: int | None = None,
    timestamp: datetime | None = None,
    engine: Engine | None = None,
) -> "Snapshot":
    """Replay a version, with a bar for a person who waits; what was done without is told."""
    if version is not None and timestamp is not None:
        raise typer.BadParameter("give --version or --timestamp, not both")
    with run.bars.replay("replay") as progress:
        snapshot = log.snapshot(
            version, timestamp=timestamp, engine=engine and engine.value, progress=progress
        )
    run.warn(snapshot.fallbacks)
    return snapshot
