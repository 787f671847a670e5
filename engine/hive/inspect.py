"""Which tables and partitions are worth compacting, and why or why not?"""

from __future__ import annotations

import statistics
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from engine.errors import HiveRefusedError, PredicateError
from engine.hive import layout, logs, rewrite
from engine.hive.catalog import BACKUP_OF, quote
from engine.hive.reason import first_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column
    from pyspark.sql.types import DataType

    from engine.hive.catalog import Catalog
    from engine.hive.files import Files
    from engine.hive.model import FileEntry, Listing, Options, Table, Unit

_LISTERS: Final = 8
_KIB: Final = 1024
_THREE_DIGITS: Final = 100
# Spark lists such a path as a pattern, and then reads its files several times over.
_GLOB: Final = frozenset("[]{}*?\\")
_STAGING_LIFE_MS: Final = 24 * 3600 * 1000
_LOG_FORMATS: Final = ("iceberg", "delta", "hudi", "paimon")


@dataclass(frozen=True, slots=True)
class Assessment:
    """What one unit looks like, whether it is due, and the reason in words."""

    unit: str
    location: str
    files: int
    size_bytes: int
    average_bytes: int
    median_bytes: int
    target_files: int
    due: bool
    reason: str

    def as_json(self) -> dict[str, Any]:
        """Return the answer a program reads."""
        return asdict(self)


