"""Writers in processes of their own, forked by the one that obeys an order.

`{"table": T, "writers": [{"kind": "append", "name": "a", "count": 50}, …]}` is one process a
writer, all at once. `{"tables": [T, …], "kills": 50}` is, for each table, a writer that never ends,
killed at a random moment after a few of its commits, and again.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import s3fs  # noqa: F401  (loaded before the first fork)

from engine import Config, create_log, open_log
from engine.config import RETRY_MAX_ATTEMPTS
from tests.forks import ended, forked

GROUP = 3  # files a commit, so that a half-visible one would show


def obey(order: dict[str, Any]) -> None:
    """Write, or kill who writes, and wait for all of them."""
    if "writers" in order:
        started = [forked(lambda w=w: write(order["table"], **w)) for w in order["writers"]]
    else:
        tables = enumerate(order["tables"])
        started = [forked(lambda n=n, t=t: kill(t, order["kills"], n)) for n, t in tables]
    assert [ended(child) for child in started] == [0] * len(started)


def rehearse(folder: str) -> None:
    """Do what an order may ask for, until a checkpoint and a compaction were due."""
    for log_format in ("delta", "indextables"):
        table = str(Path(folder) / log_format)
        fields = {"type": "struct", "fields": []}
        create_log(table, fields, log_format=log_format)
        log = open_log(table)
        for number in range(11):
            log.add_files([{"path": f"f{number}", "size": 10, "partitionValues": {}}])
        open_log(table).overwrite_files([{"path": "last", "size": 10, "partitionValues": {}}])


def file(path: str) -> dict[str, object]:
    values = {"date": "2024-01-01", "hour": "3"}
    return {"path": path, "size": 10, "partitionValues": values}


def group(name: str, number: int) -> list[dict[str, object]]:
    return [file(f"{name}.{number}.{part}") for part in range(GROUP)]


def write(table: str, kind: str, name: str, count: int, ready: int | None = None) -> None:
    # The S3 server of the tests is slow, and eight writers keep it busy: patience is no failure.
    log = open_log(table, Config(options={RETRY_MAX_ATTEMPTS.key: 100}))
    if ready is not None:
        log.snapshot()
        os.write(ready, b".")
    act = {"append": log.add_files, "overwrite": log.overwrite_files}[kind]
    for number in range(count):
        act(group(name, number))
        if ready is not None:
            os.write(ready, b".")


def kill(table: str, kills: int, seed: int) -> None:
    """Kill so many writers, each after a few of its commits."""
    rng = random.Random(seed)
    for number in range(kills):
        listening, ready = os.pipe()
        name = f"k{seed}-{number}"
        pid = forked(lambda name=name, ready=ready: write(table, "append", name, 10**9, ready))
        os.close(ready)
        for _ in range(1 + rng.randrange(4)):  # at work, and so many commits
            assert os.read(listening, 1), "it ended before it was killed"
        time.sleep(rng.uniform(0, 0.01))
        os.kill(pid, signal.SIGKILL)
        assert ended(pid) == -signal.SIGKILL
        os.close(listening)
