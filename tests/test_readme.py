"""What the README shows is what happens: its commands and its Python are run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine.config import SETTINGS

PROJECT = Path(__file__).parent.parent
README = (PROJECT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def examples(block: str) -> list[tuple[str, list[str]]]:
    """Every `$ command` of a block with the lines it shows."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


FIELDS = (
    {"name": name, "type": "string", "nullable": True, "metadata": {}} for name in ("id", "day")
)
SCHEMA = json.dumps({"type": "struct", "fields": list(FIELDS)})

CONSOLE = [examples(block) for block in blocks("console")]
SAMPLE = CONSOLE[0].pop(0)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A directory to run in, with `txlog` on the path, and the README's sample in it."""
    home = tmp_path_factory.mktemp("readme")
    (home / "bin").mkdir()
    command = home / "bin" / "txlog"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m engine.cli "$@"\n')
    command.chmod(0o755)
    (home / "schema.json").write_text(SCHEMA)
    (home / "sample.txt").write_text(run(SAMPLE[0], home).stdout)
    return home


def run(command: str, home: Path) -> subprocess.CompletedProcess[str]:
    path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(PROJECT)}
    return subprocess.run(
        command, shell=True, cwd=home, env=env, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def loosely(lines: list[str]) -> list[str]:
    """Lines without what differs between machines: seconds, and where the table is."""
    plain = (re.sub(r"\d+\.\d+ s\b", "0 s", line.rstrip()) for line in lines)
    return [re.sub(r"(/\S+)?/(events|visits)", r"\2", line) for line in plain]


@pytest.mark.parametrize("number", range(len(CONSOLE)))
def test_commands_print_what_the_readme_shows(home, number):
    for command, shown in CONSOLE[number]:
        ran = run(command, home)
        assert loosely(ran.stdout.splitlines()) == loosely(shown)
        refused = bool(shown) and shown[0].startswith("txlog: ")
        assert ran.returncode == (1 if refused else 0)


def test_the_sample_is_the_one_the_readme_shows(home):
    assert (home / "sample.txt").read_text().splitlines() == SAMPLE[1]


def test_the_example_that_writes_runs(home):
    example = blocks("python")[1]
    (home / "write.py").write_text(example)
    ran = run(f'"{sys.executable}" write.py', home)
    assert ran.returncode == 0, ran.stdout
    assert ran.stdout == "['b.parquet', 'c.parquet']\n"


def test_the_python_example_runs(home):
    example = blocks("python")[0]
    assert sum(bool(line.strip()) for line in example.splitlines()) <= 10
    script = home / "example.py"
    script.write_text(example)
    ran = run(f'"{sys.executable}" example.py', home)
    assert ran.returncode == 0, ran.stdout
    assert ran.stdout.splitlines()[0] == "999 7003"
    assert ran.stdout.splitlines()[2] == "94 added, 31 removed"


def test_every_make_target_the_readme_names_is_there():
    named = set(re.findall(r"\bmake ([a-z]+)\b", "".join(blocks("sh"))))
    named |= set(re.findall(r"`make ([a-z]+)`", README))
    targets = re.findall(r"^([a-z]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    assert {"replay", "test"} <= named <= set(targets)


def test_every_setting_the_readme_names_is_there():
    assert set(re.findall(r"`(spark\.[\w.]+)`", README)) <= set(SETTINGS)


def test_every_command_the_readme_names_is_there():
    from typer.main import get_command

    from engine.cli import app

    named = set(re.findall(r"`txlog ([a-z]+) ", README))
    assert named == set(get_command(app).commands)  # type: ignore[attr-defined]


def test_every_file_the_readme_links_to_is_there():
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (PROJECT / target).exists(), target
