"""What does a table look like on one page? HTML that stands alone: no script, no other file.

Whatever comes from the log is text, and is escaped; the page forbids itself to load anything.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from engine.replay.partitions import partition_keys
from engine.report.charts import bar_chart, line_chart
from engine.report.terminal import human_bytes, moment, summary_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from engine.report.growth import Growth
    from engine.snapshot import Snapshot

_PARTITIONS: Final = 20
_SMALL_BYTES: Final = 16 * 1024**2
_MANY_COMMITS: Final = 100

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c2733; --soft: #66727f; --line: #1f5fa8; --rule: #d7dde3;
  --page: #fff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9ee; --soft: #97a3ae; --line: #6ea8e6;
  --rule: #38434e; --page: #14191f; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; padding: .2rem .8rem
  .2rem 0; border-bottom: 1px solid var(--rule); vertical-align: top; overflow-wrap: anywhere; }
td.number, th.number { text-align: right; white-space: nowrap; } th { font-weight: 600; }
svg { width: 100%; height: auto; } svg text { font-size: 11px; fill: var(--soft); }
.line { fill: none; stroke: var(--line); stroke-width: 1.5; } .area { fill: var(--line);
  opacity: .12; } .bar { fill: var(--line); } .axis { stroke: var(--rule); }
.soft { color: var(--soft); }
"""


def page(
    snapshot: Snapshot,
    summary: Mapping[str, Any],
    growth: Growth,
    history: Sequence[Mapping[str, Any]],
    now_ms: int,
) -> str:
    """Return the whole page. `history` is the newest commits, the newest first."""
    name = summary["metadata"]["name"] or summary["table"]
    sizes = snapshot.files()["size"]
    sections = [
        _section("State", _facts(summary_rows(summary, snapshot.partition_count()))),
        _section("Findings", _findings(snapshot, sizes)),
        _section("Growth", _growth(growth)),
        _section("File sizes", _sizes(sizes)),
        _section("Partitions", _partitions(snapshot)),
        _section("What was read", _segment(snapshot)),
        _section("History", _history(history)),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(str(name))}</title>\n<style>{_STYLE}</style></head>\n<body>\n"
        f"<h1>{escape(str(name))}</h1>\n"
        f'<p class="soft">{escape(str(summary["table"]))}, version {snapshot.version:,}, '
        f"looked at {moment(now_ms)} UTC</p>\n" + "\n".join(sections) + "\n</body></html>\n"
    )


def _section(title: str, body: str) -> str:
    return f"<section><h2>{title}</h2>{body}</section>"


def _facts(rows: Iterable[tuple[str, str]]) -> str:
    cells = (f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table>{''.join(cells)}</table>"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: set[int]) -> str:
    def row(tag: str, cells: Sequence[str]) -> str:
        kinds = (' class="number"' if at in numbers else "" for at in range(len(cells)))
        shown = (
            f"<{tag}{kind}>{escape(cell)}</{tag}>" for kind, cell in zip(kinds, cells, strict=True)
        )
        return f"<tr>{''.join(shown)}</tr>"

    return f"<table>{row('th', headings)}{''.join(row('td', cells) for cells in rows)}</table>"


def _findings(snapshot: Snapshot, sizes: pa.ChunkedArray) -> str:
    segment = snapshot.segment
    found = [f"{fallback}" for fallback in snapshot.fallbacks]
    if len(segment.commits) >= _MANY_COMMITS:
        found.append(
            f"{len(segment.commits):,} commits are read one by one to open this table; "
            "a checkpoint would stand in for them"
        )
    small = int(pc.sum(pc.less(sizes, _SMALL_BYTES)).as_py() or 0)
    if len(sizes) and small * 2 > len(sizes):
        found.append(
            f"{small:,} of {len(sizes):,} files are smaller than {human_bytes(_SMALL_BYTES)}"
        )
    if snapshot.state.has_repeats:
        found.append("the checkpoint holds some files more than once; each counts once")
    if not found:
        return "<p>Nothing was found amiss on the way to this state.</p>"
    return f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in found)}</ul>"


