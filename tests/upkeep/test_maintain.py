"""A run over many tables does what is due in each, whatever is wrong with the others."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine import open_log
from engine.config import Config
from engine.upkeep.fleet.maintain import Report, Request, maintain, threads
from engine.upkeep.fleet.tables import Target, find_tables
from tests.logs import LogBuilder, metadata, protocol
from tests.upkeep.fleets import fleet
from tests.upkeep.kept import seen

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_700_000_000_000


def run(pattern: str, **request: Any) -> Report:
    tables = find_tables([Target(pattern)])
    return maintain(tables, Request(open_log, lambda: NOW, **request), threads(4))


def outcomes(report: Report) -> dict[str, int]:
    return {
        name: count
        for name in ("done", "nothing due", "due", "skipped", "failed")
        if (count := report.count(name))
    }


def test_every_sound_table_is_checkpointed_and_every_broken_one_told(tmp_path: Path) -> None:
    broken = fleet(tmp_path, 20)
    before = {
        path: seen(open_log(str(path)).snapshot())
        for path in tmp_path.iterdir()
        if str(path) not in broken
    }
    report = run(f"{tmp_path}/*")
    assert outcomes(report) == {"done": 15, "failed": 5}
    assert {t.table: t.problem.code for t in report.tables if t.problem} == broken
    assert all(t.problem.message for t in report.tables if t.problem)
    for path, wanted in before.items():
        snapshot = open_log(str(path)).snapshot()
        assert snapshot.segment.checkpoint is not None
        assert snapshot.segment.checkpoint.version == 11
        assert seen(snapshot) == wanted
    assert report.status == 1


def test_a_second_run_finds_nothing_due(tmp_path: Path) -> None:
    for name in ("a", "b"):
        LogBuilder(tmp_path / name).start().filler(9)
    assert outcomes(run(f"{tmp_path}/*")) == {"done": 2}
    again = run(f"{tmp_path}/*")
    assert (outcomes(again), again.status) == ({"nothing due": 2}, 0)


def test_two_runs_at_once_do_no_harm(tmp_path: Path) -> None:
    for number in range(12):
        LogBuilder(tmp_path / f"{number}").start().filler(9)
    with ThreadPoolExecutor(3) as pool:
        reports = list(pool.map(run, [f"{tmp_path}/*"] * 3))
    assert all(report.status == 0 for report in reports)
    made = [
        table.table for report in reports for table in report.tables for done in table.done
        if done.summary["created"]
    ]  # fmt: skip
    assert len(made) == len(set(made)) == 12
    for path in tmp_path.iterdir():
        assert len(list((path / "_delta_log").glob("*.checkpoint.parquet"))) == 1
        assert not (path / "_delta_log" / ".txlog-staging").exists()
        assert open_log(str(path)).snapshot().totals().num_files == 9


def test_a_dry_run_prints_the_plan_and_writes_nothing(tmp_path: Path) -> None:
    LogBuilder(tmp_path / "a").start().filler(11)
    LogBuilder(tmp_path / "b").start()
    names = sorted(path.name for path in tmp_path.rglob("*"))
    report = run(f"{tmp_path}/*", dry_run=True)
    assert outcomes(report) == {"due": 1, "nothing due": 1}
    (due,) = report.summary()["tables"][0]["due"]
    assert due["task"] == "checkpoint"
    assert due["reason"] == "12 commits and no checkpoint; one is due every 10"
    assert sorted(path.name for path in tmp_path.rglob("*")) == names


def test_a_budget_of_tables_goes_to_the_most_urgent(tmp_path: Path) -> None:
    for name, commits in (("a", 10), ("b", 30), ("c", 20), ("d", 2)):
        LogBuilder(tmp_path / name).start().filler(commits)
    report = run(f"{tmp_path}/*", max_tables=2)
    assert [t.outcome for t in report.tables] == ["skipped", "done", "done", "nothing due"]
    assert "more urgent" in report.tables[0].reason
    assert report.status == 0
    assert outcomes(run(f"{tmp_path}/*")) == {"done": 1, "nothing due": 3}


def test_after_the_deadline_no_table_is_begun(tmp_path: Path) -> None:
    LogBuilder(tmp_path / "a").start().filler(10)
    report = run(f"{tmp_path}/*", deadline_ms=NOW)
    assert outcomes(report) == {"skipped": 1}
    assert "time" in report.tables[0].reason
    assert outcomes(run(f"{tmp_path}/*", deadline_ms=NOW + 1)) == {"done": 1}


def test_a_damaged_checkpoint_is_made_anew_once(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path / "a").start().filler(3)
    log.checkpoint(3)
    (log.directory / "00000000000000000003.checkpoint.parquet").write_bytes(b"PAR1 nothing PAR1")
    report = run(str(log.root))
    assert outcomes(report) == {"done": 1}
    assert report.tables[0].notes
    snapshot = open_log(str(log.root)).snapshot()
    assert snapshot.segment.checkpoint is not None
    assert snapshot.segment.checkpoint.version == 3
    assert snapshot.totals().num_files == 3
    assert outcomes(run(str(log.root))) == {"nothing due": 1}


def test_a_tables_own_options_count_and_the_callers_more(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path, "indextables").start().filler(5)
    interval = "spark.indextables.checkpoint.interval"
    compactions = "spark.databricks.delta.deltaLog.minorCompaction.useForWrites"
    tables = find_tables([Target(str(log.root), {interval: 3, compactions: False})])
    request = Request(open_log, lambda: NOW, dry_run=True)
    assert outcomes(maintain(tables, request, threads(1))) == {"due": 1}
    request = replace(request, config=Config(options={interval: 30}))
    assert outcomes(maintain(tables, request, threads(1))) == {"nothing due": 1}


def test_what_nobody_foresaw_is_told_of_its_table_alone(tmp_path: Path) -> None:
    for name in ("a", "b"):
        LogBuilder(tmp_path / name).start().filler(10)

    def opened(table: str, *args: Any, **options: Any) -> Any:
        if table.endswith("a"):
            raise RuntimeError("out of\nluck")
        return open_log(table, *args, **options)

    tables = find_tables([Target(f"{tmp_path}/*")])
    report = maintain(tables, Request(opened, lambda: NOW), threads(1))
    assert [t.outcome for t in report.tables] == ["failed", "done"]
    assert report.tables[0].problem is not None
    assert report.tables[0].problem.code == "INTERNAL"
    assert report.tables[0].problem.message == "internal error: RuntimeError: out of luck"


def test_the_summary_is_json_that_adds_up(tmp_path: Path) -> None:
    LogBuilder(tmp_path / "a").start().filler(10)
    LogBuilder(tmp_path / "b").start()
    summary = json.loads(json.dumps(run(f"{tmp_path}/*", measure=True).summary()))
    assert (summary["numTables"], summary["numDone"], summary["numNothingDue"]) == (2, 1, 1)
    assert (summary["numSkipped"], summary["numFailed"]) == (0, 0)
    done = summary["tables"][0]["done"][0]
    assert done["task"] == "checkpoint"
    assert done["numFiles"] == 10
    assert set(done["loadSeconds"]) == {"before", "after"}
    size = (tmp_path / "a/_delta_log/00000000000000000010.checkpoint.parquet").stat().st_size
    assert summary["bytesWritten"] == done["bytesWritten"] == size


@pytest.mark.parametrize("pattern", ["nowhere/*", "nowhere"])
def test_a_name_that_stands_for_nothing_fails_the_run(tmp_path: Path, pattern: str) -> None:
    report = run(f"{tmp_path}/{pattern}")
    assert (outcomes(report), report.status) == ({"failed": 1}, 1)
    assert report.tables[0].problem is not None
    assert report.tables[0].problem.code == "NO_LOG"


def test_commits_between_checkpoints_are_compacted(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path / "a").start().filler(8)
    before = seen(open_log(str(log.root)).snapshot())
    report = run(str(log.root))
    assert [done.task for done in report.tables[0].done] == ["compaction"]
    assert report.tables[0].bytes_written > 0
    snapshot = open_log(str(log.root)).snapshot()
    assert snapshot.segment.compactions
    assert seen(snapshot) == before
    assert outcomes(run(str(log.root))) == {"nothing due": 1}


def test_what_is_past_its_retention_is_cleaned_up_after_the_checkpoint(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path / "a").start().filler(12)
    for version in range(13):
        log.modified(version, NOW - 90 * 24 * 3600 * 1000 + 60_000 * version)
    log.checkpoint(2)
    before = seen(open_log(str(log.root)).snapshot())
    report = run(str(log.root))
    assert [done.task for done in report.tables[0].done] == ["checkpoint", "cleanup"]
    assert report.tables[0].done[1].summary["deleted"] > 0
    assert not log.commit_path(0).exists()
    assert seen(open_log(str(log.root)).snapshot()) == before


def test_a_torn_compaction_and_a_wrong_hint_are_mended_once(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path / "a").start().filler(6)
    log.checkpoint(2)
    log.hint(2)
    torn = log.compaction(3, 5)
    wanted = torn.read_bytes()
    torn.write_bytes(wanted[:-4])
    (log.directory / "_last_checkpoint").write_bytes(b"garbage")
    report = run(str(log.root))
    assert outcomes(report) == {"done": 1}
    (done,) = report.tables[0].done
    assert done.task == "repair"
    assert {m["path"]: m["action"] for m in done.summary["mended"]} == {
        torn.name: "recreated",
        "_last_checkpoint": "recreated",
    }
    assert outcomes(run(str(log.root))) == {"nothing due": 1}
    assert open_log(str(log.root)).snapshot().fallbacks == ()


def test_a_table_that_is_not_sound_fails_a_run_that_verifies_and_stops_no_other(
    tmp_path: Path,
) -> None:
    for name in ("a", "b"):
        LogBuilder(tmp_path / name).start().filler(3)
    wrong = LogBuilder(tmp_path / "a").file(f"{1:020d}.{2:020d}.compacted.json")
    wrong.write_bytes(b'{"add":{"path":"ghost","partitionValues":{},"size":1,"dataChange":true}}\n')
    assert run(f"{tmp_path}/*").status == 0
    report = run(f"{tmp_path}/*", verify=True)
    assert outcomes(report) == {"done": 1, "failed": 1}
    failed = report.tables[0]
    assert failed.problem is not None
    assert failed.problem.code == "UNSOUND"
    assert wrong.name in failed.problem.message
    assert [done.task for done in failed.done] == ["verify"]
    assert failed.done[0].summary["errors"]


def test_a_property_that_only_a_cleanup_needs_keeps_no_checkpoint_from_a_table(
    tmp_path: Path,
) -> None:
    log = LogBuilder(tmp_path / "a")
    odd = metadata(configuration={"delta.logRetentionDuration": "30"})
    log.commit(protocol(), odd)
    log.filler(12)
    report = run(str(log.root))
    assert [done.task for done in report.tables[0].done] == ["checkpoint"]
    assert report.tables[0].problem is not None
    assert report.tables[0].problem.code == "CONFIG"
    assert "with its unit" in report.tables[0].problem.message
