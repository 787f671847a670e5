"""Compact Hive tables from spark-submit: one JSON report a table on stdout.

    spark-submit --py-files txlog_engine.whl jobs/hive_compact.py sales.orders --min-age 6h

Takes the arguments of `txlog hive compact`. Exit 0 done, 1 refused or failed, 2 wrong usage.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run `txlog hive compact --json` with `argv` and return its exit code."""
    from engine.hive.cli import app

    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        app(["compact", *arguments, "--json"], prog_name="hive_compact")
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
