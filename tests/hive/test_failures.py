"""Disk full, permission denied, metastore gone: at every act, a clear error and no loss."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from engine.errors import HiveFailedError, ReplayError
from engine.hive.catalog import Catalog
from engine.hive.compact import compact
from engine.hive.files import Files
from engine.hive.model import Options, Swap
from engine.hive.swap import Doors
from engine.hive.upkeep import cleanup, recover

FILE_ACTS = ("mkdirs", "rename", "delete", "write_new", "copy_access", "listing")
METASTORE_ACTS = ("create_backup", "point_backup", "set_location", "refresh", "measure", "units")


class Broken:
    """Stands before a door; every call of `acts` from the `first` on fails, until it is mended."""

    def __init__(self, door, acts, first, error) -> None:
        self._door, self._acts, self._first, self._error = door, acts, first, error
        self.calls, self.mended = 0, False

    def __getattr__(self, name):
        real = getattr(self._door, name)
        if name not in self._acts:
            return real

        def call(*args, **kwargs):
            self.calls += 1
            if not self.mended and self.calls >= self._first:
                raise self._error
            return real(*args, **kwargs)

        return call


def outcomes(lake, doors, swap, breaks):
    """Break the n-th act of a compaction, for every n there is; yield what was said each time."""
    lake.make("t")
    for first in range(1, 200):
        lake.restore(doors.catalog, "t")
        table = doors.catalog.table("lake", "t")
        broken, faulty = breaks(first)
        try:
            compact(faulty, table, Options(swap=swap, parallelism=1))
            assert first > 3
            return
        except ReplayError as error:
            said = str(error)
        except OSError as error:
            said = str(error)
            assert lake.debris() == [], "only before anything was begun"
        assert "\n" not in said
        broken.mended = True
        recover(doors, table, break_lock=True)
        assert lake.seen(doors.catalog, "t") == 6, said
        if lake.debris():
            cleanup(doors, doors.catalog.table("lake", "t"))
        assert lake.debris() == [], said
        yield said


@pytest.mark.slow
@pytest.mark.parametrize("swap", Swap)
def test_a_disk_that_refuses_one_act_after_another_loses_nothing(lake, quickly, swap):
    def breaks(first):
        error = PermissionError(13, "Permission denied", "/t")
        broken = Broken(quickly.files, FILE_ACTS, first, error)
        return broken, Doors(broken, quickly.catalog, quickly.clock)

    said = list(outcomes(lake, quickly, swap, breaks))
    assert any("txlog hive recover" in text for text in said)
    assert all("Permission denied" in text for text in said)


@pytest.mark.slow
@pytest.mark.parametrize("swap", Swap)
def test_a_metastore_that_goes_away_mid_run_loses_nothing(lake, quickly, swap):
    def breaks(first):
        error = ConnectionError("Could not connect to meta store")
        broken = Broken(quickly.catalog, METASTORE_ACTS, first, error)
        return broken, Doors(quickly.files, broken, quickly.clock)

    said = list(outcomes(lake, quickly, swap, breaks))
    assert all("Could not connect" in text for text in said)


def test_one_refused_act_leaves_the_table_as_it_was(lake, doors):
    lake.make("t", "one_key")
    before = sorted(lake.files("t"))

    class Full(Files):
        def copy_access(self, *args):
            raise OSError(28, "No space left on device")

    full = Doors(Full(lake.spark), doors.catalog, doors.clock)
    with pytest.raises(HiveFailedError, match=r"No space left.*the table is as it was before"):
        compact(full, doors.catalog.table("lake", "t"), Options(parallelism=1))
    assert (sorted(lake.files("t")), lake.debris()) == (before, [])


def test_a_disk_that_is_really_full_leaves_the_table_as_it_was(spark, lake, doors, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(small)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a file system of one megabyte cannot be mounted here")
    try:
        rows = spark.range(12_000).selectExpr("id", "uuid() AS v")
        rows.repartition(4).write.parquet(str(tmp_path / "made"))
        (small / "t").mkdir()
        for file in (tmp_path / "made").glob("*.parquet"):
            shutil.copy(file, small / "t")
        (small / "ballast").write_bytes(b"x" * (shutil.disk_usage(small).free - 400_000))
        lake.sql(
            f"CREATE EXTERNAL TABLE lake.t (id BIGINT, v STRING) STORED AS PARQUET "
            f"LOCATION '{small}/t'"
        )
        before = sorted(path.name for path in (small / "t").iterdir())
        with pytest.raises(HiveFailedError, match=r"No space.*the table is as it was before"):
            compact(doors, doors.catalog.table("lake", "t"), Options(parallelism=1))
        assert sorted(path.name for path in (small / "t").iterdir()) == before
        assert lake.count("t") == 12_000
        assert not [name for name in lake.tables() if name.startswith("__bkp_")]
    finally:
        lake.sql("DROP TABLE IF EXISTS lake.t")
        subprocess.run(["umount", "-l", str(small)], check=True)


def test_a_directory_that_may_not_be_renamed_leaves_the_table_as_it_was(lake, doors, victim):
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    lake.make("t")
    nobody = 65534
    home = lake.folder / ".t.compact"
    home.mkdir()
    for mine in (home, lake.path("t")):
        os.chown(mine, nobody, nobody)
    lake.folder.chmod(0o755)
    before = sorted(lake.files("t"))
    answer = victim("compact", "lake.t", user=nobody)
    assert (answer["signal"], "Permission denied" in answer["said"]) == (0, True), answer
    assert "\n" not in answer["said"]
    assert answer["steps"][:4] == ["LOCKED", "RUN_PLANNED", "BACKUP_MADE", "UNIT_PLANNED"]
    recover(doors, doors.catalog.table("lake", "t"))
    assert (sorted(lake.files("t")), lake.count("t"), lake.debris()) == (before, 6, [])


def test_the_doors_of_a_test_are_the_real_ones(doors):
    assert isinstance(doors.files, Files)
    assert isinstance(doors.catalog, Catalog)
