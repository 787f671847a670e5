"""The Spark session, for any test: one JVM for all of them, small, quiet and in UTC."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

REPOSITORY = Path(__file__).parents[2]

# A plan that runs once earns back neither an optimizing compiler nor parallel collectors.
CHEAP = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# Every plan is small: what it costs is tasks, and code that is compiled for it.
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.extraJavaOptions": CHEAP,
}


def environment() -> dict[str, str]:
    """Return the environment in which JVMs are cheap, and workers find this repository."""
    found = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(REPOSITORY)}
    return {**os.environ, **found, "SPARK_SUBMIT_OPTS": CHEAP}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two threads of this machine."""
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment().items():
            patch.setenv(name, value)
        builder = SparkSession.builder.master("local[2]").appName("txlog tests")
        warehouse = str(tmp_path_factory.mktemp("warehouse"))
        for name, value in {**SETTINGS, "spark.sql.warehouse.dir": warehouse}.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        yield session
        session.stop()
