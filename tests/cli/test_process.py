"""What only a process of its own shows: start, pipes, completion, help."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.cli.conftest import METADATA, PROTOCOL, Log, add

TXLOG = [sys.executable, "-m", "engine.cli"]


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [*TXLOG, *map(str, arguments)]
    env = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False)


@pytest.mark.parametrize("command", ["replay", "files", "history", "diff", "show", "sample"])
def test_help_has_examples(txlog, command):
    answer = txlog(command, "--help")
    assert answer.status == 0
    assert f"$ txlog {command} " in answer.out


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


def test_the_shell_completes_commands_and_engines():
    words = {"_TXLOG_COMPLETE": "complete_bash", "COMP_WORDS": "txlog rep", "COMP_CWORD": "1"}
    assert run(**words).stdout.split() == ["replay"]
    words |= {"COMP_WORDS": "txlog replay t --engine re", "COMP_CWORD": "4"}
    assert run(**words).stdout.split() == ["reference"]


def test_output_is_utf8_whatever_the_locale(log):
    ran = subprocess.run(
        [*TXLOG, "files", str(log)],
        capture_output=True,
        env={**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "latin-1"},
        check=True,
    )
    assert 'c é"\\' in ran.stdout.decode()
