"""A compaction says what its commits say, is written once, and changes no snapshot."""

from __future__ import annotations

import json
import logging
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import engine.upkeep.compaction.write as compaction_module
from engine import Config, open_log
from engine.config import COMPACTION_INTERVAL, SETTINGS
from engine.errors import (
    CatalogManagedError,
    CompactionRefusedError,
    CompactionValidationError,
    ConfigError,
    UnreadableLogFileError,
    UnsupportedWriterError,
    VersionNotFoundError,
)
from engine.upkeep.compaction.compact import compact_after
from engine.upkeep.compaction.local import Local
from engine.upkeep.publish import STAGING
from tests.logs import Layout, LogBuilder, add, metadata, protocol, remove, vector
from tests.observe import assert_same, observed
from tests.random_logs import RandomLog, random_logs

USE = "spark.databricks.delta.deltaLog.minorCompaction.useForWrites"
LIMIT = "spark.databricks.delta.deltaLog.minorCompaction.maxWindowSizeBytes"
SCHEMA = {"type": "struct", "fields": []}


def compactions(log: LogBuilder) -> list[str]:
    return sorted(path.name for path in log.directory.glob("*.compacted.*"))


def lines(log: LogBuilder, start: int, end: int) -> list[dict[str, Any]]:
    text = log.file(f"{start:020d}.{end:020d}.compacted.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


def kinds_of(found: list[dict[str, Any]]) -> list[str]:
    return sorted(next(iter(line)) for line in found)


def opened(log: LogBuilder, **options: Any):
    return open_log(str(log.root), Config(options=options))


def snapshots(log: LogBuilder, *, compacted: bool) -> list[Any]:
    reads = {"spark.databricks.delta.deltaLog.minorCompaction.useForReads": compacted}
    opened_log = opened(log, **reads)
    first = opened_log.earliest_commit()
    return [observed(opened_log.snapshot(v)) for v in range(first, log.version + 1)]


def new_table(root, **options: Any):
    log = open_log(str(root), Config(options=options))
    log.initialize(SCHEMA)
    return log


def grow(log, count: int) -> list[Any]:
    done = []
    for _ in range(count):
        version = log.latest_version() + 1
        done.append(log.add_files([{"path": f"f{version}", "size": 1}]))
    return done


# --- the hook ----------------------------------------------------------------------------------


def test_t1_commits_at_multiples_of_the_interval_leave_compactions_behind(tmp_path):
    log = new_table(tmp_path / "t", **{"spark.indextables.checkpoint.enabled": "false"})
    grow(log, 12)
    names = sorted(path.name for path in (tmp_path / "t/_delta_log").glob("*.compacted.json"))
    assert names == [
        "00000000000000000001.00000000000000000005.compacted.json",
        "00000000000000000006.00000000000000000010.compacted.json",
    ]
    assert [
        ref.version for ref in open_log(str(tmp_path / "t")).snapshot().segment.compactions
    ] == [
        5,
        10,
    ]


def test_t7_the_interval_is_five_and_one_is_refused(tmp_path):
    assert COMPACTION_INTERVAL.default == 5
    assert SETTINGS["delta.logCompactionInterval"].kind.parse("2") == 2
    with pytest.raises(ConfigError, match="2 or more"):
        Config(options={"delta.logCompactionInterval": 1})
    log = open_log(str(tmp_path / "t"))
    log.initialize(SCHEMA, configuration={"delta.logCompactionInterval": "3"})
    grow(log, 6)
    assert len(list((tmp_path / "t/_delta_log").glob("*.compacted.json"))) == 2


def test_t8_compacting_after_commits_is_on_unless_it_is_switched_off(tmp_path):
    assert SETTINGS[USE].default is True
    log = new_table(tmp_path / "t", **{USE: "false"})
    grow(log, 6)
    assert not list((tmp_path / "t/_delta_log").glob("*.compacted.*"))


def test_t17_a_compaction_that_fails_does_not_fail_the_commit(tmp_path, monkeypatch):
    log = new_table(tmp_path / "t")
    grow(log, 4)

    def broken(*_: Any, **__: Any) -> Any:
        raise OSError("the disk is gone")

    monkeypatch.setattr(Local, "write", broken)
    (done,) = grow(log, 1)
    assert (done.version, done.is_new) == (5, True)
    assert "the disk is gone" in done.hook_failures[0]
    assert log.snapshot().version == 5


def test_t3_a_commit_with_a_checkpoint_of_its_own_is_not_compacted(tmp_path):
    log = new_table(tmp_path / "t")
    done = grow(log, 16)
    names = sorted(path.name for path in (tmp_path / "t/_delta_log").glob("*.compacted.json"))
    assert names == [
        "00000000000000000001.00000000000000000005.compacted.json",
        "00000000000000000011.00000000000000000015.compacted.json",
    ]
    assert [[run.name for run in one.hooks] for one in done if one.hooks] == [
        ["compact_after"],
        ["write_checkpoint", "clean_after"],
        ["compact_after"],
    ]
    assert log.hooks == []
    assert compact_after(log, done[9]) is None


# --- what is in it -----------------------------------------------------------------------------


def test_t9_it_holds_what_is_left_of_its_commits_without_commit_info_and_cdc(tmp_path):
    log = LogBuilder(tmp_path / "t").start(add("a"))
    log.commit({"commitInfo": {"operation": "WRITE"}}, add("b"), {"cdc": {"path": "c", "size": 1}})
    log.commit({"commitInfo": {"operation": "WRITE"}}, add("c"), remove("b"))
    log.commit(add("d"), {"unknownAction": {"x": 1}})
    opened(log).compact(1, 3)
    assert kinds_of(lines(log, 1, 3)) == ["add", "add", "remove"]
    assert {next(iter(line.values()))["path"] for line in lines(log, 1, 3)} == {"b", "c", "d"}


def test_t10_removes_of_files_added_before_the_window_are_kept_however_old(tmp_path):
    log = LogBuilder(tmp_path / "t").start(add("old"))
    log.commit(remove("old", deletionTimestamp=1))
    log.commit(remove("older", deletionTimestamp=None))
    opened(log).compact(1, 2)
    assert kinds_of(lines(log, 1, 2)) == ["remove", "remove"]


def test_t11_removed_domains_are_kept_in_it_and_gone_from_snapshots(tmp_path):
    log = LogBuilder(tmp_path / "t").start(
        {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}}
    )
    log.commit(add("a"))
    log.commit({"domainMetadata": {"domain": "d", "configuration": "", "removed": True}})
    opened(log).compact(1, 2)
    assert "domainMetadata" in kinds_of(lines(log, 1, 2))
    assert opened(log).snapshot().domains == {}
    assert opened(log).snapshot().segment.compactions


