"""Whatever could make a cleanup delete what a reader still needs: it is seen, and nothing goes."""

from __future__ import annotations

import json
import os
import shutil
from datetime import timedelta
from typing import Any

import pytest

from engine.upkeep.cleanup import clean
from engine.upkeep.cleanup.verdicts import DAY_MS
from engine.upkeep.publish import STAGING
from tests.logs import LogBuilder, Shape, add, metadata, protocol, remove
from tests.observe import observed
from tests.upkeep.test_cleanup import NOW, OLD, aged, live, names, opened, readable, table, versions


def lossy(log: LogBuilder, version: int, shape: Shape = Shape.CLASSIC) -> None:
    """Write a checkpoint that lacks the files of version 3."""
    other = LogBuilder(log.root)
    other.commits = [*log.commits[:3], [], *log.commits[4:]]
    other.checkpoint(version, shape)


def checksum(log: LogBuilder, version: int, **more: Any) -> None:
    files = log.truth(version).files.values()
    said = {"numFiles": len(files), "tableSizeBytes": sum(file["size"] for file in files)}
    log.write(f"{version:020d}.crc", json.dumps(said | more).encode())


def v2(log: LogBuilder) -> LogBuilder:
    """Begin a table whose checkpoints may be V2."""
    features = {"readerFeatures": ["v2Checkpoint"], "writerFeatures": ["v2Checkpoint"]}
    log.commit(protocol(3, 7, **features), metadata())
    return log


def kept_all(log: LogBuilder, **asked: Any) -> str:
    """Clean; nothing may go. Return why."""
    before = names(aged(log))
    done = opened(log).cleanup(**asked)
    assert names(log) == before
    assert done.deleted == 0
    assert done.anchor is None
    assert not done.going
    return done.reason


# --- the checkpoint that is relied on -----------------------------------------------------------


def test_a_checkpoint_made_from_one_that_lost_files_is_measured_by_the_commits(tmp_path):
    log = table(tmp_path / "t")
    lossy(log, 5)
    lossy(log, 10)
    why = kept_all(log)
    assert f"{10:020d}.checkpoint.parquet cannot be relied on: add: 10 of 11 actions" in why
    assert f"{5:020d}.checkpoint.parquet cannot be relied on: add: 5 of 6 actions" in why
    readable_from_commits(log)


def readable_from_commits(log: LogBuilder) -> None:
    for path in log.directory.glob("*checkpoint*"):
        path.unlink()
    readable(log, 0)


@pytest.mark.parametrize("damage", [b"torn", b""])
def test_a_torn_checkpoint_below_does_not_hide_that_files_were_lost(tmp_path, damage):
    log = table(tmp_path / "t")
    log.checkpoint(5)[0].write_bytes(damage)
    lossy(log, 10)
    assert "10 of 11 actions" in kept_all(log)


def test_a_damaged_commit_far_below_a_sound_checkpoint_does_not_stand_in_the_way(tmp_path):
    log = table(tmp_path / "t")
    log.checkpoint(5)
    log.checkpoint(10)
    log.write(f"{2:020d}.json", b'{"add":{"pa')
    assert opened(aged(log)).cleanup().anchor == 10
    readable(log, 10)


def test_a_damaged_commit_after_the_last_checkpoint_below_does(tmp_path):
    log = table(tmp_path / "t")
    log.checkpoint(5)
    log.checkpoint(10)
    log.write(f"{7:020d}.json", b'{"add":{"pa')
    done = opened(aged(log)).cleanup()
    assert done.anchor == 5
    assert f"{7:020d}.json" in names(log)


def test_where_the_commits_are_gone_the_checksum_is_asked(tmp_path):
    log = table(tmp_path / "t")
    lossy(log, 10)
    log.clean_up(5)
    checksum(log, 10)
    assert "numFiles is 11 in it, 10 in the log" in kept_all(log)
    log.checkpoint(10)
    assert opened(aged(log)).cleanup().anchor == 10
    readable(log, 10)


def test_a_checksum_that_cannot_be_read_or_is_wrong_says_nothing_against_the_commits(tmp_path):
    log = table(tmp_path / "t")
    log.checkpoint(10)
    checksum(log, 10, numFiles=99)
    assert opened(aged(log)).cleanup().anchor == 10
    log.write(f"{10:020d}.crc", b"{")
    assert opened(aged(log)).cleanup().anchor == 10


