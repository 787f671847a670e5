"""Every golden table, at every version it tells of: the right state or the right refusal."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import pytest

from engine import Config, ReplayError, open_log
from tests.golden.cases import MISSING, TABLES, Case, cases, differences, forced_state, state_of

pytestmark = [pytest.mark.golden, pytest.mark.skipif(not TABLES, reason=MISSING)]
each_table = pytest.mark.parametrize("table", TABLES)


@each_table
@pytest.mark.parametrize("engine", ["local", "reference"])
def test_the_library_gives_the_right_state_or_the_right_refusal(table: str, engine: str) -> None:
    for case in cases(table):
        try:
            snapshot = open_log(case.path).snapshot(case.version, engine=engine)
            summary, files = snapshot.summary(), snapshot.files()
        except ReplayError as refusal:
            case.check_refusal(refusal.code, str(refusal))
        else:
            assert snapshot.engine == engine
            assert summary["numFiles"] == files.num_rows
            unique = files["dvId"].to_pylist()
            case.check_state(summary, zip(files["path"].to_pylist(), unique, strict=True))


@each_table
def test_the_command_line_gives_the_right_state_or_the_right_refusal(table: str) -> None:
    for case in cases(table):
        code, lines = run("replay", case)
        files_code, files = run("files", case)
        assert code == files_code
        if code:
            for answer in (lines, files):
                assert [list(line) for line in answer] == [["error"]]
                case.check_refusal(answer[0]["error"]["code"], answer[0]["error"]["message"])
        else:
            assert len(lines) == 1
            assert lines[0]["numFiles"] == len(files)
            case.check_state(lines[0], [(file["path"], file["dvId"]) for file in files])


@pytest.mark.parametrize("table", [table for table in TABLES if forced_state(table)])
def test_a_refusal_overridden_on_purpose_gives_what_replay_gives(table: str) -> None:
    config = Config(options={"spark.indextables.protocol.checkEnabled": False})
    snapshot = open_log(Case(table, None).path, config).snapshot()
    files = snapshot.files()
    got = state_of(
        snapshot.summary(), zip(files["path"].to_pylist(), files["dvId"].to_pylist(), strict=True)
    )
    assert not differences(got, forced_state(table) or {})


def run(command: str, case: Case) -> tuple[int, list[dict[str, Any]]]:
    """Run a command in this process; return its exit code and its JSON lines."""
    from engine.cli import main

    version = [] if case.version is None else ["--version", str(case.version)]
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        code = main([command, case.path, "--json", "--engine", "local", *version])
    return code, [json.loads(line) for line in output.getvalue().splitlines()]