def test_t12_vectors_row_ids_txns_and_domains_are_the_same_by_either_way(tmp_path):
    log = LogBuilder(tmp_path / "t").start(add("a", deletionVector=vector("v1")))
    tracked = {"baseRowId": 7, "defaultRowCommitVersion": 1}
    log.commit(
        remove("a", deletionVector=vector("v1")), add("a", deletionVector=vector("v2"), **tracked)
    )
    log.commit(
        {"txn": {"appId": "app", "version": 3, "lastUpdated": 5}},
        {
            "domainMetadata": {
                "domain": "delta.rowTracking",
                "configuration": "{}",
                "removed": False,
            }
        },
        add("b", tags={"k": "v"}, clusteringProvider="liquid", stats='{"numRecords":1}', **tracked),
    )
    before = snapshots(log, compacted=False)
    opened(log).compact(1, 2)
    assert opened(log).snapshot().segment.compactions
    for got, wanted in zip(snapshots(log, compacted=True), before, strict=True):
        assert_same(got, wanted)


def test_fields_that_nobody_knows_and_odd_spellings_are_kept_to_the_letter(tmp_path):
    log = LogBuilder(tmp_path / "t").start()
    odd = '{"add":{"path":"a","size":1e2,"partitionValues":{},"modificationTime":1,"dataChange":true,"x":{"y":[1.50]}}}'  # noqa: E501
    log.write("00000000000000000001.json", odd.encode() + b"\n")
    log.write("00000000000000000002.json", b'{"txn":{"appId":"z","version":1,"later":"field"}}')
    log.commits += [[json.loads(odd)], [{"txn": {"appId": "z", "version": 1}}]]
    opened(log).compact(1, 2)
    text = log.file(f"{1:020d}.{2:020d}.compacted.json").read_text()
    assert odd in text.splitlines()
    assert '"later":"field"' in text


