"""What degrades and what is refused: each line of the table in the architecture, on real logs."""

from __future__ import annotations

from random import Random

import pytest

from engine import ReplayError, open_log
from engine.config import Config
from tests.logs import SHAPES, Layout, LogBuilder, Shape, add, metadata, protocol, remove
from tests.observe import assert_same, observed

ALL_SHAPES = [(log_format, shape) for log_format in SHAPES for shape in SHAPES[log_format]]
each_shape = pytest.mark.parametrize(
    ("log_format", "shape"), ALL_SHAPES, ids=[f"{f} {s.value}" for f, s in ALL_SHAPES]
)


@pytest.fixture(params=["local", "reference"])
def engine(request) -> str:
    return request.param


def log_of(tmp_path, log_format: str = "delta") -> LogBuilder:
    log = LogBuilder(tmp_path / "table", log_format).start(add("first")).filler(5)
    log.commit(remove("file-2"), {"txn": {"appId": "a", "version": 1}})
    return log.filler(3)


def snapshot(log: LogBuilder, engine: str, version: int | None = None):
    return open_log(str(log.root)).snapshot(version, engine=engine)


def refusal(log: LogBuilder, engine: str, version: int | None = None) -> ReplayError:
    with pytest.raises(ReplayError) as refused:
        snapshot(log, engine, version)
    assert "\n" not in str(refused.value)
    return refused.value


@each_shape
def test_a_checkpoint_of_any_shape_changes_no_answer(tmp_path, engine, log_format, shape) -> None:
    log = log_of(tmp_path, log_format)
    log.checkpoint(7, shape)
    log.hint(7)
    log.clean_up(7)
    found = snapshot(log, engine)
    assert_same(observed(found), log.truth())
    assert found.fallbacks == ()
    assert found.segment.checkpoint.version == 7
    assert len(found.segment.commits) == 2


@pytest.mark.parametrize("damage", ["truncated", "empty", "garbage", "missing"])
@each_shape
def test_an_unreadable_checkpoint_gives_way_to_the_commits(
    tmp_path, engine, log_format, shape, damage: str
) -> None:
    log = log_of(tmp_path, log_format)
    # The file that fails is the last: a part or a sidecar where there are any.
    last = log.checkpoint(7, shape)[-1]
    log.hint(7)
    harm(last, damage)
    found = snapshot(log, engine)
    assert_same(observed(found), log.truth())
    assert found.segment.checkpoint is None
    if not (
        damage == "missing"
        and shape
        in {Shape.CLASSIC, Shape.V2_JSON, Shape.V2_PARQUET, Shape.JSON_LINES, Shape.JSON_OBJECT}
    ):
        assert [f.what for f in found.fallbacks] == ["checkpoint"]


@each_shape
def test_an_unreadable_checkpoint_gives_way_to_an_older_one(
    tmp_path, engine, log_format, shape
) -> None:
    log = log_of(tmp_path, log_format)
    log.checkpoint(4, shape)
    harm(log.checkpoint(7, shape)[-1], "truncated")
    log.hint(7)
    log.clean_up(4)
    found = snapshot(log, engine)
    assert_same(observed(found), log.truth())
    assert found.segment.checkpoint.version == 4


@each_shape
def test_an_unreadable_checkpoint_without_its_commits_is_refused_as_what_it_is(
    tmp_path, engine, log_format, shape
) -> None:
    log = log_of(tmp_path, log_format)
    harm(log.checkpoint(7, shape)[-1], "truncated")
    log.hint(7)
    log.clean_up(7)
    assert refusal(log, engine).code == "CORRUPT_CHECKPOINT"


def test_a_missing_sidecar_without_the_commits_is_refused_by_name(tmp_path, engine) -> None:
    log = log_of(tmp_path)
    log.checkpoint(7, Shape.V2_JSON_SIDECARS)[-1].unlink()
    log.clean_up(7)
    assert refusal(log, engine).code == "MISSING_SIDECAR"


@pytest.mark.parametrize("suffix", ["json", "parquet"])
@pytest.mark.parametrize("damage", ["truncated", "empty", "garbage"])
def test_an_unreadable_compaction_gives_way_to_its_commits(
    tmp_path, engine, suffix: str, damage: str
) -> None:
    log = log_of(tmp_path, "indextables")
    log.checkpoint(2)
    log.compaction(0, 1)
    harm(log.compaction(4, 7, suffix=suffix), damage)
    log.compaction(8, 9)
    found = snapshot(log, engine)
    assert_same(observed(found), log.truth())
    assert found.segment.checkpoint.version == 2
    assert [(r.start_version, r.version) for r in found.segment.compactions] == [(8, 9)]
    assert [f.what for f in found.fallbacks] == ["compaction"]


@pytest.mark.parametrize("damage", ["truncated", "garbage"])
@pytest.mark.parametrize("log_format", ["delta", "indextables"])
def test_an_unreadable_commit_is_refused_with_its_name(
    tmp_path, engine, log_format: str, damage: str
) -> None:
    log = log_of(tmp_path, log_format)
    log.checkpoint(4)
    harm(log.commit_path(6), damage)
    error = refusal(log, engine)
    assert error.code == "CORRUPT_JSON"
    assert f"{6:020d}.json" in str(error)
    assert_same(observed(snapshot(log, engine, 5)), log.truth(5))


def test_an_unreadable_commit_before_the_checkpoint_harms_nobody(tmp_path, engine) -> None:
    log = log_of(tmp_path)
    log.checkpoint(4)
    for version in range(5):
        harm(log.commit_path(version), "garbage")
    assert_same(observed(snapshot(log, engine)), log.truth())


