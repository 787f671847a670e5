"""Where no commit is old enough to tell who is right, nobody is called wrong, and nothing lost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from engine.errors import NotProvableError
from tests.logs import LogBuilder, Shape, add, protocol, remove, state_actions
from tests.upkeep.defects import checksum, gone, sound_log
from tests.upkeep.test_repair import content, files_of, repair, wanted
from tests.upkeep.test_repair_derived import mend
from tests.upkeep.test_verify import codes, look

if TYPE_CHECKING:
    from pathlib import Path


def table(root: Path, commits: int = 9) -> LogBuilder:
    return LogBuilder(root / "table").start(add("a")).filler(commits)


def checkpoint(
    log: LogBuilder, version: int, *, drop: int | None = None, extra=(), without="", name=""
) -> Path:
    """Write a checkpoint that may know nothing of one commit, or of one kind of action."""
    kept = list(log.commits)
    if drop is not None:
        log.commits[drop] = []
    actions = [*state_actions(log.truth(version)), *extra]
    log.commits[:] = kept
    actions = [action for action in actions if without not in action]
    return log._write_parquet(name or f"{version:020d}.checkpoint.parquet", actions)


def counts(log: LogBuilder, *versions: int, **fields) -> None:
    for version in versions:
        checksum(log, version, inCommitTimestampOpt=None, **fields)


def disagreements(log: LogBuilder) -> list[str]:
    return [f.message for f in look(log).findings if f.code == "CHECKPOINTS_DISAGREE"]


def assert_left_alone_and_refused(log: LogBuilder, target: Path) -> None:
    before = content(log.root)
    assert {mended.action for mended in mend(log).mended} <= {"refused"}
    with pytest.raises(NotProvableError, match="contradicts"):
        repair(log, target)
    assert content(log.root) == before


def test_checksums_that_contradict_a_checkpoint_nothing_proves_stay_as_witnesses(tmp_path):
    log = table(tmp_path)
    counts(log, 6, 7, 9)
    checkpoint(log, 5, drop=3)
    log.clean_up(5)
    assert "CHECKSUM_DIFFERS" not in codes(log)
    assert [message.split()[0] for message in disagreements(log)] == [
        f"{version:020d}.crc" for version in (6, 7, 9)
    ]
    assert_left_alone_and_refused(log, tmp_path / "new")


@pytest.mark.parametrize("before", [5, 6], ids=["its commit there", "its commit gone"])
def test_a_checkpoint_that_the_walk_begins_with_is_held_against_its_own_checksum(tmp_path, before):
    log = table(tmp_path)
    counts(log, 5)
    checkpoint(log, 5, drop=3)
    log.clean_up(before)
    (told,) = disagreements(log)
    assert "numFiles is 6; the commits make it 5" in told
    with pytest.raises(NotProvableError, match="contradicts"):
        repair(log, tmp_path / "new")


def test_checksums_that_agree_with_such_a_checkpoint_raise_no_doubt(tmp_path):
    log = table(tmp_path)
    counts(log, *range(10))
    checkpoint(log, 5)
    log.clean_up(5)
    assert codes(log) == {"CHECKPOINT_UNPROVEN"}
    assert files_of(repair(log, tmp_path / "new").target.rpartition("/")[0]) == wanted(log)


def test_the_time_in_a_checksum_is_held_against_its_commit_whatever_begins_the_log(tmp_path):
    log = sound_log(tmp_path)
    log.clean_up(5)
    checksum(log, 6, inCommitTimestampOpt=1)
    assert "CHECKSUM_DIFFERS" in codes(log)
    done = mend(log)
    assert [(m.what, m.version, m.action) for m in done.mended] == [("checksum", 6, "recreated")]
    assert done.sound


def test_a_checksum_in_doubt_is_not_written_anew_for_its_time(tmp_path):
    log = sound_log(tmp_path)
    log.clean_up(5)
    checksum(log, 6, inCommitTimestampOpt=1, numFiles=99)
    before = content(log.root)
    assert mend(log).mended == []
    assert content(log.root) == before


def test_where_txns_expire_a_checksum_may_know_more_of_them_than_a_checkpoint(tmp_path):
    log = LogBuilder(tmp_path / "table").start(add("a"))
    about = json.loads(json.dumps(log.commits[0][1]))
    about["metaData"]["configuration"] = {"delta.setTransactionRetentionDuration": "1 day"}
    log.commit(about, {"txn": {"appId": "old", "version": 1, "lastUpdated": 1}})
    log.filler(3)
    counts(log, 2, 3)
    checkpoint(log, 2, without="txn")
    log.clean_up(2)
    assert codes(log) == {"CHECKPOINT_UNPROVEN"}


def test_one_of_three_checkpoints_is_not_outvoted(tmp_path):
    log = table(tmp_path)
    checkpoint(log, 5)
    checkpoint(log, 7, drop=3)
    checkpoint(log, 8)
    log.clean_up(5)
    (told,) = disagreements(log)
    assert told.startswith(f"{7:020d}.checkpoint.parquet contradicts {5:020d}")
    assert_left_alone_and_refused(log, tmp_path / "new")


def test_a_checksum_that_agrees_with_the_later_checkpoint_is_not_called_wrong(tmp_path):
    log = table(tmp_path)
    checkpoint(log, 5, drop=3)
    checkpoint(log, 8)
    counts(log, 8, 9)
    log.clean_up(5)
    assert "CHECKSUM_DIFFERS" not in codes(log)
    assert_left_alone_and_refused(log, tmp_path / "new")


def test_two_checkpoints_of_one_version_may_contradict_each_other(tmp_path):
    log = LogBuilder(tmp_path / "table")
    names = ["v2Checkpoint"]
    log.start(protocol(3, 7, readerFeatures=names, writerFeatures=names), add("a")).filler(9)
    checkpoint(log, 5, drop=3)
    log.checkpoint(5, Shape.V2_JSON)
    log.clean_up(5)
    assert len(disagreements(log)) == 1
    assert_left_alone_and_refused(log, tmp_path / "new")


def test_a_walk_does_not_begin_with_a_checkpoint_that_has_no_head(tmp_path):
    log = table(tmp_path)
    checkpoint(log, 5, drop=3, without="protocol")
    checkpoint(log, 8)
    log.clean_up(5)
    assert codes(log) == {"CHECKPOINT_HEADLESS", "CHECKPOINT_UNPROVEN"}
    done = repair(log, tmp_path / "new")
    assert done.used["checkpoint"] == f"{8:020d}.checkpoint.parquet"
    assert files_of(tmp_path / "new") == wanted(log)


@pytest.mark.parametrize("broken", [5, 8])
def test_a_checkpoint_that_is_wrong_by_itself_is_no_witness(tmp_path, broken):
    log = table(tmp_path)
    for version in (5, 8):
        if version == broken:
            checkpoint(log, version, drop=3, extra=[add("file-1")])
        else:
            checkpoint(log, version)
    log.clean_up(5)
    assert codes(log) == {"CHECKPOINT_DUPLICATE", "CHECKPOINT_UNPROVEN"}
    assert files_of(repair(log, tmp_path / "new").target.rpartition("/")[0]) == wanted(log)


def test_what_contradicts_an_unproven_checkpoint_is_not_written_anew_for_another_fault(tmp_path):
    log = table(tmp_path)
    checkpoint(log, 5, drop=3)
    checkpoint(log, 8, extra=[add("file-1")])
    log.clean_up(5)
    before = content(log.root)
    (mended,) = mend(log).mended
    assert (mended.version, mended.action) == (8, "refused")
    assert "contradicts" in mended.reason
    assert content(log.root) == before


def test_a_checkpoint_whose_only_fault_is_its_own_is_written_anew(tmp_path):
    log = table(tmp_path)
    checkpoint(log, 5)
    checkpoint(log, 8, extra=[add("file-1")])
    log.clean_up(5)
    done = mend(log)
    assert ([mended.action for mended in done.mended], done.sound) == (["recreated"], True)


def test_a_hint_is_not_pointed_at_a_checkpoint_in_doubt(tmp_path):
    log = table(tmp_path)
    checkpoint(log, 5, drop=3)
    checkpoint(log, 8)
    log.clean_up(5)
    log.hint(9)
    (mended,) = mend(log).mended
    assert (mended.what, mended.action) == ("hint", "refused")
    assert "contradicts" in mended.reason
    assert json.loads(log.file("_last_checkpoint").read_bytes())["version"] == 9


@pytest.mark.parametrize("kind", ["checkpoint", "compaction"])
def test_an_empty_feature_list_is_told_of_derived_files_too(tmp_path, kind):
    log = LogBuilder(tmp_path / "table").start(add("a")).filler(4)
    sound, empty = log.commits[0], {"readerFeatures": [], "writerFeatures": []}
    log.commits[0] = [protocol(1, 2, **empty), *sound[1:]]
    path = log.checkpoint(3)[0] if kind == "checkpoint" else log.compaction(0, 3)
    log.commits[0] = sound
    told = [f for f in look(log).findings if f.code == "PROTOCOL_EMPTY_FEATURES"]
    assert {finding.path for finding in told} == {path.name}


def test_what_commits_say_of_their_protocol_is_not_said_again_of_each_checkpoint(tmp_path):
    log = LogBuilder(tmp_path / "table")
    log.start(protocol(1, 2, readerFeatures=[], writerFeatures=[])).filler(4)
    before = [finding.code for finding in look(log).findings]
    log.checkpoint(3)
    assert [finding.code for finding in look(log).findings] == before


def test_a_young_checkpoint_that_a_cleanup_kept_makes_no_gap(tmp_path):
    log = table(tmp_path, 14)
    log.checkpoint(4)
    log.checkpoint(10)
    log.clean_up(10)
    assert codes(log) == {"CHECKPOINT_UNPROVEN"}
    log.commit_path(12).unlink()
    assert "GAP" in codes(log)


def test_commits_that_no_checkpoint_leads_to_are_still_a_gap(tmp_path):
    log = table(tmp_path, 14)
    log.checkpoint(4)
    log.checkpoint(10)
    log.clean_up(7)
    (told,) = [f for f in look(log).findings if f.code == "OLD_GAP"]
    assert told.message == "commits 5 to 6 are missing"


def test_a_remove_beside_an_add_does_not_make_a_checkpoint_less_of_a_witness(tmp_path):
    log = table(tmp_path)
    checkpoint(log, 5, drop=3, extra=[remove("file-1")])
    checkpoint(log, 8, extra=[gone("file-2")])
    log.clean_up(5)
    assert len(disagreements(log)) == 1
    with pytest.raises(NotProvableError, match="contradicts"):
        repair(log, tmp_path / "new")
