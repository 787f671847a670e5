"""The command `txlog`: argv in, one answer out. Nothing is decided here.

Heavy libraries are imported inside the commands: `txlog --help` loads none of them.
"""

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli_write import register
from engine.report.options import (
    READ,
    AsJson,
    ConfFile,
    Debug,
    DryRun,
    Engine,
    EngineName,
    Limit,
    Options,
    Quiet,
    StorageOptions,
    Table,
    Timestamp,
    Version,
    parse_pairs,
)
from engine.report.outcome import outcome, say, warn

if TYPE_CHECKING:
    from engine.snapshot import Snapshot
    from engine.table import TableLog

app = typer.Typer(
    name="txlog",
    help="Rebuild, keep and prove the transaction logs of lake tables.",
    epilog="Start with: txlog sample events, then txlog replay events",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
if find_spec("engine.hive"):
    app.add_typer(import_module("engine.hive.cli").app, name="hive")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return 0 when it is done, 1 when it is refused, 2 for wrong usage."""
    args = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):  # paths hold any character, whatever the locale is
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    command = typer.main.get_command(app)
    return outcome(
        lambda: command.main(args=args, prog_name="txlog", standalone_mode=False),
        as_json="--json" in args,
        debug="--debug" in args,
    )


# --- commands ----------------------------------------------------------------------------------


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print txlog's version.")] = False,
) -> None:
    """Rebuild, keep and prove the transaction logs of lake tables."""
    if version:
        say([f"txlog {metadata.version('txlog-engine')}\n"])
    elif context.invoked_subcommand is None:
        say([context.get_help() + "\n"])
        raise typer.Exit(2)


@app.command(
    epilog="Examples:\n\n"
    "$ txlog replay /data/events\n\n"
    "$ txlog replay s3://lake/events --version 41 --json\n\n"
    "$ txlog replay /data/events --timestamp 2024-01-31T12:00:00Z --output state/"
)
def replay(
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
    conf_file: ConfFile = None,
    option: Options = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:  # fmt: skip
    """Replay a table's log and print the state it adds up to."""
    import_module("engine.table")  # before the clock: loading Arrow is no part of a replay
    from engine.report.export import Export
    from engine.report.lines import json_line
    from engine.report.terminal import summary_text

    started = time.perf_counter()
    log = _open(table, conf_file, option, storage_option)
    export = Export(output, parse_pairs("--storage-option", storage_option)) if output else None
    opened = time.perf_counter()
    snapshot = _snapshot(log, version, timestamp, engine, quiet=quiet)
    replayed = time.perf_counter()
    summary = snapshot.summary()
    partitions = 0 if as_json else snapshot.partition_count()
    summary["seconds"] = {
        "open": round(opened - started, 6),
        **summary["seconds"],
        "sum": round(time.perf_counter() - replayed, 6),
    }
    if export and not dry_run:
        export.write(snapshot, summary)
    written = {"output": {"files": export.names, "dryRun": dry_run}} if export else {}
    if as_json:
        say([json_line(summary | written)])
        return
    say([summary_text(summary, partitions=partitions)])
    for name in export.names if export else ():
        say([f"{'would write' if dry_run else 'wrote'} {name}\n"])


@app.command(
    epilog="Examples:\n\n"
    "$ txlog files /data/events --where \"date >= '2024-01-01' and hour = 3\"\n\n"
    "$ txlog files /data/events --json | jq -s 'map(.size) | add'\n\n"
    "$ txlog files /data/events --version 41 --limit 10"
)
def files(
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
    conf_file: ConfFile = None,
    option: Options = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:  # fmt: skip
    """List the live files: a table in a terminal, paths in a pipe, add actions with --json."""
    from engine.report.lines import file_lines
    from engine.report.terminal import file_table, path_lines

    log = _open(table, conf_file, option, storage_option)
    found = _snapshot(log, version, timestamp, engine, quiet=quiet).files(where)
    found = found if limit is None else found.slice(0, limit)
    if as_json:
        say(file_lines(found))
    else:
        say(file_table(found) if sys.stdout.isatty() else path_lines(found))


@app.command(
    epilog="Examples:\n\n"
    "$ txlog history /data/events --limit 10\n\n"
    "$ txlog history /data/events --json | jq -r .operation | sort | uniq -c"
)
def history(
    table: Table,
    *,
    limit: Limit = None,
    conf_file: ConfFile = None,
    option: Options = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Tell what each commit says of itself, the newest first."""
    from engine.report.lines import json_line
    from engine.report.terminal import history_lines

    commits = _open(table, conf_file, option, storage_option).history(limit=limit)
    say(map(json_line, commits) if as_json else history_lines(commits))


@app.command(
    epilog="Examples:\n\n$ txlog diff /data/events 41 42\n\n$ txlog diff /data/events 0 42 --json"
)
def diff(
    table: Table,
    old: Annotated[int, typer.Argument(min=0, metavar="V1", help="The version to start from.")],
    new: Annotated[int, typer.Argument(min=0, metavar="V2", help="The version to compare with.")],
    *,
    engine: EngineName = None,
    conf_file: ConfFile = None,
    option: Options = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Tell which live files one version has and another has not."""
    from engine.report.lines import file_lines
    from engine.report.terminal import diff_total, path_lines

    log = _open(table, conf_file, option, storage_option)
    before = _snapshot(log, old, None, engine, quiet=quiet)
    added, removed = before.diff(_snapshot(log, new, None, engine, quiet=quiet))
    for found, change, mark in ((added, "added", "+ "), (removed, "removed", "- ")):
        say(file_lines(found, change) if as_json else path_lines(found, mark))
    if not as_json:
        say([diff_total(added, removed)])


@app.command(
    epilog="Examples:\n\n$ txlog show /data/events 41\n\n$ txlog show /data/events 41 --json | jq ."
)
def show(
    table: Table,
    version: Annotated[int, typer.Argument(min=0, metavar="VERSION", help="The version to show.")],
    *,
    conf_file: ConfFile = None,
    option: Options = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Print the actions of one commit, in the order of its lines."""
    from engine.report.lines import action_lines
    from engine.report.terminal import action_table

    actions = _open(table, conf_file, option, storage_option).commit_actions(version)
    say(action_lines(actions) if as_json else action_table(actions))


@app.command(
    epilog="Examples:\n\n"
    "$ txlog sample events\n\n"
    "$ txlog sample events --commits 5000 --adds 100 --removes 30 --checkpoint-every 100\n\n"
    "$ txlog sample splits --format indextables --compression gzip --seed 7"
)
def sample(
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
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Make a realistic log to try things on. The same options make the same bytes."""
    asked = {name: value for name, value in locals().items() if name not in _NOT_OF_SAMPLE}
    from engine.report.lines import json_line
    from engine.report.progress import count_bar
    from engine.report.terminal import sample_text
    from engine.sample import SampleSpec, make_sample

    try:
        spec = SampleSpec(**{name: value for name, value in asked.items() if value is not None})
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if dry_run:
        plan = {"directory": directory, "commits": spec.commits, "dryRun": True}
        say([json_line(plan) if as_json else f"would make {spec.commits:,} commits\n"])
        return
    with count_bar("commits", spec.commits, shown=not quiet) as progress:
        made = make_sample(directory, spec, progress=progress)
    facts = {
        "directory": made.directory,
        "format": spec.log_format,
        "version": made.version,
        "numFiles": made.num_files,
        "numTombstones": made.num_tombstones,
        "numActions": made.num_actions,
        "sizeInBytes": made.size_bytes,
    }
    say([json_line(facts) if as_json else sample_text(facts, directory)])


_NOT_OF_SAMPLE = frozenset({"directory", "dry_run", "as_json", "quiet", "debug"})


# --- from options to calls ---------------------------------------------------------------------


def _open(
    table: str, conf_file: str | None, options: list[str] | None, storage_options: list[str] | None
) -> "TableLog":
    from engine.config import Config
    from engine.table import open_log

    given = parse_pairs("--option", options)
    config = Config.from_toml(conf_file, options=given) if conf_file else Config(options=given)
    return open_log(table, config, storage_options=parse_pairs("--storage-option", storage_options))


def _snapshot(
    log: "TableLog",
    version: int | None,
    timestamp: datetime | None,
    engine: Engine | None,
    *,
    quiet: bool,
) -> "Snapshot":
    from engine.report.progress import replay_bar

    if version is not None and timestamp is not None:
        raise typer.BadParameter("give --version or --timestamp, not both")
    name = engine.value if engine else None
    if name == "spark" and log.spark is None:
        from engine.replay.spark import start_session

        log.spark = start_session()
    with replay_bar(shown=not quiet) as progress:
        snapshot = log.snapshot(version, timestamp=timestamp, engine=name, progress=progress)
    for fallback in () if quiet else snapshot.fallbacks:
        warn(str(fallback))
    return snapshot


register(app, _open)

if __name__ == "__main__":
    sys.exit(main())
