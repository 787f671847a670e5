"""The command `txlog maintain`: a fleet of tables in, what was done in each of them out."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.options import RUN, DryRun
from engine.cli.run import Run, command, spark_session

if TYPE_CHECKING:
    from engine.upkeep.fleet.maintain import Report, Request
    from engine.upkeep.fleet.tables import Fleet

app = typer.Typer()

WHICH, HOW_MUCH = "Which tables", "How much"


@command(
    app,
    "txlog maintain --tables conf/tables.toml",
    "txlog maintain '/data/lake/*' s3://lake/events --dry-run",
    "txlog maintain --tables tables.toml --max-seconds 600 --json --metrics-file txlog.prom",
)
def maintain(
    run: Run,
    table: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TABLE]...", help="Roots of tables, or patterns such as 's3://lake/*'."
        ),
    ] = None,
    *,
    tables: Annotated[
        str | None,
        typer.Option(metavar="FILE", rich_help_panel=WHICH,
                     help="Tables and patterns, as in conf/tables.toml."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", rich_help_panel=WHICH,
                     help="Tables to leave out; may be repeated."),
    ] = None,
    max_seconds: Annotated[
        float | None,
        typer.Option(min=0, metavar="S", rich_help_panel=HOW_MUCH,
                     help="Begin no more tables after so many seconds."),
    ] = None,
    max_tables: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", rich_help_panel=HOW_MUCH,
                     help="Work on at most so many tables, the most urgent."),
    ] = None,
    deep: Annotated[
        bool,
        typer.Option("--deep", rich_help_panel=HOW_MUCH,
                     help="Read the newest checkpoint of every table whole."),
    ] = False,
    measure: Annotated[
        bool,
        typer.Option("--measure", rich_help_panel=HOW_MUCH,
                     help="Load a table before and after its checkpoint, and tell both times."),
    ] = False,
    verify: Annotated[
        bool,
        typer.Option("--verify", rich_help_panel=HOW_MUCH,
                     help="Verify every table when all else is done; an error fails it."),
    ] = False,
    workers: Annotated[
        int,
        typer.Option(min=1, metavar="N", rich_help_panel=RUN, help="Tables at once."),
    ] = 8,
    spark: Annotated[
        bool,
        typer.Option("--spark", rich_help_panel=RUN,
                     help="On the executors of a Spark session."),
    ] = False,
    metrics_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", rich_help_panel=RUN,
                     help="Write a Prometheus textfile there, such as txlog.prom."),
    ] = None,
    dry_run: DryRun = False,
) -> None:  # fmt: skip
    """Do what is due in many tables: checkpoints, derived files, log compactions, cleanups."""
    from engine.report.fleet import report_lines
    from engine.table import open_log
    from engine.upkeep.fleet.maintain import Request
    from engine.upkeep.fleet.metrics import write_metrics

    if not table and tables is None:
        raise typer.BadParameter("name a TABLE, or a file of them with --tables")
    if metrics_file is not None and not Path(metrics_file).absolute().parent.is_dir():
        raise typer.BadParameter(f"--metrics-file {metrics_file}: there is no such directory")
    request = Request(
        open_log,
        _now_ms,
        run.config,
        deadline_ms=None if max_seconds is None else _now_ms() + round(max_seconds * 1000),
        max_tables=max_tables,
        deep=deep,
        measure=measure,
        verify=verify,
        dry_run=dry_run,
        spark=spark_session() if spark else None,
    )
    report = _kept(run, _fleet(run, table or [], tables, exclude or []), request, workers)
    try:
        if metrics_file is not None and not dry_run:
            write_metrics(report, metrics_file, now_ms=_now_ms())
    finally:
        run.answer([report.summary()], report_lines(report, quiet=run.quiet))
    if report.status:
        raise typer.Exit(report.status)


def _fleet(run: Run, tables: list[str], file: str | None, exclude: list[str]) -> "Fleet":
    from engine.upkeep.fleet.tables import Target, find_tables, read_tables

    targets, left_out = read_tables(file) if file is not None else ([], [])
    targets += [Target(table) for table in tables]
    given = [
        replace(each, storage_options={**run.storage_options, **each.storage_options})
        for each in targets
    ]
    return find_tables(given, [*left_out, *exclude], run.config)


def _kept(run: Run, fleet: "Fleet", request: "Request", workers: int) -> "Report":
    from engine.upkeep.fleet.maintain import lost, maintain, threads

    if request.spark is None:
        with run.bars.each("tables", threads(workers)) as each:
            return maintain(fleet, request, each)
    from engine.upkeep.fleet.spark import executors

    with run.bars.waiting("maintain"):
        return maintain(fleet, request, executors(request.spark, lost))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
