"""The Spark session of the command line and of the job: Hive support, and what was asked for."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from engine.errors import ConfigError, HiveFailedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession


def hive_session(app: str, settings: Sequence[str] = ()) -> SparkSession:
    """Return the running session, or start one that speaks to the metastore.

    Raises:
        ConfigError: a setting is not `key=value`.
        HiveFailedError: Spark is not installed or does not start.
    """
    pairs = [text.partition("=") for text in settings]
    for key, equals, _ in pairs:
        if not (key and equals):
            raise ConfigError("--conf", key, "key=value")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise HiveFailedError(
            "hive", "pyspark is not installed", "install it with: pip install 'txlog-engine[spark]'"
        ) from error
    # Errors come as one line of ours, progress as a bar of ours.
    quiet = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}
    builder = SparkSession.builder.appName(app).config("spark.ui.enabled", "false")
    for key, value in quiet.items():
        builder = builder.config(key, value)
    for key, _, value in pairs:
        builder = builder.config(key, value)
    try:
        return builder.enableHiveSupport().getOrCreate()
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise HiveFailedError(
            "hive", f"Spark did not start ({lines[0]})", "nothing was done"
        ) from error
