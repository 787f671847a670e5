"""What do people look at? Tables with size bars, and a run told in a few lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table as Grid

from engine.hive.inspect import human

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from engine.hive.inspect import Assessment

_BAR = 12


def analysis(
    console: Console, table: str, verdicts: Sequence[Assessment], block_bytes: int
) -> None:
    """Print one table's units, each with a bar of its average file against the block."""
    due = sum(verdict.due for verdict in verdicts)
    files = sum(verdict.files for verdict in verdicts)
    size = sum(verdict.size_bytes for verdict in verdicts)
    grid = Grid(
        title=f"{table}: {files:,} files, {human(size)}, {due} of {len(verdicts)} due",
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    for name, justify in (
        ("partition", "left"),
        ("files", "right"),
        ("bytes", "right"),
        ("average", "right"),
        ("median", "right"),
        ("of a block", "left"),
        ("target", "right"),
        ("due", "left"),
        ("why", "left"),
    ):
        grid.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for verdict in verdicts:
        grid.add_row(
            escape(verdict.unit),
            f"{verdict.files:,}",
            human(verdict.size_bytes),
            human(verdict.average_bytes),
            human(verdict.median_bytes),
            bar(verdict.average_bytes, block_bytes),
            f"{verdict.target_files:,}",
            "[yellow]yes[/]" if verdict.due else "no",
            escape(verdict.reason),
        )
    console.print(grid)


def bar(part: int, whole: int) -> str:
    """Return a bar that is full when `part` reaches `whole`, and never empty for something."""
    filled = min(_BAR, part * _BAR // whole) if whole else 0
    if part and not filled:
        return "▏" + " " * (_BAR - 1)
    return "█" * filled + "░" * (_BAR - filled)


def run(console: Console, body: dict[str, Any]) -> None:
    """Print the report of a run."""
    for item in body["recovered"]:
        console.print(f"recovered run {item['run']}: it was {item['was']}, now it is {item['now']}")
    if not body["run"]:
        console.print(f"{body['table']}: nothing to compact")
        _left(console, body["left"])
        return
    grid = Grid(
        title=f"{body['table']}: run {body['run']}", title_justify="left", box=None, pad_edge=False
    )
    for name in ("partition", "files", "bytes", "average", "rows", "gap", "seconds", "outcome"):
        grid.add_column(name, justify="left" if name in ("partition", "outcome") else "right")
    for unit in body["units"]:
        grid.add_row(
            escape(unit["unit"]),
            f"{unit['files_before']:,} → {unit['files_after']:,}",
            f"{human(unit['bytes_before'])} → {human(unit['bytes_after'])}",
            f"{_average(unit, 'before')} → {_average(unit, 'after')}",
            f"{unit['rows']:,}",
            f"{unit['gap_ms']} ms",
            f"{unit['seconds']:.1f}",
            escape(" ".join(part for part in (unit["outcome"], unit["warning"]) if part)),
        )
    console.print(grid)
    console.print(
        f"{body['files_before']:,} files became {body['files_after']:,}, "
        f"{body['rows']:,} rows verified, in {body['seconds']:.1f} s; "
        f"the originals are read by {body['backup']}"
    )
    _left(console, body["left"])


def history(console: Console, table: str, records: Sequence[dict[str, Any]]) -> None:
    """Print a table's runs."""
    if not records:
        console.print(f"{table}: no run yet")
        return
    grid = Grid(title=table, title_justify="left", box=None, pad_edge=False)
    for name in ("run", "outcome", "swap", "partitions", "files", "bytes", "backup"):
        grid.add_column(name)
    for record in records:
        units = record["units"].values()
        before = sum(unit["files_before"] for unit in units)
        after = sum(unit["files_after"] for unit in units)
        size = sum(unit["bytes_before"] for unit in units)
        shrunk = sum(unit["bytes_after"] for unit in units)
        grid.add_row(
            record["run"],
            record["outcome"],
            record["swap"],
            str(len(units)),
            f"{before:,} → {after:,}",
            f"{human(size)} → {human(shrunk)}",
            record["backup"] or "",
        )
    console.print(grid)


def _average(unit: dict[str, Any], when: str) -> str:
    files = unit[f"files_{when}"]
    return human(unit[f"bytes_{when}"] // files if files else 0)


def _left(console: Console, left: Sequence[dict[str, Any]]) -> None:
    reasons: dict[str, int] = {}
    for item in left:
        reasons[item["reason"]] = reasons.get(item["reason"], 0) + 1
    for reason, count in sorted(reasons.items()):
        console.print(f"left alone, {count:,}: {escape(reason)}", highlight=False)
