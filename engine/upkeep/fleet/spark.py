"""Many small tables on one Spark session: a table a row, its work done by the executor."""

from __future__ import annotations

import logging
import pickle
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from engine.errors import DistributedError
from engine.replay.spark_errors import told
from engine.upkeep.fleet.tables import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from engine.upkeep.fleet.maintain import Each

Item = TypeVar("Item")
Result = TypeVar("Result")

_SCHEMA: Final = pa.schema({"task": pa.int32(), "at": pa.int64(), "item": pa.binary()})
_RESULTS: Final = pa.schema({"at": pa.int64(), "result": pa.binary()})
# Tasks a core: enough that a slow table delays few others.
_TASKS_A_CORE: Final = 8

_logger: Final = logging.getLogger(__name__)


def executors(spark: SparkSession, failed: Callable[[Any, DistributedError], Any]) -> Each:
    """Return the pool of a cluster.

    Work is lost with the worker that does it. What was in the same job is then done again, in
    ever smaller jobs, until the item is found that takes its worker down; of that one the result
    is what `failed` makes of it.
    """

    def each(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        if not items:
            return []
        try:
            with told():
                return _run(spark, work, items)
        except DistributedError as error:
            if error.is_setup:
                raise
            if len(items) == 1:
                return [failed(items[0], error)]
            _logger.warning("%d tables are done again in two jobs: %s", len(items), error.reason)
        half = len(items) // 2
        return each(work, items[:half]) + each(work, items[half:])

    return each


def _run(
    spark: SparkSession, work: Callable[[Item], Result], items: Sequence[Item]
) -> list[Result]:
    tasks = min(len(items), _TASKS_A_CORE * max(1, spark.sparkContext.defaultParallelism))
    rows = [
        {"task": at % tasks, "at": at, "item": pickle.dumps(item)} for at, item in enumerate(items)
    ]
    spread = spark.createDataFrame(pa.Table.from_pylist(rows, _SCHEMA))
    spread = spread.repartitionById(tasks, F.col("task"))
    found = spread.mapInArrow(partial(_work, work=work), from_arrow_schema(_RESULTS)).collect()
    by_place = {row["at"]: pickle.loads(row["result"]) for row in found}
    return [by_place[at] for at in range(len(items))]


def _work(
    batches: Iterable[pa.RecordBatch], work: Callable[[Item], Result]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            result = pickle.dumps(work(pickle.loads(row["item"])))
            yield pa.RecordBatch.from_pylist([{"at": row["at"], "result": result}], _RESULTS)


def catalog_tables(spark: SparkSession, database: str | None = None) -> list[Target]:
    """Return the Delta tables that the session's catalog knows, of one database or of all."""
    databases = [database] if database else [found.name for found in spark.catalog.listDatabases()]
    targets = []
    with told():
        for name in databases:
            for row in spark.sql(f"SHOW TABLE EXTENDED IN {_quoted(name)} LIKE '*'").collect():
                about = dict(
                    line.split(": ", 1) for line in row["information"].splitlines() if ": " in line
                )
                if about.get("Provider", "").lower() == "delta" and "Location" in about:
                    targets.append(Target(about["Location"]))
    return targets


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
