"""A version checksum is written beside a commit, and tells when a replay finds something else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from engine import open_log
from engine.config import Config
from tests.commit.conftest import SCHEMA

if TYPE_CHECKING:
    from pathlib import Path

ON = Config(options={"spark.databricks.delta.writeChecksumFile.enabled": True})


@pytest.fixture
def log(tmp_path: Path):
    found = open_log(str(tmp_path / "t"), ON)
    found.initialize(SCHEMA)
    found.add_files([{"path": "a", "size": 10}, {"path": "b", "size": 20}], txn=("app", 3))
    found.remove_files(["a"])
    return found


def crc(log: Any, version: int) -> Path:
    from pathlib import Path

    return Path(log.directory.path) / f"{version:020d}.crc"


def test_every_commit_has_one_and_it_says_what_the_version_holds(log) -> None:
    said = orjson.loads(crc(log, 2).read_bytes())
    assert (said["numFiles"], said["tableSizeBytes"]) == (1, 20)
    assert (said["numMetadata"], said["numProtocol"]) == (1, 1)
    assert said["setTransactions"][0]["version"] == 3
    assert said["metadata"]["id"] == log.snapshot().metadata["id"]
    assert orjson.loads(crc(log, 1).read_bytes())["numFiles"] == 2


def test_one_that_agrees_is_not_worth_a_word_and_one_that_contradicts_is_reported(log) -> None:
    table = log.directory.table_url
    assert not open_log(table).snapshot().fallbacks
    path = crc(log, 2)
    said = orjson.loads(path.read_bytes())
    path.write_bytes(orjson.dumps({**said, "numFiles": 7}))
    found = open_log(table).snapshot()
    assert found.files().num_rows == 1
    assert [fallback.what for fallback in found.fallbacks] == ["checksum"]
    assert "numFiles is 7" in found.fallbacks[0].reason


def test_one_that_cannot_be_read_is_reported_and_does_no_harm(log) -> None:
    crc(log, 2).write_bytes(b"{")
    found = open_log(log.directory.table_url).snapshot()
    assert found.files().num_rows == 1
    assert "not JSON" in found.fallbacks[0].reason


def test_one_that_is_there_is_never_overwritten(log) -> None:
    crc(log, 3).write_bytes(b"{}")
    done = log.add_files([{"path": "c", "size": 1}])
    assert not done.hook_failures
    assert crc(log, 3).read_bytes() == b"{}"


def test_none_is_written_where_none_is_asked_for(tmp_path: Path) -> None:
    found = open_log(str(tmp_path / "t"))
    found.initialize(SCHEMA)
    found.add_files([{"path": "a", "size": 10}])
    assert not list((tmp_path / "t").rglob("*.crc"))


def contradict(log: Any, version: int) -> None:
    path = crc(log, version)
    path.write_bytes(orjson.dumps({**orjson.loads(path.read_bytes()), "numFiles": 7}))


def test_an_older_version_is_held_against_its_own(log) -> None:
    contradict(log, 1)
    opened = open_log(log.directory.table_url)
    opened.snapshot()
    found = opened.snapshot(1)
    assert [fallback.what for fallback in found.fallbacks] == ["checksum"]
    assert "numFiles is 7" in found.fallbacks[0].reason
    assert opened.snapshot(1).fallbacks == found.fallbacks
    assert not opened.snapshot(0).fallbacks


def test_after_a_refresh_only_the_new_version_s_own_is_told_of(log) -> None:
    contradict(log, 2)
    opened = open_log(log.directory.table_url)
    assert opened.snapshot().fallbacks
    log.add_files([{"path": "c", "size": 5}])
    assert opened.snapshot().version == 3
    assert not opened.snapshot().fallbacks
    log.add_files([{"path": "d", "size": 5}])
    contradict(log, 4)
    assert "numFiles is 7" in opened.snapshot().fallbacks[0].reason
