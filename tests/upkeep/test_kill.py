"""Killed at any step, a checkpoint leaves a log that reads the same, and the next run finishes."""

from __future__ import annotations

import re
import shutil
import signal
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from engine import open_log
from engine.log.listing import read_hint
from engine.log.paths import HINT, FileKind
from engine.replay.checkpoints import (
    ALL_KINDS,
    json_parts,
    read_checkpoint,
    read_checkpoint_file,
    sidecars,
)
from engine.replay.claims import METADATA
from engine.storage import FileInfo
from engine.upkeep.checkpoint.shape import Shape
from engine.upkeep.publish import STAGING
from tests.forks import Forks, forks
from tests.logs import LogBuilder, metadata
from tests.upkeep.kept import NOW, seen, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from engine.log.listing import LogDirectory
    from engine.log.segment import Checkpoint
    from engine.table import TableLog
    from tests.s3.fixtures import S3Server

HOUR = 3_600_000
OPTIONS = {
    "spark.databricks.delta.checkpoint.partSize": 4,
    "spark.indextables.checkpoint.actionsPerPart": 4,
    "spark.txlog.staging.retention": 0,
}
V2 = {
    "protocol": {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["v2Checkpoint"],
        "writerFeatures": ["v2Checkpoint"],
    }
}
WITHOUT_PARTS = {key: value for key, value in OPTIONS.items() if "Size" not in key}


