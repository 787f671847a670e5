"""Checkpoints cut at a line end: a number somebody wrote down is what tells."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine import ReplayError, open_log
from engine.config import Config
from engine.datasource import register
from engine.errors import CorruptCheckpointError
from engine.log.listing import list_log
from engine.log.segment import segment_for
from engine.replay.heads import read_base, read_head
from engine.replay.local import stream
from engine.replay.state import Singles
from engine.upkeep.checkpoint.shape import Shape as CheckpointShape
from tests.logs import STRINGS, Layout, LogBuilder, Shape, add, remove
from tests.observe import assert_same, observed
from tests.upkeep.kept import write

if TYPE_CHECKING:
    from pathlib import Path

ENGINES = ("local", "reference", pytest.param("spark", marks=pytest.mark.spark))


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """An engine's name; for Spark, with its session running."""
    if request.param == "spark":
        request.getfixturevalue("spark")
    return request.param


def filled(root: Path, log_format: str = "delta") -> LogBuilder:
    log = LogBuilder(root, log_format).start(*(add(f"a{i}") for i in range(12)))
    log.commit(remove("a0"), remove("a1"), {"txn": {"appId": "app", "version": 1}})
    return log.filler(2)


def tagged(log: LogBuilder, manifest: Path, **changed: Any) -> list[str]:
    """Say in a manifest what its sidecars hold; return its lines."""
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    files = [log.file(f"_sidecars/{n['sidecar']['path']}") for n in lines if "sidecar" in n]
    tables = [pq.read_table(path) for path in files]
    tags = {
        "sidecarNumActions": sum(len(table) for table in tables),
        "sidecarSizeInBytes": sum(path.stat().st_size for path in files),
        "numOfAddFiles": sum(len(t) - t["add"].null_count for t in tables),
        **changed,
    }
    lines[0]["checkpointMetadata"]["tags"] = {k: str(v) for k, v in tags.items() if v is not None}
    return [json.dumps(line) for line in lines]


def save(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))


def fallbacks(log: LogBuilder, engine: str) -> list[str]:
    """Return what was reported on the way to the truth."""
    snapshot = open_log(str(log.root)).snapshot(engine=engine)
    assert snapshot.engine == engine
    assert_same(observed(snapshot), log.truth())
    return [str(fallback) for fallback in snapshot.fallbacks]


@pytest.mark.parametrize("only", [None, "sidecarNumActions", "numOfAddFiles", "sidecarSizeInBytes"])
def test_a_manifest_that_lost_a_sidecar_is_not_taken_as_whole(tmp_path, engine, only) -> None:
    log = filled(tmp_path)
    manifest = log.checkpoint(3, Shape.V2_JSON_SIDECARS, parts=3)[0]
    names = {"sidecarNumActions", "numOfAddFiles", "sidecarSizeInBytes"}
    lines = tagged(log, manifest, **dict.fromkeys(names - {only} if only else ()))
    save(manifest, lines)
    assert fallbacks(log, engine) == []
    save(manifest, lines[:-1])
    (told,) = fallbacks(log, engine)
    assert "an older start is used" in told
    log.clean_up(4)
    with pytest.raises(ReplayError) as refused:
        open_log(str(log.root)).snapshot(engine=engine)
    assert refused.value.code == "CORRUPT_CHECKPOINT"


def test_a_stream_of_winners_and_a_plan_for_spark_refuse_a_manifest_that_lost_a_sidecar(
    tmp_path,
) -> None:
    log = filled(tmp_path)
    manifest = log.checkpoint(3, Shape.V2_JSON_SIDECARS, parts=3)[0]
    save(manifest, tagged(log, manifest)[:-1])
    opened = open_log(str(tmp_path))
    directory = opened.directory
    segment = segment_for(
        list_log(directory).refs, None, log_format=directory.log_format, directory=directory.url
    )
    with pytest.raises(CorruptCheckpointError, match="sidecars"):
        read_base(segment, directory, Config())
    with pytest.raises(CorruptCheckpointError, match="says that it has"):
        list(stream(segment, directory, Config(), Singles()))


def test_tags_that_tell_nothing_are_passed_over(tmp_path, engine) -> None:
    log = filled(tmp_path)
    manifest = log.checkpoint(3, Shape.V2_JSON_SIDECARS, parts=3)[0]
    save(manifest, tagged(log, manifest, sidecarNumActions="many", numOfAddFiles="-1"))
    assert fallbacks(log, engine) == []


@pytest.mark.parametrize("shape", [Shape.JSON_LINES, Shape.JSON_PARTS])
@pytest.mark.parametrize("packing", ["plain", "gzip"])
def test_lines_of_a_checkpoint_that_its_hint_counts_are_missed(
    tmp_path, engine, shape, packing
) -> None:
    log = filled(tmp_path, "indextables")
    layout = Layout(packing=packing)
    last = log.checkpoint(3, shape, layout=layout)[-1]
    adds, actions = 12, 17
    for said in ({"size": actions}, {"size": adds}, {"size": actions, "numFiles": adds}):
        log.hint(3, **said)
        assert fallbacks(log, engine) == []
    whole = last.read_bytes()
    plain = gzip.decompress(whole[2:]) if packing == "gzip" else whole
    short = plain[: plain.rstrip(b"\n").rfind(b"\n") + 1]
    last.write_bytes(b"\x01\x01" + gzip.compress(short) if packing == "gzip" else short)
    for said in ({"size": actions}, {"size": adds, "numFiles": adds}):
        log.hint(3, **said)
        (told,) = fallbacks(log, engine)
        assert "cut short" in told
    for other in ({"format": "parquet"}, {"checkpointId": "f" * 12}):
        log.hint(3, size=actions, **other)
        with pytest.raises(AssertionError):
            fallbacks(log, engine)


