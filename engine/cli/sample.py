"""The command `txlog sample`: how large, of which format, and where."""

from typing import Annotated

import typer

from engine.cli.options import DryRun
from engine.cli.run import Run, command

app = typer.Typer()

_NOT_OF_SAMPLE = frozenset({"run", "directory", "dry_run"})


@command(
    app,
    "txlog sample events",
    "txlog sample events --commits 5000 --adds 100 --removes 30 --checkpoint-every 100",
    "txlog sample splits --format indextables --compression gzip --seed 7",
    has_settings=False,
)
def sample(
    run: Run,
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="Where; it must hold no log yet.")
    ],
    *,
    log_format: Annotated[
        str | None, typer.Option("--format", help="delta or indextables.", metavar="NAME")
    ] = None,
    commits: Annotated[int | None, typer.Option(help="How many versions.")] = None,
    adds: Annotated[int | None, typer.Option(help="Files added by each commit.")] = None,
    removes: Annotated[int | None, typer.Option(help="Files removed by each commit.")] = None,
    seed: Annotated[int | None, typer.Option(help="Another seed is another table.")] = None,
    partitions: Annotated[int | None, typer.Option(help="Partitions; 0 for none.")] = None,
    deletion_vectors: Annotated[
        float | None, typer.Option(help="New deletion vectors for each file added (delta).")
    ] = None,
    txns: Annotated[int | None, typer.Option(help="Applications that note progress.")] = None,
    domains: Annotated[int | None, typer.Option(help="Metadata domains (delta).")] = None,
    skips: Annotated[
        float | None, typer.Option(help="Skips for each file added (indextables).")
    ] = None,
    stats: Annotated[bool | None, typer.Option(help="Files tell their statistics.")] = None,
    checkpoint_every: Annotated[
        int | None, typer.Option(help="A checkpoint after so many commits.")
    ] = None,
    checkpoint_at: Annotated[
        list[int] | None, typer.Option(help="A checkpoint of this version; may be repeated.")
    ] = None,
    checkpoint_kind: Annotated[
        str | None, typer.Option(help="classic, multi-part, v2, json, ...")
    ] = None,
    compact_every: Annotated[
        int | None, typer.Option(help="A compaction of so many commits.")
    ] = None,
    compression: Annotated[
        str | None, typer.Option(help="none, gzip or mixed (indextables).")
    ] = None,
    cleaned: Annotated[
        bool | None, typer.Option("--cleaned", help="Leave out what a cleanup would delete.")
    ] = None,
    interval_s: Annotated[int | None, typer.Option(help="Seconds between commits.")] = None,
    start_ms: Annotated[int | None, typer.Option(help="First commit, in ms since 1970.")] = None,
    dry_run: DryRun = False,
) -> None:
    """Make a realistic log to try things on. The same options make the same bytes."""
    asked = {name: value for name, value in locals().items() if name not in _NOT_OF_SAMPLE}
    from engine.report.terminal import sample_text
    from engine.sample import SampleSpec, make_sample

    try:
        spec = SampleSpec(**{name: value for name, value in asked.items() if value is not None})
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if dry_run:
        plan = {"directory": directory, "commits": spec.commits, "dryRun": True}
        run.answer([plan], [f"would make {spec.commits:,} commits\n"])
        return
    with run.bars.count("commits") as gauge:
        made = make_sample(directory, spec, progress=gauge and gauge(spec.commits))
    facts = {
        "directory": made.directory,
        "format": spec.log_format,
        "version": made.version,
        "numFiles": made.num_files,
        "numTombstones": made.num_tombstones,
        "numActions": made.num_actions,
        "sizeInBytes": made.size_bytes,
    }
    run.answer([facts], [sample_text(facts, directory)])
