"""Every golden table on Spark, at every version it tells of: the right state or refusal."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from engine import ReplayError, open_log
from engine.replay.spark_errors import told
from tests.golden.cases import MISSING, TABLES, Case, cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from engine import Snapshot

pytestmark = [
    pytest.mark.spark,
    pytest.mark.golden,
    pytest.mark.skipif(not TABLES, reason=MISSING),
]

# Live files of so many versions are asked for at once: a job costs more than what it reads here.
TOGETHER = 8


@pytest.mark.parametrize("table", TABLES)
def test_spark_gives_the_right_state_or_the_right_refusal(spark: SparkSession, table: str) -> None:
    def replayed(case: Case) -> tuple[Case, Snapshot] | None:
        try:
            snapshot = open_log(case.path, spark=spark).snapshot(case.version, engine="spark")
        except ReplayError as refusal:
            case.check_refusal(refusal.code, str(refusal))
            return None
        assert snapshot.engine == "spark", snapshot.fallbacks
        return case, snapshot

    with ThreadPoolExecutor(2) as pool:
        found = [pair for pair in pool.map(replayed, cases(table)) if pair]
    for start in range(0, len(found), TOGETHER):
        some = found[start : start + TOGETHER]
        for (case, snapshot), files in zip(some, live_files(spark, some), strict=True):
            summary = snapshot.summary()
            assert summary["numFiles"] == len(files)
            case.check_state(summary, files)


def live_files(
    spark: SparkSession, some: list[tuple[Case, Snapshot]]
) -> list[list[tuple[str, str | None]]]:
    """Return (path, dvId) of the live files of each snapshot, found by one job."""
    frames = [
        snapshot.to_spark(spark, columns=["path", "dvId"]).withColumn("at", F.lit(at))
        for at, (_, snapshot) in enumerate(some)
    ]
    with told():
        rows = reduce(DataFrame.unionAll, frames).toArrow().to_pylist()
    found: list[list[tuple[str, str | None]]] = [[] for _ in some]
    for row in rows:
        found[row["at"]].append((row["path"], row["dvId"]))
    return found
