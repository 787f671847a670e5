"""What all jobs share: what they can be asked for, how they answer, how they end."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest

from engine.config import ENGINE
from engine.errors import EmptyLogError
from engine.job import Job, arguments, run

FILES = Path(__file__).parents[2].glob("jobs/[!_]*.py")
# hive_compact takes the arguments of `txlog hive compact`.
JOBS = sorted(path.stem for path in FILES if path.stem != "hive_compact")


def asked(*argv: str):
    return arguments("/jobs/try.py", "Try it.\n\nOften.").parse_args(argv)


@pytest.mark.parametrize("name", JOBS)
def test_every_job_says_what_it_does_and_shares_its_options(name, capsys):
    job = import_module(f"jobs.{name}")
    with pytest.raises(SystemExit) as ended:
        job.main(["--help"])
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith(f"usage: {name}.py ")
    assert job.__doc__.splitlines()[0] in text
    assert all(option in text for option in ("--conf-file", "--json", "--debug"))
    assert ("--dry-run" in text) == (name != "verify")


@pytest.mark.parametrize("name", JOBS)
def test_wrong_usage_is_status_2_before_anything_is_started(name, capsys):
    with pytest.raises(SystemExit) as ended:
        import_module(f"jobs.{name}").main(["--frobnicate"])
    assert ended.value.code == 2
    assert f"{name}.py: error: " in capsys.readouterr().err


def test_an_age_that_is_none_is_wrong_usage(capsys):
    with pytest.raises(SystemExit) as ended:
        import_module("jobs.cleanup").main(["--table", "t", "--older-than", "soon"])
    assert ended.value.code == 2
    assert "--older-than" in capsys.readouterr().err


def test_an_answer_is_an_object_a_line_or_lines(capsys):
    def work(job: Job) -> None:
        job.answer([{"a": 1}, {"b": 2}], ["one\n", "two\n"])

    assert run(asked(), work, on_spark=False) == 0
    assert run(asked("--json"), work, on_spark=False) == 0
    assert capsys.readouterr().out == 'one\ntwo\n{"a":1}\n{"b":2}\n'


def test_a_refusal_is_one_line_and_its_trace_is_for_debug(capsys):
    def work(_: Job) -> None:
        raise EmptyLogError("/t")

    assert run(asked(), work, on_spark=False) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), err.startswith("txlog: /t")) == ("", 1, True)
    assert run(asked("--json"), work, on_spark=False) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "EMPTY_LOG"
    assert run(asked("--debug"), work, on_spark=False) == 1
    assert "Traceback" in capsys.readouterr().err


def test_settings_come_from_a_file(tmp_path, capsys):
    conf = tmp_path / "txlog.toml"
    conf.write_text('"spark.txlog.engine" = "reference"\n')

    def work(job: Job) -> int:
        return 7 if job.config[ENGINE] == "reference" else 8

    assert run(asked("--conf-file", str(conf)), work, on_spark=False) == 7
    assert run(asked("--conf-file", str(tmp_path / "none")), work, on_spark=False) == 1
    assert "a readable file" in capsys.readouterr().err


def test_the_work_has_a_status_of_its_own():
    assert run(asked(), lambda _: 1, on_spark=False) == 1