def test_an_unreadable_commit_under_a_compaction_is_not_read(tmp_path, engine) -> None:
    log = log_of(tmp_path)
    log.compaction(4, 7)
    harm(log.commit_path(5), "garbage")
    assert_same(observed(snapshot(log, engine)), log.truth())


def test_a_gap_is_refused_with_its_version(tmp_path, engine) -> None:
    log = log_of(tmp_path)
    log.commit_path(5).unlink()
    error = refusal(log, engine)
    assert error.code == "GAP"
    assert "commit 5 is missing" in str(error)
    assert_same(observed(snapshot(log, engine, 4)), log.truth(4))


def test_a_damaged_checkpoint_never_makes_an_older_version_the_latest(tmp_path, engine) -> None:
    log = log_of(tmp_path)
    harm(log.checkpoint(9)[0], "truncated")
    log.commit_path(9).unlink()
    assert refusal(log, engine).code == "CORRUPT_CHECKPOINT"
    assert_same(observed(snapshot(log, engine, 8)), log.truth(8))


@pytest.mark.parametrize(
    ("left_out", "code"), [("protocol", "MISSING_PROTOCOL"), ("metaData", "MISSING_METADATA")]
)
def test_a_checkpoint_without_its_head_is_refused(
    tmp_path, engine, left_out: str, code: str
) -> None:
    log = LogBuilder(tmp_path)
    log.commit(*(a for a in (protocol(), metadata()) if left_out not in a), add("x"))
    log.checkpoint(0)
    log.commit(protocol(), metadata())
    assert refusal(log, engine).code == code


def test_an_indextables_checkpoint_needs_no_protocol(tmp_path, engine) -> None:
    log = LogBuilder(tmp_path, "indextables")
    log.commit(metadata(), add("x"))
    log.checkpoint(0, Shape.JSON_LINES)
    assert snapshot(log, engine).protocol == {"minReaderVersion": 1, "minWriterVersion": 1}


@pytest.mark.parametrize("missing", [["protocol"], ["metaData"]])
def test_commits_without_a_head_are_refused(tmp_path, engine, missing) -> None:
    log = LogBuilder(tmp_path)
    log.commit(*(a for a in (protocol(), metadata()) if not set(missing) & set(a)), add("x"))
    assert (
        refusal(log, engine).code
        == {"protocol": "MISSING_PROTOCOL", "metaData": "MISSING_METADATA"}[missing[0]]
    )


@pytest.mark.parametrize(
    ("action", "code"),
    [
        (protocol(4, 7), "UNSUPPORTED_READER_VERSION"),
        (protocol(3, 7, readerFeatures=["teleport"]), "UNSUPPORTED_READER_FEATURE"),
        ({"protocol": {"minWriterVersion": 2}}, "UNSUPPORTED_READER_VERSION"),
        (protocol(3, 7, readerFeatures=["catalogManaged"]), "CATALOG_MANAGED"),
    ],
)
def test_an_unknown_protocol_is_refused_unless_forced(tmp_path, engine, action, code: str) -> None:
    log = LogBuilder(tmp_path)
    log.commit(action, metadata(), add("x"))
    assert refusal(log, engine).code == code
    forced = Config(options={"spark.indextables.protocol.checkEnabled": False})
    assert open_log(str(tmp_path), forced).snapshot(engine=engine).totals().num_files == 1


def test_a_protocol_may_go_down_again(tmp_path, engine) -> None:
    log = LogBuilder(tmp_path).start()
    log.commit(protocol(4, 7))
    log.commit(protocol(1, 2))
    assert refusal(log, engine, 1).code == "UNSUPPORTED_READER_VERSION"
    assert snapshot(log, engine).protocol["minReaderVersion"] == 1


def test_an_empty_commit_is_a_version_in_delta_and_an_error_in_indextables(
    tmp_path, engine
) -> None:
    delta = LogBuilder(tmp_path / "delta").start()
    delta.write(f"{1:020d}.json", b"")
    found = snapshot(delta, engine)
    assert found.version == 1
    assert [f.what for f in found.fallbacks] == ["commit"]
    other = LogBuilder(tmp_path / "it", "indextables").start()
    other.write(f"{1:020d}.json", b"")
    assert refusal(other, engine).code == "CORRUPT_JSON"


@pytest.mark.parametrize("log_format", ["delta", "indextables"])
@pytest.mark.parametrize("data", [b"", b'{"commitInfo":{"inCommitTi', b"junk"], ids=str)
def test_a_commit_that_its_checkpoint_stands_in_for_is_not_needed(
    tmp_path, engine, log_format, data: bytes
) -> None:
    log = LogBuilder(tmp_path, log_format).start(add("x")).filler(2)
    log.checkpoint(2)
    log.commit_path(2).write_bytes(data)
    found = snapshot(log, engine)
    assert_same(observed(found), log.truth())
    assert found.summary()["inCommitTimestamp"] is None


@pytest.mark.parametrize("packing", ["plain", "gzip", "zstd", "lz4", "snappy", "raw gzip"])
def test_every_packing_reads_the_same(tmp_path, engine, packing: str) -> None:
    log = LogBuilder(tmp_path, "indextables")
    layout = Layout(packing=packing)
    log.commit(protocol(), metadata(), add("x"), layout=layout)
    log.commit(add("y"), remove("x"), layout=layout)
    log.checkpoint(1, Shape.JSON_LINES, layout=layout)
    log.commit(add("z"), layout=layout)
    for version in (0, 1, 2):
        assert_same(observed(snapshot(log, engine, version)), log.truth(version))


def harm(path, damage: str) -> None:
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "truncated":
        path.write_bytes(data[: len(data) * 2 // 3])
    else:
        path.write_bytes(Random(1).randbytes(len(data)))
