"""A cleanup deletes what a proven checkpoint covers and nobody may read any more; nothing else."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import Config, open_log
from engine.errors import CatalogManagedError, CleanupError, ConfigError, ReplayError
from engine.upkeep.cleanup.verdicts import DAY_MS, Facts, Rules, candidates, decide
from engine.upkeep.publish import STAGING
from tests.logs import DELTA_SHAPES, INDEXTABLES_SHAPES, LogBuilder, Shape, add, metadata, protocol
from tests.observe import assert_same, observed
from tests.random_logs import RandomLog, random_logs

NOW = 1_760_000_000_000
OLD = NOW - 40 * DAY_MS
ICT = "delta.enableInCommitTimestamps"


def opened(log: LogBuilder, now_ms: int = NOW, **options: Any):
    found = open_log(str(log.root), Config(options=options))
    found.clock = replace(found.clock, now_ms=lambda: now_ms)
    return found


def aged(log: LogBuilder, *, fresh_from: int | None = None) -> LogBuilder:
    """Make all files old; the commits from `fresh_from` on, and what is of them, are of today."""
    for path in sorted(log.directory.rglob("*")):
        digits = path.name[:20]
        fresh = fresh_from is not None and digits.isdecimal() and int(digits) >= fresh_from
        moment = NOW - 1000 if fresh else OLD
        if path.is_file():
            version = int(digits) if digits.isdecimal() else 0
            os.utime(path, ns=((moment + version) * 10**6,) * 2)
    return log


def table(root, versions: int = 15, log_format: str = "delta", **properties: str) -> LogBuilder:
    log = LogBuilder(root, log_format)
    log.commit(protocol(), metadata(configuration=properties), add("first"))
    return log.filler(versions - 1)


def versions(log: LogBuilder) -> list[int]:
    return sorted(int(p.name[:20]) for p in log.directory.glob("*.json") if len(p.name) == 25)


def names(log: LogBuilder) -> set[str]:
    return {str(p.relative_to(log.directory)) for p in log.directory.rglob("*") if p.is_file()}


def readable(log: LogBuilder, first: int) -> None:
    for version in range(first, log.version + 1):
        assert_same(observed(open_log(str(log.root)).snapshot(version)), log.truth(version))


def live(log: LogBuilder) -> set[Any]:
    return set(observed(open_log(str(log.root)).snapshot()).files)


# --- what goes ---------------------------------------------------------------------------------


def test_what_is_below_an_expired_checkpoint_goes_and_its_own_commit_stays(tmp_path):
    log = table(tmp_path / "t")
    log.checkpoint(4)
    log.checkpoint(10)
    for version in range(15):
        log.write(f"{version:020d}.crc", b"{}")
    log.hint(4)
    done = opened(aged(log, fresh_from=12)).cleanup()
    assert (done.anchor, done.deleted, done.failures) == (10, 21, {})
    assert versions(log) == list(range(10, 15))
    assert f"{10:020d}.crc" in names(log)
    assert not {n for n in names(log) if n.startswith(f"{4:020d}")}
    readable(log, 10)
    assert opened(log).snapshot().fallbacks == ()
    assert opened(log).cleanup().deleted == 0


def test_nothing_goes_before_its_retention_is_over(tmp_path):
    log = table(tmp_path / "t")
    log.checkpoint(10)
    before = names(aged(log, fresh_from=0))
    done = opened(log).cleanup()
    assert (done.deleted, done.reason) == (0, "no commit is past its retention")
    assert names(log) == before


def test_retention_ends_at_midnight_utc_as_delta_has_it():
    rules = Rules(log_retention_ms=30 * DAY_MS)
    noon = 20_000 * DAY_MS + DAY_MS // 2
    assert rules.cutoff_ms(noon) == (20_000 - 30) * DAY_MS
    assert Rules(older_than_ms=5).cutoff_ms(noon) == noon - 5


def test_a_checkpoint_younger_than_the_last_expired_commit_is_not_relied_on(tmp_path):
    log = table(tmp_path / "t")
    log.checkpoint(12)
    done = opened(aged(log, fresh_from=11)).cleanup()
    assert done.deleted == 0
    assert "no checkpoint is at version 10 or before" in done.reason


def test_t19_compactions_go_that_begin_at_or_before_the_checkpoint_and_are_old(tmp_path):
    log = table(tmp_path / "t")
    for span in ((1, 5), (6, 10), (10, 12), (11, 14)):
        log.compaction(*span)
    log.checkpoint(10)
    aged(log)
    young = log.file(f"{6:020d}.{10:020d}.compacted.json")
    os.utime(young, ns=((NOW - 1000) * 10**6,) * 2)
    done = opened(log).cleanup()
    left = {n for n in names(log) if "compacted" in n}
    assert left == {young.name, f"{11:020d}.{14:020d}.compacted.json"}
    assert done.verdicts[0].kind == "compaction"
    readable(log, 10)


@pytest.mark.parametrize("log_format", ["delta", "indextables"])
def test_checkpoints_of_every_shape_go_with_all_their_files(tmp_path, log_format):
    shapes = DELTA_SHAPES if log_format == "delta" else INDEXTABLES_SHAPES
    log = table(tmp_path / "t", 2 * len(shapes) + 2, log_format)
    for number, shape in enumerate(shapes):
        log.checkpoint(2 * number, shape)
    log.checkpoint(2 * len(shapes), Shape.CLASSIC)
    options = {"spark.indextables.checkpoint.retention": 0}
    opened(aged(log), **options).cleanup()
    last = f"{2 * len(shapes):020d}"
    left = {name for name in names(log) if "checkpoint" in name and not name.endswith("hint")}
    assert {name.rpartition("/")[2][:20] for name in left} == {last}
    readable(log, 2 * len(shapes))


def test_an_unfinished_run_and_its_temporary_files_go_after_a_day(tmp_path):
    log = table(tmp_path / "t")
    old, young = f"{NOW - 2 * DAY_MS:013d}-aa", f"{NOW - 1000:013d}-bb"
    for run in (old, young):
        (log.directory / STAGING / run).mkdir(parents=True)
        log.file(f"{STAGING}/{run}/0.json").write_bytes(b"x")
    temp = log.write(f".{3:020d}.json.{'a' * 32}.tmp", b"x")
    foreign = log.write(".something.tmp", b"x")
    done = opened(aged(log)).cleanup()
    assert done.leftovers == (old,)
    assert not temp.exists()
    assert (log.directory / STAGING / young).exists()
    assert foreign.exists()
    assert versions(log) == list(range(15))


def test_sidecars_go_that_no_remaining_checkpoint_names_and_only_after_a_day(tmp_path):
    log = table(tmp_path / "t")
    gone = log.checkpoint(3, Shape.V2_JSON_SIDECARS)[1:]
    kept = log.checkpoint(10, Shape.V2_PARQUET_SIDECARS)[1:]
    later = log.checkpoint(12, Shape.V2_CLASSIC_NAME)[1:]
    aged(log)
    young = log.write("_sidecars/young.parquet", b"x")
    os.utime(young, ns=((NOW - 1000) * 10**6,) * 2)
    opened(log, **{"spark.indextables.checkpoint.retention": 2}).cleanup()
    left = {path.name for path in (log.directory / "_sidecars").iterdir()}
    assert left == {path.name for path in [*kept, *later, young]}
    assert gone
    readable(log, 10)


def test_no_sidecar_goes_while_a_checkpoint_that_remains_cannot_be_read(tmp_path):
    log = table(tmp_path / "t")
    log.checkpoint(3, Shape.V2_JSON_SIDECARS)
    log.checkpoint(10)
    log.write(f"{12:020d}.checkpoint.{'a' * 8}.parquet", b"torn")
    orphan = log.write("_sidecars/orphan.parquet", b"x")
    before = {path.name for path in orphan.parent.iterdir()}
    done = opened(aged(log)).cleanup(older_than=timedelta(days=1))
    assert done.anchor == 10
    assert {path.name for path in orphan.parent.iterdir()} == before
    rules = {v.rule for v in done.verdicts if v.kind == "sidecar"}
    assert rules == {"not every checkpoint could be read: it may be in use"}


# --- what stands in its way --------------------------------------------------------------------


@pytest.mark.parametrize("broken", ["one part of two", "no bytes", "torn"])
def test_a_checkpoint_that_is_not_whole_saves_every_commit(tmp_path, broken):
    """What a peer's cleanup does to such a table is to delete versions 0 to 9."""
    log = table(tmp_path / "t")
    if broken == "one part of two":
        log.checkpoint(10, Shape.MULTI_PART, parts=2)[1].unlink()
    else:
        (path,) = log.checkpoint(10)
        path.write_bytes(b"" if broken == "no bytes" else path.read_bytes()[:-50])
    before = names(aged(log, fresh_from=11))
    done = opened(log).cleanup()
    assert names(log) == before
    assert (done.deleted, done.anchor) == (0, None)
    wanted = "cannot be relied on" if broken == "torn" else "no complete checkpoint"
    assert wanted in done.reason
    assert all(not verdict.goes and verdict.rule == done.reason for verdict in done.verdicts)
    readable(log, 0)


