"""Who wins, on Spark? A window over the tail, and what the tail leaves of the checkpoint."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window, WindowSpec

from engine.replay.rules import NEWEST

_FILES: Final = "file"


def newest(actions: DataFrame) -> DataFrame:
    """Keep the newest action of each key."""
    order = [F.desc(name) for name in NEWEST]
    window = Window.partitionBy("kind", _key(), _vector()).orderBy(*order)
    return _first(actions, window)


def untouched(rows: DataFrame, tail: DataFrame, *, is_short: bool) -> DataFrame:
    """Keep the checkpoint's rows whose key none of the tail's winners has.

    The keys of a short tail are sent to every executor, and the rows stay where they are.
    """
    keys = tail.where(F.col("kind") == _FILES).select(
        _key().alias("tailKey"), _vector().alias("tailDv")
    )
    keys = F.broadcast(keys) if is_short else keys.hint("shuffle_hash")
    same = (_key() == keys["tailKey"]) & (_vector() == keys["tailDv"])
    return rows.join(keys, same, "left_anti")


def once(rows: DataFrame) -> DataFrame:
    """Keep one of the checkpoint's rows of each key: an add before a remove, then the first."""
    order = (F.col("add").isNull(), F.col("ordinal"))
    return _first(rows, Window.partitionBy(_key(), _vector()).orderBy(*order))


def _first(rows: DataFrame, window: WindowSpec) -> DataFrame:
    ranked = rows.withColumn("rank", F.row_number().over(window))
    return ranked.where(F.col("rank") == 1).drop("rank")


def _key() -> Column:
    return F.coalesce("key", F.col("add.path"), F.col("remove.path"))


def _vector() -> Column:
    return F.coalesce("dvId", F.lit(""))
