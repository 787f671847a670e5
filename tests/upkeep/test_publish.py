"""Staged files become log files once, the hint follows, and dead runs leave nothing for long."""

from __future__ import annotations

import json

import pytest

from engine import open_log
from engine.errors import StorageError
from engine.log.hint import parse_hint
from engine.log.listing import read_hint
from engine.log.paths import HINT
from engine.storage.local import LocalStorage
from engine.upkeep.publish import STAGING, expired_runs, move_hint, new_staging, remove_leftovers
from tests.logs import LogBuilder

NOW = 1_700_000_000_000
HOUR = 3_600_000


@pytest.fixture
def directory(tmp_path):
    LogBuilder(tmp_path / "table").start()
    return open_log(str(tmp_path / "table")).directory


def stage(directory, name: str = "0.parquet", data: bytes = b"x", now_ms: int = NOW):
    staging = new_staging(directory, now_ms)
    with directory.storage.open_output(staging.path(name)) as file:
        file.write(data)
    return staging


def names(directory, inside: str = "") -> set[str]:
    where = f"{directory.path}/{inside}" if inside else directory.path
    try:
        found = directory.storage.list_from(where)
        return {file.name for file in found} | set(directory.storage.list_directories(where))
    except FileNotFoundError:
        return set()


def test_a_staged_file_is_no_part_of_the_log(directory):
    before = open_log(directory.table_url).snapshot().summary()
    stage(directory, "0.json", b"not an action")
    after = open_log(directory.table_url).snapshot().summary()
    assert (after["segment"], after["fallbacks"]) == (before["segment"], [])


def test_a_published_file_has_its_name_and_the_staged_one_is_gone(directory):
    staging = stage(directory, data=b"content")
    assert staging.publish("0.parquet", "00000000000000000000.checkpoint.parquet")
    path = directory.file("00000000000000000000.checkpoint.parquet")
    assert directory.storage.read(path) == b"content"
    staging.clear()
    assert STAGING not in names(directory)


def test_a_name_that_is_taken_stays_as_it_is(directory):
    final = "00000000000000000000.checkpoint.parquet"
    assert stage(directory, data=b"first").publish("0.parquet", final)
    second = stage(directory, data=b"second")
    assert not second.publish("0.parquet", final)
    assert directory.storage.read(directory.file(final)) == b"first"
    assert names(directory, f"{STAGING}/{second.run}") == set()


def test_a_write_that_fails_leaves_nothing(directory):
    staging = new_staging(directory, NOW)
    with pytest.raises(RuntimeError), directory.storage.open_output(staging.path("0")) as file:
        file.write(b"half")
        raise RuntimeError
    assert names(directory, f"{STAGING}/{staging.run}") == set()


def test_folders_of_dead_runs_are_removed_after_a_safe_age(directory):
    old, new = stage(directory, now_ms=NOW - 2 * HOUR), stage(directory, now_ms=NOW)
    assert remove_leftovers(directory, now_ms=NOW, safe_age_ms=HOUR) == [old.run]
    assert names(directory, STAGING) == {new.run}
    assert remove_leftovers(directory, now_ms=NOW, safe_age_ms=HOUR) == []


def test_what_is_not_the_name_of_a_run_is_kept():
    assert expired_runs(["notes", "-1", "0000000000001-aa"], now_ms=NOW, safe_age_ms=0) == [
        "0000000000001-aa"
    ]


def published(directory, version: int) -> None:
    path = directory.file(f"{version:020d}.checkpoint.parquet")
    directory.storage.write_new(path, b"PAR1")


def hinted(directory) -> int:
    hint, fallback = read_hint(directory)
    assert fallback is None
    assert hint is not None
    return hint.version


def test_the_hint_moves_forward_only(directory):
    published(directory, 5)
    assert move_hint(directory, {"version": 5, "size": 1}, checksum=True)
    assert not move_hint(directory, {"version": 4, "size": 1}, checksum=True)
    assert move_hint(directory, {"version": 5, "size": 2}, checksum=True)
    assert not move_hint(directory, {"version": 5, "size": 3}, checksum=True, only_forward=True)
    assert hinted(directory) == 5


def test_a_hint_to_what_is_not_there_does_not_stay(directory):
    published(directory, 5)
    directory.storage.replace(directory.file(HINT), b'{"version": 1000000, "size": 1}')
    assert move_hint(directory, {"version": 5, "size": 1}, checksum=True)
    assert hinted(directory) == 5


def test_a_hint_that_cannot_be_read_now_is_not_overwritten(directory, monkeypatch):
    published(directory, 9)
    move_hint(directory, {"version": 9, "size": 1}, checksum=True)
    plain = LocalStorage.read

    def unreadable(storage, path):
        if path.endswith(HINT):
            raise StorageError(path, "timed out")
        return plain(storage, path)

    published(directory, 5)
    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "read", unreadable)
        assert not move_hint(directory, {"version": 5, "size": 1}, checksum=True)
    assert hinted(directory) == 9


@pytest.mark.parametrize("failing", ["list after the write", "list before it", "write"])
def test_a_storage_that_fails_under_the_hint_fails_no_checkpoint(directory, monkeypatch, failing):
    published(directory, 5)
    published(directory, 9)
    if failing == "list before it":
        move_hint(directory, {"version": 9, "size": 1}, checksum=True)

    def fails(*_):
        raise StorageError(directory.path, "timed out")

    monkeypatch.setattr(LocalStorage, "replace" if failing == "write" else "list_from", fails)
    moved = move_hint(directory, {"version": 5, "size": 1}, checksum=True)
    monkeypatch.undo()
    assert moved == (failing == "list after the write")
    if failing != "write":
        assert hinted(directory) == (5 if moved else 9)


def test_of_two_writers_the_one_with_the_older_checkpoint_does_not_have_the_last_word(
    directory, monkeypatch
):
    published(directory, 5)
    plain, others = LocalStorage.replace, [9, 7]

    def overtaken(storage, path, data):
        if others:
            published(directory, other := others.pop())
            plain(storage, path, b'{"version": %d, "size": 1}' % other)
        plain(storage, path, data)

    monkeypatch.setattr(LocalStorage, "replace", overtaken)
    assert move_hint(directory, {"version": 5, "size": 1}, checksum=True)
    assert hinted(directory) == 9


def test_a_broken_hint_is_replaced_and_the_new_one_has_a_checksum(directory):
    directory.storage.replace(directory.file(HINT), b"{broken")
    assert move_hint(directory, {"version": 3, "size": 1}, checksum=True)
    data = directory.storage.read(directory.file(HINT))
    assert "checksum" in json.loads(data)
    assert not isinstance(parse_hint(data), str)