def test_a_sound_checkpoint_that_readers_pass_over_for_a_damaged_one_is_not_relied_on(tmp_path):
    log = table(tmp_path / "t")
    log.checkpoint(10)
    log.write(f"{10:020d}.checkpoint.{'a' * 8}.parquet", b"torn")
    assert "aaaaaaaa.parquet cannot be relied on" in kept_all(log)


def test_of_two_checkpoints_of_one_version_the_one_that_readers_choose_is_enough(tmp_path):
    log = table(tmp_path / "t")
    (damaged,) = log.checkpoint(10)
    log.checkpoint(10, Shape.V2_PARQUET)
    damaged.write_bytes(b"torn")
    assert opened(aged(log)).cleanup().anchor == 10
    readable(log, 10)


def test_while_a_commit_above_is_missing_what_lies_below_may_be_all_there_is(tmp_path):
    log = table(tmp_path / "t")
    log.checkpoint(5)
    log.compaction(4, 9)
    log.commit_path(8).unlink()
    log.checkpoint(12)
    assert opened(aged(log, fresh_from=11)).cleanup(dry_run=True).reason == (
        "commit 8 is missing after each such checkpoint"
    )
    assert opened(aged(log)).cleanup(dry_run=True).anchor == 12


def test_a_commit_whose_own_time_is_fresh_is_kept_whatever_the_next_one_says(tmp_path):
    log = LogBuilder(tmp_path / "t")
    stamps = {"delta.enableInCommitTimestamps": "true"}
    for version in range(15):
        stamp = NOW if version == 6 else OLD + version
        head = [protocol(), metadata(configuration=stamps)] if version == 0 else []
        log.commit({"commitInfo": {"inCommitTimestamp": stamp}}, *head, add(f"f{version}"))
    log.checkpoint(6)
    assert "the time in its commit is within its retention" in kept_all(log)


# --- a log that changes while it is looked at ---------------------------------------------------


