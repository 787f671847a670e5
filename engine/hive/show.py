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
    from engine.hive.model import Options

_BAR = 6


def analysis(
    console: Console, table: str, verdicts: Sequence[Assessment], options: Options
) -> None:
    """Print one table's units, each with a bar of its average file against the block."""
    due = sum(verdict.due for verdict in verdicts)
    files = sum(verdict.files for verdict in verdicts)
    size = sum(verdict.size_bytes for verdict in verdicts)
    grid = _grid(f"{table}: {files:,} files, {human(size)}, {due} of {len(verdicts)} due")
    for name in ("partition", "files", "bytes", "average", "median", "block", "due"):
        justify = "left" if name in ("partition", "block", "due") else "right"
        grid.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for verdict in verdicts:
        target = f" → {verdict.target_files:,}" if verdict.due else ""
        grid.add_row(
            escape(verdict.unit),
            f"{verdict.files:,}{target}",
            human(verdict.size_bytes),
            human(verdict.average_bytes),
            human(verdict.median_bytes),
            bar(verdict.average_bytes, options.block_bytes),
            f"[yellow]yes[/], < {human(options.threshold_bytes)}"
            if verdict.due
            else f"no: {escape(verdict.reason)}",
        )
    console.print(grid)


def bar(part: int, whole: int) -> str:
    """Return a bar that is full when `part` reaches `whole`, and never empty for something."""
    filled = min(_BAR, part * _BAR // whole) if whole else 0
    if part and not filled:
        return "▏" + " " * (_BAR - 1)
    return "█" * filled + "░" * (_BAR - filled)


def recovered(console: Console, runs: Sequence[dict[str, Any]]) -> None:
    """Print what became of interrupted runs."""
    for item in runs:
        console.print(f"recovered run {item['run']}: it was {item['was']}, now it is {item['now']}")
        if item.get("warning"):
            console.print(escape(item["warning"]), soft_wrap=True)


def run(console: Console, body: dict[str, Any]) -> None:
    """Print the report of a run."""
    recovered(console, body["recovered"])
    if not body["run"]:
        console.print(f"{body['table']}: nothing to compact")
        _left(console, body["left"])
        return
    grid = _grid(f"{body['table']}: run {body['run']}")
    remarks = [_remark(unit) for unit in body["units"]]
    for name in ("partition", "files", "bytes", "average", "rows", "gap", "time"):
        grid.add_column(name, justify="left" if name == "partition" else "right", overflow="fold")
    if any(remarks):
        grid.add_column("remark", overflow="fold")
    for unit, remark in zip(body["units"], remarks, strict=True):
        grid.add_row(
            escape(unit["unit"]),
            f"{unit['files_before']:,} → {unit['files_after']:,}",
            f"{human(unit['bytes_before'])} → {human(unit['bytes_after'])}",
            f"{_average(unit, 'before')} → {_average(unit, 'after')}",
            f"{unit['rows']:,}",
            f"{unit['gap_ms']} ms",
            f"{unit['seconds']:.1f} s",
            *([escape(remark)] if any(remarks) else []),
        )
    console.print(grid)
    console.print(
        f"{body['files_before']:,} files became {body['files_after']:,}, "
        f"{body['rows']:,} rows verified, in {body['seconds']:.1f} s"
    )
    console.print(f"the originals are read by {body['backup']}", soft_wrap=True)
    _left(console, body["left"])


def history(console: Console, table: str, records: Sequence[dict[str, Any]]) -> None:
    """Print a table's runs."""
    if not records:
        console.print(f"{table}: no run yet")
        return
    grid = _grid(table)
    for name in ("run", "outcome", "swap", "parts", "files", "bytes"):
        grid.add_column(name, overflow="fold")
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
            f"{before:,} → {after:,}" if units else "",
            f"{human(size)} → {human(shrunk)}" if units else "",
        )
    console.print(grid)
    for record in records:
        if record["backup"]:
            console.print(
                f"the originals of {record['run']} are read by {record['backup']}", soft_wrap=True
            )


def _grid(title: str) -> Grid:
    return Grid(
        title=title,
        title_justify="left",
        title_style="italic",
        box=None,
        pad_edge=False,
        collapse_padding=True,
    )


def _remark(unit: dict[str, Any]) -> str:
    outcome = "" if unit["outcome"] == "compacted" else unit["outcome"]
    return " ".join(part for part in (outcome, unit["warning"]) if part)


def _average(unit: dict[str, Any], when: str) -> str:
    files = unit[f"files_{when}"]
    return human(unit[f"bytes_{when}"] // files if files else 0)


def _left(console: Console, left: Sequence[dict[str, Any]]) -> None:
    reasons: dict[str, int] = {}
    for item in left:
        reasons[item["reason"]] = reasons.get(item["reason"], 0) + 1
    for reason, count in sorted(reasons.items()):
        console.print(f"left alone, {count:,}: {escape(reason)}", highlight=False)