def test_a_checkpoint_that_lost_files_saves_every_commit(tmp_path):
    log = table(tmp_path / "t")
    lossy = LogBuilder(tmp_path / "t")
    lossy.commits = [*log.commits[:5], [], *log.commits[6:]]
    lossy.checkpoint(10)
    done = opened(aged(log)).cleanup()
    assert done.deleted == 0
    assert "add: 10 of 11 actions" in done.reason
    assert versions(log) == list(range(15))


def test_a_broken_checkpoint_is_passed_over_for_an_older_one_that_is_sound(tmp_path):
    log = table(tmp_path / "t")
    log.checkpoint(5)
    log.checkpoint(10)[0].write_bytes(b"torn")
    done = opened(aged(log)).cleanup()
    assert done.anchor == 5
    assert versions(log) == list(range(5, 15))
    assert f"{10:020d}.checkpoint.parquet" in names(log)
    readable(log, 5)


def test_history_that_cannot_be_replayed_is_not_deleted(tmp_path):
    log = table(tmp_path / "t")
    log.checkpoint(10)
    log.write(f"{4:020d}.json", b'{"add":{"pa')
    done = opened(aged(log)).cleanup()
    assert done.deleted == 0
    assert "cannot be replayed" in done.reason


def test_history_that_is_gone_already_leaves_the_checkpoint_to_speak_for_itself(tmp_path):
    log = table(tmp_path / "t")
    log.checkpoint(10)
    log.clean_up(3)
    done = opened(aged(log)).cleanup()
    assert done.anchor == 10
    assert versions(log) == list(range(10, 15))
    readable(log, 10)


