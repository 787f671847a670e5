"""How is a piece of work run by spark-submit? argv in, a session, one answer out.

A job is one file that imports this: `spark-submit --py-files dist/*.whl jobs/replay.py --help`.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.config import Config
from engine.report.lines import json_line
from engine.report.outcome import outcome, say, tell, warnings
from engine.table import open_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import SparkSession

    from engine.errors import ReplayError
    from engine.table import TableLog


@dataclass(frozen=True)
class Job:
    """One run of a job: what was asked for, and its session, None where it runs on none."""

    args: argparse.Namespace
    config: Config
    spark: Any

    def open(self, table: str) -> TableLog:
        """Open a table on the job's session."""
        return open_log(table, self.config, spark=self.spark)

    def answer(self, objects: Iterable[object], lines: Iterable[str]) -> None:
        """Answer programs with an object a line, and people with lines."""
        say(map(json_line, objects) if self.args.json else lines)

    def refuse(self, error: ReplayError) -> None:
        """Tell why one of many things is not done."""
        tell(error.code, str(error), as_json=self.args.json)


def arguments(file: str, text: str | None, *, writes: bool = True) -> argparse.ArgumentParser:
    """Return a parser of what all jobs can be asked for; the first line of `text` is its help."""
    path = Path(file)
    parser = argparse.ArgumentParser(path.name, description=(text or "").partition("\n")[0])
    parser.set_defaults(job=path.stem)
    shared = parser.add_argument_group("how to run")
    if writes:
        shared.add_argument("--dry-run", action="store_true", help="tell, and write nothing")
    shared.add_argument("--conf-file", metavar="FILE", help="settings, as in conf/txlog.toml")
    shared.add_argument("--json", action="store_true", help="answer in JSON, errors too")
    shared.add_argument("--debug", action="store_true", help="show the trace of an error")
    return parser


def run(
    args: argparse.Namespace, work: Callable[[Job], int | None], *, on_spark: bool = True
) -> int:
    """Do a job's work and return its exit status: 0 done, 1 refused, which is told in one line."""

    def done() -> int | None:
        config = Config.from_toml(args.conf_file) if args.conf_file else Config()
        spark = _session(f"txlog {args.job}", is_loud=args.debug) if on_spark else None
        try:
            # spark-submit sends a Python program's stderr to stdout, where JSON stands alone.
            with warnings(shown=not args.json):
                return work(Job(args, config, spark))
        finally:
            if spark is not None:
                spark.stop()

    return outcome(done, as_json=args.json, debug=args.debug)


def _session(name: str, *, is_loud: bool) -> SparkSession:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    # Spark ships a wheel to its executors, and then does not look into it: a wheel is a zip.
    SparkContext.PACKAGE_EXTENSIONS = (*SparkContext.PACKAGE_EXTENSIONS, ".whl")
    spark = SparkSession.builder.appName(name).getOrCreate()
    if not is_loud:
        # A failed task is a page of trace to Spark, and one line to whoever started the job.
        spark.sparkContext.setLogLevel("FATAL")
    return spark