def _growth(growth: Growth) -> str:
    if not len(growth.versions):
        return "<p>No commit is left to tell.</p>"
    xs = growth.versions.tolist()
    span = f"versions {xs[0]:,} to {xs[-1]:,}"
    added, removed = int(growth.added.sum()), int(growth.removed.sum())
    return (
        f'<p class="soft">{span}: {added:,} adds, {removed:,} removes</p>'
        f"<h3>live files</h3>{line_chart(xs, growth.files.tolist(), 'live files', '{:,}'.format)}"
        f"<h3>bytes</h3>{line_chart(xs, growth.size_bytes.tolist(), 'bytes', human_bytes)}"
    )


def _sizes(sizes: pa.ChunkedArray) -> str:
    known = sizes.drop_null().to_numpy()
    if not len(known):
        return "<p>There are no files.</p>"
    # Doubling classes: [0], [1, 2), [2, 4), ...
    classes = np.where(known > 0, np.floor(np.log2(np.maximum(known, 1))).astype(np.int64) + 1, 0)
    low, high = int(classes.min()), int(classes.max())
    counts = np.bincount(classes - low, minlength=high - low + 1)
    bars = [(f"under {human_bytes(1 << at)}", int(n)) for at, n in enumerate(counts.tolist(), low)]
    middle = human_bytes(int(np.median(known)))
    about = f"median {middle}, largest {human_bytes(int(known.max()))}"
    return f'<p class="soft">{about}</p>{bar_chart(bars, "files by size")}'


def _partitions(snapshot: Snapshot) -> str:
    names = snapshot.partition_columns
    if not names:
        return "<p>The table is not partitioned.</p>"
    keys = partition_keys(snapshot.metadata.get("schemaString"), names)
    files = snapshot.files()
    maps = files["partitionValues"]
    columns = {str(at): pc.map_lookup(maps, pa.scalar(key), "first") for at, key in enumerate(keys)}
    table = pa.table({**columns, "size": files["size"]})
    grouped = table.group_by(list(columns)).aggregate([("size", "sum"), ("size", "count")])
    largest = grouped.sort_by([("size_sum", "descending")]).slice(0, _PARTITIONS).to_pylist()
    rows = [
        [
            *("null" if row[at] is None else str(row[at]) for at in columns),
            f"{row['size_count']:,}",
            human_bytes(row["size_sum"] or 0),
        ]
        for row in largest
    ]
    more = grouped.num_rows - len(largest)
    rest = f'<p class="soft">and {more:,} more</p>' if more > 0 else ""
    numbers = {len(names), len(names) + 1}
    return _table([*names, "files", "size"], rows, numbers) + rest


def _segment(snapshot: Snapshot) -> str:
    segment = snapshot.segment
    rows = []
    if segment.checkpoint:
        files = segment.checkpoint.files
        what = f"checkpoint {segment.checkpoint.version:,} ({segment.checkpoint.kind.value})"
        rows.append((what, files))
    rows += [("compactions", segment.compactions), ("commits", segment.commits)]
    shown = [
        [what, f"{len(files):,}", human_bytes(sum(ref.size for ref in files))]
        for what, files in rows
    ]
    return _table(["what", "files", "size"], shown, {1, 2})


def _history(history: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        [
            f"{commit['version']:,}",
            moment(commit["timestamp"]),
            str(commit.get("operation") or ""),
            _metrics(commit.get("operationMetrics")),
        ]
        for commit in history
    ]
    return _table(["version", "time (UTC)", "operation", "what it did"], rows, {0})


def _metrics(metrics: object) -> str:
    if not isinstance(metrics, dict):
        return "" if metrics is None else orjson.dumps(metrics).decode()
    return ", ".join(f"{name} {value}" for name, value in metrics.items())
