"""A damaged log becomes a sound one with the same state, or is refused with what is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pytest

from engine import ReplayError, open_log
from engine.errors import NotProvableError, TargetNotEmptyError
from engine.upkeep.repair import write as repair_write
from engine.upkeep.repair.repair import MARKER
from tests.logs import LogBuilder, Shape, add, protocol, remove
from tests.upkeep.defects import (
    DV_FILE,
    FEATURES,
    NOW,
    SKIP,
    WRITERS,
    append,
    contradict,
    file,
    gone,
    one,
    rewrite,
    sound_log,
    sound_splits,
    txn,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class Stopped:
    """A clock that stands still."""

    def now_ms(self) -> int:
        return NOW


def repair(log: LogBuilder, target: Path, **asked):
    opened = open_log(str(log.root))
    opened.clock = Stopped()  # type: ignore[assignment]
    return opened.repair(str(target), **asked)


def files_of(root: Path | str) -> set[tuple[str, int]]:
    files = open_log(str(root)).snapshot().files()
    return set(zip(files["path"].to_pylist(), files["size"].to_pylist(), strict=True))


def wanted(log: LogBuilder, version: int | None = None) -> set[tuple[str, int]]:
    return {(found["path"], found["size"]) for found in log.truth(version).files.values()}


def content(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def torn(log: LogBuilder) -> None:
    one(log, "*4.*6.compacted.json").unlink(missing_ok=True)
    path = log.commit_path(log.version)
    path.write_bytes(path.read_bytes()[:-20])


def corrupt_newest_checkpoint(log: LogBuilder) -> None:
    append(log, file("g"))
    path = log.checkpoint(7)[0]
    path.write_bytes(path.read_bytes()[:100])


def commits_before_the_checkpoint_gone(log: LogBuilder) -> None:
    log.clean_up(5)


def lost_sidecar(log: LogBuilder) -> None:
    next((log.directory / "_sidecars").iterdir()).unlink()


def lost_sidecar_and_first_commits(log: LogBuilder) -> None:
    lost_sidecar(log)
    log.clean_up(3)


def gap_under_a_compaction(log: LogBuilder) -> None:
    for path in log.directory.glob("*.checkpoint*"):
        path.unlink()
    log.commit_path(5).unlink()


def wrong_checkpoint(log: LogBuilder) -> None:
    # It can be read, and says too little.
    path = log.file(f"{6:020d}.checkpoint.parquet")
    log.commits[5], kept = [], log.commits[5]
    log.checkpoint(6)
    log.commits[5] = kept
    assert path.exists()


def hint_garbage(log: LogBuilder) -> None:
    log.hint(b"\xff")


REPAIRED: list[tuple[Callable[[LogBuilder], None], int]] = [
    (corrupt_newest_checkpoint, 7),
    (hint_garbage, 6),
    (commits_before_the_checkpoint_gone, 6),
    (lost_sidecar, 6),
    (lost_sidecar_and_first_commits, 6),
    (gap_under_a_compaction, 6),
    (wrong_checkpoint, 6),
    (torn, 5),
]


@pytest.mark.parametrize(
    ("damage", "version"), REPAIRED, ids=lambda value: getattr(value, "__name__", value)
)
@pytest.mark.parametrize("paths", ["relative", "absolute"])
def test_the_newest_provable_state_is_brought_back(tmp_path, damage, version, paths):
    log = sound_log(tmp_path)
    damage(log)
    before = content(log.root)
    done = repair(log, tmp_path / "new", paths=paths)
    assert content(log.root) == before
    assert (done.source_version, done.sound, done.status) == (version, True, "repaired")
    prefix = f"file://{log.root}/" if paths == "absolute" else ""
    found = {(path.removeprefix(prefix), size) for path, size in files_of(tmp_path / "new")}
    assert found == wanted(log, version)
    snapshot, truth = open_log(str(tmp_path / "new")).snapshot(), log.truth(version)
    assert snapshot.txns == {app: txn["version"] for app, txn in truth.keyed["txn"].items()}
    assert set(snapshot.domains) == {"kept"}
    assert snapshot.metadata["id"] == truth.singles["metaData"]["id"]
    assert snapshot.protocol["readerFeatures"] == FEATURES


def test_what_is_lost_with_a_torn_end_is_said(tmp_path):
    log = sound_log(tmp_path)
    torn(log)
    done = repair(log, tmp_path / "new")
    assert list(done.lost) == [6]
    assert "line 2" in done.lost[6]
    assert done.summary()["lost"] == [{"version": 6, "reason": done.lost[6]}]


def test_a_torn_commit_that_a_compaction_covers_is_not_lost(tmp_path):
    log = sound_log(tmp_path)
    for path in log.directory.glob("*.checkpoint*"):
        path.unlink()
    log.commit_path(5).write_bytes(b"{")
    done = repair(log, tmp_path / "new")
    assert (done.source_version, done.lost) == (6, {})
    assert files_of(tmp_path / "new") == wanted(log)
    assert len(done.used["compactions"]) == 1


def middle_missing(log: LogBuilder) -> None:
    append(log, file("g"))
    append(log, file("h"))
    log.commit_path(7).unlink()


def everything_before_is_gone(log: LogBuilder) -> None:
    for path in log.directory.glob("*.checkpoint*"):
        path.unlink()
    log.clean_up(2)


def only_checkpoint_is_torn(log: LogBuilder) -> None:
    log.clean_up(4)
    log.file(f"{3:020d}.checkpoint.parquet").unlink()
    one(log, f"{5:020d}.checkpoint.*.json").write_bytes(b"{")


def unknown_feature(log: LogBuilder) -> None:
    names = [*FEATURES, "teleportation"]
    append(log, protocol(3, 7, readerFeatures=names, writerFeatures=[*WRITERS, "teleportation"]))


def no_metadata(log: LogBuilder) -> None:
    everything_before_is_gone(log)
    rewrite(log, 0, [protocol()])
    rewrite(log, 1, [file("a")])


@pytest.mark.parametrize(
    ("damage", "missing"),
    [
        (middle_missing, "commit 7 (it is missing); commits 8 would be lost"),
        (everything_before_is_gone, "commit 0 is missing; there is no checkpoint"),
        (only_checkpoint_is_torn, "no checkpoint is usable: 00000000000000000005"),
        (unknown_feature, "teleportation"),
        (no_metadata, "metaData"),
        (contradict, "contradicts 00000000000000000003.checkpoint.parquet"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_cannot_be_proven_is_refused_with_what_is_missing(tmp_path, damage, missing):
    log = sound_log(tmp_path)
    damage(log)
    with pytest.raises(NotProvableError) as refused:
        repair(log, tmp_path / "new")
    assert missing in str(refused.value)
    assert not (tmp_path / "new").exists()


def test_of_two_checkpoints_that_contradict_each_other_the_one_left_is_believed(tmp_path):
    log = sound_log(tmp_path)
    contradict(log)
    log.file(f"{3:020d}.checkpoint.parquet").unlink()
    assert files_of(repair(log, tmp_path / "new").target.rpartition("/")[0]) == wanted(log)


def test_what_came_after_a_gap_is_given_up_when_asked_to(tmp_path):
    log = sound_log(tmp_path)
    middle_missing(log)
    done = repair(log, tmp_path / "new", version=6)
    assert done.source_version == 6
    assert files_of(tmp_path / "new") == wanted(log, 6)


def test_a_target_that_holds_anything_is_refused(tmp_path):
    log = sound_log(tmp_path)
    other = LogBuilder(tmp_path / "other").start()
    before = content(other.root)
    for target in (other.root, other.directory, log.root):
        with pytest.raises(TargetNotEmptyError):
            repair(log, target)
    assert content(other.root) == before


def test_a_dry_run_writes_nothing_and_says_the_same(tmp_path):
    log = sound_log(tmp_path)
    torn(log)
    dry = repair(log, tmp_path / "new", dry_run=True)
    assert not (tmp_path / "new").exists()
    wet = repair(log, tmp_path / "new")
    assert (dry.kept, dry.dropped, dry.lost, dry.used) == (
        wet.kept,
        wet.dropped,
        wet.lost,
        wet.used,
    )


def test_files_that_are_gone_are_left_out_with_their_reason(tmp_path):
    log = sound_log(tmp_path)
    (log.root / "e").unlink()
    (log.root / "ab" / DV_FILE).unlink()
    done = repair(log, tmp_path / "new", deep=True)
    assert dict(done.missing) == {"e": "it is not there", "b": "its deletion vector is not there"}
    assert (done.sound, done.status) == (True, "repaired")
    assert {Path(path).name for path, _ in files_of(tmp_path / "new")} == {"d", "f"}
    told = done.summary()
    assert (told["total_splits"], told["valid_splits"], told["missing_splits"]) == (4, 2, 2)


def test_a_large_state_is_written_as_several_commits(tmp_path, monkeypatch):
    monkeypatch.setattr(repair_write, "ADDS_PER_COMMIT", 10)
    log = LogBuilder(tmp_path / "table").start()
    log.commit(*(add(f"f{number}") for number in range(25)))
    log.commit(remove("f7"))
    done = repair(log, tmp_path / "new")
    assert done.version == 3
    assert files_of(tmp_path / "new") == wanted(log)


def test_a_repaired_log_of_indextables_is_compressed_and_keeps_skips_that_run(tmp_path):
    log = sound_splits(tmp_path)
    running = {**SKIP, "path": "c.split", "retryAfter": NOW + 1}
    log.commit(
        {"mergeskip": running}, *(add(f"{n}.split", minValues={"id": "x" * 99}) for n in range(99))
    )
    torn_path = log.commit(add("never"))
    torn_path.write_bytes(torn_path.read_bytes()[:-9])
    done = repair(log, tmp_path / "new" / "_transaction_log")
    told = done.summary()
    assert list(told)[:7] == [
        "source_path",
        "target_path",
        "source_version",
        "total_splits",
        "valid_splits",
        "missing_splits",
        "status",
    ]
    assert (told["source_version"], told["valid_splits"], told["status"]) == (5, 101, "repaired")
    new = open_log(str(tmp_path / "new"))
    assert files_of(tmp_path / "new") == wanted(log, 5)
    assert [skip["path"] for skip in new.skipped_files()] == ["c.split"]
    assert done.dropped["skips"] == 1
    assert (new.directory.storage.read(new.directory.file(f"{1:020d}.json"))[:2]) == b"\x01\x01"
    cut = new.snapshot().files()["minValues"].to_pylist()
    assert max(len(value) for pairs in cut if pairs for _, value in pairs) == 32


def test_a_repaired_log_put_in_its_place_is_read_by_deltalake(tmp_path):
    from deltalake import DeltaTable, write_deltalake

    root = tmp_path / "a table"
    for number in range(3):
        rows = pa.table({"id": [number, number + 10], "part": ["x y", "z"]})
        write_deltalake(str(root), rows, mode="append", partition_by=["part"])
    torn_commit = root / "_delta_log" / f"{3:020d}.json"
    torn_commit.write_bytes(b'{"add":{"path":"x')
    before = content(root)
    open_log(str(root)).repair(str(tmp_path / "new"), deep=True)
    assert content(root) == before
    (root / "_delta_log").rename(tmp_path / "damaged")
    (tmp_path / "new" / "_delta_log").rename(root / "_delta_log")
    rows = DeltaTable(str(root)).to_pyarrow_table().sort_by("id")
    assert rows["id"].to_pylist() == [0, 1, 2, 10, 11, 12]


def test_properties_that_speak_of_old_versions_are_left_out(tmp_path):
    log = sound_log(tmp_path)
    about = log.commits[0][2]["metaData"]
    about["configuration"] |= {
        "delta.inCommitTimestampEnablementVersion": "0",
        "delta.inCommitTimestampEnablementTimestamp": "1",
        "kept": "yes",
    }
    append(log, {"metaData": about})
    repair(log, tmp_path / "new")
    configuration = open_log(str(tmp_path / "new")).snapshot().metadata["configuration"]
    assert set(configuration) == {"delta.enableInCommitTimestamps", "kept"}


def test_killed_at_any_step_the_source_is_untouched_and_the_next_run_finishes(tmp_path):
    log = LogBuilder(tmp_path / "table").start(txn("app", 1))
    log.commit(*(add(f"f{number}") for number in range(9)))
    log.commit(remove("f3"), gone("f4"))
    before, targets = content(log.root), tmp_path / "targets"
    ran = subprocess.run(
        [sys.executable, "-m", "tests.upkeep.repair_victim", str(log.root), str(targets)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    writes = int(ran.stdout)
    assert writes == 4  # the marker, the files, version 0, the marker goes
    assert content(log.root) == before
    states = []
    for half in range(2, writes * 2 + 2):
        target = targets / str(half / 2)
        states.append(seen(target))
        if half == writes * 2 + 1:  # it was all done
            with pytest.raises(TargetNotEmptyError):
                repair(log, target)
            continue
        done = repair(log, target)
        assert done.sound
        assert open_log(str(target)).snapshot().totals().num_files == 7
        assert not (target / "_delta_log" / MARKER).exists()
    whole = states.index("whole")
    assert set(states[:whole]) == {"unfinished"}
    assert set(states[whole:]) == {"whole"}


def seen(target: Path) -> str:
    """Return what a reader makes of a target."""
    try:
        files = open_log(str(target)).snapshot().totals().num_files
    except ReplayError as error:
        assert error.code in {"NO_LOG", "EMPTY_LOG", "NO_START"}
        return "unfinished"
    assert files == 7
    return "whole"


def test_the_marker_says_what_is_being_written(tmp_path, monkeypatch):
    log = sound_log(tmp_path)
    monkeypatch.setattr(
        repair_write.Adds, "finish", lambda _: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        repair(log, tmp_path / "new")
    told = json.loads((tmp_path / "new" / "_delta_log" / MARKER).read_text())
    assert told == {"source": str(log.directory), "version": 6}


def test_shapes_of_checkpoints_all_prove_a_state(tmp_path):
    for at, shape in enumerate((Shape.CLASSIC, Shape.MULTI_PART, Shape.V2_JSON_SIDECARS)):
        log = sound_log(tmp_path / str(at))
        for path in log.directory.glob("*.checkpoint*"):
            path.unlink()
        log.checkpoint(5, shape)
        log.clean_up(6)
        done = repair(log, tmp_path / str(at) / "new")
        assert done.used["checkpoint"].startswith(f"{5:020d}.checkpoint")
        assert files_of(tmp_path / str(at) / "new") == wanted(log)


def test_absolute_paths_lead_to_the_files_and_vectors_from_anywhere(tmp_path):
    log = sound_log(tmp_path / "a table")
    repair(log, tmp_path / "new", paths="absolute")
    files = open_log(str(tmp_path / "new")).snapshot().files().to_pylist()
    named = [file["path"] for file in files]
    named += [v["pathOrInlineDv"] for f in files if (v := f["deletionVector"])]
    assert len(named) == 5
    for path in named:
        assert path.startswith("file:///")
        assert Path(unquote(path.removeprefix("file://"))).exists()
