"""Do two sets of rows hold the same? A count, a sum and an exclusive or over one hash a row.

None of the three depends on the order of rows. Spark's hash skips nulls and rejects maps, so each
value is paired with whether it is null, at every depth, and a map is hashed as its sorted entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StructType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What rows add up to. Equal fingerprints mean equal rows, but for a freak of 64-bit hashes."""

    rows: int
    total: str
    parity: int

    def as_json(self) -> dict[str, object]:
        """Return the fingerprint as the journal writes it."""
        return {"rows": self.rows, "total": self.total, "parity": self.parity}

    @property
    def label(self) -> str:
        """The fingerprint for people."""
        return f"{self.rows:,} rows, content {self.parity & 0xFFFFFFFFFFFFFFFF:016x}"


def fingerprint(rows: DataFrame) -> Fingerprint:
    """Return the fingerprint of some rows."""
    return fingerprints(rows)[0]


def fingerprints(*sets: DataFrame) -> list[Fingerprint]:
    """Return the fingerprints of several sets of rows with one schema, in one job."""
    tagged = [
        rows.select(F.lit(number).alias("tag"), row_hash(rows.schema).alias("hash"))
        for number, rows in enumerate(sets)
    ]
    union = tagged[0]
    for more in tagged[1:]:
        union = union.unionAll(more)
    found = {
        row["tag"]: Fingerprint(row["rows"], str(row["total"]), row["parity"])
        for row in union.groupBy("tag")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.sum(F.col("hash").cast("decimal(20,0)")).alias("total"),
            F.bit_xor("hash").alias("parity"),
        )
        .collect()
    }
    return [found.get(number, Fingerprint(0, "0", 0)) for number in range(len(sets))]


def row_hash(schema: StructType) -> Column:
    """Return the column that hashes a whole row of `schema`."""
    if not schema.fields:
        return F.lit(0).cast("bigint")
    parts = []
    for item in schema.fields:
        value = F.col(f"`{item.name.replace('`', '``')}`")
        parts += [value.isNull(), _canonical(value, item.dataType)]
    return F.xxhash64(*parts)


def _canonical(value: Column, kind: DataType) -> Column:
    if isinstance(kind, StructType):
        parts: list[Column] = []
        for number, item in enumerate(kind.fields):
            inner = value.getField(item.name)
            parts.append(inner.isNull().alias(f"n{number}"))
            parts.append(_canonical(inner, item.dataType).alias(f"v{number}"))
        return F.struct(*parts) if parts else F.lit(0)
    if isinstance(kind, ArrayType):
        element = kind.elementType
        return F.transform(
            value, lambda x: F.struct(x.isNull().alias("n"), _canonical(x, element).alias("v"))
        )
    if isinstance(kind, MapType):
        key, held = kind.keyType, kind.valueType
        return F.array_sort(
            F.transform(
                F.map_entries(value),
                lambda x: F.struct(
                    _canonical(x["key"], key).alias("k"),
                    x["value"].isNull().alias("n"),
                    _canonical(x["value"], held).alias("v"),
                ),
            )
        )
    return value
