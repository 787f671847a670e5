"""How does the command line read its options and give its answers?"""

from __future__ import annotations

import json
import re
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from engine.errors import ConfigError, HiveFailedError, ReplayError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from engine.hive.compact import Progress
    from engine.hive.model import Options, Table
    from engine.hive.swap import Doors


@contextmanager
def progress(title: str, *, quiet: bool) -> Iterator[Progress | None]:
    """Show a bar on stderr when it is a terminal; yield what is told how many units are done."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console as Terminal
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    text = TextColumn("{task.description}")
    columns = (text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=Terminal(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def advance(done: int, total: int, unit: str) -> None:
            bar.update(task, completed=done, total=total, description=f"{title} {unit}")

        yield advance


@contextmanager
def answering(*, as_json: bool, debug: bool) -> Iterator[Console]:
    """Turn an error of the body into one line or one object and exit 1; `debug` lets it through."""
    from rich.console import Console as Terminal

    try:
        yield Terminal()
    except ReplayError as error:
        if debug:
            raise
        refuse(error, as_json=as_json)
    except typer.Exit:
        raise
    except Exception as error:
        if debug:
            raise
        from engine.hive.reason import first_line

        said = HiveFailedError("hive", first_line(error), "add --debug for the traceback")
        refuse(said, as_json=as_json)


def refuse(error: ReplayError, *, as_json: bool) -> None:
    """Print an error and exit 1."""
    if as_json:
        emit({"error": {"code": error.code, "message": str(error)}})
    else:
        typer.echo(f"error: {error}", err=True)
    raise typer.Exit(1)


def say(console: Console, body: dict[str, Any], text: str, *, as_json: bool) -> None:
    """Print the object or the text, as was asked."""
    if as_json:
        emit(body)
    else:
        console.print(text, highlight=False, markup=False)


def emit(body: dict[str, Any]) -> None:
    """Print one JSON object on a line."""
    typer.echo(json.dumps(body))


def doors_of(conf: list[str] | None) -> Doors:
    """Start or find the session, and return the doors it opens."""
    from engine.hive.catalog import Catalog
    from engine.hive.files import Files
    from engine.hive.session import hive_session
    from engine.hive.swap import Doors

    spark = hive_session("txlog hive", conf or ())
    return Doors(Files(spark), Catalog(spark), lambda: int(time.time() * 1000))


def one_table(doors: Doors, name: str) -> Table:
    """Return the one table that was named."""
    from engine.hive.targets import resolve

    if "." not in name:
        raise ConfigError("table", name, "DATABASE.TABLE")
    return next(iter(resolve(doors.catalog, [name])))[0]


def options_of(block_size: str, ratio: float, *, min_age: str, **more: Any) -> Options:
    """Return the options of a compaction from the words of the command line."""
    from engine.hive.model import Options, Stats, Swap

    swap = more.pop("swap", "auto")
    stats = more.pop("stats", "auto")
    if swap not in ("auto", *(kind.value for kind in Swap)):
        raise ConfigError("--swap", swap, "auto, rename or location")
    if stats not in {kind.value for kind in Stats}:
        raise ConfigError("--stats", stats, "auto, scan or none")
    return Options(
        block_bytes=size_of("--block-size", block_size) or 1,
        ratio=ratio,
        min_age_ms=duration_of("--min-age", min_age),
        swap=None if swap == "auto" else Swap(swap),
        stats=Stats(stats),
        **more,
    )


def size_of(option: str, text: str) -> int:
    """Return the bytes that a text such as 128MB means."""
    found = re.fullmatch(r"(\d+)\s*([KMGT]?)B?", text.strip().upper())
    if not found:
        raise ConfigError(option, text, "a number with KB, MB, GB or TB")
    power = " KMGT".index(found[2] or " ")
    return int(found[1]) << (10 * power)


def duration_of(option: str, text: str) -> int:
    """Return the milliseconds that a text such as 6h means."""
    found = re.fullmatch(r"(\d+)\s*([smhd]?)", text.strip().lower())
    if not found or (not found[2] and found[1] != "0"):
        raise ConfigError(option, text, "a number with s, m, h or d")
    seconds = {"": 0, "s": 1, "m": 60, "h": 3600, "d": 86400}[found[2]]
    return int(found[1]) * seconds * 1000
