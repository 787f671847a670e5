"""The one door to the metastore: what it says of a table, and the few things we tell it.

Reading goes through Spark's external catalog, one call for all partitions of a table. Telling goes
through SQL, with every name and value quoted. A live table is altered only by `set_location`.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from engine.errors import HiveTableNotFoundError
from engine.hive import layout
from engine.hive.files import Files
from engine.hive.layout import partition_name
from engine.hive.model import NULL_PARTITION, Table, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

BACKUP_OF: Final = "txlog.compact.backup-of"
BACKUP_RUN: Final = "txlog.compact.run"
_PARTITIONS_A_STATEMENT: Final = 200

# How a table says what its files are: by provider, or by its input format.
_FORMATS: Final = {
    "parquet": "parquet",
    "orc": "orc",
    "avro": "avro",
    "text": "text",
    "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat": "parquet",
    "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat": "orc",
    "org.apache.hadoop.hive.ql.io.avro.AvroContainerInputFormat": "avro",
    "org.apache.hadoop.mapred.TextInputFormat": "text",
}
# A location without a scheme, or with one that needs a host and has none.
_UNQUALIFIED: Final = re.compile(r"(?!file:)([^:/]+:)?/(?!/)")
_OTHERS: Final = ("iceberg", "delta", "hudi", "paimon")


class Catalog:
    """The tables of one metastore, seen through a session of our own."""

    def __init__(self, spark: SparkSession) -> None:
        # A clone, so that neither our settings nor our caches are the caller's.
        self.spark = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
        self.spark.conf.set("spark.sql.parser.escapedStringLiterals", "false")
        # The files of a directory are named one by one; by default Spark starts a job with a task
        # for each of them as soon as there are 33.
        self.spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", "2000")
        self.spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", "64")
        self._callers = spark
        self._files = Files(spark)
        self._jvm: Any = spark.sparkContext._jvm
        self._external: Any = spark._jsparkSession.sharedState().externalCatalog()

    def table_names(self, database: str) -> list[str]:
        """Return the tables of a database, by name."""
        try:
            return sorted(str(name) for name in _items(self._external.listTables(database)))
        except (AnalysisException, Py4JJavaError) as error:
            raise HiveTableNotFoundError(database) from error

    def knows(self, database: str, name: str) -> bool:
        """Say whether there is such a table."""
        return bool(self._external.tableExists(database, name))

    def table(self, database: str, name: str) -> Table:
        """Return what the metastore says of a table."""
        if not self.knows(database, name):
            raise HiveTableNotFoundError(f"{database}.{name}")
        found = self._external.getTable(database, name)
        storage, bucket = found.storage(), _option(found.bucketSpec())
        properties = {**_mapping(storage.properties()), **_mapping(found.properties())}
        rows, sized = _statistics(found.stats())
        return Table(
            database=database,
            name=name,
            identity=f"{database}.{name}@{found.createTime()}",
            kind=str(found.tableType().name()).lower(),
            location=self._location(storage),
            format=_format(found, properties),
            partition_columns=tuple(str(item) for item in _items(found.partitionColumnNames())),
            properties=properties,
            sort_columns=tuple(str(c) for c in _items(bucket.sortColumnNames())) if bucket else (),
            buckets=int(bucket.numBuckets()) if bucket else 0,
            rows=rows,
            sized=sized,
        )

    def data_schema(self, table: Table) -> StructType:
        """Return the table's columns, without those that are partition keys."""
        schema = self.spark.table(quote(table.database, table.name)).schema
        keys = {column.lower() for column in table.partition_columns}
        return type(schema)([item for item in schema.fields if item.name.lower() not in keys])

    def units(self, table: Table) -> list[Unit]:
        """Return the table's partitions, or the table itself when it has none, by name."""
        if not table.partition_columns:
            return [Unit("", (), table.location, table.rows, table.sized)]
        nothing = self._jvm.scala.Option.empty()
        found = self._external.listPartitions(table.database, table.name, nothing)
        formats: dict[str, str] = {}
        units = []
        for partition in _items(found):
            values = _mapping(partition.spec())
            spec = tuple(
                (key, None if values[key] == NULL_PARTITION else values[key])
                for key in table.partition_columns
            )
            storage = partition.storage()
            kind = str(_option(storage.inputFormat()) or "")
            formats.setdefault(kind, _FORMATS.get(kind, kind or table.format))
            rows, sized = _statistics(partition.stats())
            units.append(
                Unit(
                    partition_name(spec),
                    spec,
                    self._location(storage),
                    rows,
                    sized,
                    plain=formats[kind] == table.format
                    or table.properties.get("provider") != "hive",
                )
            )
        return sorted(units, key=lambda unit: unit.name)

    def location(self, table: Table, unit: Unit) -> str:
        """Return where the metastore says the unit is now; empty when it knows the unit no more."""
        if not unit.spec:
            return self._location(self._external.getTable(table.database, table.name).storage())
        spec = {key: NULL_PARTITION if value is None else value for key, value in unit.spec}
        wanted = self._jvm.PythonUtils.toScalaMap(spec)
        found = _option(self._external.getPartitionOption(table.database, table.name, wanted))
        return self._location(found.storage()) if found else ""

    def locations(self, database: str, *, but_not: str, partitions: bool) -> list[str]:
        """Return what all tables of the metastore read except the backup `but_not` of `database`.

        With `partitions`, the locations of those too, for one call a table: of every table of
        `database`, and of tables elsewhere whose directory another table shares or holds.
        """
        nothing = self._jvm.scala.Option.empty()
        keyed, found = [], []
        for each in map(str, _items(self._external.listDatabases())):
            names = self.table_names(each)
            wanted = [name for name in names if (each, name) != (database, but_not)]
            sequence = self._jvm.PythonUtils.toSeq(wanted)
            for item in _items(self._external.getTablesByName(each, sequence)):
                found.append(self._location(item.storage()))
                if item.partitionColumnNames().nonEmpty():
                    keyed.append((each, str(item.identifier().table()), found[-1]))
        shared = layout.overlapping(place for place in found if place)
        for each, name, place in keyed if partitions else ():
            if each == database or place.rstrip("/") in shared:
                parts = self._external.listPartitions(each, name, nothing)
                found += [self._location(part.storage()) for part in _items(parts)]
        return [place for place in found if place]

    def create_backup(self, table: Table, name: str, run: str, units: Sequence[Unit]) -> None:
        """Make a table beside `table` that reads the same files and can never delete them."""
        self.drop_backup(table, name, run)
        properties = _properties(
            {
                "external.table.purge": "false",
                BACKUP_OF: table.identity,
                BACKUP_RUN: run,
            }
        )
        backup = quote(table.database, name)
        self._run(
            f"CREATE TABLE {backup} LIKE {quote(table.database, table.name)} "
            f"LOCATION {literal(table.location)} TBLPROPERTIES ({properties})"
        )
        partitions = [unit for unit in units if unit.spec]
        for start in range(0, len(partitions), _PARTITIONS_A_STATEMENT):
            batch = partitions[start : start + _PARTITIONS_A_STATEMENT]
            clauses = " ".join(
                f"{_clause(unit)} LOCATION {literal(unit.location)}" for unit in batch
            )
            self._run(f"ALTER TABLE {backup} ADD {clauses}")

    def point_backup(self, table: Table, name: str, unit: Unit, location: str) -> None:
        """Let the backup read the unit at `location`."""
        backup = quote(table.database, name)
        self._run(f"ALTER TABLE {backup} {_clause(unit)} SET LOCATION {literal(location)}")

    def forget_in_backup(self, table: Table, name: str, unit: Unit) -> None:
        """Take one partition out of the backup; its files stay."""
        if unit.spec and self._external.tableExists(table.database, name):
            backup = quote(table.database, name)
            self._run(f"ALTER TABLE {backup} DROP IF EXISTS {_clause(unit)}")

    def drop_backup(self, table: Table, name: str, run: str) -> None:
        """Drop a run's backup table; its files stay. A table that is not that is left alone."""
        if not self._external.tableExists(table.database, name):
            return
        found = _mapping(self._external.getTable(table.database, name).properties())
        if found.get(BACKUP_RUN) == run:
            self._run(f"DROP TABLE IF EXISTS {quote(table.database, name)}")

    def set_location(self, table: Table, unit: Unit, location: str) -> None:
        """Point the live table, or one partition of it, at `location`."""
        live = quote(table.database, table.name)
        self._run(f"ALTER TABLE {live} {_clause(unit)} SET LOCATION {literal(location)}")

    def measure(self, table: Table, unit: Unit | None, *, rows: bool) -> None:
        """Compute the statistics of a unit, or of the whole table, anew."""
        clause = _clause(unit) if unit else ""
        live = quote(table.database, table.name)
        # Spark drops a row count that it finds unchanged beside a changed size; counting after
        # the size is known keeps it.
        self._run(f"ANALYZE TABLE {live} {clause} COMPUTE STATISTICS NOSCAN")
        if rows:
            self._run(f"ANALYZE TABLE {live} {clause} COMPUTE STATISTICS")

    def refresh(self, table: Table) -> None:
        """Drop what the caller's session and ours remember of the table's files."""
        for spark in (self.spark, self._callers):
            spark.catalog.refreshTable(quote(table.database, table.name))

    def _run(self, statement: str) -> None:
        self.spark.sql(statement)

    def _location(self, storage: Any) -> str:
        uri = _option(storage.locationUri())
        place = str(self._jvm.org.apache.hadoop.fs.Path(uri).toString()) if uri else ""
        # hdfs:/x and hdfs://host/x are one directory, and are compared as text. One whose scheme
        # this session does not know is no directory of ours.
        with suppress(Py4JJavaError):
            return self._files.qualify(place) if _UNQUALIFIED.match(place) else place
        return place


