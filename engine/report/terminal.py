"""What do people read in a terminal? Summaries as a table, lists as lines that stream."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table
from rich.text import Text

from engine.replay.stats import record_counts
from engine.report.lines import BATCH_ROWS, without_nulls

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from engine.replay.lines import LineAction


def summary_text(summary: Mapping[str, Any], *, partitions: int) -> str:
    """Return what a replay found, how it was found, and how long that took."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in summary_rows(summary, partitions):
        grid.add_row(name, Text(value))
    console = Console(highlight=False)
    with console.capture() as captured:
        console.print(Text(str(summary["table"]), style="bold"), soft_wrap=True)
        console.print(grid)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def summary_rows(summary: Mapping[str, Any], partitions: int) -> Iterator[tuple[str, str]]:
    """Yield what a summary says, name by name, for a reader."""
    metadata, records = summary["metadata"], summary["numRecords"]
    yield "format", summary["format"]
    if metadata["name"]:
        yield "name", metadata["name"]
    yield "version", f"{summary['version']:,}"
    yield "files", f"{summary['numFiles']:,}"
    yield "size", human_bytes(summary["sizeInBytes"])
    unknown = "unknown: not every file tells its own"
    yield "records", unknown if records is None else f"{records:,}"
    columns = metadata["partitionColumns"]
    yield "partitions", f"{partitions:,} by {', '.join(columns)}" if columns else "not partitioned"
    yield "tombstones", f"{summary['numTombstones']:,}"
    yield "txns", _some(summary["txns"])
    if summary["domains"]:
        yield "domains", ", ".join(summary["domains"])
    yield "protocol", _protocol(summary["protocol"])
    if stamp := summary["inCommitTimestamp"]:
        yield "committed", f"{moment(stamp)} UTC"
    yield "read", _segment(summary["segment"])
    steps = (f"{step} {seconds:.3f} s" for step, seconds in summary["seconds"].items())
    yield "time", ", ".join(steps)
    yield "engine", summary["engine"]


def commit_text(done: Mapping[str, Any], what: str = "") -> str:
    """Return what became of a commit; `what` it was, where the files that came and went do not."""
    if not done["committed"] and done.get("reason") != "dry run":
        return f"nothing committed: {done['reason']}; the latest version is {done['version']}\n"
    said = "committed" if done["committed"] else "would commit"
    changed = what or f"{done['numAdded']:,} added, {done['numRemoved']:,} removed"
    return f"{said} version {done['version']}: {done['operation']}, {changed}\n"


def skip_lines(skips: Iterable[Mapping[str, Any]], waiting: Mapping[str, int]) -> Iterator[str]:
    """Yield the skipped files: how often, until when, why."""
    yield f"{'skips':>5}  {'retry after (UTC)':<19}  path  (operation: reason)\n"
    for skip in skips:
        until = moment(waiting[skip["path"]]) if skip["path"] in waiting else "now"
        why = f"{skip['operation']}: {skip['reason']}"
        yield f"{skip['skipCount']:>5}  {until:<19}  {skip['path']}  ({why})\n"


def file_table(files: pa.Table) -> Iterator[str]:
    """Yield the lines of some files for a reader: size, records, time, path."""
    yield f"{'size':>10}  {'records':>12}  {'modified (UTC)':<19}  path\n"
    for batch in _batches(files):
        rows = zip(
            batch["size"].to_pylist(),
            record_counts(batch).to_pylist(),
            batch["modificationTime"].to_pylist(),
            batch["path"].to_pylist(),
            strict=True,
        )
        yield "".join(
            f"{_or(size, human_bytes):>10}  {_or(records, '{:,}'.format):>12}  "
            f"{_or(modified, moment):<19}  {path}\n"
            for size, records, modified, path in rows
        )


