"""`txlog hive …`: argv in, one call, one answer out. No logic."""

from __future__ import annotations

import json
import re
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.errors import ConfigError, HiveFailedError, HiveRefusedError, ReplayError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from engine.hive.model import Options
    from engine.hive.report import UnitReport
    from engine.hive.swap import Doors

app = typer.Typer(
    name="hive",
    help="Compact the small files of plain Hive tables, so that a crash loses nothing.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Targets = Annotated[
    list[str], typer.Argument(metavar="DATABASE[.TABLE]...", help="What to look at.")
]
OneTable = Annotated[str, typer.Argument(metavar="DATABASE.TABLE", help="The table.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a table, on stdout.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done; change nothing.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
BreakLock = Annotated[
    bool, typer.Option("--break-lock", help="Take the table from a holder you know to be dead.")
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf", metavar="KEY=VALUE", help="A Spark setting, such as the metastore's address."
    ),
]
Block = Annotated[str, typer.Option("--block-size", help="The size files should have: 128MB, 1GB.")]
Ratio = Annotated[
    float, typer.Option("--ratio", min=1.0, help="Files under block-size/ratio are too small.")
]
Where = Annotated[
    str,
    typer.Option("--where", help="Only partitions for which this holds: \"dt >= '2026-01-01'\"."),
]
MinAge = Annotated[
    str,
    typer.Option("--min-age", help="Leave partitions alone that were written since: 30m, 6h, 2d."),
]
Managed = Annotated[bool, typer.Option("--managed", help="Take managed tables too.")]


@app.command()
def analyze(
    targets: Targets,
    block_size: Block = "128MB",
    ratio: Ratio = 10.0,
    where: Where = "",
    min_age: MinAge = "0",
    managed: Managed = False,
    conf: Conf = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Say which tables and partitions are due, and why. Reads only.

    Examples:
      txlog hive analyze sales
      txlog hive analyze sales.orders --where "dt < '2026-11-01'" --min-age 6h
      txlog hive analyze sales.orders web.clicks --json
    """
    with _answering(as_json=as_json, debug=debug) as console:
        options = _options(block_size, ratio, where=where, min_age=min_age, managed=managed)
        _analyze(console, _doors(conf), targets, options, as_json=as_json)


@app.command()
def compact(
    targets: Targets,
    block_size: Block = "128MB",
    ratio: Ratio = 10.0,
    where: Where = "",
    min_age: MinAge = "0",
    swap: Annotated[
        str, typer.Option(help="rename, location, or auto: rename where that is atomic.")
    ] = "auto",
    sort_columns: Annotated[str, typer.Option(help="Sort the rows by these: a,b.")] = "",
    parallelism: Annotated[int, typer.Option(min=1, help="Partitions at once.")] = 2,
    max_bytes: Annotated[str, typer.Option(help="Rewrite no more than this a table: 50GB.")] = "0",
    stats: Annotated[str, typer.Option(help="auto: what there was; scan: all; none.")] = "auto",
    managed: Managed = False,
    dry_run: DryRun = False,
    break_lock: BreakLock = False,
    conf: Conf = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Rewrite what is due into right-sized files. The originals stay until `cleanup`.

    Examples:
      txlog hive compact sales.orders --dry-run
      txlog hive compact sales.orders --where "dt < '2026-11-01'" --parallelism 8
      txlog hive compact sales --min-age 6h --max-bytes 200GB --json
    """
    with _answering(as_json=as_json, debug=debug) as console:
        options = _options(
            block_size,
            ratio,
            where=where,
            min_age=min_age,
            managed=managed,
            swap=swap,
            sort_columns=tuple(name for name in sort_columns.split(",") if name),
            parallelism=parallelism,
            max_bytes=_size("--max-bytes", max_bytes),
            stats=stats,
        )
        doors = _doors(conf)
        if dry_run:
            _analyze(console, doors, targets, options, as_json=as_json)
            return
        _compact(console, doors, targets, options, as_json=as_json, break_lock=break_lock)


@app.command()
def rollback(
    table: OneTable,
    run: Annotated[str, typer.Option(help="The run to undo; the newest, if not said.")] = "",
    partition: Annotated[
        list[str] | None, typer.Option(help="Only this partition, as in dt=2026-11-01/n=5.")
    ] = None,
    keep_new: Annotated[
        bool, typer.Option("--keep-new", help="Carry over files that were added since.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Drop rows that were added since.")
    ] = False,
    dry_run: DryRun = False,
    break_lock: BreakLock = False,
    conf: Conf = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Bring the original files of a compaction back.

    Examples:
      txlog hive rollback sales.orders
      txlog hive rollback sales.orders --partition dt=2026-11-01 --keep-new
    """
    with _answering(as_json=as_json, debug=debug) as console:
        from engine.hive import upkeep

        doors = _doors(conf)
        body = upkeep.rollback(
            doors,
            _one(doors, table),
            run=run,
            partitions=partition or (),
            force=force,
            keep_new=keep_new,
            dry_run=dry_run,
            break_lock=break_lock,
        )
        text = (
            f"{body['table']}: {body['outcome']}, {len(body['units'])} partition(s) {body['run']}"
        )
        _say(console, body, text, as_json=as_json)


@app.command()
def cleanup(
    targets: Targets,
    older_than: Annotated[str, typer.Option(help="Only runs older than this: 12h, 7d.")] = "0",
    force: Annotated[
        bool, typer.Option("--force", help="Also where the live files cannot be verified any more.")
    ] = False,
    dry_run: DryRun = False,
    break_lock: BreakLock = False,
    conf: Conf = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Delete the originals of finished compactions, after verifying the live files once more.

    Examples:
      txlog hive cleanup sales.orders
      txlog hive cleanup sales --older-than 7d --dry-run
    """
    with _answering(as_json=as_json, debug=debug) as console:
        from engine.hive import upkeep
        from engine.hive.inspect import human
        from engine.hive.targets import keeps_runs, resolve

        doors = _doors(conf)
        age_ms = _duration("--older-than", older_than)
        for table, named in resolve(doors.catalog, targets):
            if not (named or keeps_runs(doors, table)):
                continue
            done = upkeep.cleanup(
                doors,
                table,
                older_than_ms=age_ms,
                force=force,
                dry_run=dry_run,
                break_lock=break_lock,
            )
            body = {"table": table.full_name, "runs": done}
            freed = sum(item["bytes"] for item in done)
            verb = "would free" if dry_run else "freed"
            text = f"{table.full_name}: {len(done)} run(s), {verb} {human(freed)}"
            _say(console, body, text, as_json=as_json)


@app.command()
def recover(
    targets: Targets,
    break_lock: BreakLock = False,
    conf: Conf = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Bring interrupted runs to their end. Every other command does this first by itself.

    Examples:
      txlog hive recover sales.orders
      txlog hive recover sales --json
    """
    with _answering(as_json=as_json, debug=debug) as console:
        from engine.hive import upkeep
        from engine.hive.targets import keeps_runs, resolve

        doors = _doors(conf)
        for table, named in resolve(doors.catalog, targets):
            if not (named or keeps_runs(doors, table)):
                continue
            done = upkeep.recover(doors, table, break_lock=break_lock)
            told = "; ".join(
                f"run {item['run']} was {item['was']}, is {item['now']}" for item in done
            )
            body = {"table": table.full_name, "recovered": done}
            _say(
                console, body, f"{table.full_name}: {told or 'nothing to recover'}", as_json=as_json
            )


@app.command()
def history(
    table: OneTable, conf: Conf = None, as_json: Json = False, debug: Debug = False
) -> None:
    """List every run of a table: what it did, and whether its originals are still there.

    Examples:
      txlog hive history sales.orders
    """
    with _answering(as_json=as_json, debug=debug) as console:
        from engine.hive import show, upkeep

        doors = _doors(conf)
        found = _one(doors, table)
        records = upkeep.history(doors, found)
        if as_json:
            for record in records:
                _emit(record)
        else:
            show.history(console, found.full_name, records)


def _analyze(
    console: Console, doors: Doors, targets: list[str], options: Options, *, as_json: bool
) -> None:
    from engine.hive import show
    from engine.hive.compact import plan
    from engine.hive.targets import resolve

    for table, named in resolve(doors.catalog, targets):
        try:
            planned = plan(doors, table, options)
        except HiveRefusedError as error:
            if named:
                raise
            body: dict[str, Any] = {"table": table.full_name, "left_alone": error.reason}
            _say(console, body, f"{table.full_name}: left alone, {error.reason}", as_json=as_json)
            continue
        verdicts = [verdict for _, verdict in planned.taken]
        verdicts += [verdict for _, verdict, _ in planned.left]
        verdicts.sort(key=lambda verdict: verdict.unit)
        if as_json:
            body = {"table": table.full_name, "format": table.format, "location": table.location}
            body |= {"swap": planned.swap.value, "threshold_bytes": options.threshold_bytes}
            body["taken"] = [unit.label for unit, _ in planned.taken]
            body["units"] = [verdict.as_json() for verdict in verdicts]
            _emit(body)
        else:
            show.analysis(console, table.full_name, verdicts, options.block_bytes)


def _compact(
    console: Console,
    doors: Doors,
    targets: list[str],
    options: Options,
    *,
    as_json: bool,
    break_lock: bool,
) -> None:
    from engine.hive import show
    from engine.hive.compact import compact as compact_table
    from engine.hive.targets import resolve

    failed: list[ReplayError] = []
    for table, named in list(resolve(doors.catalog, targets)):
        with _progress(console, table.full_name, quiet=as_json) as progress:
            try:
                report = compact_table(
                    doors, table, options, progress=progress, break_lock=break_lock
                )
            except HiveRefusedError as error:
                if named:
                    raise
                body: dict[str, Any] = {"table": table.full_name, "left_alone": error.reason}
                _say(console, body, str(error), as_json=as_json)
                continue
            except ReplayError as error:
                # One table that fails is as it was before; the others are still worth compacting.
                failed.append(error)
                if len(targets) == 1 and named:
                    raise
                problem = {"code": error.code, "message": str(error)}
                _say(
                    console,
                    {"table": table.full_name, "error": problem},
                    str(error),
                    as_json=as_json,
                )
                continue
        if as_json:
            _emit(report.as_json())
        else:
            show.run(console, report.as_json())
    if failed:
        raise typer.Exit(1)


@contextmanager
def _progress(console: Console, title: str, *, quiet: bool) -> Iterator[Any]:
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console as Terminal
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Terminal(stderr=True), transient=True) as bar:
        task = bar.add_task(f"{title}: working")
        done = 0

        def advance(report: UnitReport) -> None:
            nonlocal done
            done += 1
            bar.update(task, description=f"{title}: {done} done, {report.unit}")

        yield advance


@contextmanager
def _answering(*, as_json: bool, debug: bool) -> Iterator[Console]:
    from rich.console import Console as Terminal

    try:
        yield Terminal()
    except ReplayError as error:
        if debug:
            raise
        _refuse(error, as_json=as_json)
    except typer.Exit:
        raise
    except Exception as error:
        if debug:
            raise
        lines = str(error).strip().splitlines() or [type(error).__name__]
        _refuse(HiveFailedError("hive", lines[0], "add --debug for the traceback"), as_json=as_json)


def _refuse(error: ReplayError, *, as_json: bool) -> None:
    if as_json:
        _emit({"error": {"code": error.code, "message": str(error)}})
    else:
        typer.echo(f"error: {error}", err=True)
    raise typer.Exit(1)


def _say(console: Console, body: dict[str, Any], text: str, *, as_json: bool) -> None:
    if as_json:
        _emit(body)
    else:
        console.print(text, highlight=False, markup=False)


def _emit(body: dict[str, Any]) -> None:
    typer.echo(json.dumps(body))


def _doors(conf: list[str] | None) -> Doors:
    from engine.hive.catalog import Catalog
    from engine.hive.files import Files
    from engine.hive.session import hive_session
    from engine.hive.swap import Doors

    spark = hive_session("txlog hive", conf or ())
    return Doors(Files(spark), Catalog(spark), lambda: int(time.time() * 1000))


def _one(doors: Doors, name: str) -> Any:
    from engine.hive.targets import resolve

    if "." not in name:
        raise ConfigError("table", name, "DATABASE.TABLE")
    return next(iter(resolve(doors.catalog, [name])))[0]


def _options(block_size: str, ratio: float, *, min_age: str, **more: Any) -> Options:
    from engine.hive.model import Options, Stats, Swap

    swap = more.pop("swap", "auto")
    stats = more.pop("stats", "auto")
    if swap not in ("auto", *(kind.value for kind in Swap)):
        raise ConfigError("--swap", swap, "auto, rename or location")
    if stats not in {kind.value for kind in Stats}:
        raise ConfigError("--stats", stats, "auto, scan or none")
    return Options(
        block_bytes=_size("--block-size", block_size) or 1,
        ratio=ratio,
        min_age_ms=_duration("--min-age", min_age),
        swap=None if swap == "auto" else Swap(swap),
        stats=Stats(stats),
        **more,
    )


def _size(option: str, text: str) -> int:
    found = re.fullmatch(r"(\d+)\s*([KMGT]?)B?", text.strip().upper())
    if not found:
        raise ConfigError(option, text, "a number with KB, MB, GB or TB")
    power = " KMGT".index(found[2] or " ")
    return int(found[1]) << (10 * power)


def _duration(option: str, text: str) -> int:
    found = re.fullmatch(r"(\d+)\s*([smhd]?)", text.strip().lower())
    if not found or (not found[2] and found[1] != "0"):
        raise ConfigError(option, text, "a number with s, m, h or d")
    seconds = {"": 0, "s": 1, "m": 60, "h": 3600, "d": 86400}[found[2]]
    return int(found[1]) * seconds * 1000
