"""A process that gives each command a driver of its own, and lets it die where it is told.

Run as a program with the JVM's port and secret: one JSON order a line on stdin, one JSON answer a
line on stdout. This process joins the JVM once; each driver is a fork of it with a connection of
its own.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from engine.errors import ReplayError
from engine.hive import compact as compaction
from engine.hive import upkeep
from engine.hive.catalog import Catalog
from engine.hive.files import Files
from engine.hive.model import Options, Swap
from engine.hive.swap import Doors
from tests.hive import quick
from tests.hive.session import join, reconnect

COMMANDS = {
    "compact": lambda doors, table, swap: compaction.compact(
        doors, table, Options(swap=Swap(swap), parallelism=1)
    ),
    "rollback": lambda doors, table, swap: upkeep.rollback(doors, table),
    "cleanup": lambda doors, table, swap: upkeep.cleanup(doors, table),
    "recover": lambda doors, table, swap: upkeep.recover(doors, table),
}


class Driver:
    """A forked process that waits for its one order."""

    def __init__(self, spark) -> None:
        orders, self._orders = os.pipe()
        self._told, told = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._orders)
            os.close(self._told)
            os.dup2(2, 1)
            code = 1
            try:
                reconnect(spark)
                _live_and_die(spark, orders, told)
                code = 0
            finally:
                os._exit(code)
        os.close(orders)
        os.close(told)

    def obey(self, order: dict) -> dict:
        os.write(self._orders, json.dumps(order).encode() + b"\n")
        with os.fdopen(self._told) as stream:
            steps, _, said = stream.read().partition("! ")
        return {"steps": steps.split(), "said": said, **self.end()}

    def end(self) -> dict:
        os.close(self._orders)
        _, status = os.waitpid(self._pid, 0)
        if os.WIFSIGNALED(status):
            return {"signal": os.WTERMSIG(status), "code": None}
        return {"signal": 0, "code": os.WEXITSTATUS(status)}


def _live_and_die(spark, orders: int, told: int) -> None:
    files, count = Files(spark), 0
    with os.fdopen(orders) as stream:
        line = stream.readline()
    if not line:
        return
    order = json.loads(line)

    def hook(step, unit) -> None:
        nonlocal count
        if step.name == order["write_at"]:
            quick.append(table.location)
        os.write(told, f"{step.name}\n".encode())
        count += 1
        if count == order["die_after"] or step.name == order["die_at"]:
            os.kill(os.getpid(), signal.SIGKILL)

    catalog = quick.QuickCatalog(spark) if order["quick"] else Catalog(spark)
    if order["quick"]:
        quick.install(spark)
    database, name = order["table"].split(".")
    table = catalog.table(database, name)
    doors = Doors(files, catalog, lambda: int(time.time() * 1000), hook)
    os.setuid(order["user"])
    try:
        COMMANDS[order["command"]](doors, table, order["swap"])
    except ReplayError as error:
        os.write(told, f"! {error}".encode())


def main(port: int, secret: str) -> None:
    spark = join(port, secret)
    driver = Driver(spark)
    for line in sys.stdin:
        answer = driver.obey(json.loads(line))
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
        driver = Driver(spark)
    driver.end()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
