"""The Hive measurements of `make bench`, on a table of a megabyte."""

from __future__ import annotations

import shutil

import pytest

from bench import hive_bench
from bench.child import measure
from bench.measurements import MEASUREMENTS


@pytest.mark.slow
def test_a_warm_run_compacts_the_measured_table_into_a_file_a_partition(
    spark, doors, tmp_path, monkeypatch
):
    table = hive_bench.small_files(partitions=2, files=2, megabytes=1)(tmp_path)
    size = sum(file.stat().st_size for file in table.rglob("*.parquet"))
    assert 0.8e6 < size < 1.2e6

    class Running:
        def __init__(self, place):
            spark.sql(
                "CREATE EXTERNAL TABLE t (id BIGINT, token STRING, amount DOUBLE, kind INT) "
                f"PARTITIONED BY (p INT) STORED AS PARQUET LOCATION '{place}'"
            )
            spark.sql("MSCK REPAIR TABLE t")

        def stop(self):
            spark.sql("DROP TABLE t")

    monkeypatch.setattr(hive_bench, "_open", lambda path: (Running(path), doors))
    own = tmp_path / "own"
    shutil.copytree(table, own)
    *_, found = measure(hive_bench.parallel, str(own))
    assert (found["files"], found["files_after"]) == (4, 2)
    assert found["rows"] > 10_000


def test_hive_is_measured_with_its_goals():
    goals = {m.name: m.goals for m in MEASUREMENTS if m.name.startswith("H")}
    (speed,), (held,) = goals["H"], goals["H-G"]
    assert (speed.metric, speed.at_least, speed.than) == ("seconds", 1.5, "serial")
    assert (held.metric, held.at_most, held.of) == ("driver_mb", 1.2, "H-M")
