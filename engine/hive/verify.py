"""Do the rewritten files hold what the originals hold? Columns, rows, and the content of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import HiveMismatchError
from engine.hive.fingerprint import Fingerprint, fingerprint, observe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from engine.hive.rewrite import Recipe


@dataclass(frozen=True, slots=True)
class Content:
    """What some files hold: their columns with types, and what their rows add up to."""

    columns: str
    fingerprint: Fingerprint


def write(
    spark: SparkSession, recipe: Recipe, paths: Sequence[str], target: str, files: int
) -> Content:
    """Rewrite the files at `paths` into `target`, and return what was read from them."""
    rows = recipe.read(spark, paths)
    columns = rows.schema.simpleString()
    if recipe.sort_columns and files > 1:
        # An order over several files is found by reading a sample first; counted while they are
        # written, such rows would count twice.
        recipe.write(rows, target, files)
        return Content(columns, fingerprint(rows))
    observed, found = observe(rows)
    recipe.write(observed, target, files)
    return Content(columns, found())


def read(spark: SparkSession, recipe: Recipe, target: str) -> Content:
    """Return what the files in `target` hold, by their own account of their columns."""
    rows = recipe.read_written(spark, target)
    return Content(rows.schema.simpleString(), fingerprint(rows))


def refuse_difference(table: str, unit: str, original: Content, rewritten: Content) -> None:
    """Raise HiveMismatchError when the rewritten files hold anything else than the originals."""
    if original.columns != rewritten.columns:
        raise HiveMismatchError(table, unit, original.columns, rewritten.columns)
    if original.fingerprint != rewritten.fingerprint:
        before, after = original.fingerprint.label, rewritten.fingerprint.label
        raise HiveMismatchError(table, unit, before, after)
