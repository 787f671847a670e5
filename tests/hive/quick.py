"""A rewrite without Spark, for tests that ask what a kill leaves and not what a rewrite makes."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from engine.hive import compact, rewrite
from engine.hive.fingerprint import Fingerprint, fingerprints

CACHE = "TXLOG_TEST_FINGERPRINTS"  # a folder that all drivers of a test session share


class QuickRecipe(rewrite.Recipe):
    """Reads nothing until it must; writes with Arrow."""

    def write(self, rows, target: str, files: int) -> None:
        folder = Path(target.removeprefix("file:"))
        folder.mkdir(parents=True)
        tables = [pq.read_table(path.removeprefix("file:")) for path in rows]
        pq.write_table(pa.concat_tables(tables), folder / "part-00000-quick.parquet")

    def read(self, spark, paths):
        return list(paths)


def quick_recipe(spark, table, columns, paths, sort_columns=()):
    return QuickRecipe("parquet", columns, "snappy")


def quick_fingerprints(spark):
    """Fingerprints by the real code, computed once for each content, by whichever process."""

    def measure(*sets):
        found = []
        for paths in sets:
            files = [Path(path.removeprefix("file:")) for path in paths]
            files = [f for p in files for f in (sorted(p.glob("*.parquet")) if p.is_dir() else [p])]
            table = pa.concat_tables([pq.read_table(f) for f in files])
            rows = repr(sorted(table.to_pylist(), key=repr))
            known = Path(os.environ[CACHE]) / hashlib.sha256(rows.encode()).hexdigest()
            if not known.exists():
                real = fingerprints(spark.read.parquet(*(str(f) for f in files)))[0]
                known.write_text(json.dumps(real.as_json()))
            found.append(Fingerprint(**json.loads(known.read_text())))
        return found

    return measure


def install(spark) -> tuple:
    """Put the quick rewrite in place of the real one; return what `restore` takes."""
    saved = (rewrite.recipe, compact.fingerprints)
    rewrite.recipe = quick_recipe
    compact.fingerprints = quick_fingerprints(spark)
    return saved


def restore(saved: tuple) -> None:
    rewrite.recipe, compact.fingerprints = saved


def append(location: str) -> None:
    """A writer adds one file of two rows."""
    folder = Path(location.removeprefix("file:"))
    folder.mkdir(exist_ok=True)
    rows = pa.table({"id": pa.array([70, 71], pa.int32()), "v": ["late", "later"]})
    pq.write_table(rows, folder / "zz-late.parquet")
