"""Rebuild a table's state on Spark and print it.

spark-submit --py-files dist/txlog_engine-*.whl jobs/replay.py --table s3://lake/events --json
spark-submit jobs/replay.py --table /data/events --version 120 --output /data/events-v120
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from typing import TYPE_CHECKING

from pyspark import SparkContext
from pyspark.sql import SparkSession

from engine import Config, ReplayError, open_log
from engine.replay.spark import told

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Replay one table; return 0 when it is done, 1 when it is refused."""
    args = _parse(argv)
    # spark-submit sends a Python program's stderr to stdout, where JSON must stand alone.
    logging.basicConfig(
        level=logging.CRITICAL if args.json else logging.WARNING, format="txlog: %(message)s"
    )
    # Spark ships a wheel to its executors, and then does not look into it: a wheel is a zip.
    SparkContext.PACKAGE_EXTENSIONS = (*SparkContext.PACKAGE_EXTENSIONS, ".whl")
    spark = SparkSession.builder.appName("txlog replay").getOrCreate()
    if not args.debug:
        # A failed task is a page of trace to Spark, and one line to whoever started the job.
        spark.sparkContext.setLogLevel("FATAL")
    try:
        config = Config.from_toml(args.conf_file) if args.conf_file else Config()
        log = open_log(args.table, config, spark=spark)
        snapshot = log.snapshot(args.version, engine=args.engine)
        if args.output:
            with told():
                snapshot.to_spark(spark).write.mode("error").parquet(args.output)
        _print(snapshot.summary(), as_json=args.json)
    except ReplayError as error:
        if args.debug:
            raise
        _print({"error": {"code": error.code, "message": str(error)}}, as_json=args.json)
        return 1
    finally:
        spark.stop()
    return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("replay.py", description=__doc__.splitlines()[0])
    parser.add_argument("--table", required=True, help="the table's root: a path or a URL")
    parser.add_argument("--version", type=int, help="the version to rebuild; default the latest")
    parser.add_argument("--output", help="a new directory for the live files, as Parquet")
    parser.add_argument("--engine", default="spark", choices=["spark", "auto", "local"])
    parser.add_argument("--conf-file", help="settings, as in conf/txlog.toml")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--debug", action="store_true", help="show the trace of a failure")
    return parser.parse_args(argv)


def _print(answer: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(answer))
    elif "error" in answer:
        print(f"txlog: {answer['error']['message']}", file=sys.stderr)  # type: ignore[index]
    else:
        for name in ("table", "version", "numFiles", "sizeInBytes", "numRecords", "numTombstones"):
            print(f"{name:14} {answer[name]}")
        for fallback in answer["fallbacks"]:  # type: ignore[attr-defined]
            print(f"{'fallback':14} {fallback}")
        print(f"{'engine':14} {answer['engine']}, {answer['seconds']}")


if __name__ == "__main__":
    sys.exit(main())