def test_a_checkpoint_whose_commit_is_gone_is_not_relied_on(tmp_path):
    log = table(tmp_path / "t")
    log.checkpoint(10)
    log.checkpoint(12)
    aged(log)
    log.commit_path(10).unlink()
    done = opened(log).cleanup(older_than=timedelta(days=1))
    assert done.anchor == 12


@pytest.mark.parametrize(
    "key", ["delta.enableExpiredLogCleanup", "spark.indextables.cleanup.enabled"]
)
def test_a_cleanup_that_is_switched_off_deletes_nothing(tmp_path, key):
    log = table(tmp_path / "t")
    log.checkpoint(10)
    before = names(aged(log))
    done = opened(log, **{key: "false"}).cleanup()
    assert (done.deleted, done.reason) == (0, f"{key} is false")
    assert names(log) == before


def test_of_two_retentions_the_longer_counts(tmp_path):
    log = table(tmp_path / "t", **{"delta.logRetentionDuration": "interval 60 days"})
    log.checkpoint(10)
    assert opened(aged(log)).cleanup().deleted == 0
    other = {"spark.indextables.logRetention.duration": str(50 * DAY_MS)}
    short = table(tmp_path / "s", **{"delta.logRetentionDuration": "interval 1 day"})
    short.checkpoint(10)
    assert opened(aged(short), **other).cleanup().deleted == 0
    shorter = {"spark.indextables.logRetention.duration": str(DAY_MS)}
    assert opened(short, **shorter).cleanup().deleted == 10


@pytest.mark.parametrize("log_format", ["delta", "indextables"])
def test_a_retention_that_is_set_counts_alone_also_where_it_is_shorter_than_a_default(
    tmp_path, log_format
):
    week = {"delta.logRetentionDuration": "interval 7 days"}
    for name, properties, options in (
        ("table", week, {}),
        ("option", {}, {"spark.indextables.logRetention.duration": str(7 * DAY_MS)}),
    ):
        log = table(tmp_path / name, 15, log_format, **properties)
        log.checkpoint(10)
        aged(log)
        kept = {"spark.indextables.checkpoint.retention": 0, **options}
        assert opened(log, OLD + 7 * DAY_MS, **kept).cleanup().deleted == 0
        assert opened(log, OLD + 9 * DAY_MS, **kept).cleanup().deleted == 10


