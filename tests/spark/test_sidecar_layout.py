"""Where a file's row stands in the sidecars that Spark writes: beside those committed with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from engine import open_log
from engine.upkeep.checkpoint.shape import Shape
from tests.spark.test_checkpoint_on_spark import write
from tests.upkeep.test_incremental import SMALL, grown
from tests.upkeep.test_kill import add, remove

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_sidecars_of_spark_hold_files_by_age_and_few_are_written_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = grown(tmp_path / "table")
    written = write(log.root, Shape.V2_PARQUET, spark, **SMALL)
    assert written.content.counts["add"] == 64
    held = []
    for sidecar in (log.directory / "_sidecars").iterdir():
        adds = pq.ParquetFile(sidecar).read()["add"].to_pylist()
        held.append(sorted(int(found["path"][1:]) for found in adds if found))
    assert len(held) >= 8
    for numbers in held:
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    log.commit(remove("f063"), remove("f062"), add("g"))
    again = write(log.root, Shape.V2_PARQUET, **SMALL)
    assert again.sidecars_kept >= len(held) - 2
    assert open_log(str(log.root)).snapshot().files().num_rows == 63
