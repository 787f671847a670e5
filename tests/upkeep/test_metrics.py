"""A run's report as a Prometheus textfile: valid, whole, and without secrets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from engine.upkeep.fleet.maintain import Done, Problem, Report, TableReport
from engine.upkeep.fleet.metrics import exposition, write_metrics
from engine.upkeep.fleet.tables import Target

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_700_000_000_000
SUMMARY = {
    "sizeInBytes": 2048,
    "numActions": 7,
    "compressionRatio": 3.5,
    "loadSeconds": {"before": 1.5, "after": 0.25},
}
SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)')


def table(name: str, outcome: str = "nothing due", **more: object) -> TableReport:
    return TableReport(Target(name), name, outcome, version=12, checkpoint=10, commits=2, **more)


def samples(report: Report) -> dict[tuple[str, str], float]:
    """Return the value of each metric and its labels; fails where a line is not as it must be."""
    found: dict[tuple[str, str], float] = {}
    family = ""
    for line in exposition(report, now_ms=NOW).splitlines():
        if line.startswith("# HELP "):
            family = line.split()[2]
            assert not any(name == family for name, _ in found), "one block a metric"
        elif line.startswith("# TYPE "):
            assert line == f"# TYPE {family} gauge"
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            assert match[1] == family
            assert (match[1], match[2] or "") not in found, "one sample a label"
            found[match[1], match[2] or ""] = float(match[3])
    return found


def test_every_metric_of_a_checkpoint_is_told_by_table() -> None:
    done = table("/a", "done", done=(Done("checkpoint", 0.5, SUMMARY),))
    found = samples(Report((done, table("/b")), 2.5))
    assert found["txlog_maintain_last_run_timestamp_seconds", ""] == NOW / 1000
    assert found["txlog_maintain_seconds", ""] == 2.5
    assert found["txlog_maintain_tables", 'outcome="done"'] == 1
    assert found["txlog_maintain_tables", 'outcome="failed"'] == 0
    label = 'table="/a"'
    assert found["txlog_table_version", label] == 12
    assert found["txlog_table_checkpoint_version", label] == 10
    assert found["txlog_table_commits_since_checkpoint", label] == 2
    assert found["txlog_checkpoint_seconds", label] == 0.5
    assert found["txlog_checkpoint_bytes", label] == 2048
    assert found["txlog_checkpoint_actions", label] == 7
    assert found["txlog_checkpoint_compression_ratio", label] == 3.5
    assert found["txlog_load_seconds_before_checkpoint", label] == 1.5
    assert found["txlog_load_seconds_from_checkpoint", label] == 0.25
    assert ("txlog_checkpoint_seconds", 'table="/b"') not in found


def test_a_table_that_failed_is_told_with_its_code() -> None:
    failed = TableReport(Target("/a"), "/a", "failed", problem=Problem("GAP", "commit 3 is gone"))
    found = samples(Report((failed, table("/b")), 1.0))
    assert found["txlog_table_failed", 'table="/a",code="GAP"'] == 1
    assert found["txlog_table_failed", 'table="/b",code=""'] == 0
    assert ("txlog_table_version", 'table="/a"') not in found


def test_labels_are_escaped_and_hold_no_password() -> None:
    text = exposition(
        Report((table('/a"b\\c\nd'), table("s3://key:secret@bucket/t")), 1.0), now_ms=NOW
    )
    assert r'table="/a\"b\\c\nd"' in text
    assert 'table="s3://bucket/t"' in text
    assert "secret" not in text


def test_a_report_without_tables_is_valid_too() -> None:
    assert ("txlog_maintain_seconds", "") in samples(Report((), 0.0))


def test_the_textfile_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "txlog.prom"
    path.write_text("old")
    write_metrics(Report((table("/a"),), 1.0), str(path), now_ms=NOW)
    assert path.read_text() == exposition(Report((table("/a"),), 1.0), now_ms=NOW)
    assert [file.name for file in tmp_path.iterdir()] == ["txlog.prom"]


def test_a_textfile_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "txlog.prom").mkdir()
    with pytest.raises(OSError, match=r"txlog\.prom"):
        write_metrics(Report((), 1.0), str(tmp_path / "txlog.prom"), now_ms=NOW)
    assert [file.name for file in tmp_path.iterdir()] == ["txlog.prom"]
