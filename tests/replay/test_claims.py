"""Checkpoints cut at a line end: a number somebody wrote down is what tells."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from engine import ReplayError, open_log
from engine.config import Config
from engine.errors import CorruptCheckpointError
from engine.replay.heads import read_base
from tests.logs import Layout, LogBuilder, Shape, add, remove
from tests.observe import assert_same, observed

if TYPE_CHECKING:
    from pathlib import Path

ENGINES = ("local", "reference")
each_engine = pytest.mark.parametrize("engine", ENGINES)


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


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))


def fallbacks(log: LogBuilder, engine: str) -> list[str]:
    """Return what was reported on the way to the truth."""
    snapshot = open_log(str(log.root)).snapshot(engine=engine)
    assert_same(observed(snapshot), log.truth())
    return [str(fallback) for fallback in snapshot.fallbacks]


@each_engine
@pytest.mark.parametrize("only", [None, "sidecarNumActions", "numOfAddFiles", "sidecarSizeInBytes"])
def test_a_manifest_that_lost_a_sidecar_is_not_taken_as_whole(tmp_path, engine, only) -> None:
    log = filled(tmp_path)
    manifest = log.checkpoint(3, Shape.V2_JSON_SIDECARS, parts=3)[0]
    names = {"sidecarNumActions", "numOfAddFiles", "sidecarSizeInBytes"}
    lines = tagged(log, manifest, **dict.fromkeys(names - {only} if only else ()))
    write(manifest, lines)
    assert fallbacks(log, engine) == []
    write(manifest, lines[:-1])
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
    write(manifest, tagged(log, manifest)[:-1])
    opened = open_log(str(tmp_path))
    from engine.log.listing import list_log
    from engine.log.segment import segment_for
    from engine.replay.local import stream
    from engine.replay.state import Singles

    directory = opened.directory
    segment = segment_for(
        list_log(directory).refs, None, log_format=directory.log_format, directory=directory.url
    )
    with pytest.raises(CorruptCheckpointError, match="sidecars"):
        read_base(segment, directory, Config())
    with pytest.raises(CorruptCheckpointError, match="says that it has"):
        list(stream(segment, directory, Config(), Singles()))


@each_engine
def test_tags_that_tell_nothing_are_passed_over(tmp_path, engine) -> None:
    log = filled(tmp_path)
    manifest = log.checkpoint(3, Shape.V2_JSON_SIDECARS, parts=3)[0]
    write(manifest, tagged(log, manifest, sidecarNumActions="many", numOfAddFiles="-1"))
    assert fallbacks(log, engine) == []


@each_engine
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
    import gzip

    plain = gzip.decompress(whole[2:]) if packing == "gzip" else whole
    short = plain[: plain.rstrip(b"\n").rfind(b"\n") + 1]
    last.write_bytes(b"\x01\x01" + gzip.compress(short) if packing == "gzip" else short)
    for said in ({"size": actions}, {"size": adds, "numFiles": adds}):
        log.hint(3, **said)
        (told,) = fallbacks(log, engine)
        assert "cut short" in told
    log.hint(3, size=actions, format="parquet")
    with pytest.raises(AssertionError):
        fallbacks(log, engine)


@each_engine
def test_a_manifest_without_tags_is_held_against_the_hint_that_names_it(tmp_path, engine) -> None:
    log = filled(tmp_path)
    manifest = log.checkpoint(3, Shape.V2_JSON_SIDECARS, parts=3)[0]
    lines = manifest.read_text().splitlines()
    log.hint(3, size=len(lines) + 14, numOfAddFiles=12, v2Checkpoint={"path": manifest.name})
    assert fallbacks(log, engine) == []
    write(manifest, lines[:-1])
    (told,) = fallbacks(log, engine)
    assert "cut short" in told


@each_engine
@pytest.mark.parametrize("shape", [Shape.CLASSIC, Shape.MULTI_PART, Shape.V2_PARQUET_SIDECARS])
def test_a_hint_alone_never_takes_a_parquet_checkpoint_away(tmp_path, engine, shape) -> None:
    log = filled(tmp_path)
    top = log.checkpoint(3, shape)[0]
    log.hint(3, size=99, numOfAddFiles=99, v2Checkpoint={"path": top.name})
    log.clean_up(4)
    assert fallbacks(log, engine) == []
