"""A real cluster of two executors: right, also when one of them dies, and cached where it ran."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.logs import LogBuilder, add, remove
from tests.spark.fixtures import REPOSITORY, environment

# One worker runs them all: the cluster is started once.
pytestmark = [pytest.mark.jvm, pytest.mark.slow]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LogBuilder]:
    directory = tmp_path_factory.mktemp("cluster")
    found = {}
    for scenario in ("plain", "killed", "cached"):
        log = found[scenario] = LogBuilder(directory / scenario)
        log.start(*(add(f"f{i}") for i in range(100)))
        log.checkpoint(0)
        for version in range(1, 21):
            txn = {"txn": {"appId": "app", "version": version}}
            log.commit(txn, remove(f"f{version}"), add(f"g{version % 7}", size=version), add("g"))
    return found


@pytest.fixture(scope="module")
def found(tables: dict[str, LogBuilder], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the scenarios of tests.spark.cluster found, on one cluster, in a process of its own."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.spark.cluster", str(tables["plain"].root.parent)],
        cwd=REPOSITORY,
        env={**environment(), "TXLOG_TEST_MARKS": str(tmp_path_factory.mktemp("marks"))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-5000:]
    return json.loads(ran.stdout.splitlines()[-1])


def assert_right(found: dict[str, Any], log: LogBuilder) -> None:
    truth = log.truth()
    assert found["engine"] == "spark", found["fallbacks"]
    assert found["fallbacks"] == []
    assert found["numFiles"] == len(truth.files)
    assert found["sizeInBytes"] == sum(file["size"] for file in truth.files.values())
    assert found["numTombstones"] == len(truth.tombstones)
    assert found["txns"] == {"app": 20}


def test_two_executors_give_the_right_state(
    found: dict[str, Any], tables: dict[str, LogBuilder]
) -> None:
    plain = found["plain"]
    assert_right(plain, tables["plain"])
    assert plain["files"] == plain["numFiles"]
    assert plain["executors"] == 2


def test_an_executor_killed_in_the_middle_changes_nothing(
    found: dict[str, Any], tables: dict[str, LogBuilder]
) -> None:
    assert found["killed"]["killed"] == 1
    assert_right(found["killed"], tables["killed"])


def test_a_second_read_hits_until_it_is_invalidated_or_replaced(
    found: dict[str, Any], tables: dict[str, LogBuilder]
) -> None:
    cached = found["cached"]
    none = {"cacheHits": 0, "cacheMisses": 20}
    assert cached["first"] == none
    # A partition may run on the other executor the next time.
    assert max(again["cacheHits"] for again in cached["again"]) > 0
    assert all(sum(again.values()) == 20 for again in cached["again"])
    assert cached["invalidated"] == none
    assert max(again["cacheHits"] for again in cached["warm"]) > 0
    assert cached["everywhere"] == none
    stats = cached["stats"]
    assert stats["hits"] == sum(again["cacheHits"] for again in cached["again"] + cached["warm"])
    assert stats["hits"] + stats["misses"] == 11 * 20
    truth = sum(file["size"] for file in tables["cached"].truth().files.values())
    assert cached["changed"] == truth + 800
    assert cached["misses"] >= 1
