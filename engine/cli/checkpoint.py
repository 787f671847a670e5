"""The commands of `txlog` that write checkpoints: argv in, one answer out."""

from typing import Annotated

import typer

from engine.cli.options import READ, WRITE, DryRun, EngineName, Table
from engine.cli.run import Run, command

app = typer.Typer()


@command(
    app,
    "txlog checkpoint /data/events",
    "txlog checkpoint s3://lake/events --shape v2-parquet --json",
    "txlog checkpoint /data/events --repair",
)
def checkpoint(
    run: Run,
    table: Table,
    *,
    version: Annotated[
        int | None,
        typer.Option("--version", "-v", min=0, metavar="N", rich_help_panel=READ,
                     help="Of this version, not the latest."),
    ] = None,
    shape: Annotated[
        str | None,
        typer.Option(metavar="NAME", rich_help_panel=WRITE,
                     help="classic, multi-part, v2-parquet or v2-json; for IndexTables "
                     "classic, multi-part, json or json-parts. By default what the table's "
                     "properties ask for."),
    ] = None,
    repair: Annotated[
        bool,
        typer.Option("--repair", rich_help_panel=WRITE,
                     help="Write a sound one beside a damaged one."),
    ] = False,
    dry_run: DryRun = False,
    engine: EngineName = None,
) -> None:  # fmt: skip
    """Write a checkpoint, proven before any reader sees it."""
    from engine.report.upkeep import checkpoint_lines

    log = run.open(table, engine)
    with run.bars.replay("checkpoint") as progress:
        done = log.checkpoint(
            version,
            shape=shape,
            engine=engine and engine.value,
            repair=repair,
            dry_run=dry_run,
            progress=progress,
        )
    run.answer([done.metrics()], checkpoint_lines(done))
    run.warn(done.fallbacks)