def assess(
    unit: Unit,
    listing: Listing | None,
    options: Options,
    *,
    now_ms: int,
    made: tuple[FileEntry, ...] = (),
) -> Assessment:
    """Judge one unit by its listing. `made` are the files that the last run left there.

    A directory is due when it has more files than it needs and the smaller of average and median
    is under the threshold. One that is as a run left it is never due: the estimate of its target
    may have been off, and rewriting it again would not end.
    """
    if listing is None:
        gone = "its directory is missing"
        return Assessment(unit.label, unit.location, 0, 0, 0, 0, 0, due=False, reason=gone)
    sizes = [entry.size for entry in listing.files]
    total, count = sum(sizes), len(sizes)
    average = total // count if count else 0
    median = int(statistics.median(sizes)) if count else 0
    target = max(1, -(-total // options.block_bytes)) if count else 0
    reason = _why_not(unit, listing, options, now_ms, made) or _enough(
        count, target, min(average, median), options
    )
    due = not reason
    if due:
        small = min(average, median)
        which = "average" if average <= median else "median"
        reason = f"{which} {human(small)} is under {human(options.threshold_bytes)}"
    return Assessment(unit.label, unit.location, count, total, average, median, target, due, reason)


def at_work(listing: Listing, now_ms: int) -> str:
    """Return which directory says that a writer is at work there; empty when none does."""
    for name, modified in listing.hidden:
        if now_ms - modified < _STAGING_LIFE_MS:
            return f"a writer is at work in {name}"
    return ""


def refusal(table: Table, options: Options) -> str:  # noqa: PLR0911
    """Return why a table must be left alone; empty when it may be compacted."""
    if table.kind == "view":
        return "it is a view"
    if BACKUP_OF in table.properties:
        return "it is the backup of a compaction"
    if table.format in _LOG_FORMATS:
        return f"it is a table of {table.format.capitalize()}, which keeps its own log"
    if table.kind == "managed" and not options.managed:
        return "it is a managed table; add --managed to compact it all the same"
    if table.properties.get("transactional", "").lower() == "true":
        return "it is transactional"
    if not table.location:
        return "it has no location"
    if table.buckets > 1:
        return f"it is bucketed into {table.buckets} files, which must stay"
    for kind in ("header", "footer"):
        lines = table.properties.get(f"skip.{kind}.line.count", "").strip()
        if table.format == "text" and lines not in ("", "0"):
            return f"its text files have {kind} lines, which are no rows"
    if "textinputformat.record.delimiter" in table.properties:
        return "its text has a line delimiter of its own"
    return ""


def listings(files: Files, units: Sequence[Unit]) -> list[Listing | None]:
    """List the directories of many units, several at once."""
    with ThreadPoolExecutor(_LISTERS) as pool:
        return list(pool.map(lambda unit: files.listing(unit.location), units))


def inspect(
    catalog: Catalog,
    files: Files,
    table: Table,
    options: Options,
    *,
    now_ms: int,
    made: Mapping[str, tuple[FileEntry, ...]],
) -> list[tuple[Unit, Assessment]]:
    """Return every unit that `options.where` leaves, with its assessment, by name.

    Raises:
        HiveRefusedError: the table must be left alone.
    """
    reason = refusal(table, options) or rewrite.can_read(catalog.spark, table)
    if reason:
        raise HiveRefusedError(table.full_name, reason)
    every = catalog.units(table)
    for place in logs.tops(table, every):
        if kept := logs.found(files, place):
            raise HiveRefusedError(table.full_name, kept)
    clashing = layout.overlapping(unit.location for unit in every)
    units = _filter(catalog, table, every, options.where)
    found = []
    for unit, listing in zip(units, listings(files, units), strict=True):
        verdict = assess(unit, listing, options, now_ms=now_ms, made=made.get(unit.name, ()))
        if unit.location in clashing:
            verdict = _left(verdict, "its directory is shared with, or inside, another partition's")
        elif table.partition_columns and layout.holds(unit.location, table.location):
            verdict = _left(verdict, "its directory holds the table's own, and so the journal")
        found.append((unit, verdict))
    return found


def human(size: int) -> str:
    """Return a number of bytes for people."""
    amount = float(size)
    for suffix in ("B", "KB", "MB", "GB"):
        if amount < _KIB:
            # Three digits say enough.
            return f"{amount:.{int(suffix != 'B' and amount < _THREE_DIGITS)}f} {suffix}"
        amount /= _KIB
    return f"{amount:.1f} TB"


def _why_not(
    unit: Unit, listing: Listing, options: Options, now_ms: int, made: tuple[FileEntry, ...]
) -> str:
    if _GLOB & set(unit.location):
        return "its path holds a character that Spark would read as a pattern"
    if not unit.plain:
        return "its files have another format than the table's"
    if listing.folders:
        return f"it holds the directory {listing.folders[0]}"
    if told := logs.named(name for name, _ in listing.hidden) or at_work(listing, now_ms):
        return told
    if not listing.files:
        return "it is empty"
    if made and listing.files == made:
        return "it is as the last compaction left it"
    age_ms = now_ms - max(entry.modified_ms for entry in listing.files)
    if age_ms < options.min_age_ms:
        return f"it was written {max(0, age_ms) // 1000} s ago"
    return ""


def _enough(count: int, target: int, effective: int, options: Options) -> str:
    if count == 1:
        return "it is one file"
    if effective >= options.threshold_bytes:
        return "its files are large enough"
    if target >= count:
        return f"it needs {target} files and has {count}"
    return ""


def _left(verdict: Assessment, reason: str) -> Assessment:
    values = asdict(verdict)
    return Assessment(**{**values, "due": False, "reason": reason})


def _filter(catalog: Catalog, table: Table, units: list[Unit], where: str) -> list[Unit]:
    if not where:
        return units
    if not table.partition_columns:
        raise PredicateError(where, f"{table.full_name} has no partitions")
    spark = catalog.spark
    kinds = {
        item.name: item.dataType
        for item in spark.table(quote(table.database, table.name)).schema.fields
    }
    text = StructType([StructField(key, StringType()) for key in ("#", *table.partition_columns)])
    rows = [(str(number), *(value for _, value in unit.spec)) for number, unit in enumerate(units)]
    try:
        typed = spark.createDataFrame(rows, text).select(
            "#", *(_cast(key, kinds) for key in table.partition_columns)
        )
        kept = {int(row["#"]) for row in typed.where(where).select("#").collect()}
    except PySparkException as error:
        raise PredicateError(where, first_line(error)) from error
    return [unit for number, unit in enumerate(units) if number in kept]


def _cast(key: str, kinds: dict[str, DataType]) -> Column:
    return F.col(quote(key)).cast(kinds[key]).alias(key)
