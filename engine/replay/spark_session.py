"""Which Spark session? The one of this program, and how wide it is."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def start_session() -> SparkSession:
    """Return the session of this program, starting a quiet one on this machine where none runs."""
    return (
        SparkSession.builder.appName("txlog")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )


def default_parallelism(spark: SparkSession) -> int:
    """Return how many tasks run at once, or else how many partitions a shuffle has."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except (PySparkException, AttributeError, NotImplementedError):
        # Spark Connect does not tell.
        return int(spark.conf.get("spark.sql.shuffle.partitions") or 8)
