"""A V2 checkpoint writes again what changed, and says the same as one written whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from engine import open_log
from engine.upkeep.checkpoint import incremental
from engine.upkeep.checkpoint.shape import Shape
from tests.logs import LogBuilder, metadata
from tests.upkeep.kept import NOW, seen, write
from tests.upkeep.test_kill import V2, add, orphans, remove

if TYPE_CHECKING:
    from pathlib import Path

SMALL = {"spark.databricks.delta.checkpoint.partSize": 8}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("incremental")


def grown(root: Path, files: int = 64) -> LogBuilder:
    log = LogBuilder(root)
    log.commit(V2, metadata())
    for first in range(0, files, 8):
        log.commit(*(add(f"f{number:03d}") for number in range(first, first + 8)))
    return log


def written(log: LogBuilder) -> dict[str, int]:
    """Return the sidecars that are there, and when they were written."""
    return {path.name: path.stat().st_mtime_ns for path in (log.directory / "_sidecars").iterdir()}


def test_sidecars_that_nothing_touched_are_named_again(tmp_path: Path) -> None:
    log = grown(tmp_path / "table")
    first = write(str(log.root), Shape.V2_PARQUET, options=SMALL)
    before = {
        path.name: path.stat().st_mtime_ns for path in (log.directory / "_sidecars").iterdir()
    }
    log.commit(remove("f063"), add("g1"), add("g2"))
    second = write(str(log.root), Shape.V2_PARQUET, options=SMALL)
    assert second.sidecars_kept == len(before) - 1
    assert before.items() <= written(log).items()
    assert second.content.counts["add"] == 65
    assert second.content.counts["remove"] == 1
    assert first.content.counts["add"] == 64
    found = open_log(str(log.root)).snapshot()
    assert found.files().num_rows == 65
    assert not orphans(open_log(str(log.root)))


def test_what_was_proven_of_the_parts_is_what_a_whole_checkpoint_says(tmp_path: Path) -> None:
    log = grown(tmp_path / "table")
    write(str(log.root), Shape.V2_PARQUET, options=SMALL)
    log.commit(remove("f003"), add("f010"), add("g"))
    part = write(str(log.root), Shape.V2_PARQUET, options=SMALL)
    for path in log.directory.glob("*.checkpoint*"):
        path.unlink()
    whole = write(str(log.root), Shape.V2_PARQUET, options=SMALL)
    assert whole.sidecars_kept == 0
    assert part.sidecars_kept > 0
    assert part.content == whole.content


def test_after_a_long_tail_all_is_written_anew_and_none_of_it_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = grown(tmp_path / "table")
    write(str(log.root), Shape.V2_PARQUET, options=SMALL)
    log.commit(remove("f003"), add("g"))
    wanted = seen(open_log(str(log.root)).snapshot())
    monkeypatch.setattr(incremental, "MOST_TAIL_BYTES", log.commit_path(9).stat().st_size - 1)
    done = write(str(log.root), Shape.V2_PARQUET, options=SMALL)
    assert done.created
    assert done.sidecars_kept == 0
    assert seen(open_log(str(log.root)).snapshot()) == wanted


def test_tombstones_go_with_their_sidecar_when_their_time_is_over(tmp_path: Path) -> None:
    log = grown(tmp_path / "table")
    log.commit(remove("f001"), remove("f002"))
    first = write(str(log.root), Shape.V2_PARQUET, options=SMALL)
    assert first.content.counts["remove"] == 2
    log.commit(add("later"))
    month = 30 * 24 * 3_600_000
    second = write(str(log.root), Shape.V2_PARQUET, now_ms=NOW + month, options=SMALL)
    assert "remove" not in second.content.counts
    assert second.sidecars_kept > 0


def test_a_sidecar_that_is_not_what_the_manifest_says_is_not_built_upon(tmp_path: Path) -> None:
    log = grown(tmp_path / "table")
    write(str(log.root), Shape.V2_PARQUET, options=SMALL)
    log.commit(add("g"))
    wanted = seen(open_log(str(log.root)).snapshot())
    sidecar = sorted((log.directory / "_sidecars").iterdir())[-1]
    sidecar.write_bytes(sidecar.read_bytes()[:-1])
    done = write(str(log.root), Shape.V2_PARQUET, options=SMALL)
    assert done.created
    assert done.sidecars_kept == 0
    assert done.fallbacks
    assert seen(open_log(str(log.root)).snapshot()) == wanted


def test_other_settings_write_everything_anew(tmp_path: Path) -> None:
    log = grown(tmp_path / "table")
    write(str(log.root), Shape.V2_PARQUET, options=SMALL)
    about = metadata(configuration={"delta.checkpoint.writeStatsAsStruct": "true"})
    log.commit(about)
    assert write(str(log.root), Shape.V2_PARQUET, options=SMALL).sidecars_kept == 0


names = st.sampled_from([f"f{number:03d}" for number in range(24)])
changes = st.lists(st.tuples(st.sampled_from([add, remove]), names), max_size=6)


@settings(max_examples=12, phases=[Phase.explicit, Phase.generate])
@given(commits=st.lists(changes, min_size=4, max_size=14))
def test_one_after_the_other_they_say_what_all_commits_say(root: Path, commits: Any) -> None:
    table = root / f"t{len(list(root.iterdir()))}"
    log = grown(table, 24)
    write(str(log.root), Shape.V2_JSON, options=SMALL)
    for change in commits:
        chosen = {name: make for make, name in change}
        log.commit(*(make(name) for name, make in chosen.items()))
        write(str(log.root), Shape.V2_PARQUET, options=SMALL)
    latest = len(commits) + 3
    found = seen(open_log(str(log.root)).snapshot())
    kept = open_log(str(log.root)).snapshot().segment
    assert kept.checkpoint is not None
    assert kept.checkpoint.version == latest
    assert len(list((log.directory / "_sidecars").iterdir())) < 40 * (len(commits) + 1)
    for path in log.directory.glob("*.checkpoint*"):
        path.unlink()
    (log.directory / "_last_checkpoint").unlink()
    assert found == seen(open_log(str(log.root)).snapshot(latest))
