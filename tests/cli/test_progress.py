"""A person who waits is shown how far it is; a program, and who asked for quiet, is not."""

from __future__ import annotations

from threading import Timer

import pytest

from engine import open_log
from tests.logs import LogBuilder

COMMANDS = {
    "replay": ("replay",),
    "files": ("files",),
    "checkpoint": ("checkpoint",),
    "verify": ("verify",),
    "compact": ("compact",),
    "cleanup": ("cleanup",),
    "truncate": ("truncate",),
    "repair": ("repair", "--derived"),
    "maintain": ("maintain",),
}
SHOWN_AS = {"files": "replay", "maintain": "tables"}


class AtOnce(Timer):
    """Waits for nothing."""

    def start(self) -> None:
        self.function()

    def join(self, timeout: float | None = None) -> None:
        pass


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as good as a terminal, to rich
    monkeypatch.setenv("TERM", "xterm")


@pytest.fixture
def table(tmp_path):
    return LogBuilder(tmp_path / "t").start().filler(12).root


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("name", COMMANDS)
def test_long_work_shows_its_progress_in_a_terminal(txlog, table, monkeypatch, name):
    monkeypatch.setattr("engine.report.progress.Timer", AtOnce)
    command, *options = COMMANDS[name]
    answer = txlog(command, table, *options)
    assert answer.status == 0
    assert SHOWN_AS.get(name, name) in answer.err


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("name", COMMANDS)
def test_quiet_shows_none(txlog, table, monkeypatch, name):
    monkeypatch.setattr("engine.report.progress.Timer", AtOnce)
    command, *options = COMMANDS[name]
    assert txlog(command, table, *options, "--quiet").err == ""


@pytest.mark.usefixtures("terminal")
def test_what_is_done_at_once_shows_none(txlog, table):
    for command in ("files", "checkpoint", "verify", "cleanup"):
        assert txlog(command, table).err == ""


@pytest.mark.parametrize("name", COMMANDS)
def test_a_pipe_is_shown_none(txlog, table, monkeypatch, name):
    monkeypatch.setattr("engine.report.progress.Timer", AtOnce)
    command, *options = COMMANDS[name]
    assert txlog(command, table, *options).err == ""


@pytest.mark.parametrize("work", ["verify", "compact", "checkpoint"])
def test_what_is_done_adds_up_to_what_there_was_to_do(table, work):
    totals, done = [], []

    def begin(total):
        totals.append(getattr(total, "size_bytes", total))  # of a segment, or of bytes
        return done.append

    getattr(open_log(str(table)), work)(progress=begin)
    assert totals == [sum(done)]
    assert totals[0] > 0
