"""Writers in processes of their own: `python writers.py TABLE SPEC`, where SPEC is JSON.

`{"writers": [{"kind": "append", "name": "a", "count": 50}, …]}` forks one process a writer and
waits for all. `{"kills": 50, "seed": 1}` forks a writer that never ends, kills it at a random
moment once it is at work, and again; it prints how many were killed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback

from engine import open_log

GROUP = 3  # files a commit, so that a half-visible one would show


def file(path: str) -> dict[str, object]:
    values = {"date": "2024-01-01", "hour": "3"}
    return {"path": path, "size": 10, "partitionValues": values}


def group(name: str, number: int) -> list[dict[str, object]]:
    return [file(f"{name}.{number}.{part}") for part in range(GROUP)]


def write(table: str, kind: str, name: str, count: int, ready: int | None = None) -> None:
    log = open_log(table)
    if ready is not None:
        log.snapshot()
        os.write(ready, b".")
    act = {"append": log.add_files, "overwrite": log.overwrite_files}[kind]
    for number in range(count):
        act(group(name, number))


def forked(table: str, kind: str, name: str, count: int, ready: int | None = None) -> int:
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            write(table, kind, name, count, ready)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return pid


def main(table: str, spec: dict[str, object]) -> int:
    if "writers" in spec:
        pids = [forked(table, **writer) for writer in spec["writers"]]
        return sum(os.waitpid(pid, 0)[1] != 0 for pid in pids)
    rng = random.Random(spec["seed"])
    killed = 0
    listening, ready = os.pipe()
    for number in range(spec["kills"]):
        pid = forked(table, "append", f"k{spec['seed']}-{number}", 10**9, ready)
        os.read(listening, 1)
        time.sleep(rng.uniform(0, 0.03))
        os.kill(pid, signal.SIGKILL)
        killed += os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    sys.stdout.write(str(killed))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], json.loads(sys.argv[2])))
