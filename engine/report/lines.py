"""What do programs read? One JSON object a line, in wire names, a bounded number at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from engine.replay.jsontext import json_objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from engine.replay.lines import LineAction

BATCH_ROWS: Final = 16_384
_ALWAYS: Final = frozenset({"dvId"})


def json_line(value: object) -> str:
    """Return one object as one line."""
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE).decode()


def file_lines(files: pa.Table, change: str | None = None) -> Iterator[str]:
    """Yield the lines of some files, many at a time: the add action as the log has it, and `dvId`.

    Null fields are left out, but `dvId` is always there. `change` is a first field to add.
    """
    for batch in files.to_batches(max_chunksize=BATCH_ROWS):
        rows = batch.to_struct_array()
        if change is not None:
            told = pa.repeat(pa.scalar(change), len(batch))
            rows = pa.StructArray.from_arrays(
                [told, *rows.flatten()], ["change", *batch.schema.names]
            )
        lines = pc.binary_join_element_wise(json_objects(rows, _ALWAYS), "\n", "")
        yield "".join(lines.to_pylist())


def action_lines(actions: Iterable[LineAction]) -> Iterator[str]:
    """Yield the lines of a commit's actions, without null fields."""
    for action in actions:
        value = action.value
        plain = orjson.loads(value) if isinstance(value, str) else without_nulls(value)
        yield json_line({action.kind: plain})


def noting_gaps(
    commits: Iterable[Mapping[str, Any]], gaps: list[str]
) -> Iterator[Mapping[str, Any]]:
    """Yield commits, the newest first, and note the versions that lack between two of them."""
    before = None
    for commit in commits:
        version = commit["version"]
        if before is not None and before - version > 1:
            start, end = version + 1, before - 1
            gaps.append(f"commit {end} is" if start == end else f"commits {start} to {end} are")
        before = version
        yield commit


def without_nulls(value: dict[str, Any]) -> dict[str, Any]:
    """Return an action's value without the fields it does not have; maps keep their nulls."""
    return {
        name: without_nulls(field) if name == "deletionVector" else field
        for name, field in value.items()
        if field is not None
    }
