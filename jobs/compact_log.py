"""Write a table's log compactions on Spark, where they are large.

spark-submit --py-files dist/txlog_engine-*.whl jobs/compact_log.py --table s3://lake/events --json
spark-submit jobs/compact_log.py --table /data/events --from 100 --to 199
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from engine.job import Job, arguments, run
from engine.report.upkeep import compaction_lines

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Compact one table's log; return 0 when it is done, 1 when it is refused."""
    parser = arguments(__file__, __doc__)
    parser.add_argument("--table", required=True, help="the table's root: a path or a URL")
    parser.add_argument("--from", dest="start", type=int, help="the first commit of a range")
    parser.add_argument("--to", dest="end", type=int, help="its last")
    parser.add_argument("--repair", action="store_true", help="replace compactions that are wrong")
    parser.add_argument("--widen", action="store_true", help="lay wide ones over many narrow ones")
    parser.add_argument("--engine", default="auto", choices=["auto", "spark", "local"])
    return run(parser.parse_args(argv), _compact)


def _compact(job: Job) -> None:
    args = job.args
    done = job.open(args.table).compact(
        args.start,
        args.end,
        repair=args.repair,
        widen=args.widen,
        engine=args.engine,
        dry_run=args.dry_run,
    )
    job.answer((one.summary() for one in done), compaction_lines(done))


if __name__ == "__main__":
    sys.exit(main())
