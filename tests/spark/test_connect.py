"""Spark Connect: everything but what needs the JVM in this process, which is told as None."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from engine.errors import UnreadableLogFileError
from tests.logs import LogBuilder, add, remove
from tests.spark.fixtures import REPOSITORY, environment

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

# A client and its server, in a process of its own: a process has one kind of session.
PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
from engine import ReplayError, open_log
from engine.datasource import register

table, damaged = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", "1")
log = open_log(table, spark=spark)
snapshot = log.snapshot(engine="spark")
summary = snapshot.summary()
register(spark)
spark.sql(f"CREATE TEMPORARY VIEW live USING txlog OPTIONS (path '{table}')")
try:
    open_log(damaged, spark=spark).snapshot(engine="spark")
except ReplayError as error:
    refusal = [type(error).__name__, error.code, error.line]
found = {
    "engine": summary["engine"],
    "fallbacks": summary["fallbacks"],
    "metrics": summary["metrics"],
    "numFiles": summary["numFiles"],
    "files": sorted(snapshot.files()["path"].to_pylist()),
    "frame": snapshot.to_spark(spark, ["path"]).count(),
    "changes": log.changes(spark, 1, 1).count(),
    "history": log.history(spark).count(),
    "sql": spark.sql("SELECT count(*) FROM live").first()[0],
    "hits": log.cache_stats()["hits"],
    "refusal": refusal,
}
print(json.dumps(found))
spark.stop()
"""


def test_a_client_gets_everything_but_metrics(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio")
    log = LogBuilder(tmp_path / "table").start(*(add(f"f{i}") for i in range(5)))
    log.checkpoint(0)
    log.commit(remove("f1"), add("g"))
    damaged = LogBuilder(tmp_path / "damaged").start().filler(2)
    damaged.commit_path(1).write_bytes(b'{"add":{"path":')
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(log.root), str(damaged.root)],
        cwd=REPOSITORY,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    metrics = found.pop("metrics")
    assert metrics.pop("seconds") > 0
    assert metrics.pop("phases").keys() == {"base", "tail", "checkpoint"}
    assert metrics == {"shuffleBytes": None}
    paths = sorted(path for path, _ in log.truth().files)
    assert found == {
        "engine": "spark",
        "fallbacks": [],
        "numFiles": 5,
        "files": paths,
        "frame": 5,
        "changes": 2,
        "history": 2,
        "sql": 5,
        "hits": 0,
        "refusal": [UnreadableLogFileError.__name__, UnreadableLogFileError.code, 1],
    }