@pytest.mark.parametrize("has_hint", [True, False])
def test_our_own_parts_that_were_cut_at_a_line_end_are_missed(tmp_path, engine, has_hint) -> None:
    log = LogBuilder(tmp_path, "indextables").start(*(add(f"a{i}") for i in range(20)))
    options = {"spark.indextables.checkpoint.actionsPerPart": 8}
    *parts, _ = write(str(tmp_path), CheckpointShape.JSON_PARTS, options=options).files
    if not has_hint:
        log.file("_last_checkpoint").unlink()
    assert fallbacks(log, engine) == []
    for name in parts:
        whole = log.file(name).read_bytes()
        save(log.file(name), whole.decode().splitlines()[:-1])
        (told,) = fallbacks(log, engine)
        assert f"{name} is cut short" in told
        log.file(name).write_bytes(whole)


def test_a_hint_to_json_parts_is_held_against_them(tmp_path, engine) -> None:
    log = LogBuilder(tmp_path, "indextables").start(*(add(f"a{i}") for i in range(20)))
    options = {"spark.indextables.checkpoint.actionsPerPart": 8}
    *parts, manifest = write(str(tmp_path), CheckpointShape.JSON_PARTS, options=options).files
    said = json.loads(log.file(manifest).read_text())
    del said["partActions"]
    log.file(manifest).write_text(json.dumps(said))
    assert fallbacks(log, engine) == []
    save(log.file(parts[-1]), log.file(parts[-1]).read_text().splitlines()[:3])
    (told,) = fallbacks(log, engine)
    assert "its hint says 22 actions" in told


@pytest.mark.spark
@pytest.mark.parametrize("says", ["tags", "hint"])
def test_the_data_source_misses_what_a_manifest_lost(tmp_path, spark, says) -> None:
    log = filled(tmp_path)
    manifest = log.checkpoint(3, Shape.V2_JSON_SIDECARS, parts=3)[0]
    lines = manifest.read_text().splitlines()
    if says == "tags":
        lines = tagged(log, manifest, sidecarSizeInBytes=None)
    else:
        log.hint(3, size=len(lines) + 14, v2Checkpoint={"path": manifest.name})
    register(spark)
    wanted = sorted(path for path, _ in log.truth().files)
    for there in (lines, lines[:-1]):
        save(manifest, there)
        found = spark.read.format("txlog").load(str(log.root)).select("path").collect()
        assert sorted(row.path for row in found) == wanted


@pytest.mark.parametrize("shape", [Shape.V2_PARQUET, Shape.V2_JSON])
def test_adds_in_a_manifest_itself_count_where_they_are_read(tmp_path, engine, shape) -> None:
    log = filled(tmp_path)
    manifest = log.checkpoint(3, shape)[0]
    tags = {"numOfAddFiles": "12"}
    if shape is Shape.V2_JSON:
        lines = [json.loads(line) for line in manifest.read_text().splitlines()]
        lines[0]["checkpointMetadata"]["tags"] = tags
        save(manifest, [json.dumps(line) for line in lines])
    else:
        table = pq.read_table(manifest)
        about = pa.array(
            [{"version": 3, "tags": [*tags.items()]}, *[None] * (len(table) - 1)],
            pa.struct({"version": pa.int64(), "tags": STRINGS}),
        )
        pq.write_table(table.append_column("checkpointMetadata", about), manifest)
    log.clean_up(4)
    assert fallbacks(log, engine) == []
    segment = open_log(str(tmp_path)).snapshot().segment
    directory = open_log(str(tmp_path)).directory
    read_head(replace(segment, commits=()), directory, Config())
    won = list(stream(segment, directory, Config(), Singles()))
    assert sum(len(part.actions) for part in won if part.kind == "add") == 12


def test_a_manifest_without_tags_is_held_against_the_hint_that_names_it(tmp_path, engine) -> None:
    log = filled(tmp_path)
    manifest = log.checkpoint(3, Shape.V2_JSON_SIDECARS, parts=3)[0]
    lines = manifest.read_text().splitlines()
    log.hint(3, size=len(lines) + 14, numOfAddFiles=12, v2Checkpoint={"path": manifest.name})
    assert fallbacks(log, engine) == []
    save(manifest, lines[:-1])
    (told,) = fallbacks(log, engine)
    assert "cut short" in told


@pytest.mark.parametrize("shape", [Shape.CLASSIC, Shape.MULTI_PART, Shape.V2_PARQUET_SIDECARS])
def test_a_hint_alone_never_takes_a_parquet_checkpoint_away(tmp_path, engine, shape) -> None:
    log = filled(tmp_path)
    top = log.checkpoint(3, shape)[0]
    log.hint(3, size=99, numOfAddFiles=99, v2Checkpoint={"path": top.name})
    log.clean_up(4)
    assert fallbacks(log, engine) == []
