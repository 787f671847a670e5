from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from engine.hive.answers import progress
from engine.hive.cli import app
from engine.hive.finish import holding
from jobs.hive_compact import main


@pytest.fixture
def run(spark):
    runner = CliRunner()

    def call(*arguments, code=0):
        result = runner.invoke(app, list(arguments))
        assert result.exit_code == code, result.output
        return result

    return call


def lines(result):
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def test_a_table_goes_through_every_command(run, lake):
    table = lake.make("t", "one_key")
    (found,) = lines(run("analyze", table, "--json"))
    assert [unit["due"] for unit in found["units"]] == [True, True]
    assert found["taken"] == ["dt=a", "dt=b"]
    (dry,) = lines(run("compact", table, "--dry-run", "--where", "dt = 'a'", "--json"))
    assert (dry["taken"], len(lake.files("t")), lake.debris()) == (["dt=a"], 6, [])

    (report,) = lines(run("compact", table, "--json", "--parallelism", "1"))
    assert (report["files_before"], report["files_after"], report["rows"]) == (6, 2, 12)
    assert report["average_after"] > report["average_before"]
    (again,) = lines(run("compact", table, "--json"))
    assert (again["run"], again["units"]) == ("", [])
    (record,) = lines(run("history", table, "--json"))
    assert (record["outcome"], record["backup"]) == ("committed", report["backup"])

    (dry,) = lines(run("rollback", table, "--dry-run", "--json"))
    assert (dry["outcome"], len(lake.files("t"))) == ("would be rolled back", 2)
    (undone,) = lines(run("rollback", table, "--partition", "dt=b", "--json"))
    assert undone["units"] == ["dt=b"]
    (dry,) = lines(run("cleanup", table, "--dry-run", "--json"))
    assert dry["runs"][0]["outcome"] == "would be cleaned up"
    (cleaned,) = lines(run("cleanup", table, "--json"))
    assert cleaned["runs"][0]["files"] == 3
    (recovered,) = lines(run("recover", table, "--json"))
    assert (recovered["recovered"], lake.debris(), lake.count("t")) == ([], [], 12)


def test_analyze_and_history_recover_first_and_a_dry_run_does_not(run, lake, victim):
    lake.make("t")
    assert victim("compact", "lake.t", die_at="SET_ASIDE", quickly=True)["signal"] == 9
    (dry,) = lines(run("compact", "lake.t", "--dry-run", "--json"))
    assert (dry["recovered"], lake.files("t")) == ([], [])
    (found,) = lines(run("analyze", "lake.t", "--json"))
    assert [item["now"] for item in found["recovered"]] == ["committed"]
    assert (found["units"][0]["files"], lake.count("t")) == (1, 6)
    (record,) = lines(run("history", "lake.t", "--json"))
    assert record["outcome"] == "committed"


def test_one_refused_table_of_a_list_does_not_stop_the_others(run, lake):
    lake.sql("CREATE VIEW lake.v AS SELECT 1 AS one")
    lake.make("t")
    for command in ("analyze", "compact"):
        view, table = lines(run(command, "lake.v", "lake.t", "--json", code=1))
        assert (view["left_alone"], table["table"]) == ("it is a view", "lake.t")
    assert len(lake.files("t")) == 1
    lake.sql("DROP VIEW lake.v")


def test_people_see_tables_with_bars_and_reasons(run, lake):
    lake.make("t")
    assert "▏" in run("analyze", "lake.t").stdout
    assert "3 files became 1" in run("compact", "lake.t").stdout.replace("\n", " ")
    assert "nothing to compact" in run("compact", "lake.t").stdout
    assert "committed" in run("history", "lake.t").stdout
    assert "rolled back" in run("rollback", "lake.t").stdout
    assert "nothing to recover" in run("recover", "lake.t").stdout


def test_a_database_is_all_its_tables_and_the_others_are_named_with_the_reason(run, lake):
    lake.make("a")
    lake.make("b")
    lake.sql("CREATE VIEW lake.v AS SELECT 1 AS one")
    found = {body["table"]: body for body in lines(run("compact", "lake", "--json"))}
    assert found["lake.v"]["left_alone"] == "it is a view"
    assert (found["lake.a"]["files_after"], found["lake.b"]["files_after"]) == (1, 1)
    cleaned = lines(run("cleanup", "lake", "--json"))
    assert sorted(body["table"] for body in cleaned) == ["lake.a", "lake.b"]
    assert lake.debris() == []
    lake.sql("DROP VIEW lake.v")


@pytest.mark.parametrize("command", ["cleanup", "recover"])
def test_a_table_that_fails_does_not_stop_those_after_it(run, lake, doors, command):
    for name in ("a", "b"):
        run("compact", lake.make(name))
    with holding(doors, doors.catalog.table("lake", "a"), "compact", break_lock=False):
        first, second = lines(run(command, "lake", "--json", code=1))
        named = lines(run(command, "lake.a", "--json", code=1))
    assert (first["table"], first["error"]["code"]) == ("lake.a", "HIVE_LOCKED")
    assert (second["table"], [one["error"]["code"] for one in named]) == ("lake.b", ["HIVE_LOCKED"])
    assert (len(second["runs"]) == 1) if command == "cleanup" else (second["recovered"] == [])


def test_a_terminal_is_shown_a_bar_and_a_pipe_is_not(monkeypatch, capsys):
    with progress("lake.t", quiet=False) as advance:
        assert advance is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress("lake.t", quiet=True) as advance:
        assert advance is None
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with progress("lake.t", quiet=False) as advance:
        advance(1, 4, "dt=a")
    shown = capsys.readouterr().err
    assert "lake.t dt=a" in shown
    assert "1/4" in shown


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("analyze", "lake.nope"), "HIVE_NO_TABLE", "knows no such table"),
        (("analyze", "nope"), "HIVE_NO_TABLE", "DATABASE"),
        (("analyze", "a.b.c"), "HIVE_NO_TABLE", "DATABASE.TABLE"),
        (("rollback", "lake.t"), "HIVE_NO_RUN", "history"),
        (("compact", "lake.t", "--swap", "magic"), "CONFIG", "rename or location"),
        (("compact", "lake.t", "--min-age", "soon"), "CONFIG", "s, m, h or d"),
        (("compact", "lake.t", "--block-size", "big"), "CONFIG", "MB"),
        (("analyze", "lake.t", "--where", "dt = 1"), "BAD_WHERE", "no partitions"),
        (("compact", "lake.t", "--conf", "novalue"), "CONFIG", "key=value"),
    ],
)
def test_a_refusal_is_one_line_with_a_code(run, lake, arguments, code, words):
    lake.make("t")
    (body,) = lines(run(*arguments, "--json", code=1))
    assert body["error"]["code"] == code
    assert words in body["error"]["message"]
    said = run(*arguments, code=1).stderr.strip()
    assert said.startswith("error: ")
    assert "\n" not in said


def test_help_shows_examples(run):
    for command in ("analyze", "compact", "rollback", "cleanup", "recover", "history"):
        assert "Examples" in run(command, "--help").stdout


def test_help_needs_neither_spark_nor_arrow():
    code = (
        "import sys; from engine.hive.cli import app\n"
        "try: app(['compact', '--help'])\n"
        "except SystemExit: pass\n"
        "assert not {'pyspark', 'pyarrow', 'py4j'} & set(sys.modules), 'heavy'"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_job_prints_its_report(spark, lake, capsys):
    lake.make("t")
    assert main(["lake.t", "--parallelism", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["files_after"] == 1
    assert main(["lake.nope"]) == 1
    assert main(["--nonsense"]) == 2
