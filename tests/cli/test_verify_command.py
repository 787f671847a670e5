"""`txlog verify`: what it prints, and what its exit status says."""

from __future__ import annotations

import json
import os
import time

import pytest

from engine.cli import main
from jobs import repair as job
from tests.upkeep.defects import sound_log


def test_a_sound_table_is_told_in_two_lines_and_exits_with_0(tmp_path, capsys):
    log = sound_log(tmp_path)
    assert main(["verify", str(log.root), "--deep", "--quiet"]) == 0
    table, checked, verdict = capsys.readouterr().out.splitlines()
    assert table == str(log.root)
    assert checked.startswith("checked 7 commits, 25 actions, 2 checkpoints, 2 compactions, ")
    assert verdict.startswith("version 6 is sound: 0 errors, 0 warnings, ")


def test_an_error_exits_with_1_and_says_what_to_do(tmp_path, capsys):
    log = sound_log(tmp_path)
    log.hint(4)
    assert main(["verify", str(log.root)]) == 1
    out = capsys.readouterr().out
    assert "error   HINT_DANGLING" in out
    assert "-> the commits are sound: txlog repair --derived writes it anew" in out
    assert "version 6 is NOT SOUND: 1 error" in out


def test_a_warning_exits_with_0(tmp_path, capsys):
    log = sound_log(tmp_path)
    log.hint(b"garbage")
    assert main(["verify", str(log.root), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["sound"] is True
    assert [f["code"] for f in answer["findings"] if f["severity"] == "warning"] == [
        "HINT_UNREADABLE"
    ]
    assert set(answer) >= {"table", "version", "sound", "checked", "findings", "seconds"}


def test_a_path_without_a_log_is_refused(tmp_path, capsys):
    assert main(["verify", str(tmp_path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "NO_LOG"


def test_a_repair_tells_what_it_kept_and_what_was_lost(tmp_path, capsys):
    log = sound_log(tmp_path)
    next(iter(log.directory.glob("*4.*6.compacted.json"))).unlink()
    log.commit_path(6).write_bytes(b"{")
    target = tmp_path / "new"
    assert main(["repair", str(log.root), "--to", str(target)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"wrote version 5 of {log.directory}\nto {target}/_delta_log\n")
    assert "kept    3 files, 2 txns, 1 domains\n" in out
    assert "lost    version 6: line 1" in out
    assert "paths   relative: the log is to lie where the old one does" in out
    assert out.endswith("version 1 of the new log is sound\n")
    assert main(["repair", str(log.root), "--to", str(target), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "TARGET_NOT_EMPTY"


def test_what_a_repair_has_written_is_sound_without_a_remark(tmp_path, capsys):
    log = sound_log(tmp_path)
    target = tmp_path / "new"
    assert main(["repair", str(log.root), "--to", str(target), "--paths", "absolute"]) == 0
    assert "paths   relative" not in capsys.readouterr().out
    first = target / "_delta_log" / f"{0:020d}.json"
    os.utime(first, ns=(time.time_ns() + 10**10,) * 2)  # as after a repair that took a while
    assert main(["verify", str(target)]) == 0
    assert "TIME_BACKWARDS" not in capsys.readouterr().out


def test_a_repair_that_proves_nothing_is_refused(tmp_path, capsys):
    log = sound_log(tmp_path)
    log.clean_up(6)
    for path in log.directory.glob("*.checkpoint*"):
        path.unlink()
    target = tmp_path / "new"
    assert main(["repair", str(log.root), "--to", str(target), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "NOT_PROVABLE"
    assert not target.exists()


def test_derived_files_are_mended_in_place(tmp_path, capsys):
    log = sound_log(tmp_path)
    log.hint(4)
    assert main(["repair", str(log.root), "--derived", "--dry-run"]) == 0
    assert "planned   hint" in capsys.readouterr().out
    assert main(["repair", str(log.root), "--derived"]) == 0
    assert "recreated hint       _last_checkpoint: it names checkpoint 4" in capsys.readouterr().out
    assert main(["repair", str(log.root), "--derived"]) == 0
    assert "nothing to mend" in capsys.readouterr().out


def test_a_repair_needs_to_know_where(tmp_path, capsys):
    log = sound_log(tmp_path)
    assert main(["repair", str(log.root)]) == 2
    assert main(["repair", str(log.root), "--derived", "--to", str(tmp_path / "x")]) == 2
    assert "--to TARGET or --derived" in capsys.readouterr().err


@pytest.mark.parametrize("option", [("--version", "3"), ("--deep",), ("--paths", "absolute")])
def test_what_a_repair_in_place_would_not_heed_is_refused(tmp_path, capsys, option):
    log = sound_log(tmp_path)
    log.hint(4)
    assert main(["repair", str(log.root), "--derived", *option]) == 2
    assert "and not of --derived" in capsys.readouterr().err
    with pytest.raises(SystemExit) as left:
        job.main(["--table", str(log.root), "--derived", *option])
    assert left.value.code == 2
    assert json.loads(log.file("_last_checkpoint").read_bytes())["version"] == 4
