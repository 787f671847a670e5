"""A compaction stands in for commits that are gone only where something else bears it out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from engine.errors import NotProvableError
from tests.logs import LogBuilder, add, protocol, remove
from tests.upkeep.defects import (
    append,
    changed,
    checksum,
    compaction,
    domain,
    file,
    sound_log,
    txn,
    without,
)
from tests.upkeep.test_repair import files_of, repair, wanted
from tests.upkeep.test_verify_doubts import checkpoint

if TYPE_CHECKING:
    from pathlib import Path

GONE = 3
BRIDGE = f"{2:020d}.{4:020d}.compacted.json"


def bridged(root: Path) -> LogBuilder:
    """Write a log without commit 3, which only a compaction of 2 to 4 still tells of."""
    log = LogBuilder(root / "table").start(add("a"), add("b"))
    log.commit(add("c"))
    log.commit(remove("a"), add("d"), txn("app", 1))
    log.commit(remove("b"), add("e"), txn("other", 1))
    log.commit(remove("c"), add("f"), txn("app", 2))
    log.commit(add("g"))
    log.compaction(2, 4)
    log.commit_path(GONE).unlink()
    return log


@pytest.mark.parametrize("witness", [4, 5])
def test_a_checksum_of_its_end_or_later_bears_it_out(tmp_path, witness):
    log = bridged(tmp_path)
    checksum(log, witness)
    done = repair(log, tmp_path / "new")
    assert done.used["compactions"] == [BRIDGE]
    assert done.used["witnesses"] == [f"{witness:020d}.crc"]
    assert files_of(tmp_path / "new") == wanted(log)


def test_a_later_checkpoint_bears_it_out_for_a_version_before(tmp_path):
    log = bridged(tmp_path)
    append(log, file("h"))
    log.checkpoint(6)
    done = repair(log, tmp_path / "new", version=5)
    assert done.used["compactions"] == [BRIDGE]
    assert done.used["witnesses"] == [f"{6:020d}.checkpoint.parquet"]
    assert files_of(tmp_path / "new") == wanted(log, 5)


def test_a_checkpoint_that_proves_the_version_itself_is_preferred(tmp_path):
    log = bridged(tmp_path)
    log.checkpoint(5)
    checksum(log, 5)
    done = repair(log, tmp_path / "new")
    assert (done.used["compactions"], done.used["commits"]) == ([], 0)


def refusal(log: LogBuilder, target: Path, **asked) -> str:
    with pytest.raises(NotProvableError) as refused:
        repair(log, target, **asked)
    assert not target.exists()
    return refused.value.reason


@pytest.mark.parametrize("witness", [None, 2, 1])
def test_nothing_or_what_is_older_does_not_bear_it_out(tmp_path, witness):
    log = bridged(tmp_path)
    if witness is not None:
        checksum(log, witness)
    told = refusal(log, tmp_path / "new")
    assert "missing is commit 3 (it is missing)" in told
    assert f"{BRIDGE} does not stand in for it: no checksum and no checkpoint" in told


def test_a_checksum_that_counts_nothing_bears_nothing_out(tmp_path):
    log = bridged(tmp_path)
    checksum(log, 4, numFiles=None, allFiles=None)
    assert "no checksum and no checkpoint" in refusal(log, tmp_path / "new")


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (without("add", path="d"), "it lacks d, of which its commits speak"),
        (without("remove", path="a"), "it lacks a, of which its commits speak"),
        (without("txn", appId="app"), "it lacks txn app, of which its commits speak"),
        (changed("add", {"path": "f"}, size=1), "it says of f otherwise than its commits"),
        (
            lambda actions: [*without("remove", path="c")(actions), add("c")],
            "it says of c otherwise than its commits",
        ),
        (changed("txn", {"appId": "app"}, version=1), "it says of txn app otherwise"),
        (without("add", path="e"), "5.crc says otherwise (numFiles is 4; the commits make it 3"),
        (without("remove", path="b"), "5.crc says otherwise (numFiles is 4; the commits make it 5"),
        (without("txn", appId="other"), "5.crc says otherwise (setTransactions differ for other)"),
    ],
)
def test_a_compaction_that_lost_anything_is_not_believed(tmp_path, edit, says):
    log = bridged(tmp_path)
    log.commit_path(GONE).touch()
    compaction(log, 2, 4, edit)
    log.commit_path(GONE).unlink()
    checksum(log, 5)
    assert says in refusal(log, tmp_path / "new")


def test_what_a_later_commit_of_the_gap_may_have_changed_is_no_contradiction(tmp_path):
    log = LogBuilder(tmp_path / "table").start(add("a"))
    log.commit(add("b"), txn("app", 1))
    log.commit(remove("b"), txn("app", 2))
    log.commit(add("c"))
    log.compaction(1, 2)
    checksum(log, 3)
    log.commit_path(2).unlink()
    assert repair(log, tmp_path / "new").used["witnesses"] == [f"{3:020d}.crc"]
    assert files_of(tmp_path / "new") == wanted(log)


def test_a_torn_end_that_an_unproven_compaction_covers_is_given_up(tmp_path):
    log = LogBuilder(tmp_path / "table").start(add("a")).filler(4)
    log.compaction(2, 4)
    log.commit_path(4).write_bytes(b"{")
    done = repair(log, tmp_path / "new")
    assert (done.source_version, list(done.lost)) == (3, [4])
    assert "no checksum and no checkpoint" in done.ignored[BRIDGE]
    assert files_of(tmp_path / "new") == wanted(log, 3)


def test_a_compaction_by_deltalake_that_lost_a_tombstone_is_not_believed(tmp_path):
    from deltalake import DeltaTable

    log = LogBuilder(tmp_path / "table")
    start = LogBuilder(tmp_path / "other").start().commits[0][1]
    log.commit(protocol(1, 7, writerFeatures=["domainMetadata"]), start, add("f1"), domain("d"))
    log.commit(add("f2"))
    log.commit(remove("f1", deletionTimestamp=1))
    log.commit(add("f3"))
    log.filler(1)
    DeltaTable(str(log.root)).compact_logs(1, 3)
    log.commit_path(1).unlink()
    assert "it lacks f1, of which its commits speak" in refusal(log, tmp_path / "new")


def test_a_checkpoint_that_readers_take_though_it_breaks_a_rule_is_the_last_resort(tmp_path):
    log = LogBuilder(tmp_path / "table").start(add("a")).filler(7)
    checkpoint(log, 5, extra=[remove("file-1")])
    log.clean_up(5)
    done = repair(log, tmp_path / "new")
    assert done.used["checkpoint"] == f"{5:020d}.checkpoint.parquet"
    assert "1 files both added and removed: file-1" in done.used["tolerated"]
    assert files_of(tmp_path / "new") == wanted(log)
    log.checkpoint(6)
    better = repair(log, tmp_path / "better")
    assert (better.used["checkpoint"], better.used["tolerated"]) == (
        f"{6:020d}.checkpoint.parquet",
        None,
    )


def test_a_checkpoint_with_other_faults_is_no_last_resort(tmp_path):
    log = LogBuilder(tmp_path / "table").start(add("a")).filler(7)
    checkpoint(log, 5, extra=[remove("file-1"), add("file-2")])
    log.clean_up(5)
    assert "no checkpoint is usable" in refusal(log, tmp_path / "new")


def test_a_version_that_never_was_is_said_not_to_be_there(tmp_path):
    log = sound_log(tmp_path)
    told = refusal(log, tmp_path / "new", version=9)
    assert told == "there is no version 9; the latest is 6"
    log.clean_up(5)
    assert "version 2 is not proven: commit 0 is missing" in refusal(
        log, tmp_path / "new", version=2
    )


def test_a_target_inside_of_the_log_is_refused(tmp_path):
    from engine.errors import TargetNotEmptyError

    log = sound_log(tmp_path)
    with pytest.raises(TargetNotEmptyError, match="the log to be repaired"):
        repair(log, log.directory / "new")
    assert not (log.directory / "new").exists()


def test_all_damages_at_once_are_repaired(tmp_path):
    log = sound_log(tmp_path)
    append(log, file("g"))
    log.checkpoint(7)[0].write_bytes(b"PAR1x")
    log.hint(b"\xff")
    log.clean_up(3)
    next((log.directory / "_sidecars").iterdir()).unlink()
    append(log, file("h"))
    torn = log.commit_path(8)
    torn.write_bytes(torn.read_bytes()[:-20])
    done = repair(log, tmp_path / "new")
    assert (done.source_version, list(done.lost), done.sound) == (7, [8], True)
    assert files_of(tmp_path / "new") == wanted(log, 7)
    assert json.dumps(done.summary())
