"""What do node exporters read? The report of a run, as a Prometheus textfile.

One sample a table and metric; https://prometheus.io/docs/instrumenting/exposition_formats says how
they are written. A metric of a task is there for the tables in which this run did that task.
"""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from engine.upkeep.fleet.maintain import Report, TableReport

Sample = tuple[dict[str, str], float]

_OUTCOMES: Final = ("done", "nothing due", "due", "skipped", "failed")
# name: (task, where its summary has it, help)
_OF_TASKS: Final[Mapping[str, tuple[str, Sequence[str], str]]] = {
    "txlog_checkpoint_seconds": (
        "checkpoint",
        ("taskSeconds",),
        "Seconds that this run's checkpoint took, its proof included.",
    ),
    "txlog_checkpoint_bytes": ("checkpoint", ("sizeInBytes",), "Bytes of this run's checkpoint."),
    "txlog_checkpoint_actions": (
        "checkpoint",
        ("numActions",),
        "Actions in this run's checkpoint.",
    ),
    "txlog_checkpoint_compression_ratio": (
        "checkpoint",
        ("compressionRatio",),
        "Bytes of log that this run's checkpoint stands in for, over its own.",
    ),
    "txlog_compaction_seconds": (
        "compaction",
        ("taskSeconds",),
        "Seconds that this run's log compactions took.",
    ),
    "txlog_compaction_bytes": (
        "compaction",
        ("bytesWritten",),
        "Bytes of this run's log compactions.",
    ),
    "txlog_cleaned_files": ("cleanup", ("deleted",), "Log files that this run deleted."),
    "txlog_cleaned_bytes": ("cleanup", ("deletedBytes",), "Bytes of them."),
    "txlog_load_seconds_before_checkpoint": (
        "checkpoint",
        ("loadSeconds", "before"),
        "Seconds to load the table from what was there before this run's checkpoint.",
    ),
    "txlog_load_seconds_from_checkpoint": (
        "checkpoint",
        ("loadSeconds", "after"),
        "Seconds to load the table from this run's checkpoint.",
    ),
}


def exposition(report: Report, *, now_ms: int) -> str:
    """Return a report in the text format of Prometheus."""
    families: list[tuple[str, str, list[Sample]]] = [
        (
            "txlog_maintain_last_run_timestamp_seconds",
            "When the last run ended, in seconds since 1970.",
            [({}, now_ms / 1000)],
        ),
        ("txlog_maintain_seconds", "Seconds that the last run took.", [({}, report.seconds)]),
        (
            "txlog_maintain_tables",
            "Tables of the last run, by outcome.",
            [({"outcome": name}, report.count(name)) for name in _OUTCOMES],
        ),
        (
            "txlog_table_failed",
            "1 for a table that the last run failed on, with why; else 0.",
            [(_labels(table, code=_code(table)), bool(table.problem)) for table in report.tables],
        ),
        *_of_tables(report.tables),
    ]
    return "".join(line for family in families for line in _lines(*family))


def write_metrics(report: Report, path: str, *, now_ms: int) -> None:
    """Write the textfile at `path`, whole or not at all: collectors may look at any moment."""
    # Collectors read *.prom only, so they do not see this one.
    temp = Path(f"{path}.{uuid.uuid4().hex}.tmp")
    try:
        temp.write_text(exposition(report, now_ms=now_ms), encoding="utf-8")
        temp.replace(path)
    finally:
        temp.unlink(missing_ok=True)


def _of_tables(tables: Sequence[TableReport]) -> Iterator[tuple[str, str, list[Sample]]]:
    known = [table for table in tables if table.version is not None]
    yield (
        "txlog_table_version",
        "The latest version.",
        [(_labels(table), table.version or 0) for table in known],
    )
    yield (
        "txlog_table_checkpoint_version",
        "The version of the newest sound checkpoint, as the run found it.",
        [(_labels(table), table.checkpoint) for table in known if table.checkpoint is not None],
    )
    yield (
        "txlog_table_commits_since_checkpoint",
        "Commits after the newest sound checkpoint, as the run found them.",
        [(_labels(table), table.commits) for table in known],
    )
    for name, (task, path, about) in _OF_TASKS.items():
        yield name, about, list(_of_task(tables, task, path))


def _of_task(tables: Sequence[TableReport], task: str, path: Sequence[str]) -> Iterator[Sample]:
    for table in tables:
        for done in table.done:
            value: object = {**done.summary, "taskSeconds": done.seconds}
            for key in path:
                value = value.get(key) if isinstance(value, dict) else None
            if done.task == task and isinstance(value, (int, float)):
                yield _labels(table), float(value)


def _labels(table: TableReport, **more: str) -> dict[str, str]:
    # A URL may name a user and a password; no label ever does.
    return {"table": re.sub(r"(?<=://)[^/@]*@", "", table.table), **more}


def _code(table: TableReport) -> str:
    return table.problem.code if table.problem else ""


def _lines(name: str, about: str, samples: Sequence[Sample]) -> Iterator[str]:
    if not samples:
        return
    yield f"# HELP {name} {about}\n# TYPE {name} gauge\n"
    for labels, value in samples:
        inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"{name}{f'{{{inside}}}' if inside else ''} {float(value):.17g}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
