"""Other engines read the checkpoints that txlog writes, and golden tables keep their states."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from engine import ReplayError, open_log
from engine.log.paths import FileKind
from engine.upkeep.checkpoint.shape import SHAPES, Shape
from tests.golden.cases import GOLDEN, MISSING, TABLES, cases
from tests.logs import LogBuilder, metadata
from tests.upkeep.kept import seen, write
from tests.upkeep.test_kill import V2, add, remove

if TYPE_CHECKING:
    from engine.snapshot import Snapshot
    from tests.golden.cases import Case

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
def test_a_golden_table_is_the_same_from_our_checkpoint_alone_in_every_shape(
    tmp_path: Path, table: str
) -> None:
    case = next(cases(table))
    try:
        before = open_log(str(case.path)).snapshot()
    except ReplayError:
        with pytest.raises(ReplayError):
            write(str(shutil.copytree(case.path, tmp_path / "table")))
        return
    if before.segment.last_commit is None:
        return  # it is a checkpoint already, and nothing else
    for shape in (None, *legal_shapes(before)):
        # At the same place each time: paths may spell it out.
        copy = shutil.copytree(case.path, tmp_path / "table")
        assert_same_from_ours(copy, case, shape)
        shutil.rmtree(copy)


def legal_shapes(snapshot: Snapshot) -> list[Shape]:
    """Return the shapes that a table may have."""
    has_v2 = "v2Checkpoint" in (snapshot.protocol.get("readerFeatures") or ())
    forbidden = {Shape.MULTI_PART} if has_v2 else {Shape.V2_PARQUET, Shape.V2_JSON}
    if snapshot.directory.log_format.name != "delta":
        forbidden = set()
    shapes = SHAPES[snapshot.directory.log_format.name]
    return [shape for shape in shapes if shape not in forbidden]


def assert_same_from_ours(copy: Path, case: Case, shape: Shape | None) -> None:
    """Write a checkpoint in a shape, remove the commits before it, and read the same."""
    before = open_log(str(copy)).snapshot()
    # Kept as columns only, statistics are the same and their text is another.
    has_text = before.configuration.get("delta.checkpoint.writeStatsAsJson") != "false"
    wanted = seen(before, stats=has_text)
    log_directory = Path(before.directory.path)
    for name in [*log_directory.rglob("*.checkpoint*"), log_directory / "_last_checkpoint"]:
        if name.is_file() and before.segment.checkpoint is None:
            name.unlink()
    small = SMALL if shape is not None and (shape.is_split or shape.is_v2) else {}
    try:
        done = write(str(copy), shape, repair=True, options=small)
    except ReplayError as refusal:
        allowed = {"UNSUPPORTED_WRITER", "CATALOG_MANAGED"}
        assert refusal.code in allowed or (shape and shape.is_json), refusal
        return
    for ref in before.segment.commits:
        if ref.version < before.version and done.created:
            (log_directory / ref.path).unlink()
    found = open_log(str(copy)).snapshot()
    assert found.version == before.version
    assert seen(found, stats=has_text) == wanted
    if done.created:
        assert found.segment.checkpoint is not None
        assert found.segment.checkpoint.version == before.version
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
        if any(log.glob("*.checkpoint*")) and (log / f"{0:020d}.json").exists():
            found.append(table)
    return found


# What theirs may have and ours does not. `dataChange` tells what a commit did. Typed columns are
# written where the table asks for them, and are compared as what a reader makes of them elsewhere.
# A tombstone's statistics and tags are of no use to anybody. Sidecars are laid out otherwise.
OURS_ALONE = {
    "add": {"dataChange", "stats_parsed", "partitionValues_parsed"},
    "remove": {"dataChange", "stats", "tags"},
}
KEYED = {
    "add": "path", "remove": "path", "txn": "appId", "domainMetadata": "domain",
    "metaData": "id", "protocol": "minReaderVersion",
}  # fmt: skip


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
    if segment.checkpoint is None:
        return
    directory = Path(open_log(str(copy)).directory.path)
    names = [ref.path for ref in segment.checkpoint.files]
    theirs = actions(directory, names)
    version = segment.checkpoint.version
    for name in names:
        (directory / name).unlink()
    is_v2 = segment.checkpoint.kind is FileKind.CHECKPOINT_V2
    shape = Shape.V2_PARQUET if is_v2 else Shape.CLASSIC
    try:
        # Before any tombstone's time is over: they wrote theirs long ago.
        write(str(copy), shape, version, now_ms=0)
    except ReplayError as refusal:
        assert refusal.code in {"GAP", "NO_START"}  # without theirs there is no way there
        return
    ours = open_log(str(copy)).snapshot(version).segment.checkpoint
    assert ours is not None
    mine = actions(directory, [ref.path for ref in ours.files])
    for kind in KEYED:
        missing = theirs[kind].keys() - mine[kind].keys()
        assert not missing, f"{kind}: {missing}"
        # Of tombstones, theirs lacks those whose time was over; of all else it has everything.
        if kind != "remove":
            assert not mine[kind].keys() - theirs[kind].keys()
        for key, action in theirs[kind].items():
            dropped = OURS_ALONE.get(kind, set())
            said = {name: value for name, value in action.items() if name not in dropped}
            assert {name: mine[kind][key].get(name) for name in said} == said


def actions(directory: Path, names: list[str]) -> dict[str, dict[Any, dict[str, Any]]]:
    """Return what the files of a checkpoint say, by kind and key: each field that is not null."""
    rows: list[dict[str, Any]] = []
    for name in names:
        path = directory / name
        if path.suffix == ".json":
            rows += [json.loads(line) for line in path.read_text().splitlines()]
        else:
            rows += pq.read_table(path).to_pylist(maps_as_pydicts="strict")
    sidecars = [row["sidecar"]["path"] for row in rows if row.get("sidecar")]
    for sidecar in sidecars:
        rows += pq.read_table(directory / "_sidecars" / sidecar).to_pylist(maps_as_pydicts="strict")
    found: dict[str, dict[Any, dict[str, Any]]] = {kind: {} for kind in KEYED}
    for row in rows:
        for kind, name in KEYED.items():
            if row.get(kind):
                action = without_nulls(row[kind])
                found[kind][action[name], json.dumps(action.get("deletionVector"))] = action
    return found


def without_nulls(value: Any) -> Any:
    """Return an action without what is null: a field that is not there says the same.

    So do tags that there are none of, which the kernel writes.
    """
    if isinstance(value, dict):
        members = {name: without_nulls(member) for name, member in value.items()}
        return {
            name: member
            for name, member in members.items()
            if member is not None and (name, member) != ("tags", {})
        }
    return value
