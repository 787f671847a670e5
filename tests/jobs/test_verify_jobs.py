"""`jobs/verify.py` and `jobs/repair.py`: what they print, and what their status says."""

from __future__ import annotations

import json

from jobs import repair, verify
from tests.upkeep.defects import sound_log


def test_tables_are_verified_one_after_the_other(tmp_path, capsys):
    sound, damaged = sound_log(tmp_path / "a"), sound_log(tmp_path / "b")
    assert verify.main(["--table", str(sound.root), "--deep"]) == 0
    assert "version 6 is sound" in capsys.readouterr().out
    damaged.hint(4)
    tables = ["--table", str(damaged.root), "--table", str(tmp_path), "--table", str(sound.root)]
    assert verify.main([*tables, "--json"]) == 1
    first, second, third = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["sound"], third["sound"]) == (False, True)
    assert second["error"]["code"] == "NO_LOG"


def test_a_table_is_repaired_elsewhere_or_in_place(tmp_path, capsys):
    log = sound_log(tmp_path)
    log.hint(4)
    target = str(tmp_path / "new")
    assert repair.main(["--table", str(log.root), "--to", target, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "repaired"
    assert repair.main(["--table", str(log.root), "--to", target]) == 1
    assert "name a target that is empty" in capsys.readouterr().err
    assert repair.main(["--table", str(log.root), "--derived"]) == 0
    assert "recreated hint" in capsys.readouterr().out
