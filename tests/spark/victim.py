"""Drivers that die while Spark writes a checkpoint: `python victim.py SPEC`, where SPEC is JSON.

`{"tables": [T0, T1, …], "shape": S, "stride": K}`: one session; for each table a forked driver that
kills itself at a step, K steps after the one of the table before, where a step is the moment before
or after a change to the storage. Prints, a line each, whether it died.
`{"table": T, "marker": FILE}`: a driver whose executors stop in the middle of their first file,
having written FILE, and wait to be killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import open_log
from engine.config import Config
from engine.storage.local import LocalStorage
from engine.upkeep.checkpoint.checkpoint import Asked, checkpoint
from engine.upkeep.checkpoint.shape import Shape
from tests.spark.fixtures import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.storage import Storage

NOW = 1_800_000_000_000
STEPS = ("open_output", "write_new", "publish", "replace", "delete_many", "remove_directory")


class StuckStorage(LocalStorage):
    """A disk on which the first byte of a staged file is the last."""

    @contextmanager
    def open_output(self, path: str) -> Iterator[Any]:
        with super().open_output(path) as file:
            file.write(b"PAR1")
            Path(self.options["marker"]).touch()
            time.sleep(600)
            yield file


def main(spec: dict[str, Any]) -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if "marker" in spec:
        log = open_log(spec["table"])
        storage = StuckStorage("file", {"marker": spec["marker"]}, Config())
        object.__setattr__(log.directory, "storage", storage)
        run(log, spark, None)
    for at, table in enumerate(spec["tables"]):
        step = 1 + at * spec["stride"]
        pid = os.fork()
        if pid == 0:
            log = open_log(table)
            die_at(log.directory.storage, step)
            run(log, spark, Shape(spec["shape"]))
            os._exit(0)
        status = os.waitpid(pid, 0)[1]
        sys.stdout.write(f"{json.dumps(os.WIFSIGNALED(status))}\n")
        sys.stdout.flush()
        if not os.WIFSIGNALED(status):
            return


def run(log: Any, spark: Any, shape: Shape | None) -> None:
    asked = Asked(shape=shape, engine="spark")
    result = checkpoint(log.directory, log.listing(), Config(), asked, now_ms=NOW, spark=spark)
    assert result.engine == "spark"


def die_at(storage: Storage, step: int) -> None:
    """Kill this process at the n-th step of the driver; executors have a storage of their own."""
    seen = 0

    def reach() -> None:
        nonlocal seen
        seen += 1
        if seen == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched(call: Any) -> Any:
        def stepping(*args: Any, **options: Any) -> Any:
            reach()
            result = call(*args, **options)
            reach()
            return result

        return stepping

    def watched_block(call: Any) -> Any:
        @contextmanager
        def stepping(*args: Any) -> Iterator[Any]:
            reach()
            with call(*args) as file:
                yield file
            reach()

        return stepping

    for name in STEPS:
        around = watched_block if name == "open_output" else watched
        setattr(storage, name, around(getattr(storage, name)))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
