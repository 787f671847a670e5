"""The commands of `txlog` that write: argv and stdin in, one commit and its answer out."""

import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.report.options import (
    AsJson,
    ConfFile,
    Debug,
    DryRun,
    Options,
    Quiet,
    StorageOptions,
    Table,
    parse_pairs,
)
from engine.report.outcome import say, warn

if TYPE_CHECKING:
    from engine.commit.transaction import Committed
    from engine.table import TableLog

WRITE = "What to write"

Txn = Annotated[
    str | None,
    typer.Option("--txn", metavar="APP=VERSION", rich_help_panel=WRITE,
                 help="Commit once: an application and its own version, noted in the log."),
]  # fmt: skip


class SkipAction(str, Enum):
    """What to do with the skipped files."""

    LIST = "list"
    ADD = "add"


def register(app: typer.Typer, opened: "Callable[..., TableLog]") -> None:
    """Add the commands to `app`; `opened` opens a table from the options all commands share."""

    @app.command(
        epilog="Examples:\n\n"
        "$ txlog init /data/events --schema schema.json --partition-by date\n\n"
        "$ txlog init s3://lake/splits --schema schema.json --format indextables\n\n"
        "$ txlog init /data/events --schema schema.json --property delta.appendOnly=true --dry-run"
    )
    def init(
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
            str,
            typer.Option("--format", metavar="NAME", rich_help_panel=WRITE,
                         help="delta or indextables."),
        ] = "delta",
        property_: Annotated[
            list[str] | None,
            typer.Option("--property", metavar="KEY=VALUE", rich_help_panel=WRITE,
                         help="A table property; may be repeated."),
        ] = None,
        name: Annotated[
            str | None, typer.Option(rich_help_panel=WRITE, help="What people call the table.")
        ] = None,
        exist_ok: Annotated[
            bool, typer.Option("--exist-ok", help="A table that is there already will do.")
        ] = False,
        dry_run: DryRun = False,
        conf_file: ConfFile = None,
        option: Options = None,
        storage_option: StorageOptions = None,
        as_json: AsJson = False,
        debug: Debug = False,
    ) -> None:  # fmt: skip
        """Create a table: write version 0 of its log."""
        from engine.config import Config
        from engine.report.lines import json_line
        from engine.table import create_log

        if log_format not in {"delta", "indextables"}:
            raise typer.BadParameter(f"--format {log_format!r} is not delta or indextables")
        given = parse_pairs("--option", option)
        config = Config.from_toml(conf_file, options=given) if conf_file else Config(options=given)
        log = create_log(
            table,
            _text(schema),
            partition_by or (),
            configuration=parse_pairs("--property", property_),
            log_format=log_format,
            name=name,
            config=config,
            storage_options=parse_pairs("--storage-option", storage_option),
            exist_ok=exist_ok,
            dry_run=dry_run,
        )
        where = log.directory.url
        if as_json:
            say([json_line({"table": log.directory.table_url, "log": where, "dryRun": dry_run})])
        else:
            say([f"{'would create' if dry_run else 'created'} {where}\n"])

    @app.command(
        epilog="Examples:\n\n"
        '$ echo \'{"path":"a.parquet","size":10}\' | txlog add /data/events\n\n'
        "$ txlog add /data/events --txn nightly=42 < adds.ndjson\n\n"
        "$ txlog add /data/events --overwrite --where \"date = '2024-01-01'\" < adds.ndjson"
    )
    def add(
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
        dry_run: DryRun = False,
        conf_file: ConfFile = None,
        option: Options = None,
        storage_option: StorageOptions = None,
        as_json: AsJson = False,
        quiet: Quiet = False,
        debug: Debug = False,
    ) -> None:  # fmt: skip
        """Commit files: one add action a line on stdin, as JSON with at least path and size."""
        if where is not None and not overwrite:
            raise typer.BadParameter("--where needs --overwrite")
        files = list(_objects("add"))
        log = opened(table, conf_file, option, storage_option)
        once = _txn(txn)
        if not overwrite:
            done = log.add_files(files, txn=once, dry_run=dry_run)
        elif where is None:
            done = log.overwrite_files(files, txn=once, dry_run=dry_run)
        else:
            done = log.replace_where(where, files, txn=once, dry_run=dry_run)
        _tell(done, as_json=as_json, quiet=quiet)

    @app.command(
        epilog="Examples:\n\n"
        '$ echo \'{"path":"a.parquet"}\' | txlog remove /data/events\n\n'
        "$ txlog files /data/events --json --where \"date < '2023-01-01'\" "
        "| txlog remove /data/events --dry-run"
    )
    def remove(
        table: Table,
        *,
        txn: Txn = None,
        dry_run: DryRun = False,
        conf_file: ConfFile = None,
        option: Options = None,
        storage_option: StorageOptions = None,
        as_json: AsJson = False,
        quiet: Quiet = False,
        debug: Debug = False,
    ) -> None:
        """Commit the removal of live files: one object with a path a line on stdin."""
        paths = [_path(found) for found in _objects("remove")]
        log = opened(table, conf_file, option, storage_option)
        done = log.remove_files(paths, txn=_txn(txn), dry_run=dry_run)
        _tell(done, as_json=as_json, quiet=quiet)

    @app.command(
        epilog="Examples:\n\n"
        "$ txlog skips /data/splits list\n\n"
        "$ txlog skips /data/splits add part-1.split --reason 'footer is corrupt' --cooldown 48\n\n"
        "$ txlog skips /data/splits list --cooling --json | jq -r .path"
    )
    def skips(
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
            typer.Option(min=0, metavar="HOURS", rich_help_panel=WRITE,
                         help="Hours before it is tried again; the settings' unless given."),
        ] = None,
        cooling: Annotated[
            bool, typer.Option("--cooling", help="Only those not to be tried yet.")
        ] = False,
        dry_run: DryRun = False,
        conf_file: ConfFile = None,
        option: Options = None,
        storage_option: StorageOptions = None,
        as_json: AsJson = False,
        quiet: Quiet = False,
        debug: Debug = False,
    ) -> None:  # fmt: skip
        """List the files that operations skip for a while, or add one (IndexTables only)."""
        log = opened(table, conf_file, option, storage_option)
        if action is SkipAction.LIST:
            if path is not None:
                raise typer.BadParameter("list takes no PATH")
            _list_skips(log, cooling=cooling, as_json=as_json)
            return
        if path is None:
            raise typer.BadParameter("add needs the PATH of a file")
        hours = None if cooldown is None else timedelta(hours=cooldown)
        done = log.skip(path, reason, operation, hours, dry_run=dry_run)
        _tell(done, as_json=as_json, quiet=quiet)


