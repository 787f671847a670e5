"""Do what is due in many tables, on Spark: small ones on the executors, large ones by all of them.

spark-submit --py-files dist/txlog_engine-*.whl jobs/checkpoint.py --tables conf/tables.toml --json
spark-submit jobs/checkpoint.py --table /data/events 's3://lake/*' --max-seconds 600 --dry-run
spark-submit jobs/checkpoint.py --catalog sales --metrics-file /var/lib/node_exporter/txlog.prom
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from engine.job import Job, arguments, run
from engine.report.fleet import report_lines
from engine.table import open_log
from engine.upkeep.fleet.maintain import Request, lost, maintain
from engine.upkeep.fleet.metrics import write_metrics
from engine.upkeep.fleet.spark import catalog_tables, executors
from engine.upkeep.fleet.tables import Target, find_tables, read_tables

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Keep up a fleet; return 0 when all is done, 1 when a table failed or all was refused."""
    parser = arguments(__file__, __doc__)
    which = parser.add_argument_group("which tables")
    which.add_argument("--tables", metavar="FILE", help="tables and patterns: conf/tables.toml")
    which.add_argument("--table", nargs="+", default=[], help="roots of tables, or patterns")
    which.add_argument(
        "--catalog", nargs="?", const="", metavar="DB", help="Delta tables of a database, or all"
    )
    which.add_argument("--exclude", nargs="+", default=[], help="patterns to leave out")
    parser.add_argument("--max-seconds", type=int, help="begin no more tables after so long")
    parser.add_argument("--max-tables", type=int, help="work on so many tables, the most urgent")
    parser.add_argument("--deep", action="store_true", help="read newest checkpoints whole")
    parser.add_argument("--measure", action="store_true", help="load tables before and after")
    parser.add_argument("--verify", action="store_true", help="verify every table, last of all")
    parser.add_argument("--metrics-file", metavar="FILE", help="a Prometheus textfile to write")
    args = parser.parse_args(argv)
    if not (args.tables or args.table or args.catalog is not None):
        parser.error("name tables with --tables, --table or --catalog")
    return run(args, _maintain)


def _maintain(job: Job) -> int:
    args, spark = job.args, job.spark
    targets, exclude = read_tables(args.tables) if args.tables else ([], [])
    targets += [Target(table) for table in args.table]
    if args.catalog is not None:
        targets += catalog_tables(spark, args.catalog or None)
    request = Request(
        open_log,
        _now_ms,
        job.config,
        deadline_ms=None if args.max_seconds is None else _now_ms() + args.max_seconds * 1000,
        max_tables=args.max_tables,
        deep=args.deep,
        measure=args.measure,
        verify=args.verify,
        dry_run=args.dry_run,
        spark=spark,
    )
    fleet = find_tables(targets, [*exclude, *args.exclude], job.config)
    report = maintain(fleet, request, executors(spark, lost))
    try:
        if args.metrics_file and not args.dry_run:
            write_metrics(report, args.metrics_file, now_ms=_now_ms())
    finally:
        job.answer([report.summary()], report_lines(report))
    return report.status


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    sys.exit(main())
