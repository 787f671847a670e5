"""Rebuild a table's state on Spark and print it.

spark-submit --py-files dist/txlog_engine-*.whl jobs/replay.py --table s3://lake/events --json
spark-submit jobs/replay.py --table /data/events --version 120 --output /data/events-v120
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from engine.job import Job, arguments, run
from engine.replay.spark_errors import told
from engine.report.progress import Bars

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Replay one table; return 0 when it is done, 1 when it is refused."""
    parser = arguments(__file__, __doc__)
    parser.add_argument("--table", required=True, help="the table's root: a path or a URL")
    parser.add_argument("--version", type=int, help="the version to rebuild; default the latest")
    parser.add_argument("--output", metavar="DIR", help="a new one for the live files, as Parquet")
    parser.add_argument("--engine", default="spark", choices=["spark", "auto", "local"])
    return run(parser.parse_args(argv), _replay)


def _replay(job: Job) -> None:
    args = job.args
    log = job.open(args.table)
    with Bars(shown=not args.json).replay("replay") as progress:
        snapshot = log.snapshot(args.version, engine=args.engine, progress=progress)
    if args.output and not args.dry_run:
        with told():
            snapshot.to_spark(job.spark).write.mode("error").parquet(args.output)
    summary = snapshot.summary()
    job.answer([summary], _lines(summary))


def _lines(summary: Mapping[str, Any]) -> Iterator[str]:
    for name in ("table", "version", "numFiles", "sizeInBytes", "numRecords", "numTombstones"):
        yield f"{name:14} {summary[name]}\n"
    for fallback in summary["fallbacks"]:
        yield f"{'fallback':14} {fallback}\n"
    yield f"{'engine':14} {summary['engine']}, {summary['seconds']}\n"


if __name__ == "__main__":
    sys.exit(main())
