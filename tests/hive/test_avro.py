from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from engine.errors import HiveRefusedError
from engine.hive.model import Options
from engine.hive.plan import plan

PACKAGE = "org.apache.spark:spark-avro_2.13"
# The release that goes with Spark; and the one before it, while that is not published.
VERSIONS = (pyspark.__version__, "4.1.1")


@pytest.mark.jvm
@pytest.mark.slow
@pytest.mark.timeout(280)
def test_avro_keeps_its_codec_and_the_columns_of_evolved_files(tmp_path):
    for version in VERSIONS:
        folder = tmp_path / version
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, "-m", "tests.hive.avro_story", f"{PACKAGE}:{version}", str(folder)],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 3:
            assert done.returncode == 0, done.stderr[-4000:]
            return
    pytest.skip(f"{PACKAGE} cannot be had from Maven in {' or '.join(VERSIONS)}")


def test_avro_without_its_package_is_refused_with_the_way_out(lake, doors):
    lake.declare("t", stored="AVRO")
    with pytest.raises(HiveRefusedError, match="spark-avro"):
        plan(doors, doors.catalog.table("lake", "t"), Options())
