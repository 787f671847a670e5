"""Who may work on a table, and who only looks at it. No JVM is needed to tell."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace

import pytest

from engine.errors import HiveLockedError
from engine.hive import lock as locks
from engine.hive.files import Files
from engine.hive.journal import Event, Journal, forget, open_journal


class Disk(Files):
    """The file system without a JVM: a local disk needs none."""

    def __init__(self):
        self.broken = 0

    def write(self, path, text):
        if self.broken:
            self.broken -= 1
            raise OSError(5, "Input/output error")
        super().write(path, text)


@pytest.fixture
def take(tmp_path):
    def take(files=None, now=1):
        return locks.acquire(
            files or Disk(), f"file:{tmp_path}", table="t", command="c", clock=lambda: now
        )

    return take


def test_a_process_of_another_container_with_this_hosts_name_is_not_taken_for_dead(
    tmp_path, take, monkeypatch
):
    me = locks.this_process()
    gone = replace(me, pid=2**22 + 1)
    assert locks.is_dead(gone)
    assert not locks.is_dead(replace(gone, space="pid:[1]"))
    take()
    holder = json.loads((tmp_path / "lock" / "00000001.json").read_text())
    assert (holder["pid"], holder["space"]) == (os.getpid(), me.space)
    monkeypatch.setattr(locks, "_space", lambda: "pid:[1]")
    monkeypatch.setattr(locks, "_started", lambda pid: "gone")
    with pytest.raises(HiveLockedError):
        take()


def test_a_beat_that_fails_is_followed_by_the_next(tmp_path, take, monkeypatch):
    monkeypatch.setattr(locks, "LEASE_MS", 15)  # a beat every five milliseconds
    disk = Disk()
    lock = take(disk)
    disk.broken = 2
    with locks.beating(lock, lambda: 7):
        ended = time.monotonic() + 10
        while not list((tmp_path / "lock").glob("*.beat*")) and time.monotonic() < ended:
            time.sleep(0.005)
    assert disk.broken == 0
    assert (tmp_path / "lock" / "00000001.beat1").read_text() == "7"


def test_a_beat_cut_short_does_not_make_its_owner_silent(tmp_path, take):
    lock = take()
    for now in (locks.LEASE_MS, 2 * locks.LEASE_MS):
        lock.beat(now)
    (tmp_path / "lock" / "00000001.beat0").write_text("")
    with pytest.raises(HiveLockedError):
        take(now=2 * locks.LEASE_MS)
    assert take(now=3 * locks.LEASE_MS).epoch == 2


@pytest.mark.parametrize("gone", [True, False])
def test_a_journal_that_is_forgotten_while_somebody_looks_is_no_run_and_no_error(tmp_path, gone):
    directory = f"file:{tmp_path}/run"

    class Slow(Disk):
        def read(self, path):
            if gone:
                forget(Disk(), directory)
            if path.endswith("2.json"):
                raise FileNotFoundError(path)
            return super().read(path)

    journal = Journal(Disk(), directory)
    for event in (Event.RUN, Event.COMMITTED, Event.PURGE):
        journal.record(event, swap="rename")
    if gone:
        assert open_journal(Slow(), directory)[1] == ()
    else:
        with pytest.raises(FileNotFoundError):
            open_journal(Slow(), directory)
