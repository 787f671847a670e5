"""`txlog maintain`, as cron runs it: what it prints, writes and exits with."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tests.logs import LogBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def lake(root: Path) -> Path:
    LogBuilder(root / "lake" / "due").start().filler(10)
    LogBuilder(root / "lake" / "fresh").start()
    return root / "lake"


def test_a_file_of_tables_is_kept_up(tmp_path: Path, txlog: Callable[..., Any]) -> None:
    root = lake(tmp_path)
    file = tmp_path / "tables.toml"
    file.write_text(f'tables = ["{root}/*"]')
    answer = txlog("maintain", "--tables", file, "--json")
    assert answer.status == 0
    assert [table["outcome"] for table in answer.json["tables"]] == ["done", "nothing due"]
    assert (root / "due/_delta_log/00000000000000000010.checkpoint.parquet").exists()
    hint = json.loads((root / "due/_delta_log/_last_checkpoint").read_bytes())
    assert hint["version"] == 10


def test_a_broken_table_is_one_line_and_exit_status_1(
    tmp_path: Path, txlog: Callable[..., Any]
) -> None:
    root = lake(tmp_path)
    LogBuilder(root / "gap").start().filler(10).commit_path(4).unlink()
    answer = txlog("maintain", f"{root}/*")
    assert answer.status == 1
    lines = answer.out.splitlines()
    assert lines[0].startswith(f"{root}/due: checkpoint in ")
    assert lines[1].startswith(f"{root}/gap: failed: GAP: {root}/gap/_delta_log: commit 4 ")
    assert lines[2].startswith("3 tables in ")
    assert "1 done, 1 nothing due, 1 failed" in lines[2]


def test_a_dry_run_tells_what_is_due(tmp_path: Path, txlog: Callable[..., Any]) -> None:
    root = lake(tmp_path)
    answer = txlog("maintain", f"{root}/*", "--dry-run", "--metrics-file", tmp_path / "x.prom")
    assert answer.status == 0
    due = "checkpoint is due: 11 commits and no checkpoint; one is due every 10"
    assert answer.out.splitlines()[0] == f"{root}/due: {due}"
    assert not list((root / "due/_delta_log").glob("*.checkpoint.*"))
    assert not (tmp_path / "x.prom").exists()


def test_budgets_and_exclusions(tmp_path: Path, txlog: Callable[..., Any]) -> None:
    root = lake(tmp_path)
    answer = txlog("maintain", f"{root}/*", "--max-tables", 0, "--json")
    assert answer.json["tables"][0]["outcome"] == "skipped"
    answer = txlog("maintain", f"{root}/*", "--max-seconds", 0, "--json")
    assert answer.json["tables"][0]["outcome"] == "skipped"
    answer = txlog("maintain", f"{root}/*", "--exclude", "*/due", "--json")
    assert answer.json["numTables"] == 1


def test_metrics_are_written_for_node_exporters(tmp_path: Path, txlog: Callable[..., Any]) -> None:
    root = lake(tmp_path)
    metrics = tmp_path / "txlog.prom"
    answer = txlog("maintain", f"{root}/*", "--measure", "--metrics-file", metrics)
    assert answer.status == 0
    text = metrics.read_text()
    assert f'txlog_checkpoint_bytes{{table="{root}/due"}} ' in text
    assert f'txlog_load_seconds_from_checkpoint{{table="{root}/due"}} ' in text


def test_a_place_for_metrics_that_is_none_is_told_before_any_work(
    tmp_path: Path, txlog: Callable[..., Any]
) -> None:
    root = lake(tmp_path)
    answer = txlog("maintain", f"{root}/*", "--metrics-file", tmp_path / "none" / "txlog.prom")
    assert answer.status == 2
    assert "there is no such directory" in answer.err
    assert not list((root / "due/_delta_log").glob("*.checkpoint.*"))


def test_metrics_that_cannot_be_written_do_not_hide_what_was_done(
    tmp_path: Path, txlog: Callable[..., Any]
) -> None:
    root = lake(tmp_path)
    (tmp_path / "taken").mkdir()
    answer = txlog("maintain", f"{root}/*", "--metrics-file", tmp_path / "taken")
    assert answer.status == 1
    assert answer.out.startswith(f"{root}/due: checkpoint in ")
    assert answer.err.startswith("txlog: ")


def test_a_failed_table_is_told_once(tmp_path: Path, txlog: Callable[..., Any]) -> None:
    answer = txlog("maintain", tmp_path / "none")
    assert (answer.status, answer.err) == (1, "")
    assert answer.out.splitlines()[-1].startswith("1 table in ")


def test_no_tables_is_wrong_usage(txlog: Callable[..., Any]) -> None:
    answer = txlog("maintain")
    assert answer.status == 2
    assert "--tables" in answer.err


def test_no_jvm_and_no_pyspark_are_needed(tmp_path: Path) -> None:
    root = lake(tmp_path)

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        arguments = ["maintain", f"{root}/*", *more]
        program = (
            "import sys; sys.modules['pyspark'] = None; from engine.cli import main; "
            f"sys.exit(main({arguments}))"
        )
        command = [sys.executable, "-c", program]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert (run().returncode, run().stderr) == (0, "")
    refused = run("--spark")
    assert refused.returncode == 1
    assert "pip install 'txlog-engine[spark]'" in refused.stderr
