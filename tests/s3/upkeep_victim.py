"""Keeps tables in a bucket, each in a process that kills itself before one of its requests.

Run with a list of jobs as JSON on stdin, each with a table, an operation, the step to die at and
the time. For each a word is printed: `killed`, or `finished`, and then no more are done.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
from typing import Any

import s3fs

from engine import Config, open_log

# What changes a bucket.
CHANGES = frozenset(
    {
        *("put_object", "create_multipart_upload", "upload_part", "upload_part_copy"),
        *("complete_multipart_upload", "delete_object", "delete_objects"),
    }
)
OPTIONS = {"spark.txlog.compaction.tileBytes": 600, "spark.indextables.checkpoint.retention": 0}


class Clock:
    def __init__(self, now_ms: int) -> None:
        self.now = now_ms

    def now_ms(self) -> int:
        return self.now


def work(table: str, operation: str, now_ms: int) -> Any:
    """Keep a table, as the command of the same name does."""
    log = open_log(table, Config(options=OPTIONS))
    log.clock = Clock(now_ms)  # type: ignore[assignment]
    return {
        "compact": log.compact,
        "mend": lambda: log.compact(repair=True),
        "cleanup": log.cleanup,
        "truncate": log.truncate,
        "derived": log.repair_derived,
        "anew": lambda: log.repair(f"{table}-anew"),
    }[operation]()


def arm(step: int) -> None:
    """Let this process die before its `step`-th change."""
    counter = itertools.count(1)

    def count(method: str) -> None:
        if method in CHANGES and next(counter) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    plain, waited = s3fs.S3FileSystem._call_s3, s3fs.S3FileSystem.call_s3

    async def requested(self: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        count(method)
        return await plain(self, method, *args, **kwargs)

    def called(self: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        count(method)
        return waited(self, method, *args, **kwargs)

    s3fs.S3FileSystem._call_s3, s3fs.S3FileSystem.call_s3 = requested, called


def main() -> None:
    # All that is needed is loaded before the first fork.
    import engine.storage.s3
    import engine.upkeep.cleanup.clean
    import engine.upkeep.repair.derived
    import engine.upkeep.repair.repair

    assert engine.storage.s3
    for job in json.load(sys.stdin):
        child = os.fork()
        if child == 0:
            arm(job["step"])
            work(job["table"], job["operation"], job["now"])
            os._exit(0)
        _, status = os.waitpid(child, 0)
        done = "finished" if status == 0 else "failed"
        sys.stdout.write("killed\n" if os.WIFSIGNALED(status) else f"{done}\n")
        if not os.WIFSIGNALED(status):
            return


if __name__ == "__main__":
    main()
