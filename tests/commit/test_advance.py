"""The law of a refresh: what is known plus the commits since is what a replay gives."""

from __future__ import annotations

import pytest
from hypothesis import assume, given

from engine import open_log
from tests.observe import assert_same, observed
from tests.random_logs import RandomLog, random_logs


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory):
    return tmp_path_factory.mktemp("refreshed") / "table"


@given(log=random_logs())
def test_a_random_log_followed_commit_by_commit_equals_the_model(root, log: RandomLog) -> None:
    assume(log.first == 0)
    builder = log.write(root)
    commits = [builder.commit_path(version) for version in range(log.latest + 1)]
    for path in builder.directory.rglob("*"):
        if path.is_file() and path not in commits:
            path.unlink()  # commits only: there is one way to each version
    late = {path: path.with_suffix(".late") for path in commits[1:]}
    for path, hidden in late.items():
        path.rename(hidden)
    opened = open_log(str(root))
    assert_same(observed(opened.snapshot()), builder.truth(0))
    for version, (path, hidden) in enumerate(late.items(), 1):
        hidden.rename(path)
        snapshot = opened.snapshot()
        assert snapshot.version == version
        assert_same(observed(snapshot), builder.truth(version))
    assert opened.cache_stats()["caches"]["files"]["misses"] == 1, "one replay, at the start"
