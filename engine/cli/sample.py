"""The command `txlog sample`: how large, of which format, and where."""

from typing import Annotated, Any

import typer

from engine.cli.options import DryRun
from engine.cli.run import Run, command

app = typer.Typer()

_NOT_OF_SAMPLE = frozenset({"run", "directory", "dry_run"})


def _of(told: str, default: str, *names: str, metavar: str | None = None) -> Any:
    """Return an option that says what it is where it is not given.

    The defaults themselves are those of SampleSpec, which is not imported for a help.
    """
    return typer.Option(*names, help=told, show_default=default, metavar=metavar)


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
        str | None, _of("delta or indextables.", "delta", "--format", metavar="NAME")
    ] = None,
    commits: Annotated[int | None, _of("How many versions.", "100")] = None,
    adds: Annotated[int | None, _of("Files added by each commit.", "10")] = None,
    removes: Annotated[int | None, _of("Files removed by each commit.", "3")] = None,
    seed: Annotated[int | None, _of("Another seed is another table.", "0")] = None,
    partitions: Annotated[int | None, _of("Partitions; 0 for none.", "48")] = None,
    deletion_vectors: Annotated[
        float | None, _of("New deletion vectors for each file added (delta).", "0")
    ] = None,
    txns: Annotated[int | None, _of("Applications that note progress.", "0")] = None,
    domains: Annotated[int | None, _of("Metadata domains (delta).", "0")] = None,
    skips: Annotated[float | None, _of("Skips for each file added (indextables).", "0")] = None,
    stats: Annotated[bool | None, _of("Files tell their statistics.", "--stats")] = None,
    checkpoint_every: Annotated[
        int | None, _of("A checkpoint after so many commits; 0 for none.", "0")
    ] = None,
    checkpoint_at: Annotated[
        list[int] | None, typer.Option(help="A checkpoint of this version; may be repeated.")
    ] = None,
    checkpoint_kind: Annotated[
        str | None,
        _of("classic, multi-part, v2 (in Parquet), v2-json or v2-classic (V2 under a classic "
            "name); for IndexTables classic, multi-part, json or json-parts.", "classic",
            metavar="NAME"),
    ] = None,
    compact_every: Annotated[
        int | None, _of("A compaction of so many commits; 0 for none.", "0")
    ] = None,
    compression: Annotated[
        str | None, _of("none, gzip or mixed (indextables).", "none", metavar="NAME")
    ] = None,
    cleaned: Annotated[
        bool | None, typer.Option("--cleaned", help="Leave out what a cleanup would delete.")
    ] = None,
    interval_s: Annotated[int | None, _of("Seconds between commits.", "60")] = None,
    start_ms: Annotated[
        int | None, _of("First commit, in ms since 1970.", "1704067200000")
    ] = None,
    dry_run: DryRun = False,
) -> None:  # fmt: skip
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
