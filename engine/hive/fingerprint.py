"""Do two sets of rows hold the same? A count, a sum and an exclusive or over one hash a row.

None of the three depends on the order of rows. Spark's hash skips nulls and rejects maps, so each
value is paired with whether it is null, at every depth, and a map is hashed as its sorted entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import Observation
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StructType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_BITS: Final = 22
_PARTS: Final = 3


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
    return _found(rows.agg(*_sums(rows.schema)).collect()[0].asDict())


def observe(rows: DataFrame) -> tuple[DataFrame, Callable[[], Fingerprint]]:
    """Return the same rows, and what tells their fingerprint once they went by.

    They must go by once: a plan that reads them twice counts them twice.
    """
    seen = Observation()
    return rows.observe(seen, *_sums(rows.schema)), lambda: _found(seen.get)


def row_hash(schema: StructType) -> Column:
    """Return the column that hashes a whole row of `schema`."""
    if not schema.fields:
        return F.lit(0).cast("bigint")
    parts = []
    for item in schema.fields:
        value = F.col(f"`{item.name.replace('`', '``')}`")
        parts += [value.isNull(), _canonical(value, item.dataType)]
    return F.xxhash64(*parts)


def _sums(schema: StructType) -> list[Column]:
    # The sum of 64-bit hashes as three sums of 22 bits each: integers, where one sum would
    # need decimals, and none of them overflows before 2^41 rows.
    value = row_hash(schema)
    parts = [F.shiftright(value, _BITS * number) for number in range(_PARTS)]
    low = [part.bitwiseAND(F.lit((1 << _BITS) - 1)) for part in parts[:-1]]
    sums = [F.sum(part).alias(f"part{number}") for number, part in enumerate([*low, parts[-1]])]
    return [F.count(F.lit(1)).alias("rows"), F.bit_xor(value).alias("parity"), *sums]


def _found(row: Mapping[str, int | None]) -> Fingerprint:
    parts = [row[f"part{number}"] or 0 for number in range(_PARTS)]
    total = sum(part << (_BITS * number) for number, part in enumerate(parts))
    return Fingerprint(row["rows"] or 0, str(total), row["parity"] or 0)


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
