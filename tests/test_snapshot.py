"""One table's log, asked through the library: versions, moments, history, differences."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from engine import open_log
from engine.errors import EmptyLogError, MissingSchemaError, ReplayError, VersionNotFoundError
from tests.logs import LogBuilder, add, metadata, protocol, remove, vector

UTC = timezone.utc


def moment(milliseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


@pytest.fixture
def log(tmp_path) -> LogBuilder:
    return LogBuilder(tmp_path)


# --- versions and moments ----------------------------------------------------------------------


def test_every_version_is_its_own_state(log: LogBuilder) -> None:
    log.start().filler(4)
    opened = open_log(str(log.root))
    assert [opened.snapshot(v).totals().num_files for v in range(5)] == [0, 1, 2, 3, 4]
    assert opened.snapshot().version == 4


def test_a_version_and_a_moment_are_too_much(log: LogBuilder) -> None:
    log.start()
    with pytest.raises(ValueError, match="not both"):
        open_log(str(log.root)).snapshot(0, timestamp=moment(0))


def test_an_unknown_engine_is_a_wrong_argument(log: LogBuilder) -> None:
    log.start()
    with pytest.raises(ValueError, match="engine"):
        open_log(str(log.root)).snapshot(engine="warp")


def test_modification_times_tell_the_version_and_never_run_backwards(log: LogBuilder) -> None:
    log.start().filler(3)
    for version, time in enumerate([1000, 5000, 2000, 6000]):
        log.modified(version, time)
    opened = open_log(str(log.root))
    # Version 2 is taken to be a millisecond after version 1.
    times = {999: None, 1000: 0, 4999: 0, 5000: 1, 5001: 2, 5999: 2, 6000: 3, 10**15 // 1000: 3}
    for time, version in times.items():
        if version is None:
            with pytest.raises(VersionNotFoundError) as refusal:
                opened.version_at(moment(time))
            assert refusal.value.code == "VERSION_NOT_FOUND"
        else:
            assert opened.version_at(moment(time)) == version
            assert opened.snapshot(timestamp=moment(time)).version == version


def test_a_moment_is_exact_to_the_millisecond(log: LogBuilder) -> None:
    log.start().filler(1)
    for time in range(1_700_000_000_000, 1_700_000_000_200):
        log.modified(0, time - 50)
        log.modified(1, time)
        opened = open_log(str(log.root))
        assert opened.version_at(moment(time)) == 1
        assert opened.version_at(moment(time - 1)) == 0


def test_a_moment_without_a_zone_is_utc(log: LogBuilder) -> None:
    log.start().filler(1)
    log.modified(0, 0)
    log.modified(1, 3_600_000)
    opened = open_log(str(log.root))
    assert opened.version_at(datetime(1970, 1, 1, 0, 59)) == 0
    assert opened.version_at(datetime(1970, 1, 1, 2, 0, tzinfo=timezone(timedelta(hours=1)))) == 1


def in_commit(time: int) -> dict:
    return {"commitInfo": {"inCommitTimestamp": time, "operation": "WRITE"}}


def with_in_commit_times(start: int | None) -> dict:
    on = {"delta.enableInCommitTimestamps": "true"}
    if start is not None:
        on |= {
            "delta.inCommitTimestampEnablementVersion": str(start),
            "delta.inCommitTimestampEnablementTimestamp": "3000",
        }
    return metadata(configuration=on)


def test_commits_tell_their_own_time_from_the_start(log: LogBuilder) -> None:
    log.commit(in_commit(1000), protocol(), with_in_commit_times(None))
    log.commit(in_commit(2000), add("a"))
    log.commit(in_commit(3000), add("b"))
    opened = open_log(str(log.root))
    assert [opened.version_at(moment(t)) for t in (1000, 1999, 2000, 2999, 3000, 9999)] == [
        0,
        0,
        1,
        1,
        2,
        2,
    ]
    assert opened.snapshot(1).in_commit_timestamp() == 2000
    assert opened.snapshot(1).summary()["inCommitTimestamp"] == 2000
    with pytest.raises(VersionNotFoundError):
        opened.version_at(moment(999))


def test_commits_tell_their_own_time_from_where_that_was_switched_on(log: LogBuilder) -> None:
    log.start()
    log.commit(add("a"))
    log.commit(in_commit(3000), with_in_commit_times(2))
    log.commit(in_commit(4000), add("b"))
    for version, time in enumerate([100, 200, 50, 60]):
        log.modified(version, time)
    opened = open_log(str(log.root))
    asked = {100: 0, 199: 0, 200: 1, 2999: 1, 3000: 2, 3999: 2, 4000: 3}
    assert {time: opened.version_at(moment(time)) for time in asked} == asked


def test_the_in_commit_time_is_that_of_the_version_even_under_a_compaction(log: LogBuilder) -> None:
    log.commit(in_commit(1000), protocol(), with_in_commit_times(None))
    log.commit(in_commit(2000), add("a"))
    log.commit(in_commit(3000), add("b"))
    log.compaction(0, 2)
    log.checkpoint(1)
    opened = open_log(str(log.root))
    assert [opened.snapshot(v).in_commit_timestamp() for v in (0, 1, 2)] == [1000, 2000, 3000]


def test_the_table_may_change_between_two_questions(log: LogBuilder) -> None:
    log.start().filler(2)
    opened = open_log(str(log.root))
    assert opened.snapshot(1).version == 1
    log.filler(2)
    assert opened.snapshot(4).version == 4
    assert opened.snapshot().version == 4
    log.checkpoint(4)
    log.hint(4)
    log.filler(1)
    assert opened.snapshot().version == 5
    assert opened.snapshot(2).version == 2
    assert opened.latest_version() == 5


def test_a_hint_does_not_hide_old_versions(log: LogBuilder) -> None:
    log.start().filler(9)
    log.checkpoint(8)
    log.hint(8)
    opened = open_log(str(log.root))
    assert [opened.snapshot(v).version for v in (0, 7, 8, 9)] == [0, 7, 8, 9]


# --- what a snapshot says ----------------------------------------------------------------------


def test_protocol_and_metadata_are_found_without_the_rest(log: LogBuilder) -> None:
    log.start().filler(3)
    log.commit(metadata("p"))
    log.filler(3)
    # Older commits are not looked at once both are found.
    log.commit(protocol(2, 5))
    log.commit_path(2).write_bytes(b"garbage")
    head = open_log(str(log.root)).head()
    assert head.version == log.version
    assert head.metadata["partitionColumns"] == ["p"]
    assert head.protocol["minReaderVersion"] == 2


def test_totals_are_sums_of_the_live_files(log: LogBuilder) -> None:
    log.start(
        add("a", size=5, stats='{"numRecords":2}'),
        add("b", size=7, stats='{"minValues":{"numRecords":50},"numRecords":3}'),
        remove("c"),
    )
    totals = open_log(str(log.root)).snapshot().totals()
    assert (totals.num_files, totals.size_bytes, totals.num_records) == (2, 12, 5)
    assert totals.num_tombstones == 1
    log.commit(add("d"))
    assert open_log(str(log.root)).snapshot().totals().num_records is None


@pytest.mark.parametrize("schema", [None, "", "{", "null"])
def test_partitions_are_counted_whatever_the_schema_says(log: LogBuilder, schema) -> None:
    files = (add(p, partitionValues={"p": p}) for p in "ab")
    log.commit(protocol(), metadata("p", schemaString=schema), *files)
    assert open_log(str(log.root)).snapshot().partition_count() == 2


def test_an_empty_table_has_no_records(log: LogBuilder) -> None:
    log.start()
    totals = open_log(str(log.root)).snapshot().totals()
    assert (totals.num_files, totals.size_bytes, totals.num_records) == (0, 0, 0)


def test_indextables_tell_records_in_a_field(tmp_path) -> None:
    log = LogBuilder(tmp_path, "indextables").start(add("a", numRecords=4), add("b", numRecords=5))
    assert open_log(str(log.root)).snapshot().totals().num_records == 9


def test_a_removed_domain_is_gone_and_may_come_back(log: LogBuilder) -> None:
    def domain(configuration: str, *, removed: bool = False) -> dict:
        return {
            "domainMetadata": {"domain": "d", "configuration": configuration, "removed": removed}
        }

    log.start(domain("1"))
    log.commit(domain("", removed=True))
    log.commit(domain("2"))
    opened = open_log(str(log.root))
    assert [opened.snapshot(v).domains for v in range(3)] == [{"d": "1"}, {}, {"d": "2"}]


def test_the_latest_txn_counts_even_where_its_version_goes_down(log: LogBuilder) -> None:
    log.start({"txn": {"appId": "a", "version": 9}})
    log.commit({"txn": {"appId": "a", "version": 3}})
    assert open_log(str(log.root)).snapshot().txns == {"a": 3}


def test_within_one_commit_the_later_line_counts(log: LogBuilder) -> None:
    log.start(add("a"), add("b"))
    log.commit(remove("a"), add("a", size=2), add("b", size=2), remove("b"))
    for engine in ("local", "reference"):
        snapshot = open_log(str(log.root)).snapshot(engine=engine)
        assert snapshot.files()["path"].to_pylist() == ["a"]
        assert snapshot.tombstones()["path"].to_pylist() == ["b"]


def test_a_new_deletion_vector_replaces_the_old_file(log: LogBuilder) -> None:
    log.start(add("a"))
    log.commit(remove("a"), add("a", deletionVector=vector("x")))
    log.commit(add("a", deletionVector=vector("y")), remove("a", deletionVector=vector("x")))
    assert open_log(str(log.root)).snapshot().files()["dvId"].to_pylist() == ["uy@1"]


def test_a_schema_that_is_not_there_is_refused_when_it_is_asked_for(log: LogBuilder) -> None:
    log.commit(protocol(), metadata(schemaString=None), add("a"))
    snapshot = open_log(str(log.root)).snapshot()
    assert snapshot.totals().num_files == 1
    with pytest.raises(MissingSchemaError):
        _ = snapshot.schema_string


def test_progress_is_told_of_every_byte_that_is_read(log: LogBuilder) -> None:
    log.start().filler(5)
    log.checkpoint(3)
    for engine in ("local", "reference"):
        told: list[int] = []
        segments = []

        def watch(segment, told=told, segments=segments):
            segments.append(segment)
            return told.append

        open_log(str(log.root)).snapshot(engine=engine, progress=watch)
        assert sum(told) == segments[0].size_bytes > 0


# --- history, actions, differences -------------------------------------------------------------


def test_history_is_what_commits_say_of_themselves_newest_first(log: LogBuilder) -> None:
    log.start()
    log.commit(add("a"), {"commitInfo": {"timestamp": 77, "operation": "WRITE", "x": {"y": 1}}})
    log.commit({"commitInfo": {"timestamp": 88, "inCommitTimestamp": 99}}, add("commitInfo"))
    log.modified(0, 55)
    found = list(open_log(str(log.root)).history())
    assert [entry["version"] for entry in found] == [2, 1, 0]
    assert [entry["timestamp"] for entry in found] == [99, 77, 55]
    assert found[1] == {"version": 1, "timestamp": 77, "operation": "WRITE", "x": {"y": 1}}
    assert "operation" not in found[2]


def test_an_empty_log_has_no_history(tmp_path) -> None:
    log = open_log(str(LogBuilder(tmp_path).root))
    for ask in (lambda: list(log.history()), lambda: log.commit_actions(0)):
        with pytest.raises(EmptyLogError):
            ask()


def test_a_checkpoint_alone_tells_no_time(log: LogBuilder) -> None:
    log.start().filler(2)
    log.checkpoint(log.version)
    log.clean_up(log.version + 1)
    with pytest.raises(VersionNotFoundError, match=f"no commit .* the latest is {log.version}$"):
        open_log(str(log.root)).version_at(datetime(2100, 1, 1, tzinfo=UTC))


def test_a_limited_history_tells_the_same_times(log: LogBuilder) -> None:
    log.start().filler(3)
    for version, time in enumerate([9000, 1000, 1000, 1000]):
        log.modified(version, time)
    opened = open_log(str(log.root))
    assert list(opened.history(limit=2)) == list(opened.history())[:2]
    assert next(iter(opened.history(limit=1)))["timestamp"] == 9003


def test_history_of_a_damaged_commit_is_refused_in_one_line(log: LogBuilder) -> None:
    log.start()
    log.write(f"{1:020d}.json", b'{"commitInfo":{"operation":')
    with pytest.raises(ReplayError) as refusal:
        list(open_log(str(log.root)).history())
    assert refusal.value.code == "CORRUPT_JSON"


def test_the_actions_of_a_commit_come_in_the_order_of_its_lines(log: LogBuilder) -> None:
    log.start()
    log.commit(add("a"), {"zzz": {}}, remove("b"), {"commitInfo": {"n": 1}})
    found = open_log(str(log.root)).commit_actions(1)
    assert [(a.version, a.ordinal, a.kind) for a in found] == [
        (1, 0, "add"),
        (1, 2, "remove"),
        (1, 3, "commitInfo"),
    ]
    assert json.loads(found[2].value) == {"n": 1}
    for version in (-1, 2):
        with pytest.raises(VersionNotFoundError):
            open_log(str(log.root)).commit_actions(version)


def test_the_difference_of_two_versions_is_by_file_and_vector(log: LogBuilder) -> None:
    log.start(add("a"), add("b"))
    log.commit(remove("a"), add("c"))
    log.commit(remove("b"), add("b", deletionVector=vector("x")))
    opened = open_log(str(log.root))

    def diff(old: int, new: int) -> list[list[tuple[str, str | None]]]:
        return [
            sorted(zip(t["path"].to_pylist(), t["dvId"].to_pylist(), strict=True))
            for t in opened.diff(old, new)
        ]

    assert diff(0, 1) == [[("c", None)], [("a", None)]]
    assert diff(1, 2) == [[("b", "ux@1")], [("b", None)]]
    assert diff(2, 0) == [[("a", None), ("b", None)], [("b", "ux@1"), ("c", None)]]
    assert diff(1, 1) == [[], []]


# --- what is imported --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "never"),
    [
        ("import engine", ["pyspark", "pyarrow", "numpy", "fsspec"]),
        ("import engine; engine.open_log", ["pyspark", "fsspec"]),
        ("import engine; engine.open_log(sys.argv[1]).snapshot().summary()", ["pyspark", "fsspec"]),
    ],
)
def test_a_small_log_imports_no_more_than_it_needs(log: LogBuilder, program: str, never) -> None:
    log.start().filler(2)
    log.checkpoint(1)
    check = f"import sys; {program}; print(sorted(set(sys.modules) & set({never!r})))"
    done = subprocess.run(
        [sys.executable, "-c", check, str(log.root)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1],
    )
    assert done.stdout == "[]\n"
