from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from engine.hive.catalog import Catalog
from engine.hive.files import Files
from engine.hive.swap import Doors
from tests.hive import quick
from tests.hive.session import address, hive_session
from tests.hive.tables import Lake


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.path).parents and "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="package")
def spark(tmp_path_factory):
    with hive_session(tmp_path_factory.mktemp("hive")) as session:
        session.sql("CREATE DATABASE lake")
        os.environ[quick.CACHE] = str(tmp_path_factory.mktemp("fingerprints"))
        yield session


@pytest.fixture
def doors(spark):
    return Doors(Files(spark), Catalog(spark), lambda: int(time.time() * 1000))


@pytest.fixture
def quickly(spark, doors):
    """The doors of tests that ask neither who wrote the files nor how the metastore was told."""
    saved = quick.install(spark)
    yield Doors(doors.files, quick.QuickCatalog(spark), doors.clock)
    quick.restore(saved)


@pytest.fixture
def lake(spark, tmp_path):
    # In memory where that can be had: what is tested is the order of steps, not the disk.
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory)) if os.access(memory, os.W_OK) else tmp_path
    lake = Lake(spark, folder)
    yield lake
    lake.drop_all()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="package")
def victim(spark):
    where = address(spark)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.hive.victim", str(where["port"]), str(where["secret"])],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )

    def order(
        command, table, swap="rename", *, die_after=0, die_at="", write_at="", quickly=False, user=0
    ):
        told = {"command": command, "table": table, "swap": swap, "user": user}
        told |= {"die_after": die_after, "die_at": die_at, "write_at": write_at, "quick": quickly}
        process.stdin.write(json.dumps(told) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    yield order
    process.stdin.close()
    process.wait()
    process.stdout.close()
