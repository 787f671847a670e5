"""What do people see? A table, the numbers as JSON, and a chart."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.run import Result, Verdict, judge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.measurements import Goal

_HEADINGS = ("", "what", "live files", "beside", "txlog s", "its s", "speed", "txlog MB", "its MB",
             "memory", "goal")  # fmt: skip
_METRICS = ("seconds", "cpu_seconds", "import_seconds", "process_seconds", "peak_mb")
_COLOURS = ("#1f5fa8", "#d9822b", "#7a7f87", "#4c9a5f")


def machine() -> dict[str, Any]:
    """Return where the numbers were measured, and with what."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gb": round(pages / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
        **{name: version(name) for name in ("txlog-engine", "deltalake", "pyarrow", "numpy")},
    }


def table(results: Sequence[Result]) -> str:
    """Return the results as a Markdown table, aligned for the terminal."""
    rows = [row for result in results for row in _rows(result, results)]
    widths = [max(len(row[i]) for row in [_HEADINGS, *rows]) for i in range(len(_HEADINGS))]
    rule = tuple("-" * width for width in widths)
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in [_HEADINGS, rule, *rows]
    )


def write_json(results: Sequence[Result], path: Path, about: dict[str, Any]) -> None:
    """Write every run of every contender, the medians and the verdicts."""
    measured = [
        {
            "name": result.measurement.name,
            "what": result.measurement.what,
            "data_bytes": result.data_bytes,
            "disagreement": result.disagreement,
            "contenders": {
                name: {
                    "median": {metric: result.median(name, metric) for metric in _METRICS},
                    "runs": [asdict(run) for run in runs],
                }
                for name, runs in result.runs.items()
            },
            "goals": [
                {**asdict(verdict.goal), "ratio": verdict.ratio, "met": verdict.met}
                for verdict in judge(result, results)
            ],
        }
        for result in results
    ]
    path.write_text(json.dumps({"machine": about, "measurements": measured}, indent=2) + "\n")


def write_chart(results: Sequence[Result], path: Path) -> None:
    """Draw the median seconds and the median peak memory, a group of bars a measurement."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(name for result in results for name in result.runs))
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    panels = (("seconds", "seconds, median", "%.2f"), ("peak_mb", "peak memory, MB", "%.0f"))
    for axis, (metric, title, label) in zip(axes, panels, strict=True):
        for index, name in enumerate(names):
            places = [i for i, result in enumerate(results) if name in result.runs]
            bars = axis.bar(
                [place + (index - (len(names) - 1) / 2) * 0.8 / len(names) for place in places],
                [results[place].median(name, metric) for place in places],
                width=0.76 / len(names),
                color=_COLOURS[index % len(_COLOURS)],
                label=name,
            )
            axis.bar_label(bars, fmt=label, fontsize=8, padding=2)
        axis.set_title(title, loc="left", fontsize=11)
        axis.set_xticks(range(len(results)), [result.measurement.name for result in results])
        axis.margins(y=0.12)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False)
    notes = "\n".join(f"{r.measurement.name}: {r.measurement.what}" for r in results)
    figure.supxlabel(notes, fontsize=8, x=0.01, ha="left")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _rows(result: Result, results: Sequence[Result]) -> list[tuple[str, ...]]:
    """Return a row for each contender beside ours, or one where there is none."""
    measurement = result.measurement
    ours = measurement.contenders[0].name
    verdicts = judge(result, results)
    files = [run.found.get("files") for run in result.runs[ours]]
    seconds, peak = result.median(ours, "seconds"), result.median(ours, "peak_mb")
    rows: list[tuple[str, ...]] = []
    for contender in measurement.contenders[1:] or measurement.contenders:
        theirs = result.median(contender.name, "seconds")
        their_peak = result.median(contender.name, "peak_mb")
        mine = [
            verdict
            for verdict in verdicts
            if verdict.goal.than == contender.name
            or (_is_apart(verdict.goal) and contender is measurement.contenders[-1])
        ]
        rows.append(
            (
                measurement.name,
                measurement.what,
                f"{files[0]:,.0f}" if files[0] is not None else "",
                contender.name,
                f"{seconds:.2f}",
                f"{theirs:.2f}",
                f"{theirs / seconds:.1f}x",
                f"{peak:.0f}",
                f"{their_peak:.0f}",
                f"{peak / their_peak:.2f}x",
                ", ".join(map(_goal, mine)),
            )
        )
    return rows


def _is_apart(goal: Goal) -> bool:
    """Whether a goal is about no other contender of its own measurement."""
    return bool(goal.of) or goal.than is None


def _goal(verdict: Verdict) -> str:
    goal = verdict.goal
    mark = {True: "pass", False: "FAIL", None: "not measured"}[verdict.met]
    what = {"seconds": "time", "peak_mb": "memory"}.get(goal.metric, goal.metric)
    if goal.at_least is not None:
        return f"speed >= {goal.at_least:g}x: {mark}"
    if goal.than is None:
        return f"{what} <= {goal.at_most:,.0f}: {mark}"
    of = f" of {goal.of}" if goal.of else ""
    ratio = f" ({verdict.ratio:.2f}x)" if goal.of and verdict.ratio else ""
    return f"{what} <= {goal.at_most:g}x{of}: {mark}{ratio}"


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
