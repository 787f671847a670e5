"""Which files does a condition on partition columns keep? Decided on columns, never row by row.

Partition values are text in the log. They are compared as the schema's types, null and '' both
mean null, and a file is kept where the condition is true: neither false nor unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import PredicateError
from engine.replay.condition import (
    Always,
    Among,
    Condition,
    IsNull,
    Joined,
    Not,
    Value,
    parse_condition,
)
from engine.replay.partitions import PartitionColumn, partition_columns_of, type_of


class Predicate:
    """A condition bound to the partition columns of one table. Cheap to send to an executor."""

    def __init__(self, text: str, schema_string: str, partition_columns: Sequence[str]) -> None:
        self.text = text
        self._arguments = (text, schema_string, list(partition_columns))
        self._test = _Binder(text, schema_string, partition_columns).bind()

    def __reduce__(self) -> tuple[Any, ...]:
        return parse_predicate, self._arguments

    def mask(self, partition_values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        """Return true for each map of partition values the condition holds for, else false.

        Raises PredicateError where a partition value is not of its column's type.
        """
        if isinstance(partition_values, pa.ChunkedArray):
            masks = [self.mask(chunk) for chunk in partition_values.chunks]
            return pa.chunked_array(masks, pa.bool_())
        return pc.fill_null(self._test(_Rows(self.text, partition_values)), fill_value=False)

    def filter(self, files: pa.Table) -> pa.Table:
        """Return the rows of `files` that the condition holds for."""
        return files.filter(self.mask(files["partitionValues"]))


def parse_predicate(text: str, schema_string: str, partition_columns: Sequence[str]) -> Predicate:
    """Return the condition `text`, bound to a table's partition columns and their types.

    The language is SQL's: = == != <> < <= > >=, [not] in, [not] between, is [not] null, and, or,
    not, parentheses; values are 'text', numbers, true, false, null, date '…', timestamp '…'.
    Raises PredicateError, with the reason and the partition columns there are.
    """
    return Predicate(text, schema_string, partition_columns)


# --- from tree to columns ----------------------------------------------------------------------

_Test = Callable[["_Rows"], pa.Array]

_COMPARE: Final = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


class _Rows:
    """Maps of partition values, taken apart once a column: distinct values, and where they are."""

    def __init__(self, text: str, maps: pa.MapArray) -> None:
        self._text, self._maps = text, maps
        self._columns: dict[str, tuple[pa.Array, pa.Array]] = {}

    def __len__(self) -> int:
        return len(self._maps)

    def test(self, column: PartitionColumn, of: Callable[[pa.Array], pa.Array]) -> pa.Array:
        """Return `of` each row's value; it runs on the distinct values only."""
        if column.key not in self._columns:
            texts = pc.map_lookup(self._maps, pa.scalar(column.key), "first")
            encoded = texts.dictionary_encode(null_encoding="encode")
            values = self._typed(column, encoded.dictionary)
            self._columns[column.key] = encoded.indices, values
        indices, values = self._columns[column.key]
        return of(values).take(indices)

    def _typed(self, column: PartitionColumn, texts: pa.Array) -> pa.Array:
        values = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
        cast = type_of(column).cast
        try:
            return cast(values)
        except pa.ArrowInvalid:
            bad = next(value for value in values if not _casts(cast, value))
        reason = f"a file's partition value of {column.name} is {bad.as_py()!r}"
        raise PredicateError(self._text, f"{reason}, which is not of type {column.type_name}")


class _Binder:
    """Turns the tree of a condition into functions of columns, checking names and types."""

    def __init__(self, text: str, schema_string: str, partition_columns: Sequence[str]) -> None:
        self._text = text
        try:
            self._columns = partition_columns_of(schema_string, partition_columns)
        except ValueError as error:
            reason = f"the table's schemaString cannot be read: {error}"
            raise PredicateError(text, reason) from None

    def bind(self) -> _Test:
        try:
            return self._bound(parse_condition(self._text))
        except ValueError as error:
            raise PredicateError(self._text, f"{error}; {self._known()}") from None

    def _bound(self, node: Condition) -> _Test:
        if isinstance(node, Joined):
            return _joined(node.word, [self._bound(part) for part in node.parts])
        if isinstance(node, Not):
            of = self._bound(node.of)
            return lambda rows: pc.invert(of(rows))
        if isinstance(node, Always):
            truth = pa.scalar(node.truth)
            return lambda rows: pa.repeat(truth, len(rows))
        column = self._column(node.column)
        if isinstance(node, IsNull):
            return lambda rows: rows.test(column, pc.is_null)
        if isinstance(node, Among):
            return _among(column, [_scalar(column, value) for value in node.values])
        return _compared(column, node.operator, _scalar(column, node.value))

    def _column(self, name: str) -> PartitionColumn:
        exact = [column for column in self._columns if column.name == name]
        folded = [c for c in self._columns if c.name.casefold() == name.casefold()]
        found = exact or folded
        if not found:
            raise ValueError(f"{name} is not a partition column")
        if len(found) > 1:
            raise ValueError(f"{name} may mean {' or '.join(c.name for c in found)}")
        type_of(found[0])
        return found[0]

    def _known(self) -> str:
        if not self._columns:
            return "this table has no partition columns"
        return "partition columns: " + ", ".join(f"{c.name} ({c.type_name})" for c in self._columns)


def _compared(column: PartitionColumn, operator: str, value: pa.Scalar) -> _Test:
    compare = _COMPARE[operator]
    return lambda rows: rows.test(column, lambda values: compare(values, value))


def _among(column: PartitionColumn, wanted: list[pa.Scalar]) -> _Test:
    # Of no value may it be said that it is not among nulls.
    missed = pa.scalar(None if any(not value.is_valid for value in wanted) else False, pa.bool_())
    known = pa.array([value for value in wanted if value.is_valid], wanted[0].type)
    unknown = pa.scalar(None, pa.bool_())

    def test(values: pa.Array) -> pa.Array:
        hits = pc.if_else(pc.is_in(values, value_set=known), pa.scalar(value=True), missed)
        return pc.if_else(pc.is_valid(values), hits, unknown)

    return lambda rows: rows.test(column, test)


def _joined(word: str, tests: list[_Test]) -> _Test:
    join = pc.and_kleene if word == "and" else pc.or_kleene
    return lambda rows: reduce(join, (test(rows) for test in tests))


def _scalar(column: PartitionColumn, value: Value) -> pa.Scalar:
    kind = type_of(column)
    if value.form == "null":
        return kind.cast(pa.nulls(1, pa.string()))[0]
    if value.form == "flag" and value.form not in kind.forms:
        raise ValueError(f"{column.name} stands alone; compare it with {kind.example}")
    text = pa.scalar(value.text)
    if value.form not in kind.forms or not _casts(kind.cast, text):
        wanted = f"{column.name} is of type {column.type_name}; compare it with {kind.example}"
        raise ValueError(f"{wanted}, not with {value}")
    return kind.cast(pa.array([value.text]))[0]


def _casts(cast: Callable[[pa.Array], pa.Array], text: pa.Scalar) -> bool:
    try:
        cast(pa.array([text.as_py()], pa.string()))
    except pa.ArrowInvalid:
        return False
    return True