def path_lines(files: pa.Table, mark: str = "") -> Iterator[str]:
    """Yield the paths of some files, one a line."""
    for batch in _batches(files):
        yield "".join(f"{mark}{path}\n" for path in batch["path"].to_pylist())


def history_lines(commits: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield one line a commit: version, time, operation and its metrics."""
    yield f"{'version':>8}  {'time (UTC)':<19}  {'operation':<16}  what it did\n"
    for commit in commits:
        metrics = commit.get("operationMetrics")
        facts = metrics if isinstance(metrics, dict) else {}
        told = " ".join(f"{name}={value}" for name, value in facts.items())
        operation = str(commit.get("operation") or "-")
        line = f"{commit['version']:>8}  {_or(commit['timestamp'], moment):<19}  {operation:<16}  "
        yield f"{line}{told}".rstrip() + "\n"


def action_table(actions: Iterable[LineAction]) -> Iterator[str]:
    """Yield one line an action: its kind, what it speaks of, and what it says."""
    for action in actions:
        if isinstance(action.value, str):
            value = orjson.loads(action.value)
        else:
            value = without_nulls(action.value)
        subject = next((value.pop(n) for n in ("path", "appId", "domain", "id") if n in value), "")
        said = orjson.dumps(value).decode()
        yield f"{action.kind:<14}  {subject}{'  ' if subject else ''}{said}\n"


def diff_total(added: pa.Table, removed: pa.Table) -> str:
    """Return the last line of a diff."""
    parts = (
        f"{len(files):,} {word} ({human_bytes(pc.sum(files['size']).as_py() or 0)})"
        for word, files in (("added", added), ("removed", removed))
    )
    return ", ".join(parts) + "\n"


def sample_text(facts: Mapping[str, Any], directory: str) -> str:
    """Return what was made, and how to look at it."""
    made = f"{_counted(facts['version'] + 1, 'commit')}, {facts['numActions']:,} actions"
    live = f"{_counted(facts['numFiles'], 'live file')}, {human_bytes(facts['sizeInBytes'])} of log"
    return f"made {directory}: {made}, {live}\nlook at it: txlog replay {directory}\n"


def human_bytes(size: int) -> str:
    """Return a size for a reader, such as `1.5 GiB`."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:  # noqa: PLR2004 - the step between units
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:,.1f} PiB"


def moment(time_ms: int) -> str:
    """Return a time in milliseconds since 1970 for a reader, in UTC, to the second."""
    try:
        return f"{datetime.fromtimestamp(time_ms / 1000, timezone.utc):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError, TypeError):
        return str(time_ms)


def _some(txns: Mapping[str, int], most: int = 5) -> str:
    shown = ", ".join(f"{app} at {version:,}" for app, version in list(txns.items())[:most])
    more = f" and {len(txns) - most:,} more" if len(txns) > most else ""
    return f"{shown}{more}" if txns else "none"


def _protocol(protocol: Mapping[str, Any]) -> str:
    numbers = f"reader {protocol['minReaderVersion']}, writer {protocol['minWriterVersion']}"
    features = sorted({*(protocol["readerFeatures"] or ()), *(protocol["writerFeatures"] or ())})
    return f"{numbers}: {', '.join(features)}" if features else numbers


def _segment(segment: Mapping[str, Any]) -> str:
    parts = []
    if checkpoint := segment["checkpoint"]:
        parts.append(f"checkpoint {checkpoint['version']:,} ({checkpoint['kind']})")
    if compactions := segment["compactions"]:
        parts.append(_counted(len(compactions), "compaction"))
    parts.append(_counted(segment["commits"], "commit"))
    return f"{', '.join(parts)}: {human_bytes(segment['bytes'])}"


def _counted(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _batches(files: pa.Table) -> Iterator[pa.Table]:
    return (files.slice(at, BATCH_ROWS) for at in range(0, len(files), BATCH_ROWS))


def _or(value: Any, shown: Any) -> str:
    return "-" if value is None else str(shown(value))
