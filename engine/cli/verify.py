"""The commands of `txlog` that prove a log and mend it: argv in, one answer out."""

from enum import Enum
from typing import Annotated

import typer

from engine.cli.options import RUN, DryRun, Table
from engine.cli.run import Run, command
from engine.report.outcome import REFUSED

app = typer.Typer()


class Reader(str, Enum):
    """Who reads a log to prove it."""

    LOCAL = "local"
    SPARK = "spark"


class Naming(str, Enum):
    """How the new log names its files."""

    RELATIVE = "relative"
    ABSOLUTE = "absolute"


Deep = Annotated[
    bool,
    typer.Option("--deep", help="Look for the data files and deletion vectors too."),
]

ReaderName = Annotated[
    Reader | None,
    typer.Option("--engine", metavar="NAME", rich_help_panel=RUN, show_default=False,
                 help="Who reads: local, which is the default, or spark."),
]  # fmt: skip


@command(
    app,
    "txlog verify /data/events",
    "txlog verify s3://lake/events --deep --json | jq '.findings[] | .code'",
    "txlog verify /data/events --quiet && txlog cleanup /data/events",
)
def verify(
    run: Run,
    table: Table,
    *,
    deep: Deep = False,
    engine: ReaderName = None,
) -> None:
    """Prove a log sound, or name what is wrong with it. Reads only; exits 1 on errors."""
    from engine.report.findings import verification_lines

    log = run.open(table, engine)
    with run.bars.bytes("verify") as gauge:
        found = log.verify(deep=deep, engine=engine and engine.value, progress=gauge)
    run.answer([found.summary()], verification_lines(found, infos=not run.quiet))
    if not found.sound:
        raise typer.Exit(REFUSED)


@command(
    app,
    "txlog repair /data/events --to /data/events-repaired --dry-run",
    "txlog repair s3://lake/events --to s3://lake/events-repaired --deep",
    "txlog repair /data/events --derived",
    "txlog repair /data/splits --to /data/new/_transaction_log --version 41",
)
def repair(
    run: Run,
    table: Table,
    *,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="TARGET", show_default=False,
                     help="Write a sound log there: an empty table root, or its log "
                     "directory."),
    ] = None,
    derived: Annotated[
        bool,
        typer.Option("--derived", help="Instead: write damaged checkpoints, compactions, "
                     "checksums and the hint anew, in place. No commit is touched."),
    ] = False,
    version: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", show_default=False,
                     help="Give up what came after this version."),
    ] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Leave out files that are gone.")
    ] = False,
    paths: Annotated[
        Naming,
        typer.Option(metavar="relative|absolute",
                     help="Name files as the old log does, for a log that takes its place, or "
                     "by where they lie, for a table of its own."),
    ] = Naming.RELATIVE,
    dry_run: DryRun = False,
) -> None:  # fmt: skip
    """Write the newest provable state of a damaged log as a sound log elsewhere.

    With --derived, mend in place what was derived from commits that are whole.
    """
    from engine.report.findings import derived_lines, repair_lines

    if derived == (to is not None):
        raise typer.BadParameter("give --to TARGET or --derived, and not both")
    if derived and (version is not None or deep or paths is not Naming.RELATIVE):
        raise typer.BadParameter("--version, --deep and --paths are of --to, and not of --derived")
    log = run.open(table)
    if to is None:
        with run.bars.waiting("repair"):
            mended = log.repair_derived(dry_run=dry_run)
        run.answer([mended.summary()], derived_lines(mended))
        if not (mended.sound or dry_run):
            raise typer.Exit(REFUSED)
        return
    with run.bars.waiting("repair"):
        done = log.repair(to, version=version, deep=deep, paths=paths.value, dry_run=dry_run)
    run.answer([done.summary()], repair_lines(done))
    if not done.sound:
        raise typer.Exit(REFUSED)
