"""Conditions on partition columns."""

from __future__ import annotations

import pyarrow as pa

from engine.errors import PredicateError


class Predicate:
    def __init__(self, text: str) -> None:
        self.text = text

    def filter(self, files: pa.Table) -> pa.Table:
        raise PredicateError(self.text, "not built")


def parse_predicate(text: str, schema_string: str, partition_columns: list[str]) -> Predicate:
    return Predicate(text)
