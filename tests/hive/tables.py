"""Real tables on a local disk, and what a test wants to know of them."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

from engine.hive.catalog import Catalog
from engine.hive.fingerprint import fingerprint
from engine.hive.finish import home_of

SHAPES = {
    "flat": ([()], ""),
    "one_key": ([("dt=a",), ("dt=b",)], "dt string"),
    "two_keys": ([("dt=a", "n=1")], "dt string, n int"),
}
_pristine: dict[tuple[str, str], Path] = {}


class Lake:
    """The tables of one test, under one folder."""

    def __init__(self, spark, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self._reader = spark.newSession()
        self._catalog: Catalog | None = None

    def sql(self, statement: str):
        return self.spark.sql(statement)

    def path(self, name: str) -> Path:
        return self.folder / name

    def make(
        self, name: str, shape: str = "flat", files: int = 3, stored: str = "PARQUET", **more
    ) -> str:
        """Make a table of `shape` whose every directory holds `files` files of two rows."""
        keys, columns = SHAPES[shape]
        for key in keys:
            shutil.copytree(
                self._part(stored, files), self.path(name).joinpath(*key), dirs_exist_ok=True
            )
        self.declare(name, columns, stored, **more)
        for key in keys:
            if key:
                self.add(
                    name, dict(part.split("=") for part in key), self.path(name).joinpath(*key)
                )
        return f"lake.{name}"

    def declare(
        self, name, keys="", stored="PARQUET", columns="id INT, v STRING", properties=""
    ) -> None:
        partitioned = f"PARTITIONED BY ({keys})" if keys else ""
        extra = f"TBLPROPERTIES ({properties})" if properties else ""
        self.sql(
            f"CREATE EXTERNAL TABLE lake.{name} ({columns}) {partitioned} STORED AS {stored} "
            f"LOCATION '{self.path(name)}' {extra}"
        )

    def add(self, name, values: dict[str, str], place: Path) -> None:
        spec = ", ".join(f"{key}='{value}'" for key, value in values.items())
        self.sql(f"ALTER TABLE lake.{name} ADD PARTITION ({spec}) LOCATION '{place}'")

    def rows(self, name: str) -> list[tuple]:
        """Return the rows as a session sees them that has never looked before."""
        found = self.spark.newSession().table(f"lake.{name}").collect()
        return sorted((tuple(row) for row in found), key=repr)

    def count(self, name: str) -> int:
        """Return how many rows a session sees that remembers nothing of the table's files."""
        self._reader.catalog.refreshTable(f"lake.`{name}`")
        return self._reader.table(f"lake.`{name}`").count()

    def seen(self, catalog, name: str) -> int:
        """Return the rows that any reader finds: the metastore's locations, no hidden file."""
        return sum(pq.read_metadata(file).num_rows for file in self._visible(catalog, name))

    def seen_files(self, catalog, name: str) -> int:
        return len(self._visible(catalog, name))

    def restore(self, catalog, name: str) -> None:
        """Give a table its first files back, wherever it is now, and forget its runs."""
        table = catalog.table("lake", name)
        shutil.rmtree(home_of(table).removeprefix("file:"), ignore_errors=True)
        for unit in catalog.units(table):
            place = unit.location.removeprefix("file:")
            shutil.rmtree(place)
            shutil.copytree(self._part("PARQUET", 3), place)

    def _visible(self, catalog, name: str) -> list[Path]:
        places = [
            Path(unit.location.removeprefix("file:"))
            for unit in catalog.units(catalog.table("lake", name))
        ]
        return [f for place in places for f in place.glob("*") if f.name[0] not in "._"]

    def content(self, name: str):
        return fingerprint(self.spark.newSession().table(f"lake.`{name}`"))

    def files(self, name: str) -> list[str]:
        """Return the visible data files under a table's own folder."""
        found = []
        for folder, folders, names in os.walk(self.path(name)):
            folders[:] = [f for f in folders if not f.startswith((".", "_"))]
            found += [f"{folder}/{n}" for n in names if not n.startswith((".", "_"))]
        return sorted(found)

    def location(self, name: str, unit: str = "") -> str:
        part = f"PARTITION ({unit})" if unit else ""
        rows = self.sql(f"DESCRIBE FORMATTED lake.`{name}` {part}").collect()
        return next(row[1] for row in rows if row[0] == "Location").removeprefix("file:")

    def tables(self) -> list[str]:
        found = self.spark._jsparkSession.sharedState().externalCatalog().listTables("lake")
        return sorted(found.mkString(",").split(",")) if found.size() else []

    def debris(self, table: str = "") -> list[str]:
        """Return work directories, backup tables and open journals: what must not stay.

        A directory of rewritten files that is no table's or partition's LOCATION is one of them.
        """
        found = [name for name in self.tables() if name.startswith(f"__bkp_{table}")]
        for folder, folders, _ in os.walk(self.folder):
            found += [f"{folder}/{f}" for f in folders if "__compact_tmp_" in f or "__old_" in f]
            made = [f"{folder}/{f}" for f in folders if re.fullmatch(r"\..*__compact_\d.*", f)]
            found += [place for place in made if not self._is_read(place)]
            if Path(folder).name.endswith(".compact"):
                found += [f"{folder}/{f}" for f in folders if f not in ("history", "lock")]
        beside = len(f"{self.folder}/")
        mine = (table, f".{table}_", f".{table}.")
        return [d for d in found if d.startswith("__bkp_") or d[beside:].startswith(mine)]

    def _is_read(self, place: str) -> bool:
        if self._catalog is None:
            self._catalog = Catalog(self.spark)
        read = self._catalog.locations("lake", but_not="", partitions=True)
        return any(location.removeprefix("file:").startswith(f"{place}/") for location in read)

    def drop_all(self) -> None:
        for name in self.tables():
            self.sql(f"DROP TABLE IF EXISTS lake.`{name}`")

    def _part(self, stored: str, files: int) -> Path:
        # Made once and copied, because a copy costs a millisecond and a Spark job a quarter second.
        key = (stored, str(files))
        if key not in _pristine:
            target = Path(tempfile.mkdtemp()) / "pristine"
            atexit.register(shutil.rmtree, target.parent, ignore_errors=True)
            rows = self.spark.range(2 * files).selectExpr(
                "cast(id as int) id", "if(id % 5 = 3, null, concat('v', id)) v"
            )
            rows.repartition(files).write.option(
                "mapreduce.fileoutputcommitter.marksuccessfuljobs", "false"
            ).format(stored.lower()).save(str(target))
            _pristine[key] = target
        return _pristine[key]
