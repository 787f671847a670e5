"""A driver with a JVM of its own: it loses its metastore, then its life and the JVM's.

Run as a program: FOLDER. Tells on stdout what the lost metastore left.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from py4j.protocol import Py4JJavaError

from engine.errors import ReplayError
from engine.hive.catalog import Catalog
from engine.hive.compact import compact
from engine.hive.files import Files
from engine.hive.model import Options
from engine.hive.steps import Step
from engine.hive.swap import Doors
from engine.hive.upkeep import recover
from tests.hive.session import CHEAP, hive_session
from tests.hive.tables import Lake


def main(folder: Path) -> None:
    # Derby must keep its promises here: its process dies too.
    settings = {
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder} {CHEAP}",
        "spark.hadoop.hive.hmshandler.retry.interval": "10ms",
    }
    with hive_session(folder, **settings) as spark:
        spark.sql("CREATE DATABASE lake")
        lake = Lake(spark, folder / "lake")
        jvm = spark.sparkContext._gateway.proc.pid
        files, catalog = Files(spark), Catalog(spark)

        def die(step, unit) -> None:
            if step is Step.SET_ASIDE:
                os.kill(jvm, signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)

        def doors(hook) -> Doors:
            return Doors(files, catalog, lambda: int(time.time() * 1000), hook)

        lost = _lose_the_metastore(folder, lake, doors)
        sys.stdout.write(json.dumps(lost) + "\n")
        sys.stdout.flush()
        lake.make("t", "one_key")
        compact(doors(die), catalog.table("lake", "t"), Options(parallelism=1))


def _lose_the_metastore(folder: Path, lake: Lake, doors) -> dict:
    """Lose Derby when one partition is swapped and the next written; tell what that left."""
    lake.make("u", "one_key")
    before = lake.files("u")
    metastore, away = folder / "metastore", folder / "away"

    def lose(step, unit) -> None:
        if step is Step.WRITTEN and unit == "dt=b":
            manager = lake.spark._jvm.java.sql.DriverManager
            try:
                manager.getConnection(f"jdbc:derby:{metastore};shutdown=true")
            except Py4JJavaError as told:  # how Derby says that it did
                assert "shutdown" in str(told), told
            metastore.rename(away)
            metastore.mkdir()

    losing, said = doors(lose), ""
    try:
        compact(losing, losing.catalog.table("lake", "u"), Options(parallelism=1))
    except ReplayError as error:
        said = str(error)
    as_before = lake.files("u") == before
    metastore.rmdir()
    away.rename(metastore)
    recover(losing, losing.catalog.table("lake", "u"))
    return {"said": said, "as_before": as_before, "rows": lake.count("u"), "debris": lake.debris()}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