def quote(*names: str) -> str:
    """Return a qualified name that SQL takes as it is."""
    return ".".join(f"`{name.replace('`', '``')}`" for name in names)


def literal(text: str) -> str:
    """Return a SQL string literal for `text`."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _clause(unit: Unit) -> str:
    if not unit.spec:
        return ""
    values = ", ".join(
        f"{quote(key)} = {'NULL' if value is None else literal(value)}" for key, value in unit.spec
    )
    return f"PARTITION ({values})"


def _properties(values: dict[str, str]) -> str:
    return ", ".join(f"{literal(key)} = {literal(value)}" for key, value in values.items())


def _format(found: Any, properties: dict[str, str]) -> str:
    provider = str(_option(found.provider()) or "hive").lower()
    properties["provider"] = provider
    kind = str(_option(found.storage().inputFormat()) or "")
    spoken = f"{provider} {kind} {_option(found.storage().serde()) or ''}".lower()
    for other in _OTHERS:
        if other in spoken or properties.get("table_type", "").lower() == other:
            return other
    if provider == "hive":
        return _FORMATS.get(kind, kind.rpartition(".")[2] or "unknown")
    return _FORMATS.get(provider, provider)


def _statistics(stats: Any) -> tuple[int | None, bool]:
    known = _option(stats)
    if not known:
        return None, False
    rows = _option(known.rowCount())
    return (int(str(rows)) if rows is not None else None), True


def _option(value: Any) -> Any:
    return value.get() if value.isDefined() else None


def _items(sequence: Any) -> Iterator[Any]:
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _mapping(values: Any) -> dict[str, str]:
    return {str(pair._1()): str(pair._2()) for pair in _items(values)}
