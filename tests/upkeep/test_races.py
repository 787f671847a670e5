"""Two writers of one version end up with one checkpoint, and both tell of the one that is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from engine import open_log
from engine.errors import CheckpointCorruptionError
from engine.log.segment import complete_checkpoints
from engine.upkeep.checkpoint import checkpoint as module
from engine.upkeep.checkpoint.shape import Shape
from tests.upkeep.kept import seen, write
from tests.upkeep.test_kill import OPTIONS, WITHOUT_PARTS, assert_told, built, orphans

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WHOLE = {**OPTIONS, "spark.indextables.checkpoint.actionsPerPart": 99}


def overtaken(monkeypatch: pytest.MonkeyPatch, other: Callable[[], Any]) -> None:
    """Let `other` happen once, just before a checkpoint gets its names."""
    plain, waiting = module.place, [other]

    def place(*args: Any) -> Any:
        if waiting:
            waiting.pop()()
        return plain(*args)

    monkeypatch.setattr(module, "place", place)


@pytest.mark.parametrize(
    ("log_format", "ours", "theirs"),
    [
        ("delta", (Shape.CLASSIC, WITHOUT_PARTS), (Shape.CLASSIC, WITHOUT_PARTS)),
        ("delta", (Shape.MULTI_PART, OPTIONS), (Shape.MULTI_PART, OPTIONS)),
        ("delta", (Shape.V2_PARQUET, OPTIONS), (Shape.V2_PARQUET, OPTIONS)),
        ("delta", (Shape.V2_JSON, OPTIONS), (Shape.V2_PARQUET, OPTIONS)),
        ("delta", (Shape.V2_JSON, OPTIONS), (Shape.CLASSIC, WITHOUT_PARTS)),
        ("indextables", (Shape.CLASSIC, WITHOUT_PARTS), (Shape.CLASSIC, WITHOUT_PARTS)),
        ("indextables", (Shape.JSON_PARTS, OPTIONS), (Shape.JSON_PARTS, OPTIONS)),
        ("indextables", (Shape.JSON_PARTS, OPTIONS), (Shape.JSON, WHOLE)),
        ("indextables", (Shape.JSON, WHOLE), (Shape.JSON_PARTS, OPTIONS)),
    ],
)
def test_who_comes_second_tells_of_the_checkpoint_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log_format: str, ours: Any, theirs: Any
) -> None:
    table = tmp_path / "table"
    wanted = built(table, log_format, ours[0])
    first: list[Any] = []
    overtaken(monkeypatch, lambda: first.append(write(str(table), theirs[0], options=theirs[1])))
    second = write(str(table), ours[0], options=ours[1])
    assert (first[0].created, second.created) == (True, False)
    # Of V2, who wrote it tells of the sidecars too, and who finds it of the manifest.
    told = first[0].files[-1:] if first[0].shape.is_v2 else first[0].files
    assert (second.files, second.size_bytes) == (told, first[0].size_bytes)
    assert second.shape is first[0].shape
    log = open_log(str(table))
    assert all(
        (table / log.directory.log_format.directory / name).exists() for name in second.files
    )
    found = complete_checkpoints(log.listing(4).refs)
    assert len([checkpoint for checkpoint in found if checkpoint.version == 4]) == 1
    assert seen(log.snapshot()) == wanted[4]
    assert not orphans(log)
    assert_told(log, 4)


def test_what_is_there_and_damaged_does_not_keep_a_repair_from_its_place(tmp_path: Path) -> None:
    table = tmp_path / "table"
    wanted = built(table, "delta", Shape.V2_JSON)
    manifest = table / "_delta_log" / write(str(table), Shape.V2_JSON, options=OPTIONS).files[-1]
    manifest.write_bytes(manifest.read_bytes()[:-5])
    done = write(str(table), Shape.V2_JSON, options=OPTIONS, repair=True)
    assert done.created
    assert done.files[-1] > manifest.name
    found = open_log(str(table)).snapshot()
    assert not found.fallbacks
    assert seen(found) == wanted[4]


def test_a_winner_that_holds_as_many_files_but_others_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, other = tmp_path / "table", tmp_path / "other"
    built(table, "delta", Shape.CLASSIC)
    built(other, "delta", Shape.CLASSIC)
    commit = other / "_delta_log" / f"{4:020d}.json"
    commit.write_text(
        commit.read_text().replace('"size":1', '"size":2').replace('"size": 1', '"size": 2')
    )
    write(str(other), Shape.CLASSIC)
    name = f"{4:020d}.checkpoint.parquet"

    def publish() -> None:
        data = (other / "_delta_log" / name).read_bytes()
        (table / "_delta_log" / name).write_bytes(data)

    overtaken(monkeypatch, publish)
    with pytest.raises(CheckpointCorruptionError, match="not all of them the same"):
        write(str(table), Shape.CLASSIC)
    assert not (table / "_delta_log" / "_last_checkpoint").exists()


def test_an_explicit_checkpoint_mends_a_hint_to_what_is_not_there(tmp_path: Path) -> None:
    table = tmp_path / "table"
    built(table, "delta", Shape.CLASSIC)
    write(str(table), Shape.CLASSIC)
    hint = table / "_delta_log" / "_last_checkpoint"
    hint.write_text('{"version": 1000000, "size": 3}')
    assert not write(str(table), Shape.CLASSIC).created
    assert orjson.loads(hint.read_bytes())["version"] == 4


@pytest.mark.parametrize("shape", [Shape.V2_PARQUET, Shape.V2_JSON])
def test_a_hint_that_was_lost_is_written_anew_and_takes_no_sound_checkpoint_away(
    tmp_path: Path, shape: Shape
) -> None:
    table = tmp_path / "table"
    wanted = built(table, "delta", shape)
    write(str(table), shape, options=OPTIONS)
    hint = table / "_delta_log" / "_last_checkpoint"
    first = orjson.loads(hint.read_bytes())
    hint.unlink()
    assert not write(str(table), shape, options=OPTIONS).created
    found = open_log(str(table)).snapshot()
    assert not found.fallbacks
    assert seen(found) == wanted[4]
    again = orjson.loads(hint.read_bytes())
    counted = ("version", "size", "sizeInBytes", "numOfAddFiles")
    assert [again[name] for name in counted] == [first[name] for name in counted]
