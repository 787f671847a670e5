"""Does upkeep again and again, and is killed at every step of it: one table a step.

Run as `python compaction_victim.py TEMPLATE OUT OPERATION NOW_MS`: copies the table at TEMPLATE to
OUT/0, OUT/1, … and works on each in a process of its own that kills itself: before its first change
to the disk, after it, before its second, and so on, until one is not killed any more. Tables that
were left just as an earlier one are removed. Prints at how many moments it was killed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from engine import Config, open_log

# What changes a directory. A file that is written has its name already, or none that counts.
STEPS = ("link", "unlink", "replace", "rmdir")


class Clock:
    def __init__(self, now_ms: int) -> None:
        self.now = now_ms

    def now_ms(self) -> int:
        return self.now


def work(table: str, operation: str, now_ms: int) -> None:
    options = {
        "spark.txlog.compaction.tileBytes": 600,
        "spark.indextables.checkpoint.retention": 0,
    }
    log = open_log(table, Config(options=options))
    log.clock = Clock(now_ms)
    if operation == "compact":
        log.compact()
    elif operation == "repair":
        log.compact(repair=True)
    elif operation == "cleanup":
        log.cleanup()
    else:
        log.truncate()


def doomed(step: int) -> None:
    """Die at the `step`-th moment, which is before or after a change."""
    moments = iter(range(step + 1))

    def pass_or_die() -> None:
        if next(moments) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def wrapped(call: Any) -> Any:
        def change(*args: Any, **kwargs: Any) -> Any:
            pass_or_die()
            done = call(*args, **kwargs)
            pass_or_die()
            return done

        return change

    for name in STEPS:
        setattr(os, name, wrapped(getattr(os, name)))
    os.fsync = lambda _: None  # it is the process that dies, and not the machine


def left(table: Path) -> str:
    """Return what tells apart what a killed process left behind: every name, and what it holds."""
    found = hashlib.sha256()
    for path in sorted(table.rglob("*")):
        # A run has a name of its own each time.
        name = path.relative_to(table).as_posix().partition("-")[0]
        found.update(f"{name}:{path.is_file()}".encode())
        found.update(path.read_bytes() if path.is_file() else b"")
    return found.hexdigest()


def main(template: str, out: str, operation: str, now_ms: str) -> None:
    # All that is needed is loaded before the first fork.
    import engine.upkeep.checkpoint.checkpoint
    import engine.upkeep.cleanup.clean
    import engine.upkeep.compaction.compact

    assert engine.upkeep.checkpoint.checkpoint
    step, seen = 0, set()
    while True:
        table = Path(out) / str(step)
        shutil.copytree(template, table)  # times and all
        child = os.fork()
        if not child:
            doomed(step)
            work(str(table), operation, int(now_ms))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            sys.stdout.write(f"{step}\n")
            sys.exit(os.WEXITSTATUS(status))
        assert os.WTERMSIG(status) == signal.SIGKILL, status
        if (state := left(table)) in seen:
            shutil.rmtree(table)
        seen.add(state)
        step += 1


if __name__ == "__main__":
    main(*sys.argv[1:])