def test_a_deletion_vector_is_a_part_of_the_key_however_it_is_spelled(tmp_path):
    log = LogBuilder(tmp_path / "t").start(add("a"))
    for version, unique in ((1, "v1"), (2, "v2")):
        action = add("a", deletionVector=vector(unique))
        text = json.dumps(action, separators=(",", ":")).replace(
            '"deletionVector":', '"deletionVector" : '
        )
        log.write(f"{version:020d}.json", text.encode())
        log.commits.append([action])
    opened(log).compact(1, 2)
    assert kinds_of(lines(log, 1, 2)) == ["add", "add"]
    assert_same(observed(opened(log).snapshot()), log.truth())


def test_t22_the_protocol_is_as_it_was_and_a_reader_without_compactions_sees_the_same(tmp_path):
    log = LogBuilder(tmp_path / "t").start(add("a")).filler(6)
    before = opened(log).snapshot().summary()
    opened(log).compact()
    assert opened(log).snapshot().summary()["protocol"] == before["protocol"]
    for got, wanted in zip(
        snapshots(log, compacted=True), snapshots(log, compacted=False), strict=True
    ):
        assert_same(got, wanted)


def test_t20_compactions_are_read_unless_that_is_switched_off(tmp_path):
    reads = "spark.databricks.delta.deltaLog.minorCompaction.useForReads"
    assert SETTINGS[reads].default is True
    log = LogBuilder(tmp_path / "t").start().filler(4)
    log.compaction(1, 4)
    assert opened(log).snapshot().segment.compactions
    assert not opened(log, **{reads: "false"}).snapshot().segment.compactions


def test_t21_the_checkpoint_interval_is_ten_as_it_was():
    assert SETTINGS["delta.checkpointInterval"].default == 10


def test_a_window_with_an_expired_remove_and_a_removed_domain_brings_neither_back(tmp_path):
    """What a peer's compaction does to a table, and this one does not."""
    log = LogBuilder(tmp_path / "t").start(
        add("f1"), {"domainMetadata": {"domain": "d1", "configuration": "{}", "removed": False}}
    )
    log.commit(add("f2"))
    log.commit(
        remove("f1", deletionTimestamp=1),
        {"domainMetadata": {"domain": "d1", "configuration": "{}", "removed": True}},
    )
    log.commit(add("f3"))
    log.checkpoint(0)
    opened(log).compact(1, 3)
    snapshot = opened(log).snapshot()
    assert [(ref.start_version, ref.version) for ref in snapshot.segment.compactions] == [(1, 3)]
    assert sorted(snapshot.files()["path"].to_pylist()) == ["f2", "f3"]
    assert snapshot.domains == {}


@pytest.mark.parametrize("suffix", ["parquet", "json"])
def test_indextables_logs_are_compacted_as_parquet_or_by_setting_as_json(tmp_path, suffix):
    log = LogBuilder(tmp_path / "t", "indextables").start(add("a"))
    log.commit(add("b"), remove("a"), layout=Layout(packing="gzip"))
    skip = {"path": "b", "skipTimestamp": 1, "reason": "r", "operation": "merge", "retryAfter": 9}
    log.commit({"mergeskip": skip}, {"txn": {"appId": "x", "version": 1}})
    log.filler(8)
    opened(log, **{"spark.txlog.compaction.format": suffix}).compact(1, 10)
    (name,) = compactions(log)
    assert name.endswith(suffix)
    snapshot = opened(log).snapshot()
    assert [ref.path for ref in snapshot.segment.compactions] == [name]
    assert_same(observed(snapshot), log.truth())


