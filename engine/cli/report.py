"""The command `txlog report`: one page about a table, for people."""

import time
from itertools import islice
from typing import Annotated

import typer

from engine.cli.options import DryRun, EngineName, Table
from engine.cli.read import read_snapshot
from engine.cli.run import Run, command

app = typer.Typer()

_SHOWN = 50


@command(
    app,
    "txlog report /data/events --output report.html",
    "txlog report s3://lake/events --output s3://lake/pages/events.html --overwrite",
)
def report(
    run: Run,
    table: Table,
    *,
    output: Annotated[
        str, typer.Option(metavar="FILE", help="Where the page goes: a path or a URL.")
    ],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a page that is there already.")
    ] = False,
    commits: Annotated[
        int, typer.Option(min=1, metavar="N", help="Growth is told over so many commits.")
    ] = 1000,
    dry_run: DryRun = False,
    engine: EngineName = None,
) -> None:
    """Write one HTML page about a table: state, growth, file sizes, partitions, history."""
    from engine.report.export import Page
    from engine.report.growth import growth, recent_commits
    from engine.report.html import page

    to = Page(output, run.storage_options, overwrite=overwrite)
    log = run.open(table, engine)
    snapshot = read_snapshot(run, log, engine=engine)
    with run.bars.waiting("report"):
        segment, before = recent_commits(log, snapshot, commits)
        history = list(islice(log.history(limit=_SHOWN), _SHOWN))
        grown = growth(segment, snapshot, before)
        text = page(snapshot, snapshot.summary(), grown, history, time.time_ns() // 1_000_000)
    data = text.encode(errors="replace")
    if not dry_run:
        to.write(data)
    told = {"output": to.url, "bytes": len(data), "version": snapshot.version, "dryRun": dry_run}
    run.answer([told], [f"{'would write' if dry_run else 'wrote'} {to.url}\n"])