def between(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Let something happen after the checkpoint was proven, and before the first deletion."""
    prove = clean.doubt

    def proven(*args: Any) -> str:
        why = prove(*args)
        change()
        return why

    monkeypatch.setattr(clean, "doubt", proven)


def test_a_table_that_is_made_anew_meanwhile_keeps_its_commits(tmp_path, monkeypatch):
    log = table(tmp_path / "t")
    log.checkpoint(10)
    aged(log)

    def anew() -> None:
        shutil.rmtree(log.directory)
        table(tmp_path / "t", 3)

    between(monkeypatch, anew)
    done = opened(log).cleanup()
    assert (done.deleted, done.anchor) == (0, None)
    assert "was changed or deleted meanwhile" in done.reason
    assert versions(log) == [0, 1, 2]


def test_commits_written_anew_meanwhile_keep_all(tmp_path, monkeypatch):
    log = table(tmp_path / "t")
    log.checkpoint(10)
    aged(log)
    between(monkeypatch, lambda: log.write(f"{4:020d}.json", b"{}"))
    assert f"{4:020d}.json was changed meanwhile" in opened(log).cleanup().reason
    assert versions(log) == list(range(15))


def test_new_commits_and_a_second_cleanup_meanwhile_do_no_harm(tmp_path, monkeypatch):
    log = table(tmp_path / "t")
    log.checkpoint(10)
    aged(log)

    def more() -> None:
        monkeypatch.undo()
        log.commit(remove("first"), add("new"))
        log.modified(log.version, OLD + log.version)
        opened(log).cleanup()

    between(monkeypatch, more)
    assert opened(log).cleanup().anchor == 10
    assert versions(log) == list(range(10, 16))
    readable(log, 10)


# --- sidecars ------------------------------------------------------------------------------------


def sidecars(log: LogBuilder) -> set[str]:
    return {path.name for path in (log.directory / "_sidecars").iterdir()}


def shared(log: LogBuilder, version: int, files: list[str]) -> None:
    """Write a V2 checkpoint of a version that names sidecars which are there already."""
    lines = [
        {"checkpointMetadata": {"version": version}},
        *({kind: value} for kind, value in log.truth(version).singles.items()),
        *({"sidecar": {"path": name, "sizeInBytes": 1, "modificationTime": 1}} for name in files),
    ]
    text = "\n".join(map(json.dumps, lines))
    log.write(f"{version:020d}.checkpoint.{'b' * 8}.json", text.encode())


def test_sidecars_that_a_newer_checkpoint_shares_outlive_the_one_they_were_written_for(tmp_path):
    log = v2(LogBuilder(tmp_path / "t"))
    log.commit(*(add(f"a{number}") for number in range(40)))
    plan = {
        "spark.databricks.delta.checkpoint.partSize": 10,
        "spark.indextables.checkpoint.retention": 0,
    }
    opened(log, **plan).checkpoint(shape="v2-json")
    first = sidecars(log)
    log.commit(remove("a1"), add("new"))
    opened(log, **plan).checkpoint(shape="v2-json")
    both = sidecars(log)
    assert first & both
    assert both - first
    log.filler(1)
    done = opened(aged(log), **plan).cleanup()
    left = sidecars(log)
    assert done.anchor == 2
    assert left & first, "some are shared"
    assert first - left, "and some were only the old one's"
    assert left >= both - first
    for version in (2, 3):
        snapshot = opened(log).snapshot(version)
        assert set(observed(snapshot).files) == set(log.truth(version).files)
        assert snapshot.fallbacks == ()


def test_a_checkpoint_published_while_files_are_deleted_keeps_its_old_sidecars(
    tmp_path, monkeypatch
):
    log = table(tmp_path / "t")
    old = [path.name for path in log.checkpoint(3, Shape.V2_JSON_SIDECARS)[1:]]
    log.checkpoint(10)
    found = opened(aged(log))
    delete = type(found.directory.storage).delete_many

    def publishing(self: Any, paths: Any) -> dict[str, str]:
        shared(log, 3, old)
        return delete(self, paths)

    monkeypatch.setattr(type(found.directory.storage), "delete_many", publishing)
    done = found.cleanup()
    assert done.deleted == 11
    assert sidecars(log) == set(old)


def test_no_sidecar_goes_while_a_run_is_writing(tmp_path):
    log = table(tmp_path / "t")
    log.checkpoint(3, Shape.V2_JSON_SIDECARS)
    log.checkpoint(10)
    run = f"{NOW - 1000:013d}-aa"
    (log.directory / STAGING / run).mkdir(parents=True)
    before = sidecars(aged(log))
    done = opened(log).cleanup()
    assert done.anchor == 10
    assert sidecars(log) == before
    rules = {v.rule for v in done.verdicts if v.kind == "sidecar"}
    assert rules == {f"the run {run} may be about to use it"}
    later = opened(log, NOW + 2 * DAY_MS).cleanup()
    assert later.deleted == len(before)
    assert not sidecars(log)


def test_no_sidecar_goes_beside_a_checkpoint_whose_name_is_not_known(tmp_path):
    log = table(tmp_path / "t")
    orphan = log.write("_sidecars/orphan.parquet", b"x")
    log.write(f"{12:020d}.checkpoint.of.tomorrow.parquet", b"x")
    done = opened(aged(log)).cleanup()
    assert orphan.exists()
    assert "may be a checkpoint that names it" in done.verdicts[-1].rule


def test_what_hadoop_writes_beside_a_sidecar_goes_with_it_and_not_before(tmp_path):
    log = table(tmp_path / "t")
    (kept, *_) = log.checkpoint(12, Shape.V2_JSON_SIDECARS)[1:]
    log.write(f"_sidecars/.{kept.name}.crc", b"crc")
    log.write("_sidecars/.orphan.parquet.crc", b"crc")
    opened(aged(log)).cleanup(older_than=timedelta(days=30))
    assert f".{kept.name}.crc" in sidecars(log)
    assert ".orphan.parquet.crc" not in sidecars(log)


def test_a_folder_of_that_name_in_an_indextables_log_is_none_of_ours(tmp_path):
    log = table(tmp_path / "t", 15, "indextables")
    log.checkpoint(10)
    other = log.write("_sidecars/other.parquet", b"x")
    opened(aged(log), **{"spark.indextables.checkpoint.retention": 0}).cleanup()
    assert other.exists()


# --- what else lies there -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log_format", "shape"),
    [("delta", Shape.MULTI_PART), ("indextables", Shape.JSON_PARTS)],
)
def test_a_checkpoint_of_many_files_is_kept_whole_for_its_retention(tmp_path, log_format, shape):
    log = table(tmp_path / "t", 15, log_format)
    files = log.checkpoint(4, shape)
    log.checkpoint(10)
    aged(log)
    os.utime(files[0], ns=((NOW - 3_600_000) * 10**6,) * 2)
    options = {"spark.indextables.checkpoint.retention": 0}
    assert opened(log, **options).cleanup().anchor == 10
    assert all(path.exists() for path in files)
    assert opened(log).snapshot(4).fallbacks == ()
    opened(log, NOW + DAY_MS, **options).cleanup()
    assert not any(path.exists() for path in files)


def test_commits_that_a_former_catalog_staged_go_with_their_published_twins(tmp_path):
    log = table(tmp_path / "t")
    log.checkpoint(10)
    staged = [log.write(f"_staged_commits/{v:020d}.{'a' * 8}.json", b"{}") for v in (3, 10, 12)]
    other = log.write("_staged_commits/notes.txt", b"")
    aged(log)
    young = log.write(f"_staged_commits/{4:020d}.{'b' * 8}.json", b"{}")
    os.utime(young, ns=(NOW * 10**6,) * 2)
    planned = opened(log).cleanup(dry_run=True)
    done = opened(log).cleanup()
    assert done.deleted == len(planned.going) == 12
    assert [path.exists() for path in (*staged, young, other)] == [False, False, True, True, True]
    readable(log, 10)


def test_what_spark_left_deep_in_a_dead_runs_folder_goes_with_it(tmp_path):
    log = table(tmp_path / "t")
    run = f"{NOW - 2 * DAY_MS:013d}-aa"
    deep = log.directory / STAGING / run / "_temporary" / "0" / "task"
    deep.mkdir(parents=True)
    (deep / "part-0.parquet").write_bytes(b"x")
    (deep / ".part-0.parquet.crc").write_bytes(b"x")
    assert opened(aged(log)).cleanup().leftovers == (run,)
    assert not (log.directory / STAGING).exists()


# --- protected checkpoints ----------------------------------------------------------------------


def protected(root: Any, first: dict[str, Any], before: int = 8) -> LogBuilder:
    """Write a table that had another protocol up to version 4."""
    properties = {"delta.requireCheckpointProtectionBeforeVersion": str(before)}
    log = LogBuilder(root)
    log.commit(first, metadata(configuration=properties))
    log.filler(4)
    log.commit(protocol(1, 7, writerFeatures=["checkpointProtection"]), add("after"))
    log.filler(9)
    log.checkpoint(6)
    return log


FUTURE = protocol(1, 7, writerFeatures=["fromTheFuture"])
KNOWN = protocol(1, 7, writerFeatures=["appendOnly"])


def test_protected_checkpoints_go_where_every_protocol_below_is_known(tmp_path):
    log = protected(tmp_path / "t", KNOWN)
    assert opened(aged(log)).cleanup().anchor == 6
    assert versions(log) == list(range(6, 15))
    readable(log, 6)


def test_protected_checkpoints_stay_where_a_protocol_below_is_not_known(tmp_path):
    log = protected(tmp_path / "t", FUTURE)
    why = kept_all(log)
    assert "before version 8 are protected" in why
    assert "fromTheFuture" in why
    log.checkpoint(9)
    assert opened(aged(log)).cleanup().anchor == 9, "all of them go at once"
    readable(log, 9)


def test_what_a_versions_protocol_was_its_checksum_tells(tmp_path):
    log = protected(tmp_path / "t", KNOWN)
    for version in range(6):
        checksum(log, version, protocol=(KNOWN if version != 2 else FUTURE)["protocol"])
    assert "fromTheFuture" in kept_all(log)
    for version in range(6):
        checksum(log, version, protocol=KNOWN["protocol"])
    assert opened(aged(log)).cleanup().anchor == 6


def test_a_protocol_that_nothing_tells_of_is_not_known(tmp_path):
    log = protected(tmp_path / "t", KNOWN)
    log.clean_up(2)
    assert "the protocol of version 2 is not told anywhere" in kept_all(log)
    log.checkpoint(1)
    assert opened(aged(log)).cleanup().anchor == 6


def test_truncate_respects_protected_checkpoints_too(tmp_path):
    log = protected(tmp_path / "t", FUTURE, before=99)
    log.checkpoint(14)
    done = opened(aged(log)).truncate()
    assert done.deleted == 0
    assert "are protected" in done.reason
    assert live(log) == set(log.truth().files)
