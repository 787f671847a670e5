"""Other engines read the checkpoints that txlog writes, and golden tables keep their states."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from engine import ReplayError, open_log
from engine.log.paths import FileKind
from engine.replay.checkpoints import read_checkpoint
from engine.upkeep.checkpoint.shape import SHAPES, Shape
from tests.golden.cases import GOLDEN, MISSING, TABLES, cases
from tests.logs import LogBuilder, metadata
from tests.upkeep.kept import seen, write
from tests.upkeep.test_kill import V2, add, remove

SMALL = {
    "spark.databricks.delta.checkpoint.partSize": 5,
    "spark.indextables.checkpoint.actionsPerPart": 5,
}


def delta_log(root: Path, *, v2: bool, **properties: str) -> LogBuilder:
    log = LogBuilder(root)
    plain = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    configuration = {name.replace("_", "."): value for name, value in properties.items()}
    log.commit(V2 if v2 else plain, metadata(configuration=configuration))
    for version in range(4):
        log.commit(*(add(f"{version}-{number}") for number in range(6)))
    log.commit(remove("1-1"), remove("3-5"), add("last"), {"txn": {"appId": "a", "version": 4}})
    return log


@pytest.mark.parametrize("shape", SHAPES["delta"])
@pytest.mark.parametrize("struct", ["false", "true"])
def test_deltalake_reads_every_delta_checkpoint_to_the_same_state(
    tmp_path: Path, shape: Shape, struct: str
) -> None:
    log = delta_log(tmp_path / "t", v2=shape.is_v2, delta_checkpoint_writeStatsAsStruct=struct)
    wanted = DeltaTable(str(log.root))
    files = sorted(wanted.file_uris())
    about = wanted.metadata()
    small = SMALL if shape.is_split or shape.is_v2 else {}
    assert write(str(log.root), shape, options=small).created
    for version in range(6):  # only the checkpoint is left to read from
        if version < 5:
            (log.directory / f"{version:020d}.json").unlink()
    found = DeltaTable(str(log.root))
    assert found.version() == 5
    assert sorted(found.file_uris()) == files
    assert (found.metadata().id, found.transaction_version("a")) == (about.id, 4)


@pytest.mark.golden
@pytest.mark.skipif(not TABLES, reason=MISSING)
@pytest.mark.parametrize("table", TABLES)
def test_a_golden_table_is_the_same_from_our_checkpoint_alone(tmp_path: Path, table: str) -> None:
    copy = tmp_path / "table"
    source = next(cases(table)).path
    shutil.copytree(source, copy)
    case = next(cases(table))
    try:
        before = open_log(str(copy)).snapshot()
    except ReplayError:
        with pytest.raises(ReplayError):
            write(str(copy))
        return
    if before.segment.last_commit is None:
        return  # it is a checkpoint already, and nothing else
    # Kept as columns only, statistics are the same and their text is another.
    has_text = before.configuration.get("delta.checkpoint.writeStatsAsJson") != "false"
    wanted = seen(before, stats=has_text)
    log_directory = Path(before.directory.path)
    for name in [*log_directory.rglob("*.checkpoint*"), log_directory / "_last_checkpoint"]:
        if name.is_file() and before.segment.checkpoint is None:
            name.unlink()
    try:
        done = write(str(copy), repair=True)
    except ReplayError as refusal:
        assert refusal.code in {"UNSUPPORTED_WRITER", "CATALOG_MANAGED"}, refusal
        return
    for ref in before.segment.commits:
        if ref.version < before.version and done.created:
            (log_directory / ref.path).unlink()
    found = open_log(str(copy)).snapshot()
    assert found.version == before.version
    assert seen(found, stats=has_text) == wanted
    files = found.files()
    unique = files["dvId"].to_pylist()
    case.check_state(found.summary(), zip(files["path"].to_pylist(), unique, strict=True))


def upstream() -> list[str]:
    """Return the golden tables with a checkpoint of another engine, and all commits before it."""
    found = []
    for table in TABLES:
        log = GOLDEN / table / "table" / "_delta_log"
        if not log.is_dir():
            log = next(GOLDEN.joinpath(table).rglob("_delta_log"), log)
        if any(log.glob("*.checkpoint*.parquet")) and (log / f"{0:020d}.json").exists():
            found.append(table)
    return found


@pytest.mark.golden
@pytest.mark.skipif(not TABLES, reason=MISSING)
@pytest.mark.parametrize("table", upstream())
def test_ours_holds_the_actions_of_an_upstream_checkpoint(tmp_path: Path, table: str) -> None:
    copy = tmp_path / "table"
    shutil.copytree(next(cases(table)).path, copy)
    try:
        segment = open_log(str(copy)).snapshot().segment
    except ReplayError:
        return
    if segment.checkpoint is None or segment.checkpoint.kind is FileKind.CHECKPOINT_V2:
        return
    directory = open_log(str(copy)).directory
    theirs = actions(directory, segment.checkpoint)
    version = segment.checkpoint.version
    for ref in segment.checkpoint.files:
        (Path(directory.path) / ref.path).unlink()
    try:
        # Before any tombstone's time is over: they wrote theirs long ago.
        write(str(copy), Shape.CLASSIC, version, now_ms=0)
    except ReplayError as refusal:
        assert refusal.code in {"GAP", "NO_START"}  # without theirs there is no way there
        return
    ours = open_log(str(copy)).snapshot(version).segment.checkpoint
    assert ours is not None
    mine = actions(directory, ours)
    assert theirs["add"] == mine["add"]
    assert theirs["metaData"] == mine["metaData"]
    assert theirs["txn"] == mine["txn"]


def actions(directory: Any, checkpoint: Any) -> dict[str, set[str]]:
    """Return what a checkpoint holds, by what both must have: keys and sizes, ids, versions."""
    fields = {
        "add": ("path", "size"),
        "metaData": ("id", "schemaString"),
        "txn": ("appId", "version"),
    }
    found: dict[str, set[str]] = {kind: set() for kind in fields}
    for batch in read_checkpoint(directory, checkpoint):
        for kind, names in fields.items():
            column = batch.columns.get(kind)
            for row in [] if column is None else column.to_pylist():
                if row is not None:
                    found[kind].add(json.dumps([row.get(name) for name in names]))
    return found
