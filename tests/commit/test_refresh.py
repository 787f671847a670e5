"""What was read stays: the next look costs a listing of what is new, and its commits."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from engine import Config, open_log
from engine.config import CACHE_ENABLED, COMPACTION_READS
from engine.errors import LogNotFoundError, UnreadableLogFileError
from tests.commit.conftest import file, new_table, paths
from tests.logs import LogBuilder, add, metadata, protocol
from tests.observe import assert_same, observed


class Counted:
    """The requests a log makes of its storage, by name, and the bytes they moved."""

    def __init__(self, log) -> None:
        self.storage = log.directory.storage
        self.calls: list[tuple[str, str]] = []
        self.bytes = 0
        for name in ("list_from", "list_both", "read", "write_new", "size"):
            setattr(self.storage, name, self._counted(name, getattr(self.storage, name)))

    def _counted(self, name, call):
        def counted(path, *rest, **named):
            self.calls.append((name, Path(path).name))
            answer = call(path, *rest, **named)
            if name.startswith("list"):
                found = answer[0] if name == "list_both" else answer
                self.bytes += sum(len(info.name) for info in found)
            else:
                self.bytes += len(answer or b"") + sum(len(part) for part in rest)
            return answer

        return counted

    def take(self) -> tuple[list[tuple[str, str]], int]:
        taken, self.calls = (self.calls, self.bytes), []
        self.bytes = 0
        return taken


COUNTED = {"stats": '{"numRecords":9}', "modificationTime": 1, "dataChange": True}


def live(snapshot) -> list[str]:
    return sorted(snapshot.files()["path"].to_pylist())


def test_the_read_after_a_commit_reads_no_old_commit(log):
    for n in range(20):
        log.add_files([file(f"f{n}")])
    log.snapshot()
    counted = Counted(log)
    log.add_files([file("last")])
    assert len(log.snapshot().files()) == 21
    names = [(name, path) for name, path in counted.take()[0] if not name.startswith("list")]
    ours = f"{21:020d}.json"
    assert set(names) <= {("write_new", ours), ("read", ours), ("read", f"{20:020d}.json")}


@pytest.mark.s3
def test_the_read_after_a_commit_is_one_short_listing_on_s3(s3):
    log = new_table(s3.url)
    for n in range(5):
        log.add_files([file(f"f{n}")])
    log.snapshot()
    s3.clear()
    log.add_files([file("last")])
    assert [(r.method, r.is_list) for r in s3.requests()] == [("GET", True), ("PUT", False)]
    s3.clear()
    assert len(live(log.snapshot())) == 6
    (request,) = s3.requests()
    assert request.is_list
    assert request.query["start-after"][0] > f"table/_delta_log/{5:020d}"


def test_the_thousandth_commit_costs_what_the_first_does(delta):
    counted = Counted(delta)
    costs = []
    for n in range(1_000):
        delta.add_files([file(f"f{n:04d}")])
        costs.append(counted.take())
    # Neither of the two is one after which a checkpoint or a compaction is due.
    first, last = costs[1], costs[-2]
    assert [name for name, _ in last[0]] == [name for name, _ in first[0]]
    assert last[1] <= 1.1 * first[1]
    assert len(paths(delta)) == 1_000


def test_another_process_is_seen_by_reading_its_commits_only(log):
    log.add_files([file("a")])
    log.snapshot()
    other = open_log(log.directory.table_url)
    other.add_files([file("b")])
    other.add_files([file("c")])
    counted = Counted(log)
    assert live(log.snapshot()) == ["a", "b", "c"]
    read = [path for name, path in counted.take()[0] if name == "read"]
    assert read[-2:] == [f"{2:020d}.json", f"{3:020d}.json"]
    assert f"{0:020d}.json" not in read
    assert live(log.snapshot()) == ["a", "b", "c"]
    assert [name for name, _ in counted.take()[0] if name == "read"] == []


def test_a_refreshed_state_is_what_a_replay_gives(log):
    log.add_files([file(f"f{n}", hour=str(n % 4)) for n in range(12)])
    log.snapshot()
    log.remove_files(["f1", "f2"])
    log.add_files([file("f1", size=99)], txn=("app", 3))
    log.replace_where("hour = 3", [file("new", hour="3")])
    assert_same(observed(log.snapshot()), observed(open_log(log.directory.table_url).snapshot()))
    log.update_metadata(configuration={"x": "y"})
    log.overwrite_files([file("f1"), file("z")])
    commits_alone = Config(options={COMPACTION_READS.key: False})
    fresh = open_log(log.directory.table_url, commits_alone).snapshot()
    assert_same(observed(log.snapshot()), observed(fresh))
    assert log.snapshot().segment.version == fresh.segment.version
    assert log.snapshot().segment.size_bytes == fresh.segment.size_bytes


def test_deletion_vectors_are_keys_of_their_own_in_a_refresh(delta):
    features = {"reader_features": ["deletionVectors"], "writer_features": ["deletionVectors"]}
    delta.upgrade_protocol(3, 7, **features)
    delta.add_files([file("a"), file("b")])
    delta.snapshot()
    vector = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1}
    delta.commit(
        [
            {"remove": {"path": "a", "dataChange": True}},
            {"add": file("a", deletionVector=vector, **COUNTED)},
        ]
    )
    assert_same(observed(delta.snapshot()), observed(open_log(delta.directory.root).snapshot()))
    assert delta.snapshot().files().num_rows == 2


def test_many_small_commits_do_not_shatter_the_state(delta):
    delta.snapshot()
    for n in range(300):
        delta.add_files([file(f"f{n}")])
        if n % 2:
            delta.snapshot()
    assert delta.snapshot().files()["path"].num_chunks <= 130
    assert live(delta.snapshot()) == paths(delta)


def test_snapshots_never_change(log):
    log.add_files([file("a")])
    before = log.snapshot()
    log.overwrite_files([file("b")])
    assert (live(before), before.version) == (["a"], 1)
    assert live(log.snapshot()) == ["b"]
    assert live(before) == ["a"]


def test_a_table_recreated_at_the_same_path_is_noticed(log, log_format):
    log.add_files([file("old")])
    assert live(log.snapshot()) == ["old"]
    shutil.rmtree(log.directory.root)
    with pytest.raises(LogNotFoundError):
        log.snapshot()
    again = new_table(log.directory.root, log_format)
    again.add_files([file("new")])
    assert live(log.snapshot()) == ["new"]
    assert log.head().metadata["id"] == again.head().metadata["id"]
    shutil.rmtree(log.directory.root)
    new_table(log.directory.root, log_format)
    assert log.add_files([file("third")]).version == 1, "never a gap in the new table"


def test_our_own_commit_replaced_by_one_of_the_same_size_is_noticed(log, log_format):
    log.snapshot()
    done = log.add_files([file("mine")])
    shutil.rmtree(log.directory.root)
    new_table(log.directory.root, log_format).add_files([file("thei")])
    assert live(log.snapshot()) == ["thei"]
    assert done.version == 1


@pytest.mark.s3
def test_a_table_recreated_on_s3_is_noticed(s3):
    log = new_table(s3.url)
    first = log.snapshot().metadata["id"]
    commit = log.directory.file(f"{0:020d}.json")
    log.directory.storage.delete_many([commit])
    again = new_table(s3.url)
    assert log.snapshot().metadata["id"] == again.snapshot().metadata["id"] != first


def test_a_commit_that_went_bad_is_refused_and_not_skipped(delta):
    delta.add_files([file("a")])
    delta.snapshot()
    Path(delta.directory.file(f"{2:020d}.json")).write_bytes(b'{"add":{"size":1}}\n')
    with pytest.raises(UnreadableLogFileError):
        delta.snapshot()
    with pytest.raises(UnreadableLogFileError):
        delta.add_files([file("b")])


def test_a_reader_may_be_a_little_behind(log):
    log.snapshot()
    open_log(log.directory.table_url).add_files([file("late")])
    counted = Counted(log)
    assert live(log.snapshot(max_staleness=timedelta(minutes=1))) == []
    assert counted.take()[0] == []
    assert live(log.snapshot(max_staleness=timedelta(0))) == ["late"]
    assert live(log.snapshot()) == ["late"]


def test_staleness_may_come_from_the_settings(log):
    key = "spark.indextables.snapshot.maxStaleness"
    lazy = open_log(log.directory.table_url, Config(options={key: "1 minute"}))
    lazy.snapshot()
    log.add_files([file("a")])
    assert live(lazy.snapshot()) == []
    lazy.invalidate_caches()
    assert live(lazy.snapshot()) == ["a"]


def test_without_a_cache_every_question_replays(log):
    plain = open_log(log.directory.table_url, Config(options={CACHE_ENABLED.key: False}))
    plain.snapshot()
    counted = Counted(plain)
    plain.snapshot()
    assert ("read", f"{0:020d}.json") in counted.take()[0]


@pytest.mark.parametrize("spelling", ["{root}/a", "file:{root}/a", "file://{root}/a"])
def test_a_file_is_the_same_however_its_path_was_spelled(tmp_path, spelling):
    builder = LogBuilder(tmp_path / "clone")
    absolute = spelling.format(root=tmp_path / "clone")
    builder.commit(protocol(), metadata(), add(absolute), add("b"))
    log = open_log(str(tmp_path / "clone"))
    log.snapshot()
    log.remove_files(["a"])
    assert live(log.snapshot()) == ["b"]
    assert live(open_log(str(tmp_path / "clone")).snapshot()) == ["b"]


def test_an_overwrite_by_another_spelling_of_a_live_file_has_one_action_for_it(tmp_path):
    builder = LogBuilder(tmp_path / "clone")
    builder.commit(protocol(), metadata(), add(f"{tmp_path}/clone/a"), add("b"))
    log = open_log(str(tmp_path / "clone"))
    done = log.overwrite_files([{"path": "a", "size": 77}])
    assert (done.num_removed, live(log.snapshot())) == (1, ["a"])
    assert live(open_log(str(tmp_path / "clone")).snapshot()) == ["a"]