def _list_skips(log: "TableLog", *, cooling: bool, as_json: bool) -> None:
    from engine.report.lines import json_line, without_nulls
    from engine.report.terminal import skip_lines

    waiting = log.files_in_cooldown()
    found = [s for s in log.skipped_files() if not cooling or s["path"] in waiting]
    if as_json:
        say(
            json_line(without_nulls(dict(skip)) | {"inCooldown": skip["path"] in waiting})
            for skip in found
        )
    else:
        say(skip_lines(found, waiting))


def _objects(kind: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of stdin, out of their wrapping; a bad line is refused with its number."""
    import orjson

    for number, line in enumerate(sys.stdin.buffer, 1):
        if not line.strip():
            continue
        try:
            found = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise typer.BadParameter(f"stdin:{number}: not JSON: {error.msg}") from None
        inner = found.get(kind, found) if isinstance(found, dict) else None
        if not isinstance(inner, dict):
            raise typer.BadParameter(f"stdin:{number}: not a JSON object")
        yield inner


def _path(found: dict[str, Any]) -> str:
    path = found.get("path")
    if not isinstance(path, str) or not path:
        raise typer.BadParameter(f"stdin: no path in {found!r:.80}")
    return path


def _txn(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    app, _, version = text.rpartition("=")
    if not app or not version.isdecimal():
        raise typer.BadParameter(f"--txn {text!r} is not APP=VERSION")
    return app, int(version)


def _text(source: str) -> str:
    from pathlib import Path

    if source == "-":
        return sys.stdin.read()
    try:
        return Path(source).read_text(encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise typer.BadParameter(f"--schema {source}: {reason}") from None


def _tell(done: "Committed", *, as_json: bool, quiet: bool) -> None:
    from engine.report.lines import json_line
    from engine.report.terminal import commit_text

    for failure in () if quiet else done.hook_failures:
        warn(f"the commit stands; after it, {failure}")
    say([json_line(done.summary()) if as_json else commit_text(done.summary())])