def test_what_a_conf_file_says_of_retention_counts_where_the_table_says_nothing(tmp_path):
    log = table(tmp_path / "t", **{"delta.logRetentionDuration": "interval 7 days"})
    log.checkpoint(10)
    silent = table(tmp_path / "s")
    silent.checkpoint(10)
    conf = {"spark.indextables.logRetention.duration": 60 * DAY_MS}
    for found, deleted in ((log, 10), (silent, 0)):
        cleaning = open_log(str(aged(found).root), Config(file=conf))
        cleaning.clock = replace(cleaning.clock, now_ms=lambda: NOW)
        assert cleaning.cleanup().deleted == deleted


def test_a_retention_without_a_unit_is_refused_as_delta_does_and_the_table_still_reads(tmp_path):
    log = table(tmp_path / "t", **{"delta.logRetentionDuration": "30"})
    log.checkpoint(10)
    before = names(aged(log))
    with pytest.raises(ConfigError, match=r"Duration='30' .*with its unit"):
        opened(log).cleanup()
    assert names(log) == before
    readable(log, 0)


def test_an_age_asked_for_by_hand_leaves_all_other_rules_in_place(tmp_path):
    log = table(tmp_path / "t", 61, "indextables")
    for version in (10, 30, 60):
        log.checkpoint(version)
    old = next(p for p in aged(log).directory.rglob(f"{10:020d}.*checkpoint*"))
    os.utime(old, ns=((NOW - 3_600_000) * 10**6,) * 2)
    done = opened(log).cleanup(older_than=timedelta(days=7))
    assert done.anchor == 30
    assert old.exists()
    readable(log, 30)


def test_indextables_keeps_thirty_versions_before_its_checkpoint_readable(tmp_path):
    log = table(tmp_path / "t", 61, "indextables")
    for version in (10, 20, 30, 60):
        log.checkpoint(version)
    done = opened(aged(log)).cleanup()
    assert done.anchor == 30
    assert versions(log) == list(range(30, 61))
    readable(log, 30)
    none = {"spark.indextables.checkpoint.retention": 0}
    assert opened(log, **none).cleanup().anchor == 60


def test_a_checkpoint_is_kept_for_its_own_retention(tmp_path):
    log = table(tmp_path / "t")
    (old,) = log.checkpoint(4)
    log.checkpoint(10)
    aged(log)
    os.utime(old, ns=((NOW - 3_600_000) * 10**6,) * 2)
    done = opened(log).cleanup()
    assert old.exists()
    assert {v.rule for v in done.verdicts if v.path == old.name} == {
        "a checkpoint within its retention"
    }


def test_tables_of_a_catalog_are_refused(tmp_path):
    managed = protocol(3, 7, readerFeatures=["catalogManaged"], writerFeatures=["catalogManaged"])
    log = LogBuilder(tmp_path / "t")
    log.commit(managed, metadata())
    for ask in ("cleanup", "truncate"):
        with pytest.raises(CatalogManagedError):
            getattr(opened(aged(log)), ask)()


def test_an_append_only_table_is_cleaned_as_any_other(tmp_path):
    log = table(tmp_path / "t", **{"delta.appendOnly": "true"})
    log.checkpoint(10)
    assert opened(aged(log)).cleanup().deleted == 10


def test_times_that_run_backwards_are_made_to_grow(tmp_path):
    log = table(tmp_path / "t")
    log.checkpoint(10)
    aged(log)
    log.modified(3, NOW - 1000)  # copied today: so is, at the earliest, whatever follows it
    done = opened(log).cleanup()
    assert done.deleted == 0
    assert versions(log) == list(range(15))


