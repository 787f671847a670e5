"""Write the newest provable state of a damaged log as a sound log elsewhere, or mend it in place.

spark-submit jobs/repair.py --table s3://lake/events --to s3://lake/events-repaired --deep --json
python jobs/repair.py --table /data/events --derived
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from engine.job import Job, arguments, run
from engine.report.findings import derived_lines, repair_lines

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Repair one table; return 0 when what came of it is sound, 1 when not or when refused."""
    parser = arguments(__file__, __doc__)
    parser.add_argument("--table", required=True, help="the table's root: a path or a URL")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--to", metavar="TARGET", help="an empty table root for the new log")
    where.add_argument("--derived", action="store_true", help="mend derived files in place")
    parser.add_argument("--version", type=int, help="give up what came after this version")
    parser.add_argument("--deep", action="store_true", help="leave out files that are gone")
    parser.add_argument("--paths", choices=["relative", "absolute"], help="relative by default")
    args = parser.parse_args(argv)
    if args.derived and (args.version is not None or args.deep or args.paths):
        parser.error("--version, --deep and --paths are of --to, and not of --derived")
    return run(args, _mend if args.derived else _repair, on_spark=False)


def _repair(job: Job) -> int:
    args = job.args
    done = job.open(args.table).repair(
        args.to,
        version=args.version,
        deep=args.deep,
        paths=args.paths or "relative",
        dry_run=args.dry_run,
    )
    job.answer([done.summary()], repair_lines(done))
    return 0 if done.sound else 1


def _mend(job: Job) -> int:
    done = job.open(job.args.table).repair_derived(dry_run=job.args.dry_run)
    job.answer([done.summary()], derived_lines(done))
    return 0 if done.sound or job.args.dry_run else 1


if __name__ == "__main__":
    sys.exit(main())
