"""Prove the logs of tables, or name what is wrong with them; nothing is written.

spark-submit --py-files dist/*.whl jobs/verify.py --table s3://lake/events --engine spark
python jobs/verify.py --table /data/events --table /data/orders
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from engine import ReplayError
from engine.job import Job, arguments, run
from engine.report.findings import verification_lines

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Verify tables; return 0 when all are sound, 1 when one is not or is refused."""
    parser = arguments(__file__, __doc__, writes=False)
    parser.add_argument(
        "--table", required=True, action="append", help="a table's root; repeatable"
    )
    parser.add_argument("--deep", action="store_true", help="look for the data files too")
    parser.add_argument("--engine", default="local", choices=["local", "spark"])
    args = parser.parse_args(argv)
    return run(args, _verify, on_spark=args.engine == "spark")


def _verify(job: Job) -> int:
    status = 0
    for table in job.args.table:
        try:
            found = job.open(table).verify(deep=job.args.deep, engine=job.args.engine)
        except ReplayError as error:
            job.refuse(error)
            status = 1
            continue
        job.answer([found.summary()], verification_lines(found))
        status = status if found.sound else 1
    return status


if __name__ == "__main__":
    sys.exit(main())
