"""What only a process of its own shows: start, pipes, completion, help."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import fields

import pytest
import typer

from engine.cli import app
from engine.sample import SampleSpec
from engine.sample.spec import CHECKPOINT_KINDS
from tests.cli.conftest import METADATA, PROTOCOL, Log, add

TXLOG = [sys.executable, "-m", "engine.cli"]


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [*TXLOG, *map(str, arguments)]
    env = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False)


COMMANDS = [info.name or info.callback.__name__ for info in app.registered_commands]
WRITES = set(COMMANDS) - {"files", "history", "diff", "show", "verify"}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_and_what_all_commands_share(txlog, command):
    answer = txlog(command, "--help")
    assert answer.status == 0
    assert f"txlog {command} " in answer.out.partition("Examples:")[2]
    assert all(option in answer.out for option in ("--json", "--quiet", "--debug"))
    assert ("--dry-run" in answer.out) == (command in WRITES)
    # A sample is made of nothing, by nobody's settings.
    assert ("--conf-file" in answer.out) == (command != "sample")


def test_the_help_of_sample_tells_what_holds_where_nothing_is_given():
    command = typer.main.get_command(app).commands["sample"]
    told = {option.name: option.show_default for option in command.params}
    for field in fields(SampleSpec):
        if field.name not in {"checkpoint_at", "cleaned"}:  # which are off
            value = field.default
            wanted = f"{value:g}" if isinstance(value, float) else str(value)
            assert told[field.name] == ("--stats" if value is True else wanted), field.name


@pytest.mark.parametrize("log_format", CHECKPOINT_KINDS)
def test_the_help_of_sample_names_every_kind_of_checkpoint(log_format):
    command = typer.main.get_command(app).commands["sample"]
    (told,) = [option.help for option in command.params if option.name == "checkpoint_kind"]
    assert set(CHECKPOINT_KINDS[log_format]) <= set(re.findall(r"[\w-]+", told))


@pytest.mark.parametrize("command", ["cleanup", "truncate"])
def test_what_deletes_says_so_of_its_dry_run(txlog, command):
    assert "say what would be deleted" in txlog(command, "--help").out


def test_help_lists_the_commands(txlog):
    answer = txlog("--help")
    assert answer.status == 0
    assert all(name in answer.out for name in ("replay", "files", "history", "diff", "show"))
    assert txlog().status == 2


def test_the_version_of_txlog(txlog):
    assert txlog("--version").out.startswith("txlog 0.")


def test_a_local_replay_loads_no_spark_and_no_s3(log):
    program = (
        "import sys; from engine.cli import main; "
        f"assert main(['replay', {str(log)!r}, '--json', '--engine', 'auto']) == 0; "
        "heavy = {'pyspark', 'py4j', 's3fs', 'fsspec'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_a_closed_pipe_is_quiet(tmp_path):
    log = Log(tmp_path / "many").commit(0, PROTOCOL, METADATA)
    log.commit(1, *(add(f"{'long/' * 20}{n}") for n in range(30_000)))
    for flags in ("", "--json"):
        line = (
            f"set -o pipefail; '{sys.executable}' -m engine.cli files '{log}' {flags} | head -n 1"
        )
        ran = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert ran.stdout.count("\n") == 1


@pytest.mark.parametrize("arguments", [("--help",), ("replay", "--help"), ()])
def test_a_help_that_is_not_read_to_its_end_is_quiet(arguments):
    line = f"set -o pipefail; '{sys.executable}' -m engine.cli {' '.join(arguments)} | true"
    ran = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def shell(line: str) -> subprocess.CompletedProcess[str]:
    command = f"'{sys.executable}' -m engine.cli {line}"
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("flag", ["", "--json"])
def test_an_answer_that_finds_no_room_is_told_in_one_line(log, flag):
    ran = shell(f"files '{log}' {flag} >/dev/full")
    assert (ran.returncode, ran.stderr) == (1, "txlog: stdout: no space left on device\n")


def test_a_refusal_that_finds_no_room_is_told_all_the_same(tmp_path):
    ran = shell(f"replay '{tmp_path}' --json >/dev/full")
    assert ran.returncode == 1
    assert ran.stderr.startswith(f"txlog: {tmp_path}: no transaction log here")
    assert ran.stderr.count("\n") == 1


def test_a_refusal_that_nobody_reads_has_its_status(tmp_path):
    assert (shell(f"replay '{tmp_path}' 2>/dev/full").returncode) == 1
    assert (shell("nothing 2>&-").returncode) == 2
    gone = shell(f"replay '{tmp_path}' --json | true; exit ${{PIPESTATUS[0]}}")
    assert (gone.returncode, gone.stderr) == (1, "")


def test_a_closed_stdout_wants_no_answer(log):
    ran = shell(f"replay '{log}' >&-")
    assert (ran.returncode, ran.stderr) == (0, "")


def test_without_pyspark_the_engine_spark_says_what_to_install(log):
    commands = ["replay", "checkpoint", "verify"]
    program = (
        "import sys; sys.modules['pyspark'] = None; from engine.cli import main; "
        f"print([main([name, {str(log)!r}, '--engine', 'spark']) for name in {commands}])"
    )
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.stdout == "[1, 1, 1]\n", ran.stderr
    assert ran.stderr.count("there is no pyspark: pip install 'txlog-engine[spark]'\n") == 3
    assert ran.stderr.count("\n") == 3


def test_the_shell_completes_commands_and_engines():
    words = {"_TXLOG_COMPLETE": "complete_bash", "COMP_WORDS": "txlog rep", "COMP_CWORD": "1"}
    assert run(**words).stdout.split() == ["replay", "report", "repair"]
    words |= {"COMP_WORDS": "txlog replay t --engine re", "COMP_CWORD": "4"}
    assert run(**words).stdout.split() == ["reference"]
    words |= {"COMP_WORDS": "txlog verify t --engine s", "COMP_CWORD": "4"}
    assert run(**words).stdout.split() == ["spark"]


def test_output_is_utf8_whatever_the_locale(log):
    ran = subprocess.run(
        [*TXLOG, "files", str(log)],
        capture_output=True,
        env={**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "latin-1"},
        check=True,
    )
    assert 'c é"\\' in ran.stdout.decode()
