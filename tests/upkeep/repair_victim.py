"""A process whose children each repair a log and are killed at one step of it.

python -m tests.upkeep.repair_victim SOURCE TARGETS: child n writes to TARGETS/n and dies before
its n-th write, child n.5 after it. Prints how many writes a repair takes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from engine import open_log
from engine.storage.local import LocalStorage

WRITES = ("write_new", "publish", "replace", "delete_many")
STEPS_AT_MOST = 50


def die_at(step: float) -> None:
    """Let this process die at a step: before a whole one, after a half one."""
    count = 0

    def counted(write):
        def run(*args):
            nonlocal count
            count += 1
            if count == step:
                os.kill(os.getpid(), 9)
            result = write(*args)
            if count + 0.5 == step:
                os.kill(os.getpid(), 9)
            return result

        return run

    for name in WRITES:
        setattr(LocalStorage, name, counted(getattr(LocalStorage, name)))


def main(source: str, targets: str) -> None:
    for half in range(2, STEPS_AT_MOST * 2):
        step = half / 2
        child = os.fork()
        if child == 0:
            die_at(step)
            open_log(source).repair(str(Path(targets) / str(step)))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            sys.stdout.write(f"{half // 2 - 1}\n")
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
