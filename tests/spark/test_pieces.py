"""What a task does with its pieces of the log. Plain functions: no session, no JVM."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from engine import Config, open_log
from engine.errors import UnreadableLogFileError
from engine.log.paths import FileKind, TransactionFileRef
from engine.replay import reading
from engine.replay.cache import Generation
from engine.replay.executor import parse_tail
from engine.replay.pieces import REFS_SCHEMA, Job, Piece, pieces_of
from engine.replay.plan import balanced, parallelism, split
from engine.replay.spark_errors import explained
from engine.replay.travel import ExecutorError
from tests.logs import PACKINGS, Layout, LogBuilder, Shape, add, remove

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FORMATS = ("delta", "indextables")


def ref(size: int, version: int = 1, kind: FileKind = FileKind.COMMIT) -> TransactionFileRef:
    suffix = "json" if kind is FileKind.COMMIT else "checkpoint.parquet"
    return TransactionFileRef(version, f"{version:020d}.{suffix}", size, 5, kind, version)


# --- deciding ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "cores", "tasks"),
    [(5, 8, 1), (50, 8, 8), (500, 8, 16), (5000, 8, 16), (9, 8, 1), (10, 8, 5), (100, 8, 10)],
)
def test_tasks_follow_the_documents_table(files: int, cores: int, tasks: int) -> None:
    assert parallelism(files, files * 1000, cores) == tasks


def test_few_large_files_are_more_than_one_task() -> None:
    assert parallelism(4, 4 * 2**30, 8) == 4
    assert parallelism(64, 64 * 64 * 2**20, 2) == 32


def test_bytes_come_out_even() -> None:
    sizes = [2**30, *[2**20] * 1024]
    pieces = [part for at, size in enumerate(sizes) for part in split(ref(size, at), 2**26)]
    bins = balanced(pieces, 8)
    filled = [sum(piece.size_bytes for piece in members) for members in bins]
    assert sum(map(len, bins)) == len(pieces)
    assert max(filled) - min(filled) <= 2**26
    assert sum(filled) == sum(sizes)


def test_ranges_cover_a_file_once() -> None:
    pieces = split(ref(1001), 100)
    assert [piece.offset for piece in pieces] == [
        sum(p.length for p in pieces[:i]) for i in range(11)
    ]
    assert sum(piece.length for piece in pieces) == 1001


def test_a_ref_survives_serialisation() -> None:
    found = ref(10, 123)
    assert pickle.loads(pickle.dumps(found)) == found
    piece = Piece(found, offset=3, length=4)
    rows = pa.RecordBatch.from_pylist([piece.row(0)], REFS_SCHEMA)
    assert list(pieces_of([rows])) == [piece]


def test_a_job_is_small_enough_to_travel(tmp_path: Path) -> None:
    LogBuilder(tmp_path).start()
    log = open_log(str(tmp_path))
    job = Job(log.directory, log.config, ("size",), Generation.of(log.directory.table_url))
    assert pickle.loads(pickle.dumps(job)).directory.url == log.directory.url
    assert len(pickle.dumps(job)) < 5_000


# --- reading -------------------------------------------------------------------------------------


def winners(log: LogBuilder, pieces: Sequence[Piece], tasks: int | None = None) -> dict[str, str]:
    """Run pieces as so many tasks, or each as one of its own; return who wins of each path."""
    opened = open_log(str(log.root))
    job = Job(opened.directory, Config())
    won: dict[str, tuple[tuple[int, int], str]] = {}
    for members in balanced(pieces, tasks or len(pieces)):
        batch = pa.RecordBatch.from_pylist([piece.row(0) for piece in members], REFS_SCHEMA)
        for found in parse_tail([batch], job):
            for row in found.to_pylist():
                for kind in ("add", "remove"):
                    if (action := row[kind]) is not None:
                        place = (row["version"], row["ordinal"])
                        tag = kind if kind == "remove" else str(action["size"])
                        old = won.get(action["path"])
                        if old is None or old[0] < place:
                            won[action["path"]] = (place, tag)
    return {path: tag for path, (_, tag) in won.items()}


def commit_of_many(log: LogBuilder, layout: Layout) -> None:
    actions = []
    for at in range(24):
        name = f"f{at % 7}" + "é漢😀"[: at % 4]
        actions.append(remove(name) if at % 3 == 0 else add(name, size=at))
    log.commit(*actions, layout=layout)


def truth(log: LogBuilder) -> dict[str, str]:
    model = log.truth()
    live = {path: str(value["size"]) for (path, _), value in model.files.items()}
    return live | {path: "remove" for path, _ in model.tombstones}


@pytest.mark.parametrize("log_format", FORMATS)
@pytest.mark.parametrize(
    "layout",
    [
        Layout(),
        Layout(newline="\r\n", blank_after=frozenset({3, 4, 15})),
        Layout(ends_with_newline=False),
    ],
    ids=["plain", "blank lines", "no last line end"],
)
def test_a_commit_cut_anywhere_says_the_same(
    tmp_path: Path, log_format: str, layout: Layout
) -> None:
    log = LogBuilder(tmp_path, log_format).start()
    commit_of_many(log, layout)
    size = log.commit_path(1).stat().st_size
    wanted = truth(log)
    for range_bytes in (1, 2, 13, 97, 131, 500, size - 1, size):
        pieces = split(ref(size), range_bytes)
        assert winners(log, pieces) == wanted, range_bytes
        assert winners(log, pieces, tasks=2) == wanted, range_bytes


def test_every_line_is_read_by_one_range_only(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).start()
    log.commit(*(add(f"file-{at:03d}") for at in range(20)))
    size = log.commit_path(1).stat().st_size
    job = Job(open_log(str(tmp_path)).directory, Config())
    for length in (1, 7, 50, 99, 100, 101, 111, 112, 113, 114, 115, 200, size // 2):
        rows = 0
        for piece in split(ref(size), length):
            batch = pa.RecordBatch.from_pylist([piece.row(0)], REFS_SCHEMA)
            rows += sum(found.num_rows for found in parse_tail([batch], job))
        assert rows == 20, length


@pytest.mark.parametrize("packing", [name for name in PACKINGS if name != "plain"])
def test_a_compressed_commit_is_read_by_its_first_piece_only(tmp_path: Path, packing: str) -> None:
    log = LogBuilder(tmp_path, "indextables").start()
    commit_of_many(log, Layout(packing=packing))
    size = log.commit_path(1).stat().st_size
    pieces = split(ref(size), 50)
    assert len(pieces) > 3
    assert winners(log, pieces) == truth(log)
    assert winners(log, pieces[1:]) == {}


def test_a_parquet_compaction_is_cut_by_row_groups(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path, "indextables").start()
    commit_of_many(log, Layout())
    log.commit(add("last"))
    path = log.compaction(1, 2, suffix="parquet")
    table = pa.parquet.read_table(path)
    pa.parquet.write_table(table, path, row_group_size=4)
    whole = TransactionFileRef(2, path.name, path.stat().st_size, 5, FileKind.COMPACTION, 1)
    pieces = split(whole, whole.size // 5)
    found = [winners(log, [piece]) for piece in pieces]
    assert len([names for names in found if names]) > 1
    assert {path: tag for names in found for path, tag in names.items()} == truth(log)
    assert sum(map(len, found)) == len(truth(log))
    assert winners(log, pieces, tasks=1) == winners(log, pieces, tasks=2) == truth(log)


def test_of_a_key_that_a_parquet_compaction_holds_twice_the_last_row_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "CHUNK_BYTES", 1)
    log = LogBuilder(tmp_path, "indextables").start(add("other"))
    log.commit(add("f", size=1))
    log.commit(*(add(f"g{at}") for at in range(30)))
    path = log.compaction(1, 2, suffix="parquet")
    rows = pa.parquet.read_table(path).to_pylist()
    (first,) = [row for row in rows if row["add"] and row["add"]["path"] == "f"]
    rows.append({**first, "add": {**first["add"], "size": 2}})
    table = pa.Table.from_pylist(rows, pa.parquet.read_schema(path))
    pa.parquet.write_table(table, path, row_group_size=4)
    whole = TransactionFileRef(2, path.name, path.stat().st_size, 5, FileKind.COMPACTION, 1)
    for count in (1, 2, 3, 5, 20):
        pieces = split(whole, -(-whole.size // count))
        assert winners(log, pieces, tasks=1)["f"] == "2", count


@pytest.mark.parametrize("shape", [Shape.JSON_LINES, Shape.JSON_OBJECT])
def test_a_checkpoint_in_json_is_not_cut(tmp_path: Path, shape: Shape) -> None:
    log = LogBuilder(tmp_path, "indextables").start(*(add(f"f{i}") for i in range(50)))
    log.checkpoint(0, shape)
    snapshot = open_log(str(tmp_path)).snapshot()
    assert snapshot.segment.checkpoint is not None
    (found,) = snapshot.segment.checkpoint.files
    assert split(found, 10) == [Piece(found)]


def test_a_damaged_line_is_told_by_its_place_in_the_whole_file(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).start()
    log.commit(*(add(f"f{at}") for at in range(30)))
    lines = log.commit_path(1).read_bytes().split(b"\n")
    lines[20] = b'{"add":{"path":'
    log.commit_path(1).write_bytes(b"\n".join(lines))
    size = log.commit_path(1).stat().st_size
    with pytest.raises(ExecutorError) as caught:
        winners(log, split(ref(size), 400))
    error = explained(caught.value)
    assert isinstance(error, UnreadableLogFileError)
    assert error.line == 21
    assert error.path == "00000000000000000001.json"
