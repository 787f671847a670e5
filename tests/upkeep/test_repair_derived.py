"""Derived files are made right in place, and no commit is ever touched."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engine import open_log
from engine.errors import CatalogManagedError, StorageError
from engine.storage.local import LocalStorage
from tests.logs import LogBuilder, Shape, add, metadata, protocol, remove, state_actions
from tests.upkeep.defects import DEFECTS, NOW, Defect, contradict, sound_log
from tests.upkeep.test_repair import Stopped, content, files_of, wanted

# What in-place repair is for: everything about these that is an error or a warning.
DERIVED = (
    "UNREADABLE_CHECKPOINT",
    "EMPTY_CHECKPOINT",
    "INCOMPLETE_CHECKPOINT",
    "MISSING_SIDECAR",
    "UNREADABLE_COMPACTION",
    "UNREADABLE_CHECKSUM",
    "HINT_UNREADABLE",
    "HINT_DANGLING",
    "HINT_WRONG",
    "CHECKSUM_DIFFERS",
    "CHECKPOINT_LOST_FILES",
    "CHECKPOINT_EXTRA_FILES",
    "CHECKPOINT_DIFFERS",
    "CHECKPOINT_DUPLICATE",
    "CHECKPOINT_ADD_AND_REMOVE",
    "CHECKPOINT_LOST_TXN",
    "CHECKPOINT_LOST_DOMAIN",
    "CHECKPOINT_PROTOCOL",
    "CHECKPOINT_METADATA",
    "CHECKPOINT_HEADLESS",
    "CHECKPOINT_V2_METADATA",
    "COMPACTION_LOST_TOMBSTONES",
    "COMPACTION_LOST_FILES",
    "COMPACTION_EXTRA_FILES",
    "COMPACTION_DIFFERS",
    "COMPACTION_LOST_DOMAIN",
    "COMPACTION_LOST_TXN",
    "COMPACTION_METADATA",
)
MENDABLE = [defect for defect in DEFECTS if defect.code in DERIVED]


def mend(log: LogBuilder, **asked):
    opened = open_log(str(log.root))
    opened.clock = Stopped()  # type: ignore[assignment]
    return opened.repair_derived(**asked)


def commits(log: LogBuilder) -> dict[str, tuple[bytes, int]]:
    return {
        path.name: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in log.directory.glob("?" * 20 + ".json")
    }


def checkpoints(log: LogBuilder) -> list[str]:
    return sorted(path.name for path in log.directory.glob("*.checkpoint.*"))


@pytest.mark.parametrize("defect", MENDABLE, ids=lambda defect: defect.name)
def test_each_defect_of_a_derived_file_is_mended_in_place(tmp_path, defect: Defect):
    log = sound_log(tmp_path)
    defect.plant(log)
    before = commits(log)
    done = mend(log)
    assert commits(log) == before
    assert {mended.action for mended in done.mended} == {"recreated"}
    left = [(f.code, f.message) for f in done.proof.findings if f.severity != "info"]
    assert left == []
    assert files_of(log.root) == wanted(log)
    assert not (log.directory / ".txlog-staging").exists()


def test_a_sound_log_is_left_alone(tmp_path):
    log = sound_log(tmp_path)
    before = content(log.root)
    assert mend(log).mended == []
    assert content(log.root) == before


def test_a_dry_run_says_what_would_be_mended_and_writes_nothing(tmp_path):
    log = sound_log(tmp_path)
    log.hint(4)
    log.write(f"{4:020d}.checkpoint.parquet", b"")
    before = content(log.root)
    done = mend(log, dry_run=True)
    assert [(m.what, m.version, m.action) for m in done.mended] == [
        ("checkpoint", 4, "planned"),
        ("hint", 5, "planned"),
    ]
    assert content(log.root) == before


def test_of_two_checkpoints_that_contradict_each_other_both_are_left_as_they_are(tmp_path):
    log = sound_log(tmp_path)
    contradict(log)
    before = {path: log.file(path).read_bytes() for path in checkpoints(log)}
    done = mend(log)
    assert {path: log.file(path).read_bytes() for path in checkpoints(log)} == before
    assert {mended.action for mended in done.mended} <= {"refused"}
    assert "CHECKPOINTS_DISAGREE" in {finding.code for finding in done.proof.findings}


def test_a_checkpoint_that_nothing_else_proves_is_left_as_it_is(tmp_path):
    log = sound_log(tmp_path)
    log.file(f"{3:020d}.checkpoint.parquet").unlink()
    log.clean_up(5)
    next((log.directory / "_sidecars").iterdir()).unlink()
    before = content(log.root)
    done = mend(log)
    refused = [mended for mended in done.mended if mended.action == "refused"]
    assert [mended.what for mended in refused] == ["checkpoint"]
    assert "commit 0 is missing" in refused[0].reason
    assert not done.sound
    assert content(log.root) == before


def test_a_hint_without_any_checkpoint_goes(tmp_path):
    log = LogBuilder(tmp_path / "table").start().filler(2)
    log.hint(7)
    (mended,) = mend(log).mended
    assert (mended.what, mended.action) == ("hint", "removed")
    assert not log.file("_last_checkpoint").exists()


def test_a_hint_is_not_pointed_at_a_checkpoint_that_stays_damaged(tmp_path):
    log = LogBuilder(tmp_path / "table").start().filler(9)
    log.checkpoint(3)
    log.checkpoint(8)[0].write_bytes(b"torn")
    log.commit_path(6).unlink()
    log.hint(b"garbage")
    done = mend(log)
    assert [(m.what, m.version, m.action) for m in done.mended] == [
        ("checkpoint", 8, "refused"),
        ("hint", 3, "recreated"),
    ]


def test_a_log_that_a_catalog_manages_is_refused(tmp_path):
    log = LogBuilder(tmp_path / "table").start()
    names = ["catalogManaged"]
    log.commit(protocol(3, 7, readerFeatures=names, writerFeatures=names))
    with pytest.raises(CatalogManagedError):
        mend(log)


def test_a_catalog_is_remembered_where_the_end_of_its_log_is_torn(tmp_path):
    log = LogBuilder(tmp_path / "table").start().filler(1)
    names = ["catalogManaged"]
    log.commit(protocol(3, 7, readerFeatures=names, writerFeatures=names))
    log.filler(2)
    log.compaction(1, 2).write_bytes(b"{")
    log.commit_path(4).write_bytes(b"{")
    before = content(log.root)
    with pytest.raises(CatalogManagedError):
        mend(log)
    assert content(log.root) == before


def test_no_compaction_proves_what_no_reader_would_read_from_it(tmp_path):
    log = LogBuilder(tmp_path / "table").start(add("a")).filler(7)
    log.compaction(2, 4)
    actions = [*state_actions(log.truth(5)), remove("file-1")]
    log._write_parquet(f"{5:020d}.checkpoint.parquet", actions)
    log.commit_path(3).unlink()
    before = content(log.root)
    (mended,) = mend(log).mended
    assert (mended.what, mended.action) == ("checkpoint", "refused")
    assert "version 5 is not proven: commit 3 is missing" in mended.reason
    assert content(log.root) == before
    assert files_of(log.root) == wanted(log)


@pytest.mark.parametrize("code", ["CHECKPOINT_LOST_FILES", "COMPACTION_LOST_FILES"])
def test_what_cannot_be_written_anew_is_put_back(tmp_path, monkeypatch, code):
    log = sound_log(tmp_path)
    next(defect for defect in DEFECTS if defect.code == code).plant(log)
    before = content(log.root)

    def full(_, path: str, *__):
        raise StorageError(path, "the disk is full")

    monkeypatch.setattr("engine.upkeep.checkpoint.checkpoint.place", full)
    publish = LocalStorage.publish

    def choosy(self, staged: str, final: str) -> None:
        if "aside" in f"{staged}{final}":
            publish(self, staged, final)
        else:
            full(self, final)

    monkeypatch.setattr(LocalStorage, "publish", choosy)
    (mended,) = mend(log).mended
    assert mended.action == "refused"
    assert "the disk is full" in mended.reason
    assert content(log.root) == before


def test_a_torn_compaction_whose_commits_are_gone_is_left_as_it_is(tmp_path):
    log = LogBuilder(tmp_path / "table").start(add("a")).filler(7)
    log.checkpoint(5)
    log.compaction(2, 5).write_bytes(b"{")
    log.commit_path(3).unlink()
    before = content(log.root)
    for dry_run in (True, False):
        (mended,) = mend(log, dry_run=dry_run).mended
        assert (mended.what, mended.action) == ("compaction", "refused")
        assert mended.reason == "not all of its commits can be read: 3"
    assert content(log.root) == before


def test_a_checkpoint_that_may_not_be_written_is_not_moved_out(tmp_path):
    log = LogBuilder(tmp_path / "table")
    properties = {"delta.requireCheckpointProtectionBeforeVersion": "8"}
    about = metadata(configuration=properties)
    log.commit(protocol(1, 7, writerFeatures=["checkpointProtection"]), about, add("a"))
    log.filler(9)
    path = log.checkpoint(5)[0]
    path.write_bytes(path.read_bytes()[:-9])
    before = content(log.root)
    for dry_run in (True, False):
        (mended,) = mend(log, dry_run=dry_run).mended
        assert mended.action == "refused"
        assert "older checkpoints are protected" in mended.reason
    assert content(log.root) == before


def test_two_wrong_checkpoints_of_one_version_are_both_mended(tmp_path):
    log = sound_log(tmp_path)
    log.write(f"{3:020d}.checkpoint.parquet", b"torn")
    for path in log.checkpoint(3, Shape.MULTI_PART):
        path.write_bytes(b"torn")
    done = mend(log)
    assert [mended.action for mended in done.mended] == ["recreated", "recreated"]
    assert done.sound
    assert not [f for f in done.proof.findings if f.severity != "info"]


def test_a_file_is_proven_by_a_checkpoint_that_readers_take_though_it_breaks_a_rule(tmp_path):
    log = LogBuilder(tmp_path / "table").start(add("a")).filler(7)
    actions = [*state_actions(log.truth(5)), remove("file-1")]
    log._write_parquet(f"{5:020d}.checkpoint.parquet", actions)
    log.clean_up(5)
    log.write(f"{7:020d}.crc", b"{")
    done = {mended.what: mended.action for mended in mend(log).mended}
    assert done == {"checkpoint": "refused", "checksum": "recreated"}
    assert open_log(str(log.root)).snapshot().fallbacks == ()


def test_a_checkpoint_of_indextables_is_mended_too(tmp_path):
    log = LogBuilder(tmp_path / "splits", "indextables").start(add("a.split"))
    log.commit(add("b.split"), remove("a.split", deletionTimestamp=NOW))
    path = log.checkpoint(1, Shape.JSON_LINES)[0]
    path.write_bytes(path.read_bytes()[:-9])
    log.hint(1)
    done = mend(log)
    assert [mended.action for mended in done.mended] == ["recreated"]
    assert done.proof.findings == ()
    assert files_of(log.root) == wanted(log)


def test_killed_at_any_step_the_commits_stay_and_the_next_run_finishes(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-m", "tests.upkeep.derived_victim", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=False,
        timeout=240,
    )
    assert ran.returncode == 0, ran.stderr
    steps = sorted(path for path in tmp_path.iterdir() if path.name != "whole")
    assert len(steps) > 10
    for root in steps:
        log = LogBuilder(root / "table")
        snapshot = open_log(str(log.root)).snapshot()
        assert (snapshot.version, snapshot.totals().num_files) == (6, 4)
        assert len(commits(log)) == 7
        done = mend(log)
        assert [f for f in done.proof.findings if f.severity != "info"] == []
        assert files_of(log.root) == {("b", 100), ("d", 100), ("e", 100), ("f", 7)}