def test_commits_that_say_nothing_get_no_compaction(tmp_path):
    log = LogBuilder(tmp_path).start(add("a"))
    log.commit()
    log.commit()
    (done,) = opened(log).compact(1, 2)
    assert (done.status, done.skip_reason) == ("skipped", "noActions")
    assert not compactions(log)
    torn = log.directory / f"{1:020d}.{2:020d}.compacted.json"
    torn.touch()
    (done,) = opened(log).compact(1, 2, repair=True)
    assert done.status == "repaired"
    assert not compactions(log)


@given(random=random_logs(), cut=st.integers(0, 5), large=st.booleans())
def test_law_3_a_compaction_changes_no_snapshot(tmp_path_factory, random: RandomLog, cut, large):
    log = random.write(tmp_path_factory.getbasetemp() / "law3")
    for path in log.directory.glob("*.compacted.*"):
        path.unlink()
    start, end = max(random.first, min(cut, random.latest - 1)), random.latest
    if end <= start:
        return
    if random.is_cleaned and random.checkpoints and start == random.first:
        start = min(start, end - 1)
    with pytest.MonkeyPatch.context() as patch:
        if not large:
            patch.setattr("engine.upkeep.compaction.lines.RANGE_BYTES", 64)
            patch.setattr("engine.upkeep.compaction.local._PIECE_BYTES", 64)
        (done,) = opened(log).compact(start, end)
    if done.skip_reason == "noActions":
        assert not compactions(log)
        return
    assert done.status == "completed"
    for version in range(random.first, random.latest + 1):
        assert_same(observed(opened(log).snapshot(version)), log.truth(version))
    checked = opened(log).compact(start, end, repair=True)
    assert [one.status for one in checked] == ["sound"]


@given(
    random=random_logs(),
    cuts=st.lists(st.integers(1, 10), min_size=1, max_size=4),
    large=st.booleans(),
)
def test_law_3_neither_do_many_compactions_and_wide_ones_over_them(
    tmp_path_factory, random: RandomLog, cuts, large
):
    bare = replace(random, compactions=[], checkpoints=[], hint=None)
    log = bare.write(tmp_path_factory.getbasetemp() / "law3-many")
    log.filler(10 - log.version)
    with pytest.MonkeyPatch.context() as patch:
        if not large:
            patch.setattr("engine.upkeep.compaction.lines.RANGE_BYTES", 64)
        patch.setattr("engine.upkeep.compaction.tiles.WIDE", 2)
        start = 0
        for cut in sorted({*cuts, 10}):
            if cut > start:
                opened(log).compact(start, cut)
                start = cut + 1
        done = opened(log).compact(widen=True)
    for version in range(log.version + 1):
        assert_same(observed(opened(log).snapshot(version)), log.truth(version))
    narrow = opened(log, **{"spark.databricks.delta.deltaLog.minorCompaction.useForReads": False})
    assert_same(observed(narrow.snapshot()), log.truth())
    event("wide" if any(one.status == "completed" for one in done) else "narrow")


# --- once, and safely --------------------------------------------------------------------------


def test_t13_a_compaction_that_is_there_is_neither_read_nor_written_again(tmp_path, monkeypatch):
    log = LogBuilder(tmp_path / "t").start().filler(3)
    log.write(f"{1:020d}.{3:020d}.compacted.json", b"whatever it says")
    monkeypatch.setattr(Local, "write", lambda *_: pytest.fail("it was written again"))
    (done,) = opened(log).compact(1, 3)
    assert (done.status, done.skip_reason) == ("skipped", "alreadyExists")
    assert log.file(f"{1:020d}.{3:020d}.compacted.json").read_bytes() == b"whatever it says"