def test_commits_stay_whose_times_others_depend_on(tmp_path):
    log = table(tmp_path / "t")
    log.checkpoint(5)
    log.checkpoint(10)
    aged(log)
    for version in range(8, 12):
        log.modified(version, OLD - DAY_MS)  # before version 7, which moves them up
    times = [open_log(str(log.root)).version_at(_at(OLD + ms)) for ms in (5, 7, 9, 12)]
    done = opened(log).cleanup()
    assert done.anchor == 5
    assert [open_log(str(log.root)).version_at(_at(OLD + ms)) for ms in (5, 7, 9, 12)] == times


def test_in_commit_timestamps_count_where_the_table_has_them(tmp_path):
    log = LogBuilder(tmp_path / "t")
    stamps = {"delta.enableInCommitTimestamps": "true"}
    for version in range(15):
        stamp = OLD + version if version < 8 else NOW - 1000 + version
        head = [protocol(), metadata(configuration=stamps)] if version == 0 else []
        log.commit({"commitInfo": {"inCommitTimestamp": stamp}}, *head, add(f"f{version}"))
    log.checkpoint(6)
    log.checkpoint(10)
    aged(log)  # by the files' times checkpoint 10 could go
    done = opened(log).cleanup()
    assert done.anchor == 6
    for path in log.directory.glob("*.json"):
        os.utime(path, ns=(NOW * 10**6,) * 2)  # and by these nothing could
    assert opened(log).cleanup(dry_run=True).anchor == 6


def _at(milliseconds: int) -> Any:
    from datetime import datetime, timezone

    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc)


# --- how it goes -------------------------------------------------------------------------------


def test_a_dry_run_explains_every_file_and_deletes_none(tmp_path):
    log = table(tmp_path / "t")
    log.checkpoint(4)
    log.checkpoint(10)
    log.compaction(1, 3)
    before = names(aged(log, fresh_from=12))
    done = opened(log).cleanup(dry_run=True)
    assert names(log) == before
    assert {v.path for v in done.verdicts} == before
    rules = {v.path: (v.goes, v.rule) for v in done.verdicts}
    assert rules[f"{3:020d}.json"] == (True, "covered by checkpoint 10")
    assert rules[f"{10:020d}.json"] == (False, "checkpoint 10 is relied on")
    assert rules[f"{12:020d}.json"] == (False, "after checkpoint 10")
    assert done.deleted == 0
    assert len(done.going) == opened(log).cleanup().deleted == 12


def test_a_file_that_cannot_be_deleted_is_told_or_an_error_as_asked(tmp_path, monkeypatch):
    log = table(tmp_path / "t")
    log.checkpoint(10)
    found = opened(aged(log))
    delete = type(found.directory.storage).delete_many

    def stubborn(self: Any, paths: Any) -> dict[str, str]:
        stuck = [path for path in paths if path.endswith(f"{3:020d}.json")]
        others = [path for path in paths if path not in stuck]
        return dict.fromkeys(stuck, "stuck") | delete(self, others)

    monkeypatch.setattr(type(found.directory.storage), "delete_many", stubborn)
    done = found.cleanup()
    assert (done.deleted, done.failures) == (3, {f"{3:020d}.json": "stuck"})
    assert versions(log) == list(range(3, 15))
    with pytest.raises(CleanupError, match="stuck"):
        opened(log, **{"spark.indextables.cleanup.failurePolicy": "fail"}).cleanup()
    readable(log, 10)


def calls_of(log: LogBuilder, monkeypatch, answer=None, scheme: str | None = None) -> list[Any]:
    """Clean a log; return which files each call to the storage was to delete."""
    found = opened(aged(log))
    storage, calls = found.directory.storage, []
    delete = type(storage).delete_many

    def watched(self: Any, paths: Any) -> dict[str, str]:
        calls.append([path.rpartition("/")[2] for path in paths])
        failed = answer(calls[-1]) if answer else set()
        gone = delete(self, [path for path in paths if path.rpartition("/")[2] not in failed])
        return gone | {p: "stuck" for p in paths if p.rpartition("/")[2] in failed}

    with monkeypatch.context() as patch:
        patch.setattr(type(storage), "delete_many", watched)
        if scheme:
            patch.setattr(storage, "scheme", scheme)
        found.cleanup()
    return [call for call in calls if call]


