"""The commands of `txlog` that write: argv and stdin in, one commit and its answer out."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.cli.options import WRITE, DryRun, Table, parse_pairs
from engine.cli.run import Run, command
from engine.config import MOST_COOLDOWN_HOURS as MOST_HOURS

if TYPE_CHECKING:
    from engine.commit.transaction import Committed
    from engine.table import TableLog

app = typer.Typer()

Txn = Annotated[
    str | None,
    typer.Option("--txn", metavar="APP=VERSION", rich_help_panel=WRITE,
                 help="Commit once: an application and its own version, noted in the log."),
]  # fmt: skip


class FormatName(str, Enum):
    """The format of a new log."""

    DELTA = "delta"
    INDEXTABLES = "indextables"


class SkipAction(str, Enum):
    """What to do with the skipped files."""

    LIST = "list"
    ADD = "add"


@command(
    app,
    "txlog init /data/events --schema schema.json --partition-by date",
    "txlog init s3://lake/splits --schema schema.json --format indextables",
    "txlog init /data/events --schema schema.json --property delta.appendOnly=true --dry-run",
)
def init(
    run: Run,
    table: Table,
    *,
    schema: Annotated[
        str,
        typer.Option(metavar="FILE", rich_help_panel=WRITE,
                     help="The schema as Spark's JSON: a file, or - for stdin."),
    ],
    partition_by: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", rich_help_panel=WRITE,
                     help="A partition column; may be repeated."),
    ] = None,
    log_format: Annotated[
        FormatName,
        typer.Option("--format", metavar="NAME", rich_help_panel=WRITE,
                     help="delta or indextables."),
    ] = FormatName.DELTA,
    property_: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="KEY=VALUE", rich_help_panel=WRITE,
                     help="A table property; may be repeated."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(rich_help_panel=WRITE, help="What people call the table.")
    ] = None,
    exist_ok: Annotated[
        bool, typer.Option("--exist-ok", help="A table that is there already as asked will do.")
    ] = False,
    dry_run: DryRun = False,
) -> None:  # fmt: skip
    """Create a table: write version 0 of its log."""
    from engine.errors import TableExistsError
    from engine.table import open_log

    log = open_log(
        table, run.config, storage_options=run.storage_options, log_format=log_format.value
    )
    done = log.initialize(
        _text(schema),
        partition_by or (),
        parse_pairs("--property", property_),
        name=name,
        dry_run=dry_run,
    )
    is_there = not (done.is_new or done.is_dry)
    if is_there and not exist_ok:
        raise TableExistsError(log.place.table_url)
    where = log.place.url
    told = {"table": log.place.table_url, "log": where, "created": done.is_new, "dryRun": dry_run}
    said = "would create" if done.is_dry else "created"
    run.answer([told], [f"nothing created: {done.reason}\n" if is_there else f"{said} {where}\n"])


@command(
    app,
    'echo \'{"path":"a.parquet","size":10}\' | txlog add /data/events',
    "txlog add /data/events --txn nightly=42 < adds.ndjson",
    "txlog add /data/events --overwrite --where \"date = '2024-01-01'\" < adds.ndjson",
)
def add(
    run: Run,
    table: Table,
    *,
    txn: Txn = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", rich_help_panel=WRITE,
                     help="In the place of all live files, or of those --where holds for."),
    ] = False,
    where: Annotated[
        str | None,
        typer.Option(metavar="CONDITION", rich_help_panel=WRITE,
                     help="With --overwrite: a condition on partition columns, in SQL."),
    ] = None,
    empty_ok: Annotated[
        bool,
        typer.Option("--empty-ok", rich_help_panel=WRITE,
                     help="With --overwrite: no files on stdin leave nothing in that place."),
    ] = False,
    dry_run: DryRun = False,
) -> None:  # fmt: skip
    """Commit files: one add action a line on stdin, as JSON with at least path and size."""
    if where is not None and not overwrite:
        raise typer.BadParameter("--where needs --overwrite")
    lines = list(_objects("add"))
    files = [found for _, found in lines]
    if overwrite and not (files or empty_ok):
        raise typer.BadParameter("stdin has no files; to remove without adding, give --empty-ok")
    log = run.open(table)
    once = _txn(txn)
    with _naming_lines(lines):
        if not overwrite:
            done = log.add_files(files, txn=once, dry_run=dry_run)
        elif where is None:
            done = log.overwrite_files(files, txn=once, dry_run=dry_run)
        else:
            done = log.replace_where(where, files, txn=once, dry_run=dry_run)
    _tell(run, done)


@command(
    app,
    'echo \'{"path":"a.parquet"}\' | txlog remove /data/events',
    "txlog files /data/events --json --where \"date < '2023-01-01'\" "
    "| txlog remove /data/events --dry-run",
)
def remove(
    run: Run,
    table: Table,
    *,
    txn: Txn = None,
    dry_run: DryRun = False,
) -> None:
    """Commit the removal of live files: one object with a path a line on stdin."""
    paths = [_path(number, found) for number, found in _objects("remove")]
    _tell(run, run.open(table).remove_files(paths, txn=_txn(txn), dry_run=dry_run))


@command(
    app,
    "txlog skips /data/splits list",
    "txlog skips /data/splits add part-1.split --reason 'footer is corrupt' --cooldown 48",
    "txlog skips /data/splits list --cooling --json | jq -r .path",
)
def skips(
    run: Run,
    table: Table,
    action: Annotated[SkipAction, typer.Argument(metavar="list|add", help="What to do.")],
    path: Annotated[str | None, typer.Argument(help="The file to skip.")] = None,
    *,
    reason: Annotated[
        str, typer.Option(rich_help_panel=WRITE, help="Why it is skipped.")
    ] = "",
    operation: Annotated[
        str, typer.Option(rich_help_panel=WRITE, help="What failed on it.")
    ] = "merge",
    cooldown: Annotated[
        int | None,
        typer.Option(min=0, max=MOST_HOURS, metavar="HOURS", rich_help_panel=WRITE,
                     help="Hours before it is tried again; the settings' unless given."),
    ] = None,
    cooling: Annotated[
        bool, typer.Option("--cooling", help="Only those not to be tried yet.")
    ] = False,
    dry_run: DryRun = False,
) -> None:  # fmt: skip
    """List the files that operations skip for a while, or add one (IndexTables only)."""
    log = run.open(table)
    if action is SkipAction.LIST:
        if path is not None:
            raise typer.BadParameter("list takes no PATH")
        _list_skips(run, log, cooling=cooling)
        return
    if path is None:
        raise typer.BadParameter("add needs the PATH of a file")
    hours = None if cooldown is None else timedelta(hours=cooldown)
    _tell(run, log.skip(path, reason, operation, hours, dry_run=dry_run), path)
    if log.snapshot().files()["path"].index(path).as_py() < 0:
        run.warn([f"{path} is no live file of this table"])


def _list_skips(run: Run, log: "TableLog", *, cooling: bool) -> None:
    from engine.report.lines import without_nulls
    from engine.report.terminal import skip_lines

    waiting = log.files_in_cooldown()
    found = [s for s in log.skipped_files() if not cooling or s["path"] in waiting]
    told = (without_nulls(dict(s)) | {"inCooldown": s["path"] in waiting} for s in found)
    run.answer(told, skip_lines(found, waiting))


@contextmanager
def _naming_lines(lines: Sequence[tuple[int, Any]]) -> Iterator[None]:
    """Say on which line of stdin an object stands that is refused by itself."""
    from engine.errors import InvalidCommitError

    try:
        yield
    except InvalidCommitError as error:
        if error.at is None:
            raise
        reason = f"stdin:{lines[error.at][0]}: {error.reason}"
        raise InvalidCommitError(error.table, reason) from None


def _objects(kind: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of stdin, out of their wrapping, and their lines; a bad one is refused."""
    import orjson

    if sys.stdin.isatty():
        typer.echo("txlog: reading one JSON object a line; end them with Ctrl-D", err=True)
    for number, line in enumerate(sys.stdin.buffer, 1):
        if not line.strip():
            continue
        try:
            found = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise typer.BadParameter(f"stdin:{number}: not JSON: {error.msg}") from None
        is_whole = isinstance(found, dict) and kind in found
        if is_whole and len(found) > 1:
            others = ", ".join(key for key in found if key != kind)
            raise typer.BadParameter(f"stdin:{number}: more than one {kind}: {others}")
        inner = found[kind] if is_whole else found
        if not isinstance(inner, dict):
            raise typer.BadParameter(f"stdin:{number}: not a JSON object")
        yield number, inner


def _path(number: int, found: dict[str, Any]) -> str:
    path = found.get("path")
    if not isinstance(path, str) or not path:
        raise typer.BadParameter(f"stdin:{number}: no path in {found!r:.80}")
    return path


def _txn(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    application, _, version = text.rpartition("=")
    if not application or not version.isdecimal():
        raise typer.BadParameter(f"--txn {text!r} is not APP=VERSION")
    return application, int(version)


def _text(source: str) -> str:
    from pathlib import Path

    try:
        data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        return data.decode()
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"--schema {source}: not UTF-8: {error.reason}") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise typer.BadParameter(f"--schema {source}: {reason}") from None


def _tell(run: Run, done: "Committed", what: str = "") -> None:
    from engine.report.terminal import commit_text

    run.warn(f"the commit stands; after it, {failure}" for failure in done.hook_failures)
    run.answer([done.summary()], [commit_text(done.summary(), what)])