def test_t14_of_many_writers_of_one_compaction_all_succeed_and_one_writes_it(tmp_path, monkeypatch):
    log = LogBuilder(tmp_path / "t").start().filler(6)
    barrier = threading.Barrier(4)
    write = Local.write

    def together(self: Local, *args: Any) -> Any:
        written = write(self, *args)
        barrier.wait(timeout=30)
        return written

    monkeypatch.setattr(Local, "write", together)
    found: list[Any] = []

    def work() -> None:
        found.extend(opened(log).compact(1, 6))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done.status for done in found) == ["completed", "skipped", "skipped", "skipped"]
    assert {done.skip_reason for done in found} == {None, "alreadyExists"}
    assert compactions(log) == [f"{1:020d}.{6:020d}.compacted.json"]
    assert not log.file(STAGING).exists()


def test_t15_a_window_over_the_limit_is_skipped_and_the_limit_is_off_unless_set(tmp_path):
    log = LogBuilder(tmp_path / "t").start().filler(5)
    assert SETTINGS[LIMIT].default == 0
    (done,) = opened(log, **{LIMIT: "100"}).compact(1, 5)
    assert (done.status, done.skip_reason) == ("skipped", "windowTooLarge")
    assert compactions(log) == []
    assert opened(log, **{LIMIT: "-1"}).compact(1, 3)[0].status == "completed"
    size = sum(log.commit_path(v).stat().st_size for v in (4, 5))
    assert opened(log, **{LIMIT: str(size)}).compact(4, 5)[0].status == "completed"


def test_t16_every_call_tells_what_it_did(tmp_path, caplog):
    log = LogBuilder(tmp_path / "t").start().filler(5)
    with caplog.at_level(logging.INFO, compaction_module.__name__):
        (done,) = opened(log).compact(1, 5)
        opened(log).compact(1, 5)
    told = [json.loads(r.message.partition(" ")[2]) for r in caplog.records]
    assert [r.message.partition(" ")[0] for r in caplog.records] == [
        "delta.logCompaction.stats"
    ] * 2
    assert [one["status"] for one in told] == ["completed", "skipped"]
    size = log.file(f"{1:020d}.{5:020d}.compacted.json").stat().st_size
    window = sum(log.commit_path(v).stat().st_size for v in range(1, 6))
    assert told[0] == done.summary()
    wanted = {
        "startVersion": 1,
        "endVersion": 5,
        "status": "completed",
        "commits": 5,
        "actions": 5,
        "fileSize": size,
        "windowSize": window,
        "skipReason": None,
    }
    assert {name: told[0][name] for name in wanted} == wanted
    assert told[0]["duration"] >= 0


def test_t16_a_dry_run_and_a_failure_are_told_too(tmp_path, caplog):
    log = LogBuilder(tmp_path / "t").start().filler(5)
    log.write(f"{6:020d}.json", b'{"add":{"path":"x","size":1x}}\n')
    wrong = log.write(f"{1:020d}.{3:020d}.compacted.json", b"torn")
    with caplog.at_level(logging.INFO, compaction_module.__name__):
        opened(log).compact(4, 5, dry_run=True)
        opened(log).compact(1, 3, repair=True, dry_run=True)
        with pytest.raises(UnreadableLogFileError):
            opened(log).compact(5, 6)
        log.commit_path(2).write_bytes(b"torn too")
        with pytest.raises(UnreadableLogFileError):
            opened(log).compact(1, 3, repair=True)
    told = [json.loads(r.message.partition(" ")[2]) for r in caplog.records]
    assert [(one["startVersion"], one["status"]) for one in told] == [
        (4, "planned"),
        (1, "planned"),
        (5, "failed"),
        (1, "failed"),
    ]
    assert f"{6:020d}.json:1" in told[2]["found"]
    assert f"{2:020d}.json:1" in told[3]["found"]
    assert compactions(log) == [wrong.name]


