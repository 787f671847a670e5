"""A driver with a JVM of its own, which dies with it.

Run as a program: FOLDER die|recover SWAP STEP.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from engine.hive.catalog import Catalog
from engine.hive.compact import compact
from engine.hive.files import Files
from engine.hive.model import Options, Swap
from engine.hive.swap import Doors
from engine.hive.upkeep import cleanup, recover
from tests.hive.session import hive_session
from tests.hive.tables import Lake


def main(folder: Path, order: str, swap: str, last: str) -> None:
    # Derby must keep its promises here: its process dies too.
    safe = {"spark.driver.extraJavaOptions": f"-Dderby.system.home={folder}"}
    with hive_session(folder, **safe) as spark:
        lake = Lake(spark, folder / "lake")
        jvm = spark.sparkContext._gateway.proc.pid

        def hook(step, unit) -> None:
            if order == "die" and step.name == last:
                os.kill(jvm, signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)

        doors = Doors(Files(spark), Catalog(spark), lambda: int(time.time() * 1000), hook)
        if order == "die":
            spark.sql("CREATE DATABASE lake")
            lake.make("t", "one_key")
            options = Options(swap=Swap(swap), parallelism=1)
            compact(doors, doors.catalog.table("lake", "t"), options)
        found = recover(doors, doors.catalog.table("lake", "t"))
        cleanup(doors, doors.catalog.table("lake", "t"))
        answer = {"rows": lake.count("t"), "now": [item["now"] for item in found]}
        sys.stdout.write(json.dumps({**answer, "debris": lake.debris("t")}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
