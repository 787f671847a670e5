"""What tasks add up to, however a log is cut and dealt to them. Plain functions: no session."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Config, open_log
from engine.replay import spark as spark_engine
from engine.replay import sums
from engine.replay.pieces import REFS_SCHEMA, Job
from engine.replay.plan import balanced
from engine.replay.spark import ReplayFrames
from engine.replay.state import Singles, Totals
from tests.logs import LogBuilder, add, remove
from tests.random_logs import RandomLog, random_logs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from engine import Snapshot
    from engine.replay.pieces import Piece

CORES = Config(options={"spark.indextables.transaction.distributed.parallelism": 3})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("random") / "table"


def frames_of(root: Path, version: int | None = None) -> ReplayFrames:
    snapshot = open_log(str(root), CORES).snapshot(version, engine="local")
    return ReplayFrames(None, snapshot.segment, snapshot.directory, CORES)  # type: ignore[arg-type]


def ran(frames: ReplayFrames, pieces: Sequence[Piece], task: Callable[..., Any]) -> pa.Table:
    """Run a task on each of three shares of the pieces; return the rows they yield."""
    job = Job(frames.directory, frames.config, sums.FIELDS)
    found = []
    for share in balanced(pieces, 3):
        refs = pa.RecordBatch.from_pylist([piece.row(0) for piece in share], REFS_SCHEMA)
        found += list(task([refs], job))
    return pa.Table.from_batches(found)


def each_lot(rows: pa.Table, lots: int, task: Callable[..., Any]) -> list[dict[str, Any]]:
    """Run a task on the rows of each lot, as a shuffle would bring them together."""
    found = []
    for lot in range(lots):
        mine = rows.filter(pa.compute.equal(rows["lot"], lot))
        found += [row for batch in task(mine.to_batches()) for row in batch.to_pylist()]
    return found


def tail_rows(frames: ReplayFrames, lots: int) -> pa.Table:
    return ran(frames, frames.tail_pieces, lambda b, job: sums.sum_tail(b, job, lots=lots))


def checkpoint_rows(frames: ReplayFrames, lots: int) -> pa.Table:
    pieces = frames.checkpoint_pieces
    return ran(frames, pieces, lambda b, job: sums.lay_checkpoint(b, job, lots=lots))


def totals(rows: Sequence[dict[str, Any]]) -> Totals:
    found = sums.added_up(rows)
    records = found["records"] if found["known"] == found["files"] else None
    return Totals(found["files"], found["size"], records, found["tombstones"])


@settings(max_examples=40)
@given(log=random_logs(), data=st.data())
def test_lots_add_up_to_what_the_local_engine_finds(
    root: Path, log: RandomLog, data: st.DataObject
) -> None:
    log.write(root)
    version = data.draw(st.none() | st.integers(log.first, log.latest), label="version")
    lots = data.draw(st.sampled_from([1, 2, 5]), label="lots")
    local = open_log(str(root)).snapshot(version, engine="local")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spark_engine, "RANGE_BYTES", data.draw(st.sampled_from([400, 2000, 2**26])))
        frames = frames_of(root, version)
        tail = tail_rows(frames, lots)
        settled = each_lot(tail, lots, partial(sums.settle, with_keys=True))
        assert_singles(frames, settled, local)
        if frames.segment.checkpoint is None:
            assert totals(settled) == local.totals()
            return
        # The keys of a short tail are known to the checkpoint's tasks.
        keys = b"".join(row["keys"] for row in settled)
        task = lambda b, job: sums.sum_checkpoint(b, job, touched=keys, lots=lots)  # noqa: E731
        base = each_lot(ran(frames, frames.checkpoint_pieces, task), lots, sums.compare_halves)
        assert totals([*settled, *base]) == local.totals()
        # Those of a long one meet them in their lots.
        both = pa.concat_tables([tail, checkpoint_rows(frames, lots)])
        together = each_lot(both, lots, partial(sums.settle, with_keys=False))
        assert totals(together) == local.totals()
        assert not any(row["repeats"] for row in [*base, *together])


def assert_singles(
    frames: ReplayFrames, settled: Sequence[dict[str, Any]], local: Snapshot
) -> None:
    few = Singles() if frames.segment.checkpoint is None else frames.checkpoint[1]
    for row in settled:
        for version, ordinal, kind, _, text in orjson.loads(row["singles"]):
            few.enter(kind, (version, ordinal), orjson.loads(text))
    state = local.state
    assert said(few.winner("protocol")) == said(state.protocol)
    assert said(few.winner("metaData")) == said(state.metadata)
    assert said(few.winners("txn")) == said(state.txns)
    assert said(few.winners("domainMetadata")) == said(state.domains)
    assert said(few.winners("mergeskip")) == said(state.skips)


def said(value: Any) -> Any:
    """Return a value without its nulls: a field that is null and one that is absent are alike."""
    if not isinstance(value, Mapping):
        return value
    return {name: said(inner) for name, inner in value.items() if inner is not None}


def test_of_a_split_only_its_own_field_tells_its_records(tmp_path: Path) -> None:
    LogBuilder(tmp_path, "indextables").start(add("a", stats='{"numRecords":3}'))
    settled = each_lot(tail_rows(frames_of(tmp_path), 1), 1, partial(sums.settle, with_keys=True))
    assert totals(settled).num_records is None
    assert open_log(str(tmp_path)).snapshot().totals().num_records is None


def test_an_action_travels_as_fifty_bytes(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).start(*(add("long" * 50 + str(at)) for at in range(100)))
    log.commit(remove("long" * 50 + "7"))
    rows = tail_rows(frames_of(tmp_path), 1).to_pylist()
    assert sum(len(row["tail"]) for row in rows) == 101 * 50


@pytest.mark.parametrize("files", [1, 2000])
def test_what_a_whole_version_comes_to_does_not_grow_with_it(tmp_path: Path, files: int) -> None:
    LogBuilder(tmp_path).start(*(add(f"f{at}") for at in range(files)))
    (row,) = each_lot(tail_rows(frames_of(tmp_path), 1), 1, partial(sums.settle, with_keys=False))
    assert "keys" not in row
    assert totals([row]).num_files == files
    assert sum(len(value) for value in row.values() if isinstance(value, bytes)) < 1000


def test_sizes_that_add_up_to_more_than_64_bits(tmp_path: Path) -> None:
    LogBuilder(tmp_path).start(*(add(f"f{at}", size=2**63 - 1) for at in range(5)))
    (row,) = each_lot(tail_rows(frames_of(tmp_path), 1), 1, partial(sums.settle, with_keys=False))
    assert totals([row]).size_bytes == 5 * (2**63 - 1)
