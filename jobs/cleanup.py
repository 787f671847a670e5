"""Delete the log files of a table that a proven checkpoint covers and nobody may read.

spark-submit --py-files dist/txlog_engine-*.whl jobs/cleanup.py --table s3://lake/events --json
spark-submit jobs/cleanup.py --table /data/events --older-than '7 days' --dry-run
"""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import TYPE_CHECKING

from engine.config import parse_interval
from engine.job import Job, arguments, run
from engine.report.upkeep import cleanup_lines

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Clean one table's log; return 0 when it is done, 1 when it is refused."""
    parser = arguments(__file__, __doc__)
    parser.add_argument("--table", required=True, help="the table's root: a path or a URL")
    parser.add_argument("--older-than", type=_age, metavar="AGE", help="such as '7 days'")
    parser.add_argument("--truncate", action="store_true", help="drop all history before now")
    return run(parser.parse_args(argv), _clean)


def _clean(job: Job) -> int:
    args, log = job.args, job.open(job.args.table)
    if args.truncate:
        done = log.truncate(dry_run=args.dry_run)
    else:
        done = log.cleanup(older_than=args.older_than, dry_run=args.dry_run)
    job.answer([done.summary()], cleanup_lines(done))
    return 1 if done.failures else 0


def _age(text: str) -> timedelta:
    return timedelta(milliseconds=parse_interval(text))


if __name__ == "__main__":
    sys.exit(main())
