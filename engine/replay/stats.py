"""Statistics kept as a struct -> the JSON text every other reader expects, without a row loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from engine.actions import PARSED_STATS, kinds
from engine.replay.jsontext import json_objects

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow.parquet as pq

    from engine.formats import LogFormat

_FIRST: Final = r'^\s*\{\s*"numRecords"\s*:\s*(?P<n>\d{1,18})\s*[,}]'


def stats_json(stats: pa.StructArray) -> pa.Array:
    """Return each struct as compact JSON without its null fields; null where it says nothing."""
    texts = json_objects(stats)
    return pc.if_else(pc.equal(texts, "{}"), pa.scalar(None, pa.string()), texts)


def parsed_stats(
    found: Mapping[str, pa.DataType], columns: Sequence[str], known: Mapping[str, pa.DataType]
) -> list[str]:
    """Return the column of a file that keeps statistics as a struct, where they are asked for."""
    if "add.path" not in columns or known["add"].get_field_index("stats") < 0:
        return []
    at = found["add"].get_field_index(PARSED_STATS)
    return [f"add.{PARSED_STATS}"] if at >= 0 and pt.is_struct(found["add"].field(at).type) else []


def lacks_texts(group: pq.RowGroupMetaData) -> bool:
    """Whether a row group may hold files that have no statistics as text."""
    nulls: dict[str, int] = {}
    for at in range(group.num_columns):
        column = group.column(at)
        if column.path_in_schema in {"add.path", "add.stats"}:
            told = column.statistics
            if told is None or not told.has_null_count:
                return True
            nulls[column.path_in_schema] = told.null_count
    return nulls["add.path"] != nulls.get("add.stats")


def record_field(log_format: LogFormat) -> str:
    """Return the field of an add that tells its records: its own, or one of its statistics."""
    return "numRecords" if "numRecords" in kinds(log_format)["add"].names else "stats"


def record_counts(files: pa.Table) -> pa.ChunkedArray:
    """Return the number of records of each live file, null where it is not told."""
    if "numRecords" in files.column_names:
        return files["numRecords"]
    stats = files["stats"]
    # Engines write numRecords first. Where it stands elsewhere, a column may share its name.
    found = pc.struct_field(pc.extract_regex(stats, _FIRST), "n").cast(pa.int64())
    unsure = pc.and_(pc.is_null(found), pc.is_valid(stats))
    if not pc.any(unsure).as_py():
        return found
    exact = pa.array([_num_records(text) for text in stats.filter(unsure).to_pylist()], pa.int64())
    whole = pc.replace_with_mask(found.combine_chunks(), unsure.combine_chunks(), exact)
    return pa.chunked_array([whole])


def _num_records(text: str) -> int | None:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    count = found.get("numRecords") if isinstance(found, dict) else None
    return count if isinstance(count, int) and 0 <= count < 2**63 else None