def test_spark_is_not_asked_to_repair_and_told_so_before_anything_is_done(tmp_path):
    log = LogBuilder(tmp_path / "t").start().filler(10)
    wrong = log.write(f"{1:020d}.{3:020d}.compacted.json", b"torn")
    with pytest.raises(CompactionRefusedError, match="in this process only"):
        opened(log).compact(repair=True, engine="spark")
    assert compactions(log) == [wrong.name]
    assert {one.status for one in opened(log).compact(repair=True, engine="local")} == {
        "repaired",
        "completed",
    }


def test_t18_tables_of_a_catalog_are_refused(tmp_path):
    managed = protocol(3, 7, readerFeatures=["catalogManaged"], writerFeatures=["catalogManaged"])
    log = LogBuilder(tmp_path / "t")
    log.commit(managed, metadata())
    log.filler(5)
    with pytest.raises(CatalogManagedError, match="catalogManaged"):
        opened(log).compact()
    with pytest.raises(CatalogManagedError):
        opened(log, **{"spark.indextables.protocol.checkEnabled": "false"}).compact()
    coordinated = LogBuilder(tmp_path / "c")
    name = "delta.coordinatedCommits.commitCoordinator-preview"
    coordinated.commit(protocol(), metadata(configuration={name: "dynamodb"}))
    with pytest.raises(CatalogManagedError, match="coordinated"):
        opened(coordinated.filler(5)).compact()


def test_a_writer_feature_that_is_unknown_keeps_us_from_the_log(tmp_path):
    log = LogBuilder(tmp_path / "t")
    log.commit(protocol(3, 7, readerFeatures=[], writerFeatures=["fromTheFuture"]), metadata())
    with pytest.raises(UnsupportedWriterError, match="fromTheFuture"):
        opened(log.filler(5)).compact()


def test_what_is_not_read_back_as_it_was_written_is_not_published(tmp_path, monkeypatch):
    log = LogBuilder(tmp_path / "t").start().filler(5)
    directory = opened(log).directory
    output = type(directory.storage).open_output

    @contextmanager
    def lossy(self: Any, path: str) -> Any:
        with output(self, path) as file:
            yield file
        kept = Path(path).read_bytes().splitlines(keepends=True)[1:]
        Path(path).write_bytes(b"".join(kept))

    monkeypatch.setattr(type(directory.storage), "open_output", lossy)
    with pytest.raises(CompactionValidationError, match="4"):
        opened(log).compact(1, 5)
    assert compactions(log) == []
    assert not log.file(STAGING).exists()


def test_a_range_must_have_its_commits_and_may_not_cut_another(tmp_path):
    log = LogBuilder(tmp_path / "t").start().filler(10)
    opened(log).compact(3, 6)
    with pytest.raises(CompactionRefusedError, match="3 to 6"):
        opened(log).compact(5, 9)
    with pytest.raises(CompactionRefusedError, match="two commits"):
        opened(log).compact(4, 4)
    with pytest.raises(VersionNotFoundError):
        opened(log).compact(8, 12)
    assert opened(log).compact(1, 8)[0].status == "completed"


def test_a_damaged_commit_is_not_compacted_away(tmp_path):
    log = LogBuilder(tmp_path / "t").start().filler(5)
    log.write(f"{3:020d}.json", b'{"add":{"path":"torn","si')
    with pytest.raises(UnreadableLogFileError, match=f"{3:020d}.json"):
        opened(log).compact(1, 5)
    assert compactions(log) == []


BAD = (
    '{"add":{"path":"lost","partitionValues":{},"size":%s,"modificationTime":1,"dataChange":true}%s'
)


