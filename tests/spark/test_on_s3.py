"""Executors read S3 over HTTP through s3fs; the JVM knows nothing of S3."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine import ReplayError, open_log
from engine.datasource import register
from tests.logs import LogBuilder, Shape, add, remove
from tests.observe import assert_same, observed

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.s3.fixtures import S3Server

pytestmark = [pytest.mark.spark, pytest.mark.s3]


@pytest.fixture
def workers(spark: SparkSession, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """The session, with workers whose environment points at the server."""
    for name, value in s3.environment.items():
        monkeypatch.setitem(spark.sparkContext.environment, name, value)
    return spark


def table(tmp_path: Path, log_format: str) -> LogBuilder:
    log = LogBuilder(tmp_path, log_format).start(*(add(f"f{i}") for i in range(20)))
    log.checkpoint(0, Shape.V2_PARQUET_SIDECARS if log_format == "delta" else Shape.CLASSIC)
    log.commit(remove("f1"), add("f2", size=7))
    log.commit(add("g"))
    return log


@pytest.mark.parametrize("log_format", ["delta", "indextables"])
def test_executors_read_the_log_from_s3(
    workers: SparkSession, s3: S3Server, tmp_path: Path, log_format: str
) -> None:
    log = table(tmp_path, log_format)
    s3.upload(tmp_path)
    snapshot = open_log(s3.url, spark=workers).snapshot(engine="spark")
    assert snapshot.engine == "spark", snapshot.fallbacks
    assert_same(observed(snapshot), log.truth())
    register(workers)
    assert workers.read.format("txlog").load(s3.url).count() == 20
    loader = workers._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    with pytest.raises(Exception, match="ClassNotFoundException"):
        loader.loadClass("org.apache.hadoop.fs.s3a.S3AFileSystem")


def test_executors_without_credentials_are_told_in_one_line(
    workers: SparkSession, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(tmp_path, "delta")
    s3.upload(tmp_path)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delitem(workers.sparkContext.environment, name)
    with pytest.raises(ReplayError, match="no AWS credentials found; set AWS_") as caught:
        open_log(s3.url, spark=workers).snapshot(engine="spark")
    assert caught.value.code == "STORAGE"
    assert "\n" not in str(caught.value)
