"""The commands of `txlog` that make a log smaller: argv in, one answer out."""

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.options import DryDelete, DryRun, Table
from engine.cli.run import Run, command
from engine.report.outcome import REFUSED

if TYPE_CHECKING:
    from engine.upkeep.cleanup.verdicts import Cleaned

app = typer.Typer()

WHAT = "What to do"


def parse_age(text: str) -> timedelta:
    """Return an age from text such as `7 days` or `interval 36 hours`."""
    from engine.config import parse_interval

    try:
        return timedelta(milliseconds=parse_interval(text))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not an age such as '7 days'") from None


OlderThan = Annotated[
    timedelta | None,
    typer.Option("--older-than", parser=parse_age, metavar="AGE", rich_help_panel=WHAT,
                 help="Such as '7 days': in the place of the table's retention."),
]  # fmt: skip


@command(
    app,
    "txlog compact /data/events",
    "txlog compact /data/events --from 100 --to 199",
    "txlog compact /data/events --repair --dry-run --json",
)
def compact(
    run: Run,
    table: Table,
    *,
    start: Annotated[
        int | None,
        typer.Option("--from", min=0, metavar="X", rich_help_panel=WHAT,
                     help="The first commit of one compaction; else after the checkpoint."),
    ] = None,
    end: Annotated[
        int | None,
        typer.Option("--to", min=0, metavar="Y", rich_help_panel=WHAT,
                     help="Its last commit; else the latest."),
    ] = None,
    repair: Annotated[
        bool,
        typer.Option("--repair", rich_help_panel=WHAT,
                     help="Replace compactions that do not say what their commits say."),
    ] = False,
    widen: Annotated[
        bool,
        typer.Option("--widen", rich_help_panel=WHAT,
                     help="Lay a wide compaction over many narrow ones."),
    ] = False,
    dry_run: DryRun = False,
) -> None:  # fmt: skip
    """Write log compactions: files that each stand in for a range of commits."""
    from engine.report.upkeep import compaction_lines

    log = run.open(table)
    with run.bars.bytes("compact") as gauge:
        done = log.compact(start, end, repair=repair, widen=widen, dry_run=dry_run, progress=gauge)
    run.answer((one.summary() for one in done), compaction_lines(done))


@command(
    app,
    "txlog cleanup /data/events --dry-run",
    "txlog cleanup s3://lake/events --older-than '7 days'",
    "txlog cleanup /data/events --json | jq '.deleted'",
)
def cleanup(
    run: Run,
    table: Table,
    *,
    older_than: OlderThan = None,
    dry_run: DryDelete = False,
) -> None:
    """Delete the log files that a proven checkpoint covers and that are past their retention.

    Every version from that checkpoint on reads as before. Data files are never touched.
    """
    log = run.open(table)
    with run.bars.waiting("cleanup"):
        done = log.cleanup(older_than=older_than, dry_run=dry_run)
    _tell(run, done)


@command(
    app,
    "txlog truncate /data/events --dry-run",
    "txlog truncate /data/events",
)
def truncate(
    run: Run,
    table: Table,
    *,
    dry_run: DryDelete = False,
) -> None:
    """Drop all history before the latest version, after making and proving its checkpoint.

    Older versions cannot be read any more, whatever their retention, and also where
    delta.enableExpiredLogCleanup or spark.indextables.cleanup.enabled is false. Data files stay.
    """
    log = run.open(table)
    with run.bars.waiting("truncate"):
        done = log.truncate(dry_run=dry_run)
    _tell(run, done)


def _tell(run: Run, done: "Cleaned") -> None:
    from engine.report.upkeep import cleanup_lines

    run.warn(f"{path}: not deleted: {reason}" for path, reason in done.failures.items())
    run.answer([done.summary()], cleanup_lines(done))
    if done.failures:
        raise typer.Exit(REFUSED)
