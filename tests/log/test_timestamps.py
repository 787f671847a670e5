"""Which version was the latest at a moment."""

from __future__ import annotations

import pytest

from engine.errors import ConfigError
from engine.formats import DELTA
from engine.log.paths import parse_path
from engine.log.timestamps import (
    commit_times,
    in_commit_start,
    version_at,
    version_at_in_commit_time,
)


def refs(*times: int):
    found = [parse_path(f"{v:020d}.json", 1, time, DELTA) for v, time in enumerate(times)]
    return [r for r in found if r is not None]


def test_times_that_run_backwards_are_made_to_grow() -> None:
    assert commit_times(refs(100, 50, 101, 101, 500)) == [
        (0, 100),
        (1, 101),
        (2, 102),
        (3, 103),
        (4, 500),
    ]


def test_the_order_of_the_listing_does_not_matter() -> None:
    assert commit_times(refs(1, 2, 3)[::-1]) == [(0, 1), (1, 2), (2, 3)]


def test_other_files_have_no_commit_time() -> None:
    checkpoint = parse_path(f"{5:020d}.checkpoint.parquet", 1, 9, DELTA)
    assert commit_times([*refs(1), checkpoint]) == [(0, 1)]


def test_the_last_commit_not_after_the_moment_is_the_one() -> None:
    times = commit_times(refs(10, 20, 30))
    assert [version_at(times, t) for t in (9, 10, 19, 20, 30, 99)] == [None, 0, 0, 1, 2, 2]
    assert version_at([], 5) is None


def test_few_commits_are_asked_for_their_own_time() -> None:
    asked = []

    def time_of(version: int) -> int:
        asked.append(version)
        return version * 10

    assert version_at_in_commit_time(range(10_000), 55_555, time_of) == 5_555
    assert len(asked) <= 15
    assert version_at_in_commit_time(range(5, 9), 49, time_of) is None


def test_in_commit_timestamps_start_where_the_table_says() -> None:
    on = {"delta.enableInCommitTimestamps": "true"}
    assert in_commit_start({}) is None
    assert in_commit_start({"delta.enableInCommitTimestamps": "false"}) is None
    assert in_commit_start(on) == 0
    assert in_commit_start(on | {"delta.inCommitTimestampEnablementVersion": "7"}) == 7


def test_a_start_that_is_no_version_is_refused_by_its_key() -> None:
    on = {"delta.enableInCommitTimestamps": "true"}
    with pytest.raises(ConfigError, match="inCommitTimestampEnablementVersion"):
        in_commit_start(on | {"delta.inCommitTimestampEnablementVersion": "soon"})