def add(name: str) -> dict[str, Any]:
    about = {"partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    return {"add": {"path": name, **about}}


def remove(name: str) -> dict[str, Any]:
    return {"remove": {"path": name, "deletionTimestamp": NOW - HOUR, "dataChange": True}}


def built(root: Path, log_format: str, shape: Shape) -> dict[int, Any]:
    """Write a log; return what its last two versions say. For V2 the older has a checkpoint."""
    log = LogBuilder(root, log_format)
    protocol = V2 if shape.is_v2 else {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    log.commit(protocol, metadata())
    for version in range(1, 4):
        log.commit(*(add(f"{version}-{number}") for number in range(4)))
    if shape.is_v2:
        write(str(root), shape, options=OPTIONS)
    log.commit(remove("3-1"), add("4-0"), {"txn": {"appId": "a", "version": 1}})
    return {version: seen(open_log(str(root)).snapshot(version)) for version in (3, 4)}


@pytest.fixture(scope="module")
def victims() -> Iterator[Forks]:
    with forks("tests.upkeep.victim") as victims:
        yield victims


def files(log: TableLog) -> dict[str, FileInfo]:
    """Return every file under the log directory, hidden ones too."""
    directory = log.directory
    found: dict[str, FileInfo] = {}

    def look(inside: str) -> None:
        try:
            names, folders = directory.storage.list_both(directory.path + inside)
        except FileNotFoundError:
            return
        found.update((f"{inside}/{file.name}", file) for file in names)
        for folder in folders:
            found[f"{inside}/{folder}/"] = FileInfo(folder, 0, 0)
            look(f"{inside}/{folder}")

    look("")
    return found


def left(log: TableLog) -> tuple[Any, ...]:
    """Return what tells apart what killed processes left: every name, and what it holds."""

    def plain(text: str) -> str:
        return re.sub(r"[0-9a-f]{12,}|[0-9a-f-]{36}", "a run's own", text)

    def held(name: str, file: FileInfo) -> object:
        # A Parquet file is written once under its name, and is whole where a process is killed.
        if name.endswith(("/", ".parquet")):
            return file.size
        return plain(log.directory.storage.read(file.path).decode("latin-1"))

    return tuple(sorted((plain(name), held(name, file)) for name, file in files(log).items()))


def orphans(log: TableLog) -> set[str]:
    """Return the sidecars and parts that no manifest names."""
    refs = log.listing(0).refs
    named = {
        f"/{part}"
        for ref in refs
        if ref.kind is FileKind.CHECKPOINT_JSON
        for part in json_parts(log.directory, ref)
    } | {
        f"/{sidecar.path}"
        for ref in refs
        if ref.kind is FileKind.CHECKPOINT_V2
        for batch in read_checkpoint_file(log.directory, ref, wanted=("sidecar",))
        for sidecar in sidecars(batch, ref.version)
    }
    parts = {f"/{ref.path}" for ref in refs if ref.kind is FileKind.CHECKPOINT_JSON_PART}
    found = {name for name in files(log) if re.match("/_sidecars/.", name)}
    return (found | parts) - named


def assert_survives(table: str, wanted: dict[int, Any], shape: Shape, options: Any) -> None:
    """What a reader sees is what it was; the next run makes a checkpoint and clears up."""
    log = open_log(table)
    for version, state in wanted.items():
        assert seen(log.snapshot(version)) == state
    write(table, shape, now_ms=NOW + HOUR, options=options)
    log = open_log(table)
    for version, state in wanted.items():
        assert seen(log.snapshot(version), NOW) == state
    found = log.snapshot()
    assert found.segment.checkpoint is not None
    assert found.segment.checkpoint.version == max(wanted)
    assert not found.fallbacks
    assert not {name for name in files(log) if STAGING in name or name.endswith(".tmp")}
    assert not orphans(log)
    assert_told(log, max(wanted))


def assert_told(log: TableLog, version: int) -> None:
    """The hint names the checkpoint of a version as it is, and metadata is beside Parquet."""
    directory = log.directory
    checkpoint = log.snapshot().segment.checkpoint
    assert checkpoint is not None
    hint = orjson.loads(directory.storage.read(directory.file(HINT)))
    assert hint["version"] == version
    assert read_hint(directory)[1] is None
    adds = log.snapshot().files().num_rows
    assert hint.get("numFiles", hint.get("numOfAddFiles")) == adds
    assert hint["size"] == actions(directory, checkpoint)
    if checkpoint.kind is FileKind.CHECKPOINT_PART:
        assert hint["parts"] == len(checkpoint.files)
    if checkpoint.kind is FileKind.CHECKPOINT_JSON:
        parts = json_parts(directory, checkpoint.files[0])
        assert hint.get("parts") == (len(parts) or None)
        assert all(hint["checkpointId"] in part for part in parts)
    below = directory.log_format.checkpoint_directory
    if below and checkpoint.kind is not FileKind.CHECKPOINT_JSON:
        path = directory.file(f"{below}/{version:020d}.checkpoint.json")
        about = orjson.loads(directory.storage.read(path))
        assert (about["version"], about["size"]) == (version, adds)
        assert about.get("parts") == hint.get("parts")


def actions(directory: LogDirectory, checkpoint: Checkpoint) -> int:
    """Return how many actions a checkpoint has, manifest, parts and sidecars together."""
    batches = list(read_checkpoint(directory, checkpoint, wanted=(*ALL_KINDS, METADATA)))
    columns = [column for batch in batches for column in batch.columns.values()]
    return sum(len(column) - column.null_count for column in columns)


CASES = [
    ("delta", Shape.CLASSIC, WITHOUT_PARTS),
    ("delta", Shape.MULTI_PART, OPTIONS),
    ("delta", Shape.V2_PARQUET, OPTIONS),
    ("delta", Shape.V2_JSON, OPTIONS),
    ("indextables", Shape.CLASSIC, WITHOUT_PARTS),
    ("indextables", Shape.MULTI_PART, OPTIONS),
    ("indextables", Shape.JSON, {**OPTIONS, "spark.indextables.checkpoint.actionsPerPart": 99}),
    ("indextables", Shape.JSON_PARTS, OPTIONS),
]
MOST_STEPS = 160


def killed_at_each_step(
    place: Callable[[int], str],
    victims: Forks,
    shape: Shape,
    options: dict[str, Any],
    wanted: dict[int, Any],
) -> int:
    """Kill a run before each of its steps, each on a copy of the table; return how many.

    What several of them left alike is looked at once.
    """
    known = set()
    for step in range(1, MOST_STEPS):
        table = place(step)
        status = victims.run(table=table, step=step, shape=shape.value, options=options)
        assert status in {0, -signal.SIGKILL}
        state = left(open_log(table))
        if state not in known:
            assert_survives(table, wanted, shape, options)
        known.add(state)
        if status == 0:
            return step - 1
    pytest.fail("there are more steps than were tried")


@pytest.mark.parametrize(("log_format", "shape", "options"), CASES)
def test_killed_at_any_step_on_disk_it_loses_nothing(
    tmp_path: Path, victims: Forks, log_format: str, shape: Shape, options: dict[str, Any]
) -> None:
    original = tmp_path / "original"
    wanted = built(original, log_format, shape)

    def copied(step: int) -> str:
        return str(shutil.copytree(original, tmp_path / f"step-{step}" / "table"))

    assert killed_at_each_step(copied, victims, shape, options, wanted) > 10


@pytest.mark.parametrize(("log_format", "shape", "options"), [*CASES[:3], CASES[4]])
def test_killed_at_any_step_on_s3_it_loses_nothing(
    tmp_path: Path,
    s3: S3Server,
    victims: Forks,
    log_format: str,
    shape: Shape,
    options: dict[str, Any],
) -> None:
    original = tmp_path / "original"
    wanted = built(original, log_format, shape)
    files = {str(p.relative_to(original)): p.read_bytes() for p in original.rglob("*.*")}

    def uploaded(step: int) -> str:
        s3.put_many({f"step-{step}/{name}": data for name, data in files.items()})
        return f"{s3.url}/step-{step}"

    assert killed_at_each_step(uploaded, victims, shape, options, wanted) > 5
