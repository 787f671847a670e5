"""`txlog compact`, `cleanup` and `truncate`, as people and programs call them."""

from __future__ import annotations

import json
import os

import pytest

from engine.cli import main
from tests.logs import LogBuilder

OLD_MS = 1_600_000_000_000


@pytest.fixture
def log(tmp_path) -> LogBuilder:
    log = LogBuilder(tmp_path / "t").start().filler(12)
    for version in range(13):
        log.modified(version, OLD_MS + version)
    return log


def run(capsys, *args: object) -> tuple[int, str, str]:
    status = main([str(arg) for arg in args])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def answers(capsys, *args: object) -> list[dict]:
    status, out, _ = run(capsys, *args, "--json")
    assert status == 0
    return [json.loads(line) for line in out.splitlines()]


def test_compact_tells_of_each_range(capsys, log):
    status, out, _ = run(capsys, "compact", log.root, "--dry-run")
    assert (status, out) == (0, f"0 to 10: would stand in for 11 commits of {_size(log)}\n")
    (done,) = answers(capsys, "compact", log.root)
    assert (done["startVersion"], done["endVersion"], done["status"]) == (0, 10, "completed")
    assert run(capsys, "compact", log.root)[1] == "nothing to compact\n"
    status, out, _ = run(capsys, "compact", log.root, "--from", 11, "--to", 12)
    assert out.startswith("11 to 12: 2 commits of ")
    assert run(capsys, "compact", log.root, "--from", 0, "--to", 10)[1] == (
        "0 to 10: skipped: is there already\n"
    )


def test_compact_repair_says_what_was_wrong(capsys, log):
    log.compaction(1, 3).write_bytes(b"{torn")
    (planned,) = answers(
        capsys, "compact", log.root, "--from", 1, "--to", 3, "--repair", "--dry-run"
    )
    assert (planned["status"], bool(planned["found"])) == ("planned", True)
    status, out, _ = run(capsys, "compact", log.root, "--from", 1, "--to", 3, "--repair")
    assert status == 0
    assert out.startswith("1 to 3: replaced (not a JSON object")


def test_a_range_that_is_none_is_refused_in_one_line(capsys, log):
    status, _, err = run(capsys, "compact", log.root, "--from", 5, "--to", 5)
    assert status == 1
    assert "5 to 5 is not a range of two commits or more" in err
    status, out, _ = run(capsys, "compact", log.root, "--from", 5, "--to", 50, "--json")
    assert json.loads(out)["error"]["code"] == "VERSION_NOT_FOUND"


def test_cleanup_explains_each_file_and_then_does_it(capsys, log):
    (path,) = log.checkpoint(8)
    os.utime(path, ns=(OLD_MS * 10**6,) * 2)
    status, out, _ = run(capsys, "cleanup", log.root, "--dry-run")
    assert status == 0
    assert f"delete  {3:020d}.json  (covered by checkpoint 8)\n" in out
    assert f"keep    {8:020d}.json  (checkpoint 8 is relied on)\n" in out
    assert out.splitlines()[-1].startswith("would delete 8 files, ")
    (done,) = answers(capsys, "cleanup", log.root)
    assert (done["checkpoint"], done["deleted"], done["failures"]) == (8, 8, {})
    assert {file["action"] for file in done["files"]} == {"keep", "delete"}
    status, out, _ = run(capsys, "cleanup", log.root)
    assert out.startswith("deleted 0 files")


def test_cleanup_says_why_nothing_may_go(capsys, log):
    status, out, _ = run(capsys, "cleanup", log.root)
    assert (status, out) == (0, "nothing to delete: there is no complete checkpoint\n")
    log.checkpoint(8)[0].write_bytes(b"torn")
    (done,) = answers(capsys, "cleanup", log.root)
    assert "cannot be relied on" in done["reason"]


def test_an_age_is_an_interval(capsys, log):
    status, _, err = run(capsys, "cleanup", log.root, "--older-than", "soon")
    assert status == 2
    assert "'soon' is not an age such as '7 days'" in err
    log.checkpoint(8)
    (done,) = answers(capsys, "cleanup", log.root, "--older-than", "100000 days", "--dry-run")
    assert done["reason"] == "no commit is past its retention"


def test_truncate_leaves_the_latest_version(capsys, log):
    (planned,) = answers(capsys, "truncate", log.root, "--dry-run")
    assert (planned["toDelete"], planned["deleted"]) == (12, 0)
    status, out, _ = run(capsys, "truncate", log.root)
    assert status == 0
    assert out.startswith("deleted 12 files")
    status, _, err = run(capsys, "replay", log.root, "--version", 3)
    assert status == 1
    assert "12" in err


def _size(log: LogBuilder) -> str:
    from engine.report.terminal import human_bytes

    return human_bytes(sum(log.commit_path(v).stat().st_size for v in range(11)))