def test_what_has_an_order_goes_one_by_one_where_a_call_may_end_half_done(tmp_path, monkeypatch):
    log = table(tmp_path / "t")
    old = log.checkpoint(4, Shape.V2_JSON_SIDECARS)
    log.checkpoint(10)
    log.write(f"{2:020d}.crc", b"{}")
    calls = calls_of(log, monkeypatch, scheme="gs")
    assert calls[:10] == [[f"{version:020d}.json"] for version in range(10)]
    assert calls[10:12] == [[f"{2:020d}.crc"], [old[0].name]]
    assert [len(call) for call in calls[12:]] == [len(old) - 1]


def test_what_s3_refuses_of_a_request_is_tried_again_before_anything_newer_goes(
    tmp_path, monkeypatch
):
    log = table(tmp_path / "t")
    log.checkpoint(10)
    commit = [f"{version:020d}.json" for version in range(10)]
    flaky = {commit[2], commit[7]}
    calls = calls_of(log, monkeypatch, lambda asked: flaky if len(asked) > 1 else set(), "s3")
    assert calls == [commit, [commit[2]], [commit[7]]]
    assert versions(log) == list(range(10, 15))
    stuck = table(tmp_path / "s")
    stuck.checkpoint(4)
    stuck.checkpoint(10)
    calls = calls_of(stuck, monkeypatch, flaky.intersection, "s3")
    assert calls == [commit, [commit[2]]]
    assert versions(stuck) == [2, 7, *range(10, 15)]
    assert f"{4:020d}.checkpoint.parquet" in names(stuck)
    readable(stuck, 10)
    assert opened(stuck).cleanup().deleted == 3


def test_files_go_oldest_first_and_commits_before_their_checkpoints(tmp_path):
    log = table(tmp_path / "t")
    log.checkpoint(4)
    log.checkpoint(10)
    log.write(f"{2:020d}.crc", b"{}")
    going = opened(aged(log)).cleanup(dry_run=True).going
    commits = [v.version for v in going if v.kind == "commit"]
    assert commits == list(range(10))
    kinds = [v.kind for v in going]
    assert kinds.index("classic") > max(i for i, kind in enumerate(kinds) if kind == "commit")


def test_truncate_leaves_the_latest_version_and_nothing_before_it(tmp_path):
    log = table(tmp_path / "t")
    log.checkpoint(4)
    log.compaction(1, 3)
    planned = opened(log).truncate(dry_run=True)
    assert versions(log) == list(range(15))
    assert len(planned.going) == 16
    done = opened(log, NOW).truncate()
    assert (done.anchor, done.deleted) == (14, 16)
    assert versions(log) == [14]
    assert live(log) == set(log.truth().files)
    grown = opened(log)
    grown.add_files([{"path": "after", "size": 1}])
    assert open_log(str(log.root)).snapshot().totals().num_files == 16


@pytest.mark.parametrize("log_format", ["delta", "indextables"])
def test_truncate_of_a_table_of_one_version_deletes_nothing(tmp_path, log_format):
    log = table(tmp_path / "t", 1, log_format)
    assert opened(log).truncate().deleted == 0
    assert live(log) == set(log.truth().files)


def drawn(rng: Random, latest: int) -> dict[str, Any]:
    """Return ages, damage, and how a retention is asked for: alike in no two examples."""
    ages = [rng.randint(-1, 60) for _ in range(latest + 1)]
    keys = ["delta.logRetentionDuration", "spark.indextables.logRetention.duration"]
    return {
        "ages": rng.choice([ages, sorted(ages, reverse=True), sorted(ages, reverse=True)]),
        "torn": rng.choice([None, None, 0, 1, 2, 3]),
        "checkpoint": rng.randint(1, latest),
        "has clock": rng.random() < 0.7,
        "days": rng.randint(0, 30),
        "by": rng.choice(["--older-than", *keys]),
        "kept versions": rng.choice([0, 0, 1, 3]),
        "kept checkpoints": rng.choice(["0 days", "2 hours", "2000 days"]),
        "later": rng.choice([0, 20, 90]),
    }


