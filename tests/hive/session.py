"""The JVM of the Hive tests: one, with an embedded Derby metastore, and a way for other
processes to work in it, so that killing a driver does not cost a JVM."""

from __future__ import annotations

import collections
import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# A JVM that lives for a minute earns back neither an optimizing compiler nor parallel collectors.
CHEAP = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@contextlib.contextmanager
def hive_session(folder: Path, **more: str) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Another room's session may be running in this process; it is set aside, not stopped.
    parked = (
        SparkContext._gateway,
        SparkContext._jvm,
        SparkContext._active_spark_context,
        SparkSession._instantiatedSession,
    )
    _unpark(None, None, None, None)
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "3g",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": (
            # No test kills this JVM, so Derby need not wait for the disk.
            f"-Dderby.system.home={folder} -Dderby.system.durability=test {CHEAP}"
        ),
        # Statistics are made where a test asks for them, and not at each ADD PARTITION.
        "spark.hadoop.hive.stats.autogather": "false",
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={folder}/metastore;create=true"
        ),
        **more,
    }
    builder = SparkSession.builder.master("local[2]").appName("hive-tests").enableHiveSupport()
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        gateway = spark.sparkContext._gateway
        spark.stop()
        SparkSession.builder._options.clear()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
        _unpark(*parked)


def address(spark: SparkSession) -> dict[str, object]:
    parameters = spark.sparkContext._gateway.gateway_parameters
    return {"port": parameters.port, "secret": parameters.auth_token}


def join(port: int, secret: str) -> SparkSession:
    os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = secret
    gateway = launch_gateway()
    jvm = gateway.jvm
    java = jvm.org.apache.spark.api.java.JavaSparkContext(
        jvm.org.apache.spark.SparkContext.getOrCreate()
    )
    context = SparkContext(gateway=gateway, jsc=java, conf=SparkConf(_jconf=java.getConf()))
    session = jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession().get()
    return SparkSession(context, session)


def reconnect(spark: SparkSession) -> None:
    """Give a forked process a connection of its own; its parent's is left as it is."""
    client = spark.sparkContext._gateway._gateway_client
    client._of_the_parent = (client.thread_connection, client.deque)  # closed, they would end both
    client.thread_connection, client.deque = threading.local(), collections.deque()


def _unpark(gateway, jvm, context, session) -> None:
    SparkContext._gateway = gateway
    SparkContext._jvm = jvm
    SparkContext._active_spark_context = context
    SparkSession._instantiatedSession = session
