"""A checkpoint that holds a key twice: no writer should, some do, and both engines agree on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine import Config, open_log
from engine.datasource import TxlogSource
from engine.datasource_parts import Rows
from engine.replay import spark as spark_engine
from tests.logs import LogBuilder, Shape, add, remove
from tests.observe import assert_same, observed

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# As many tasks as there are pieces, so that the rows of a key are in different ones.
SPREAD = Config(
    options={
        "spark.indextables.transaction.distributed.adaptiveParallelism": False,
        "spark.indextables.transaction.distributed.parallelism": 8,
    }
)
TWICE = [add("a", size=999), remove("b"), add("gone", size=7)]


def write(root: Path, more: list[dict[str, Any]]) -> LogBuilder:
    """A table of a to d, and a checkpoint of three parts, the last of which ends with `more`."""
    log = LogBuilder(root).start(*(add(name, size=10) for name in ("a", "b", "c", "d", "gone")))
    parts = log.checkpoint(0, Shape.MULTI_PART, parts=3)
    last = pq.read_table(parts[-1])
    pq.write_table(pa.concat_tables([last, pa.Table.from_pylist(more, last.schema)]), parts[-1])
    log.commit(remove("gone"), add("new", size=1))
    return log


@pytest.mark.parametrize("tail_bytes", [0, 2**26], ids=["long tail", "short tail"])
def test_both_engines_keep_one_action_of_a_key(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tail_bytes: int
) -> None:
    monkeypatch.setattr(spark_engine, "BROADCAST_TAIL_BYTES", tail_bytes)
    write(tmp_path, TWICE)
    log = open_log(str(tmp_path), SPREAD, spark=spark)
    local, distributed = log.snapshot(engine="local"), log.snapshot(engine="spark")
    assert distributed.engine == "spark"
    assert_same(observed(distributed), observed(local))
    assert distributed.totals() == local.totals()
    assert local.totals().num_files == 5
    assert local.totals().size_bytes == 41
    for snapshot in (local, distributed):
        rows = snapshot.to_spark(spark, ["path", "size"]).collect()
        assert sorted((row["path"], row["size"]) for row in rows) == [
            ("a", 10), ("b", 10), ("c", 10), ("d", 10), ("new", 1),
        ]  # fmt: skip


def test_a_sound_checkpoint_is_known_to_be_one(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, [])
    log = open_log(str(tmp_path), SPREAD, spark=spark)
    for engine in ("local", "spark"):
        assert not log.snapshot(engine=engine).state.has_repeats


def test_a_later_action_hides_a_key_that_is_there_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path, [add("gone", size=7), add("gone", size=8)])
    log = open_log(str(tmp_path), SPREAD, spark=spark)
    found = log.snapshot(engine="spark")
    assert found.engine == "spark"
    assert found.totals() == log.snapshot(engine="local").totals()
    assert not found.state.has_repeats


@pytest.mark.parametrize("view", ["files", "tombstones"])
def test_the_data_source_keeps_one_action_of_a_key(tmp_path: Path, view: str) -> None:
    twice = [*TWICE, remove("c"), remove("c"), remove("gone")]
    write(tmp_path, [*twice, remove("old"), remove("old")])
    snapshot = open_log(str(tmp_path)).snapshot(engine="local")
    wanted = snapshot.files() if view == "files" else snapshot.tombstones()
    source = TxlogSource({"path": str(tmp_path), "view": view})
    reader = source.reader(source.schema())
    pieces = [part for part in reader.partitions() if not isinstance(part, Rows)]
    assert len(pieces) == 3
    found = pa.Table.from_batches(
        [batch for part in reader.partitions() for batch in reader.read(part)]
    )
    assert found.sort_by("path") == wanted.combine_chunks().sort_by("path")
    assert wanted["path"].to_pylist()
