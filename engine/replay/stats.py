"""Statistics kept as a struct -> the JSON text every other reader expects, without a row loop."""

from __future__ import annotations

from typing import Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from engine.replay.jsontext import json_objects

_FIRST: Final = r'^\s*\{\s*"numRecords"\s*:\s*(?P<n>\d{1,18})\s*[,}]'


def stats_json(stats: pa.StructArray) -> pa.Array:
    """Return each struct as compact JSON; null fields are left out, a null struct is null."""
    return json_objects(stats)


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
