"""What was staged and is not what it should be is never published."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine import open_log
from engine.errors import CheckpointCorruptionError, CheckpointValidationError, CheckpointWriteError
from engine.replay.compression import decode
from engine.storage.local import LocalStorage
from engine.upkeep.checkpoint.shape import Shape
from engine.upkeep.publish import STAGING
from tests.logs import LogBuilder, metadata
from tests.upkeep.kept import seen, write
from tests.upkeep.test_kill import V2, add

if TYPE_CHECKING:
    from collections.abc import Iterator


def log_of(root: Path, log_format: str = "delta", *, v2: bool = False) -> LogBuilder:
    log = LogBuilder(root, log_format)
    log.commit(
        V2 if v2 else {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, metadata()
    )
    log.commit(*(add(f"file-{number}") for number in range(100)))
    return log


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(bytes(data))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def rows_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    return [orjson.loads(line) for line in decode(path.read_bytes(), path.name, 10**6).splitlines()]


def save(path: Path, rows: list[dict[str, Any]]) -> None:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows, pq.read_schema(path)), path)
    else:
        path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))


def a_row_less(path: Path) -> None:
    save(path, rows_of(path)[1:])


def a_row_twice(path: Path) -> None:
    rows = rows_of(path)
    save(path, [*rows, rows[0]])


def a_row_changed(path: Path) -> None:
    """Change a number of the first action that has it, or of a manifest that is one object."""
    rows = rows_of(path)
    numbers = {"add": "size", "sidecar": "sizeInBytes", "metaData": "createdTime"}
    found = ((row[kind], name) for row in rows for kind, name in numbers.items() if row.get(kind))
    action, name = next(found, (rows[0], "version"))
    action[name] += 1
    save(path, rows)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


# Every shape, and each of the files that it is made of.
STAGED = [
    ("delta", Shape.CLASSIC, "0.parquet"),
    ("delta", Shape.MULTI_PART, "0.parquet"),
    ("delta", Shape.MULTI_PART, "part-1.parquet"),
    ("delta", Shape.V2_PARQUET, "0.parquet"),
    ("delta", Shape.V2_PARQUET, "manifest.parquet"),
    ("delta", Shape.V2_JSON, "0.parquet"),
    ("delta", Shape.V2_JSON, "manifest.json"),
    ("indextables", Shape.CLASSIC, "0.parquet"),
    ("indextables", Shape.MULTI_PART, "part-1.parquet"),
    ("indextables", Shape.JSON, "0.json"),
    ("indextables", Shape.JSON_PARTS, "0.json"),
    ("indextables", Shape.JSON_PARTS, "1.json"),
    ("indextables", Shape.JSON_PARTS, "manifest.json"),
]


@pytest.mark.parametrize("damage", [flipped, cut, a_row_less, a_row_twice, a_row_changed, emptied])
@pytest.mark.parametrize(("log_format", "shape", "staged"), STAGED)
def test_a_staged_file_that_was_damaged_is_never_published(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    damage: Any,
    log_format: str,
    shape: Shape,
    staged: str,
) -> None:
    log = log_of(tmp_path / "table", log_format, v2=shape.is_v2)
    before = {path.name for path in log.directory.iterdir()}
    wanted = seen(open_log(str(log.root)).snapshot())
    plain = LocalStorage.open_output
    damaged = []

    @contextmanager
    def damaging(storage: LocalStorage, path: str) -> Iterator[Any]:
        with plain(storage, path) as file:
            yield file
        if Path(path).name == staged:
            damage(Path(path))
            damaged.append(path)

    monkeypatch.setattr(LocalStorage, "open_output", damaging)
    with pytest.raises(CheckpointValidationError, match="nothing was published"):
        write(str(log.root), shape)
    monkeypatch.undo()
    assert damaged
    assert {path.name for path in log.directory.iterdir()} == before
    assert seen(open_log(str(log.root)).snapshot()) == wanted


def checkpoint_of(log: LogBuilder) -> Path:
    return next(log.directory.glob("*.checkpoint*"))


def test_a_damaged_checkpoint_is_refused_and_with_repair_outranked(tmp_path: Path) -> None:
    log = log_of(tmp_path / "table")
    wanted = seen(open_log(str(log.root)).snapshot())
    write(str(log.root))
    damaged = checkpoint_of(log)
    cut(damaged)
    torn = damaged.read_bytes()
    with pytest.raises(CheckpointCorruptionError, match="--repair"):
        write(str(log.root))
    done = write(str(log.root), repair=True)
    assert done.created
    assert done.shape is Shape.MULTI_PART
    assert [fallback.path for fallback in done.fallbacks] == [damaged.name]
    assert damaged.read_bytes() == torn
    found = open_log(str(log.root)).snapshot()
    assert not found.fallbacks
    assert found.segment.checkpoint is not None
    assert seen(found) == wanted
    assert not write(str(log.root), repair=True).created


def test_damaged_parts_get_one_part_more_and_damaged_v2_a_later_name(tmp_path: Path) -> None:
    for name, v2, shape in (("parts", False, Shape.MULTI_PART), ("v2", True, Shape.V2_JSON)):
        log = log_of(tmp_path / name, v2=v2)
        wanted = seen(open_log(str(log.root)).snapshot())
        first = write(str(log.root), shape)
        for _ in range(3):
            emptied_or_cut = (
                log.directory / open_log(str(log.root)).snapshot().segment.checkpoint.files[-1].path
            )  # type: ignore[union-attr]
            cut(emptied_or_cut)
            done = write(str(log.root), shape, repair=True)
            assert done.created
            found = open_log(str(log.root)).snapshot()
            assert not found.fallbacks
            assert found.segment.checkpoint is not None
            assert seen(found) == wanted
        assert first.created


def test_a_sound_checkpoint_behind_a_damaged_one_is_brought_to_the_front(tmp_path: Path) -> None:
    log = log_of(tmp_path / "table")
    write(str(log.root))
    parts = [f"{1:020d}.checkpoint.{n:010d}.{2:010d}.parquet" for n in (1, 2)]
    for name in parts:
        (log.directory / name).write_bytes(b"PAR1 not at all PAR1")
    assert not write(str(log.root)).created
    done = write(str(log.root), repair=True)
    assert done.created
    assert len(done.files) == 3
    assert not open_log(str(log.root)).snapshot().fallbacks


def test_parts_of_another_writer_that_hold_something_else_are_not_mixed_with_ours(
    tmp_path: Path,
) -> None:
    log = log_of(tmp_path / "table")
    wanted = seen(open_log(str(log.root)).snapshot())
    other = log.directory / f"{1:020d}.checkpoint.{2:010d}.{2:010d}.parquet"
    columns = pa.table({"add": pa.array([{"path": "file-1"}])})
    pq.write_table(columns, other)
    done = write(str(log.root), Shape.MULTI_PART)
    assert len(done.files) == 3
    first = log.directory / f"{1:020d}.checkpoint.{1:010d}.{2:010d}.parquet"
    assert not first.exists()
    found = open_log(str(log.root)).snapshot()
    assert found.segment.checkpoint is not None
    assert len(found.segment.checkpoint.files) == 3
    assert seen(found) == wanted


def test_parts_of_a_dead_run_that_hold_the_same_are_used(tmp_path: Path) -> None:
    log = log_of(tmp_path / "table")
    done = write(str(log.root), Shape.MULTI_PART)
    kept, lost = (log.directory / name for name in done.files)
    before = kept.stat().st_mtime_ns
    lost.unlink()
    assert write(str(log.root), Shape.MULTI_PART).files == done.files
    assert kept.stat().st_mtime_ns == before


def test_a_lost_sidecar_is_seen_and_repaired(tmp_path: Path) -> None:
    log = log_of(tmp_path / "table", v2=True)
    wanted = seen(open_log(str(log.root)).snapshot())
    write(str(log.root), Shape.V2_PARQUET)
    next((log.directory / "_sidecars").iterdir()).unlink()
    with pytest.raises(CheckpointCorruptionError):
        write(str(log.root), Shape.V2_PARQUET)
    assert write(str(log.root), Shape.V2_PARQUET, repair=True).created
    found = open_log(str(log.root)).snapshot()
    assert not found.fallbacks
    assert seen(found) == wanted


def test_a_version_that_has_a_checkpoint_and_a_dry_run_write_nothing(tmp_path: Path) -> None:
    log = log_of(tmp_path / "table")
    dry = write(str(log.root), dry_run=True)
    assert not dry.created
    assert not list(log.directory.glob("*.checkpoint*"))
    assert write(str(log.root)).created
    again = write(str(log.root))
    assert not again.created
    assert "already" in again.reason
    assert not (log.directory / STAGING).exists()


def test_a_version_whose_commit_is_gone_and_protected_versions_are_refused(tmp_path: Path) -> None:
    protection = {
        "minReaderVersion": 1,
        "minWriterVersion": 7,
        "writerFeatures": ["checkpointProtection"],
    }
    log = LogBuilder(tmp_path / "table")
    about = metadata(configuration={"delta.requireCheckpointProtectionBeforeVersion": "2"})
    log.commit({"protocol": protection}, about)
    log.commit(add("a"))
    log.commit(add("b"))
    with pytest.raises(CheckpointWriteError, match="protected"):
        write(str(log.root), version=1)
    assert write(str(log.root), version=2).created


@pytest.mark.parametrize(
    ("feature", "code"),
    [("catalogManaged", "CATALOG_MANAGED"), ("coordinatedCommits-preview", "CATALOG_MANAGED"),
     ("somethingNew", "UNSUPPORTED_WRITER")],
)  # fmt: skip
def test_features_that_make_a_checkpoint_unsafe_are_refused_by_name(
    tmp_path: Path, feature: str, code: str
) -> None:
    log = LogBuilder(tmp_path / "table")
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": [feature]}
    log.commit({"protocol": protocol}, metadata())
    with pytest.raises(Exception, match=feature) as refusal:
        write(str(log.root))
    assert getattr(refusal.value, "code", "").startswith(code)
