"""How are right-sized files made? Read exactly the listed ones, write as the table wants them.

Text is rewritten line by line, so that whatever its SerDe makes of a line stays as it is. The
other formats are read with the union of the table's schema and their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql.types import StructType

from engine.errors import HiveRefusedError
from engine.hive import avro as avros
from engine.hive import schema as schemas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

    from engine.hive.model import Table

AVRO_PACKAGE: Final = "org.apache.spark:spark-avro_2.13"
_CODEC_KEYS: Final = {
    "parquet": ("parquet.compression", "parquet.compress", "compression"),
    "orc": ("orc.compress", "compression"),
    "avro": ("avro.output.codec", "compression"),
    "text": ("compression",),
}
_CODEC_NAMES: Final = {
    "null": "uncompressed",
    "none": "uncompressed",
}
_TEXT_SUFFIXES: Final = {
    "gz": "gzip",
    "bz2": "bzip2",
    "deflate": "deflate",
    "lz4": "lz4",
    "snappy": "snappy",
}
_ORC_NAMES: Final = {"uncompressed": "none"}


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the files of one directory are read and written."""

    format: str
    schema: StructType | None
    codec: str
    avro: str = ""
    sort_columns: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the recipe as the journal writes it."""
        schema = self.schema.jsonValue() if self.schema is not None else None
        return {"format": self.format, "schema": schema, "codec": self.codec, "avro": self.avro}

    @staticmethod
    def from_json(body: dict[str, Any]) -> Recipe:
        """Return a recipe that the journal kept."""
        schema = StructType.fromJson(body["schema"]) if body["schema"] else None
        return Recipe(body["format"], schema, body["codec"], body["avro"])

    def read(self, spark: SparkSession, paths: Sequence[str]) -> DataFrame:
        """Return the rows of some files, or of a directory."""
        reader = _reader(spark, self.format)
        if self.avro:
            reader = reader.option("avroSchema", self.avro)
        elif self.schema is not None:
            reader = reader.schema(self.schema)
        return reader.load(list(paths))

    def read_written(self, spark: SparkSession, target: str) -> DataFrame:
        """Return the rows of rewritten files, with the columns that they themselves declare."""
        return _reader(spark, self.format).option("mergeSchema", "true").load([target])

    def write(self, rows: DataFrame, target: str, files: int) -> None:
        """Write `rows` as at most `files` files into the directory `target`."""
        if self.sort_columns and files > 1:
            rows = rows.repartitionByRange(files, *self.sort_columns)
        else:
            rows = rows.coalesce(files)
        if self.sort_columns:
            rows = rows.sortWithinPartitions(*self.sort_columns)
        codec = (
            _ORC_NAMES.get(self.codec, self.codec) if self.format in ("orc", "text") else self.codec
        )
        writer = (
            rows.write.format(self.format)
            .mode("overwrite")
            .option("compression", codec)
            .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        )
        if self.avro:
            writer = writer.option("avroSchema", self.avro)
        writer.save(target)


def recipe(
    spark: SparkSession,
    table: Table,
    columns: StructType,
    paths: Sequence[str],
    sort_columns: tuple[str, ...] = (),
) -> Recipe:
    """Return how the files at `paths` are to be rewritten, none of their columns lost."""
    codec = _declared(table) or _found(spark, table.format, paths[-1])
    if table.format == "text":
        return Recipe("text", None, codec)
    if table.format == "avro":
        avro = avros.schema_of(spark, paths)
        return Recipe("avro", None, codec, avro, sort_columns)
    whole = schemas.merged(_reader(spark, table.format), paths, columns)
    return Recipe(table.format, whole, codec, "", sort_columns)


def can_read(spark: SparkSession, table: Table) -> str:
    """Return why this session cannot rewrite the table's format; empty when it can."""
    if table.format not in _CODEC_KEYS:
        return f"its format is {table.format}; Parquet, ORC, Avro and text can be compacted"
    if table.format != "avro":
        return ""
    try:
        _reader(spark, "avro").schema("probe int").load([])
    except AnalysisException as error:
        if "avro" in str(error).lower() and "find" in str(error).lower():
            version = spark.version
            return f"Avro needs a package: --conf spark.jars.packages={AVRO_PACKAGE}:{version}"
    return ""


def refuse_sort(table: Table, columns: StructType, wanted: Sequence[str]) -> None:
    """Raise when the files cannot be sorted by the columns that were asked for."""
    if wanted and table.format == "text":
        raise HiveRefusedError(
            table.full_name, "text is rewritten line by line and cannot be sorted"
        )
    known = {item.name.lower() for item in columns.fields}
    for name in wanted:
        if name.lower() not in known:
            raise HiveRefusedError(table.full_name, f"it has no data column {name} to sort by")


def _reader(spark: SparkSession, kind: str) -> DataFrameReader:
    # Paths are taken as they are: a table's name may hold characters that a glob would read.
    return spark.read.format(kind).option("__globPaths__", "false")


def _declared(table: Table) -> str:
    for key in _CODEC_KEYS[table.format]:
        if table.properties.get(key):
            return _normal(table.properties[key])
    return ""


def _found(spark: SparkSession, kind: str, path: str) -> str:
    jvm: Any = spark.sparkContext._jvm
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    if kind == "text":
        return _TEXT_SUFFIXES.get(path.rpartition(".")[2], "none")
    if kind == "avro":
        return _normal(avros.codec_of(spark, path))
    where = jvm.org.apache.hadoop.fs.Path(path)
    if kind == "orc":
        reader = jvm.org.apache.orc.OrcFile.createReader(
            where, jvm.org.apache.orc.OrcFile.readerOptions(conf)
        )
        try:
            return _normal(reader.getCompressionKind().name())
        finally:
            reader.close()
    source = jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(where, conf)
    footer = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(source)
    try:
        blocks = footer.getFooter().getBlocks()
        columns = blocks.get(0).getColumns() if blocks.size() else None
        return _normal(columns.get(0).getCodec().name()) if columns and columns.size() else "snappy"
    finally:
        footer.close()


def _normal(codec: str) -> str:
    name = codec.strip().lower()
    return _CODEC_NAMES.get(name, name)
