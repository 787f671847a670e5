"""A checkpoint that Spark writes holds what the local engine's does, in every shape."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings

from engine import ReplayError, open_log
from engine.config import Config
from engine.errors import CheckpointValidationError, DistributedError
from engine.storage.local import LocalStorage
from engine.upkeep.checkpoint.checkpoint import Asked, checkpoint
from engine.upkeep.checkpoint.shape import SHAPES, Shape
from tests.golden.cases import GOLDEN, MISSING, TABLES
from tests.logs import LogBuilder, add, remove
from tests.random_logs import random_logs
from tests.spark.fixtures import environment
from tests.upkeep.kept import NOW, seen
from tests.upkeep.test_checkpoint import writable
from tests.upkeep.test_interop import delta_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from engine.upkeep.checkpoint.outcome import CheckpointResult
    from tests.random_logs import RandomLog

pytestmark = [pytest.mark.spark]

SMALL = {
    "spark.databricks.delta.checkpoint.partSize": 3,
    "spark.indextables.checkpoint.actionsPerPart": 3,
}


def write(
    table: Path, shape: Shape | None = None, spark: SparkSession | None = None, **options: Any
) -> CheckpointResult:
    log = open_log(str(table))
    asked = Asked(shape=shape, engine="local" if spark is None else "spark")
    config = Config(options=options)
    result = checkpoint(log.directory, log.listing(), config, asked, now_ms=NOW, spark=spark)
    if spark is not None and result.created:
        assert (result.engine, [f for f in result.fallbacks if f.what == "engine"]) == ("spark", [])
    return result


def both(root: Path, shape: Shape | None, spark: SparkSession, **options: Any) -> None:
    """Checkpoint a table by the one engine and by the other: the same, before and after."""
    before = seen(open_log(str(root)).snapshot())
    kept = root.with_name("kept")
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(root, kept)
    theirs = write(root, shape, **options)
    shutil.rmtree(root)
    kept.rename(root)  # at the same place: paths may spell it out
    ours = write(root, shape, spark, **options)
    assert ours.content == theirs.content
    assert (ours.created, ours.shape, ours.version) == (True, theirs.shape, theirs.version)
    after = open_log(str(root)).snapshot()
    assert after.segment.checkpoint is not None
    assert after.segment.checkpoint.version == after.version
    assert [f for f in after.fallbacks if f.what != "engine"] == []
    assert seen(after) == before
    assert not (root / after.directory.log_format.directory / ".txlog-staging").exists()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkpoints") / "table"


@pytest.mark.parametrize("shape", Shape)
@settings(max_examples=4)
@given(log=random_logs())
def test_spark_and_the_local_engine_write_the_same(
    root: Path, spark: SparkSession, shape: Shape, log: RandomLog
) -> None:
    if shape not in SHAPES[log.log_format]:
        return
    writable(log, shape).write(root)
    both(root, shape, spark, **(SMALL if shape.is_split or shape.is_v2 else {}))


@pytest.mark.parametrize("shape", [Shape.CLASSIC, Shape.MULTI_PART])
@pytest.mark.parametrize("log_format", ["delta", "indextables"])
def test_what_a_tail_leaves_of_a_checkpoint_is_carried_on(
    tmp_path: Path, spark: SparkSession, log_format: str, shape: Shape
) -> None:
    log = LogBuilder(tmp_path / "table", log_format).start(*(add(f"f{i}") for i in range(50)))
    log.checkpoint(0)
    log.commit(remove("f1"), remove("f2"), add("g", size=5))
    log.commit(add("f2"), remove("g"))
    both(log.root, shape, spark)


@pytest.mark.parametrize("shape", SHAPES["delta"])
def test_deltalake_reads_what_spark_wrote_to_the_same_state(
    tmp_path: Path, spark: SparkSession, shape: Shape
) -> None:
    log = delta_log(tmp_path / "t", v2=shape.is_v2)
    before = DeltaTable(str(log.root))
    files, about = sorted(before.file_uris()), before.metadata()
    write(log.root, shape, spark, **(SMALL if shape.is_split or shape.is_v2 else {}))
    log.clean_up(log.version)  # only the checkpoint is left to read from
    found = DeltaTable(str(log.root))
    assert found.version() == log.version
    assert sorted(found.file_uris()) == files
    assert (found.metadata().id, found.transaction_version("a")) == (about.id, 4)


@pytest.mark.golden
@pytest.mark.skipif(not TABLES, reason=MISSING)
def test_golden_tables_read_the_same_from_a_checkpoint_of_spark(
    tmp_path: Path, spark: SparkSession
) -> None:
    written = 0
    for name in TABLES:
        root = tmp_path / name
        shutil.copytree(GOLDEN / name, root)
        try:
            snapshot = open_log(str(root)).snapshot()
            # As columns only, statistics come back as other text.
            stats = snapshot.configuration.get("delta.checkpoint.writeStatsAsJson") != "false"
            before = seen(snapshot, stats=stats)
            result = write(root, None, spark)
        except ReplayError:
            continue
        if result.created:
            written += 1
            after = open_log(str(root)).snapshot()
            assert after.segment.checkpoint is not None, name
            assert after.segment.checkpoint.version == after.version, name
            assert seen(after, stats=stats) == before, name
    assert written > len(TABLES) // 2


class DamagingStorage(LocalStorage):
    """A disk that does to staged files what its option says, once they are written."""

    @contextmanager
    def open_output(self, path: str) -> Iterator[Any]:
        with super().open_output(path) as file:
            yield file
        DAMAGES[self.options["damage"]](Path(path))


def flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 4] ^= 0xFF
    path.write_bytes(data)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def drop_a_row(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.slice(1), path)


def change_a_row(path: Path) -> None:
    table = pq.read_table(path)
    rows = table.to_pylist()
    at = next(at for at, row in enumerate(rows) if row["add"])
    rows[at]["add"]["size"] += 1
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)


DAMAGES = {damage.__name__: damage for damage in (flip_a_byte, cut_short, drop_a_row, change_a_row)}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("shape", [Shape.CLASSIC, Shape.MULTI_PART])
def test_a_file_that_was_damaged_on_its_way_is_never_published(
    tmp_path: Path, spark: SparkSession, damage: str, shape: Shape
) -> None:
    root = LogBuilder(tmp_path / "table").start(*(add(f"f{at}") for at in range(30))).root
    log = open_log(str(root))
    storage = DamagingStorage("file", {"damage": damage}, Config())
    object.__setattr__(log.directory, "storage", storage)
    names = sorted(path.name for path in (root / "_delta_log").iterdir())
    asked = Asked(shape=shape, engine="spark")
    with pytest.raises(CheckpointValidationError):
        checkpoint(log.directory, log.listing(), Config(), asked, now_ms=NOW, spark=spark)
    assert sorted(path.name for path in (root / "_delta_log").iterdir()) == names


def test_a_spark_that_fails_is_told_and_the_local_engine_takes_over(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise DistributedError("the cluster is on fire")

    monkeypatch.setattr("engine.upkeep.checkpoint.spark.lay_on_spark", broken)
    root = LogBuilder(tmp_path).start(add("a")).root
    log = open_log(str(root))
    asked = Asked(engine="spark")
    result = checkpoint(log.directory, log.listing(), Config(), asked, now_ms=NOW, spark=spark)
    assert (result.created, result.engine) == (True, "local")
    assert "the cluster is on fire; written in this process" in str(result.fallbacks[-1])


def test_the_command_starts_a_session_and_writes_on_it(tmp_path: Path) -> None:
    root = LogBuilder(tmp_path / "table").start(*(add(f"f{at}") for at in range(5))).root
    arguments = ["checkpoint", str(root), "--engine", "spark", "--json"]
    command = [sys.executable, "-c", f"from engine.cli import main; main({arguments})"]
    ran = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    done = json.loads(ran.stdout)
    assert (done["engine"], done["created"], done["numFiles"]) == ("spark", True, 5)