@given(random=random_logs(), seed=st.integers(0, 2**32))
def test_law_4_a_cleanup_changes_no_version_that_is_retained(
    tmp_path_factory, random: RandomLog, seed: int
):
    random = longer(random, 3)
    asked = drawn(Random(seed), random.latest)
    ages, torn = asked["ages"], asked["torn"]
    has_clock = asked["has clock"] and random.log_format == "delta"
    if has_clock:
        random = timed(random, ages)
    log = random.write(tmp_path_factory.getbasetemp() / "law4")
    for version in (asked["checkpoint"] - 1, asked["checkpoint"]):
        if random.first < version:
            log.checkpoint(version)
    for version in range(random.first, random.latest + 1):
        # Where commits have a clock of their own, that of their files says nothing.
        log.modified(version, NOW - (100 if has_clock else ages[version]) * DAY_MS)
    derived = sorted(path for path in log.directory.rglob("*.*") if len(path.name) != 25)
    if torn is not None and torn < len(derived):
        derived[torn].write_bytes(derived[torn].read_bytes()[:-9])
    for path in derived:
        os.utime(path, ns=((NOW - 61 * DAY_MS) * 10**6,) * 2)
    checkpoints = {name for name in names(log) if "checkpoint" in name}
    before = seen(log, range(random.latest + 1))
    if random.latest not in before:
        there = names(log)
        with suppress(ReplayError):
            assert opened(log).cleanup().reason
        assert names(log) == there
        return
    by_hand = timedelta(days=asked["days"]) if asked["by"] == "--older-than" else None
    options = {
        "spark.indextables.checkpoint.retention": asked["kept versions"],
        "spark.indextables.checkpointRetention.duration": asked["kept checkpoints"],
    } | ({} if by_hand is not None else {asked["by"]: f"{asked['days']} days"})
    for now in (NOW, NOW + asked["later"] * DAY_MS):
        done = opened(log, now, **options).cleanup(older_than=by_hand)
        first = random.first if done.anchor is None else done.anchor
        after = seen(log, range(first, random.latest + 1))
        for version, wanted in before.items():
            if version >= first:
                assert_same(after[version], wanted)
        if asked["kept checkpoints"] == "2000 days":
            assert checkpoints <= names(log)
        if done.anchor is not None:
            times = [NOW - ages[v] * DAY_MS for v in range(random.first, done.anchor + 1)]
            # A clock that runs backwards breaks the protocol: then the anchor's own time counts.
            latest = times[-1] if has_clock and times != sorted(times) else max(times)
            assert latest <= now - asked["days"] * DAY_MS
    assert opened(log).snapshot().version == random.latest


def longer(random: RandomLog, count: int) -> RandomLog:
    """Return the log with some more commits, so that there is more to delete."""
    more = [[add(f"more-{number}")] for number in range(count)]
    layouts = [*random.layouts, *random.layouts[:1] * count]
    return replace(random, commits=[*random.commits, *more], layouts=layouts)


def timed(random: RandomLog, ages: list[int]) -> RandomLog:
    """Return the log with in-commit timestamps of these ages, in days."""
    commits = []
    for actions, age in zip(random.commits, ages, strict=False):
        rest = [action for action in actions if "commitInfo" not in action]
        for index, action in enumerate(rest):
            if value := action.get("metaData"):
                properties = {**(value.get("configuration") or {}), ICT: "true"}
                rest[index] = {"metaData": {**value, "configuration": properties}}
        commits.append([{"commitInfo": {"inCommitTimestamp": NOW - age * DAY_MS}}, *rest])
    return replace(random, commits=commits)


def seen(log: LogBuilder, of: range) -> dict[int, Any]:
    """Return what each version that can be read says."""
    found = {}
    for version in of:
        with suppress(ReplayError):
            found[version] = observed(opened(log).snapshot(version))
    return found


def test_a_commit_that_leaves_a_checkpoint_also_cleans_up(tmp_path):
    log = table(tmp_path / "t", 10)
    log.checkpoint(5)
    log.hint(5)
    aged(log)
    found = opened(log, **{"spark.indextables.checkpoint.retention": 0})
    found.add_files([{"path": "a", "size": 1}])
    assert versions(log) == list(range(11))
    for name in "bcdef":
        done = found.add_files([{"path": name, "size": 1}])
    assert [run.name for run in done.hooks] == ["write_checkpoint", "clean_after"]
    assert not done.hook_failures
    assert versions(log) == list(range(5, 16))


def test_deciding_needs_no_files_at_all():
    found, why = candidates([], Facts(5, 3), Rules())
    assert (found, why) == ([], "there is no complete checkpoint")
    assert decide([], Facts(5, 3), Rules(), NOW) == []
