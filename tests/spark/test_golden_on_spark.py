"""Every golden table on Spark, at every version it tells of: the right state or refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine import ReplayError, open_log
from tests.golden.cases import MISSING, TABLES, cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.golden,
    pytest.mark.skipif(not TABLES, reason=MISSING),
]


@pytest.mark.parametrize("table", TABLES)
def test_spark_gives_the_right_state_or_the_right_refusal(spark: SparkSession, table: str) -> None:
    for case in cases(table):
        try:
            snapshot = open_log(case.path, spark=spark).snapshot(case.version, engine="spark")
            summary = snapshot.summary()
            files = snapshot.to_spark(spark, columns=["path", "dvId"]).toArrow()
        except ReplayError as refusal:
            case.check_refusal(refusal.code, str(refusal))
        else:
            assert snapshot.engine == "spark"
            assert summary["numFiles"] == files.num_rows
            case.check_state(
                summary, zip(files["path"].to_pylist(), files["dvId"].to_pylist(), strict=True)
            )
