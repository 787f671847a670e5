"""How do executors look for the files of a table? Each lists the directories dealt to it.

live files ──mapInArrow(where they must be)──► shuffle by directory ──mapInArrow(list)──► sums
"""

from __future__ import annotations

import pickle
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from engine.log.listing import list_log
from engine.replay.engines import Engines
from engine.replay.spark_errors import told
from engine.replay.spark_session import default_parallelism
from engine.replay.travel import explained
from engine.snapshot import load_snapshot
from engine.upkeep.verify.data import Looked, Searched, Wanted, longest, missing, wanted_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import SparkSession

    from engine.config import Config
    from engine.log.listing import LogDirectory

# A row for each file that must be there; one without a path counts those that lie elsewhere.
_WANTED_SCHEMA: Final = pa.schema(
    {
        "folder": pa.string(),
        "is_vector": pa.bool_(),
        "path": pa.string(),
        "size": pa.int64(),
        "least": pa.int64(),
        "named": pa.string(),
    }
)
_SUM_SCHEMA: Final = pa.schema({"data": pa.binary()})
_TASKS_A_CORE: Final = 2


def search(directory: LogDirectory, config: Config, spark: SparkSession) -> Searched:
    """Look for the files of the latest version; raises where that cannot be read."""
    replay = Engines("spark", spark).replay
    snapshot = load_snapshot(directory, list_log(directory), None, replay, config)
    columns = ["path", "size"]
    if directory.log_format.checkpoint_directory is None:
        columns.append("deletionVector")
    with told():
        files = snapshot.to_spark(spark, columns).select(*columns)
        spread = partial(_spread, root=directory.table_url)
        wanted = files.mapInArrow(spread, from_arrow_schema(_WANTED_SCHEMA))
        dealt = wanted.repartition(default_parallelism(spark) * _TASKS_A_CORE, "folder")
        look = partial(_look, directory=directory, config=config)
        rows = dealt.mapInArrow(look, from_arrow_schema(_SUM_SCHEMA)).collect()
    return sum((pickle.loads(row["data"]) for row in rows), Searched())


def _spread(batches: Iterable[pa.RecordBatch], root: str) -> Iterator[pa.RecordBatch]:
    with explained():
        for batch in batches:
            data, vectors, elsewhere = wanted_files(pa.Table.from_batches([batch]), root)
            rows = [_row(file, is_vector=False) for file in data]
            rows += [_row(file, is_vector=True) for file in vectors]
            if elsewhere:
                rows.append({"folder": "", "size": elsewhere})
            yield pa.RecordBatch.from_pylist(rows, _WANTED_SCHEMA)


def _row(file: Wanted, *, is_vector: bool) -> dict[str, Any]:
    folder = file.path.rpartition("/")[0]
    return {"folder": folder, "is_vector": is_vector, **asdict(file)}


def _look(
    batches: Iterable[pa.RecordBatch], directory: LogDirectory, config: Config
) -> Iterator[pa.RecordBatch]:
    with explained():
        files: dict[bool, list[Wanted]] = {False: [], True: []}
        elsewhere = 0
        for batch in batches:
            for row in batch.to_pylist():
                if row["path"] is None:
                    elsewhere += row["size"]
                    continue
                wanted = Wanted(row["path"], row["size"], row["least"], row["named"])
                files[row["is_vector"]].append(wanted)
        known: dict[str, dict[str, int]] = {}
        looked = [
            Looked.of(len(some), missing(directory, some, config, known))
            for some in (files[False], longest(files[True]))
        ]
        found = Searched(looked[0], looked[1], elsewhere)
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(found)])], schema=_SUM_SCHEMA)
