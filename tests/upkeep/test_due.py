"""What is due is decided by a table's own log, without reading much of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from engine import open_log
from engine.config import Config
from engine.errors import CorruptCheckpointError
from engine.upkeep.fleet.due import Condition, due, look
from tests.logs import LogBuilder, Shape, add, metadata, protocol

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_700_000_000_000
DAY = 24 * 3600 * 1000
INTERVAL = "spark.indextables.checkpoint.interval"
COMPACTIONS = "spark.databricks.delta.deltaLog.minorCompaction.useForWrites"


def looked(log: LogBuilder, *, deep: bool = False, **options: Any) -> Condition:
    opened = open_log(str(log.root), Config(options=options))
    return look(opened.directory, opened.listing(), opened.config, deep=deep)


def tasks(log: LogBuilder, *, deep: bool = False, **options: Any) -> list[str]:
    """Return why checkpoints are due."""
    found = due(looked(log, deep=deep, **{COMPACTIONS: False, **options}), now_ms=NOW)
    assert all(task.name == "checkpoint" for task in found)
    return [task.reason for task in found]


def test_a_checkpoint_is_due_every_so_many_commits(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).start()
    log.filler(8)
    assert tasks(log) == []
    log.filler(1)
    assert tasks(log) == ["10 commits and no checkpoint; one is due every 10"]
    log.checkpoint(9)
    assert tasks(log) == []
    log.filler(10)
    assert tasks(log) == ["10 commits since checkpoint 9; one is due every 10"]


def test_the_interval_is_the_tables_own(tmp_path: Path) -> None:
    properties = metadata(configuration={"delta.checkpointInterval": "3"})
    log = LogBuilder(tmp_path)
    log.commit(protocol(), properties)
    log.filler(2)
    assert tasks(log) == ["3 commits and no checkpoint; one is due every 3"]


def test_the_interval_of_indextables_is_a_setting(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path, "indextables").start().filler(3)
    assert tasks(log) == []
    assert tasks(log, **{INTERVAL: 4}) == ["4 commits and no checkpoint; one is due every 4"]
    assert tasks(log, **{INTERVAL: 4, "spark.indextables.checkpoint.enabled": False}) == []


def test_the_more_commits_the_more_urgent(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).start().filler(24)
    (task,) = due(looked(log), now_ms=NOW)
    assert task.urgency == 2.5


def test_a_damaged_checkpoint_is_due_at_once(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).start().filler(3)
    log.checkpoint(3)
    path = log.directory / "00000000000000000003.checkpoint.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    (task,) = due(looked(log), now_ms=NOW)
    assert task.reason.startswith("damaged: checkpoint 00000000000000000003.checkpoint.parquet")
    assert task.urgency == math.inf


def test_an_older_damaged_checkpoint_is_nobodys_concern(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).start().filler(3)
    log.checkpoint(1)
    log.checkpoint(3)
    (log.directory / "00000000000000000001.checkpoint.parquet").write_bytes(b"")
    assert tasks(log) == []


def test_a_missing_sidecar_is_damage(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).start().filler(3)
    log.checkpoint(3, Shape.V2_PARQUET_SIDECARS)
    for sidecar in (log.directory / "_sidecars").iterdir():
        sidecar.unlink()
    (reason,) = tasks(log)
    assert "sidecar" in reason


def test_a_changed_page_is_found_by_a_deep_look(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).start(*(add(f"file-{i}") for i in range(200)))
    log.checkpoint(0)
    path = log.directory / "00000000000000000000.checkpoint.parquet"
    data = bytearray(path.read_bytes())
    data[data.index(b"file-1")] ^= 0xFF
    path.write_bytes(data)
    assert tasks(log) == []
    (reason,) = tasks(log, deep=True)
    assert reason.startswith("damaged: ")


def test_a_damaged_checkpoint_that_nothing_stands_in_for_is_an_error(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).start().filler(3)
    log.checkpoint(3)
    log.clean_up(3)
    (log.directory / "00000000000000000003.checkpoint.parquet").write_bytes(b"PAR1")
    with pytest.raises(CorruptCheckpointError):
        looked(log)


def test_commits_that_are_not_compacted_are_due_while_no_checkpoint_is(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).start().filler(8)
    (task,) = due(looked(log), now_ms=NOW)
    assert (task.name, task.urgency) == ("compaction", 0.5)
    assert task.reason.startswith("not compacted: commits ")
    assert due(looked(log, **{COMPACTIONS: False}), now_ms=NOW) == []
    opened = open_log(str(tmp_path))
    opened.compact()
    assert due(looked(log), now_ms=NOW) == []
    log.filler(1)
    assert [task.name for task in due(looked(log), now_ms=NOW)] == ["checkpoint"]


def test_commits_past_their_retention_are_due_below_a_checkpoint_that_is_too(
    tmp_path: Path,
) -> None:
    log = LogBuilder(tmp_path).start().filler(9)
    for version in range(10):
        log.modified(version, NOW - (60 - 5 * version) * DAY)
    log.checkpoint(3)
    log.hint(3)
    log.checkpoint(9)
    (task,) = due(looked(log, **{COMPACTIONS: False}), now_ms=NOW)
    assert (task.name, task.urgency) == ("cleanup", 0.25)
    assert task.reason == "3 commits below checkpoint 3 are past their retention"
    kept = {COMPACTIONS: False, "spark.indextables.cleanup.enabled": False}
    assert due(looked(log, **kept), now_ms=NOW) == []
    assert due(looked(log, **{COMPACTIONS: False}), now_ms=NOW - 60 * DAY) == []


def test_a_compaction_or_hint_that_is_damaged_makes_a_repair_due_unless_a_checkpoint_is(
    tmp_path: Path,
) -> None:
    log = LogBuilder(tmp_path).start().filler(6)
    whole = log.compaction(1, 5)
    quiet = {COMPACTIONS: False}
    assert due(looked(log, **quiet), now_ms=NOW) == []
    assert due(looked(log, deep=True, **quiet), now_ms=NOW) == []
    text = whole.read_bytes()
    for damage in (b'{"add"', b"", text[:-3]):
        whole.write_bytes(damage)
        (task,) = due(looked(log, **quiet), now_ms=NOW)
        assert (task.name, task.urgency) == ("repair", 0.75)
        assert task.reason.startswith(f"damaged: compaction {whole.name}")
    whole.write_bytes(b"{" + text)  # its end is sound
    assert due(looked(log, **quiet), now_ms=NOW) == []
    assert [t.name for t in due(looked(log, deep=True, **quiet), now_ms=NOW)] == ["repair"]
    whole.write_bytes(text)
    (log.directory / "_last_checkpoint").write_bytes(b"\xff")
    (task,) = due(looked(log, **quiet), now_ms=NOW)
    assert task.reason.startswith("damaged: hint _last_checkpoint")
    log.filler(10)
    assert [t.name for t in due(looked(log), now_ms=NOW)] == ["checkpoint"]


@pytest.mark.parametrize("suffix", ["json", "parquet"])
def test_a_torn_compaction_of_indextables_is_damage_in_either_form(
    tmp_path: Path, suffix: str
) -> None:
    log = LogBuilder(tmp_path, "indextables").start().filler(6)
    whole = log.compaction(1, 5, suffix=suffix)
    assert due(looked(log, **{COMPACTIONS: False}), now_ms=NOW) == []
    whole.write_bytes(whole.read_bytes()[:-9])
    tasks = due(looked(log, **{COMPACTIONS: False}), now_ms=NOW)
    assert [task.name for task in tasks] == ["repair"]


def test_versions_that_are_protected_are_for_the_cleanup_to_judge(tmp_path: Path) -> None:
    features = ["checkpointProtection"]
    log = LogBuilder(tmp_path)
    protected = {"delta.requireCheckpointProtectionBeforeVersion": "8"}
    log.commit(protocol(1, 7, writerFeatures=features), metadata(configuration=protected))
    log.filler(9)
    for version in range(10):
        log.modified(version, NOW - (60 - 5 * version) * DAY)
    log.checkpoint(3)
    tasks = due(looked(log, **{COMPACTIONS: False}), now_ms=NOW)
    assert [task.name for task in tasks] == ["cleanup"]


def test_a_verification_is_due_where_it_is_asked_for_and_comes_last(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).start().filler(10)
    tasks = due(looked(log), now_ms=NOW, verify=True)
    assert [task.name for task in tasks] == ["checkpoint", "verify"]
    assert tasks[1].urgency == 0