@pytest.mark.parametrize("log_format", ["delta", "indextables"])
@pytest.mark.parametrize(
    "line",
    [
        BAD % ("1x", "}"),
        BAD % ('"many"', "}"),
        BAD % ("1", ',"remove":{"path":"gone","dataChange":true}}'),
        BAD % ("1", "}}"),
    ],
)
@pytest.mark.parametrize("neighbours", [0, 100])
def test_a_damaged_line_is_told_also_where_it_lost_to_a_later_one(
    tmp_path, log_format, line, neighbours
):
    log = LogBuilder(tmp_path / "t", log_format).start(add("gone")).filler(3)
    lines_of_2 = [json.dumps(add(f"n{number}")) for number in range(neighbours)] + [line]
    log.write(f"{2:020d}.json", "".join(f"{each}\n" for each in lines_of_2).encode())
    log.write(f"{3:020d}.json", json.dumps(remove("lost")).encode() + b"\n")
    before = sorted(log.directory.rglob("*"))
    config = {"spark.txlog.compaction.format": "json"}
    with pytest.raises(UnreadableLogFileError) as told:
        opened(log, **config).compact(1, 3)
    assert (told.value.path, told.value.line) == (f"{2:020d}.json", neighbours + 1)
    assert [p for p in sorted(log.directory.rglob("*")) if p.name != STAGING] == before


# --- all of it, and looking after it -----------------------------------------------------------


def test_a_log_without_compactions_is_tiled_and_a_second_run_finds_nothing_to_do(tmp_path):
    log = LogBuilder(tmp_path / "t").start().filler(42)
    log.checkpoint(12)
    tiny = {"spark.txlog.compaction.tileBytes": "1500"}
    planned = opened(log, **tiny).compact(dry_run=True)
    assert compactions(log) == []
    done = opened(log, **tiny).compact()
    assert [d.tile for d in planned] == [d.tile for d in done]
    assert (done[0].tile.start, done[-1].tile.end) == (13, 40)
    assert len(done) > 2
    assert opened(log, **tiny).compact() == []
    segment = opened(log).snapshot().segment
    assert (len(segment.compactions), len(segment.commits)) == (len(done), 2)
    assert_same(observed(opened(log).snapshot()), log.truth())


def test_a_wide_compaction_over_narrow_ones_is_what_we_read(tmp_path):
    log = LogBuilder(tmp_path / "t").start().filler(41)
    for start in range(1, 41, 5):
        log.compaction(start, start + 4)
    assert opened(log).compact() == []
    (done,) = opened(log).compact(widen=True)
    assert (done.tile.start, done.tile.end) == (1, 40)
    assert len(opened(log).snapshot().segment.compactions) == 1
    assert_same(observed(opened(log).snapshot()), log.truth())


@pytest.mark.parametrize("damaged", ["torn", "empty", "lost tombstone", "foreign line"])
def test_a_torn_or_wrong_compaction_is_replaced_and_a_sound_one_left(tmp_path, damaged):
    log = LogBuilder(tmp_path / "t").start(add("a"), add("b")).filler(3)
    log.commit(remove("a"), add("c"))
    sound = log.compaction(1, 2).read_bytes()
    wrong = log.compaction(3, 4)
    text = wrong.read_bytes()
    wrong.write_bytes(
        {
            "torn": text[:-20],
            "empty": b"",
            "lost tombstone": b"\n".join(x for x in text.split(b"\n") if b'"remove"' not in x),
            "foreign line": text + json.dumps(add("ghost")).encode() + b"\n",
        }[damaged]
    )
    planned = opened(log).compact(repair=True, dry_run=True)
    assert [d.status for d in planned] == ["sound", "planned"]
    done = opened(log).compact(repair=True)
    assert [d.status for d in done] == ["sound", "repaired"]
    assert done[1].found
    assert log.file(f"{1:020d}.{2:020d}.compacted.json").read_bytes() == sound
    assert_same(observed(opened(log).snapshot()), log.truth())
    assert len(opened(log).snapshot().segment.compactions) == 2
    assert not log.file(STAGING).exists()
    assert [d.status for d in opened(log).compact(repair=True)] == ["sound", "sound"]


def test_a_peers_compaction_that_differs_in_what_does_not_count_is_sound(tmp_path):
    log = LogBuilder(tmp_path / "t").start(add("a")).filler(3)
    path = log.compaction(1, 3)
    path.write_bytes(path.read_bytes().replace(b'"dataChange":true', b'"dataChange":false'))
    assert [d.status for d in opened(log).compact(repair=True)] == ["sound"]
