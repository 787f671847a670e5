"""`txlog hive …`: argv in, one call, one answer out. No logic."""

from __future__ import annotations

from typing import Annotated

import typer

from engine.hive.answers import (
    answering,
    doors_of,
    duration_of,
    emit,
    one_table,
    options_of,
    say,
    size_of,
)
from engine.hive.many import clean_all, recover_all, run_all, show_plans

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
        "--conf",
        metavar="KEY=VALUE",
        help="A Spark setting, such as spark.hadoop.hive.metastore.uris=thrift://host:9083.",
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
    typer.Option("--min-age", help="Leave alone what was written less than this ago: 30m, 6h, 2d."),
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
    """Say which tables and partitions are due, and why. Rewrites nothing.

    Examples:
      txlog hive analyze sales
      txlog hive analyze sales.orders --where "dt < '2026-11-01'" --min-age 6h
      txlog hive analyze sales.orders web.clicks --json
    """
    with answering(as_json=as_json, debug=debug) as console:
        options = options_of(block_size, ratio, where=where, min_age=min_age, managed=managed)
        show_plans(console, doors_of(conf), targets, options, as_json=as_json)


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
    max_bytes: Annotated[
        str, typer.Option(help="Rewrite no more than this a table: 50GB; 0: all.")
    ] = "0",
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
    with answering(as_json=as_json, debug=debug) as console:
        options = options_of(
            block_size,
            ratio,
            where=where,
            min_age=min_age,
            managed=managed,
            swap=swap,
            sort_columns=tuple(name for name in sort_columns.split(",") if name),
            parallelism=parallelism,
            max_bytes=size_of("--max-bytes", max_bytes),
            stats=stats,
        )
        doors = doors_of(conf)
        if dry_run:
            show_plans(console, doors, targets, options, as_json=as_json, dry_run=True)
            return
        run_all(console, doors, targets, options, as_json=as_json, break_lock=break_lock)


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
    with answering(as_json=as_json, debug=debug) as console:
        from engine.hive import upkeep

        doors = doors_of(conf)
        body = upkeep.rollback(
            doors,
            one_table(doors, table),
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
        say(console, body, text, as_json=as_json)


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
    with answering(as_json=as_json, debug=debug) as console:
        age_ms = duration_of("--older-than", older_than)
        clean_all(
            console,
            doors_of(conf),
            targets,
            as_json=as_json,
            older_than_ms=age_ms,
            force=force,
            dry_run=dry_run,
            break_lock=break_lock,
        )


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
    with answering(as_json=as_json, debug=debug) as console:
        doors = doors_of(conf)
        recover_all(console, doors, targets, as_json=as_json, break_lock=break_lock)


@app.command()
def history(
    table: OneTable, conf: Conf = None, as_json: Json = False, debug: Debug = False
) -> None:
    """List every run of a table: what it did, and whether its originals are still there.

    Examples:
      txlog hive history sales.orders
    """
    with answering(as_json=as_json, debug=debug) as console:
        from engine.hive import show, upkeep

        doors = doors_of(conf)
        found = one_table(doors, table)
        recovered = upkeep.mend(doors, found)
        records = upkeep.history(doors, found)
        if as_json:
            for record in records:
                emit(record)
        else:
            show.recovered(console, recovered)
            show.history(console, found.full_name, records)
