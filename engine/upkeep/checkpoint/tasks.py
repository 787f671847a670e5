"""What runs on an executor that writes checkpoint files: plain functions, no Spark in them.

A task writes the actions it is given to staged files of its own and reads them back, as the local
engine does; it tells the names of the files and what they say. A task that is tried again writes
other files: those that nobody tells of are removed with the run's folder.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from engine.actions import files_schema, tombstones_schema
from engine.replay.content import Content
from engine.replay.local import in_order, stream
from engine.replay.rules import FILE_KINDS, STATE_KEYS
from engine.replay.state import LocalState, Singles
from engine.replay.travel import explained
from engine.snapshot import complete
from engine.upkeep.checkpoint.incremental import few_of
from engine.upkeep.checkpoint.laying import WORKERS, lay, sidecars
from engine.upkeep.checkpoint.rows import Few, content_of_rows, few_rows, to_rows
from engine.upkeep.checkpoint.staged import StagedFile, parquet_rows, proven

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.config import Config
    from engine.log.segment import LogSegment
    from engine.replay.local import Won
    from engine.upkeep.checkpoint.laying import Rows
    from engine.upkeep.checkpoint.shape import CheckpointPlan
    from engine.upkeep.publish import Staging

# One row a task: its staged files, and the single actions it saw, as JSON; parts count from 0.
TOLD_SCHEMA: Final = pa.schema({"part": pa.int32(), "files": pa.string(), "singles": pa.string()})

# Its kind, where it stands in the log, and the action.
Single = tuple[str, tuple[int, int], Mapping[str, Any]]


@dataclass(frozen=True)
class WriteJob:
    """Everything a writing task needs to know.

    `segment` is without its files where the actions are brought to the task, and `singles` are
    then those of its checkpoint.
    """

    staging: Staging
    plan: CheckpointPlan
    segment: LogSegment
    config: Config
    singles: tuple[Single, ...] = ()

    def state(self, singles: Singles) -> LocalState:
        """Return the state that single actions make, without files."""
        log_format = self.segment.log_format
        no_files = files_schema(log_format).empty_table()
        no_tombstones = tombstones_schema(log_format).empty_table()
        found = complete(singles.state(no_files, no_tombstones), self.segment, self.config)
        assert isinstance(found, LocalState)
        return found

    def few(self, singles: Singles) -> Few:
        """Return what a checkpoint holds besides file actions."""
        return few_of(self.state(singles))


def write_whole(batches: Iterable[pa.RecordBatch], job: WriteJob) -> Iterator[pa.RecordBatch]:
    """Write everything by one task: the files of a classic checkpoint, or of one in JSON.

    What is one file passes through one process. It reads the log itself, as the local engine
    does: to bring it the actions through Spark would cost ten times as much.
    """
    with explained():
        for _ in batches:
            singles, own, plan = Singles(), _own(job.staging), job.plan
            won = stream(job.segment, own.directory, job.config, singles)

            def prepared(found: Won) -> Rows:
                rows = to_rows(found.kind, found.actions, job.plan)
                return rows, content_of_rows(rows)

            rows = (pair for _, pair in in_order(prepared, won, max(1, WORKERS - 1)))
            some = (pair for pair in rows if pair[0].num_rows)
            laid = lay(some, partial(job.few, singles), own, plan)
            yield _told(laid.files, own, singles)


def write_sidecars(batches: Iterable[pa.RecordBatch], job: WriteJob) -> Iterator[pa.RecordBatch]:
    """Write a task's actions to sidecars."""
    with explained():
        singles, own = Singles(), _own(job.staging)
        files = list(sidecars(_rows(batches, job.plan, singles), own, job.plan))
        yield _told(files, own, singles)


def write_parts(batches: Iterable[pa.RecordBatch], job: WriteJob) -> Iterator[pa.RecordBatch]:
    """Write a task's part of a multi-part checkpoint; the batches tell which in `part`."""
    with explained():
        waiting = iter(batches)
        for first in waiting:
            part = first.column("part")[0].as_py()
            yield write_part(chain([first], waiting), job, part)


def write_part(batches: Iterable[pa.RecordBatch], job: WriteJob, part: int) -> pa.RecordBatch:
    """Write one part; the first one also holds what is not about files."""
    singles, own, plan = entered(job.singles), _own(job.staging), job.plan
    name = "0.parquet"
    with (
        own.directory.storage.open_output(own.path(name)) as sink,
        parquet_rows(sink, plan.row_schema, plan.codec) as file,
    ):
        for rows, content in _rows(batches, plan, singles):
            file.write(rows, content)
        if part == 0:
            file.write(few_rows(job.few(singles), plan))
    return _told([proven(own, name, file.content, plan)], own, singles, part)


def entered(found: Iterable[Single]) -> Singles:
    """Return single actions, reconciled."""
    singles = Singles()
    for kind, position, value in found:
        singles.enter(kind, position, value)
    return singles


def files_of(row: Mapping[str, Any]) -> list[StagedFile]:
    """Return the staged files that a task tells of."""
    return [
        StagedFile(
            file["name"],
            file["bytes"],
            Content(file["counts"], file["sums"]),
            file["newestDeletion"],
        )
        for file in orjson.loads(row["files"])
    ]


def singles_of(row: Mapping[str, Any]) -> list[Single]:
    """Return the single actions that a task tells of."""
    return [(kind, tuple(at), value) for kind, at, value in orjson.loads(row["singles"])]


def _rows(
    batches: Iterable[pa.RecordBatch], plan: CheckpointPlan, singles: Singles
) -> Iterator[Rows]:
    """Yield the rows of file actions; `singles` takes in the others on the way."""
    for batch in batches:
        for kind in FILE_KINDS:
            actions = batch.column(kind)
            if actions.null_count < len(actions):
                set_only = actions.filter(actions.is_valid()) if actions.null_count else actions
                rows = to_rows(kind, set_only, plan)
                if rows.num_rows:
                    yield rows, content_of_rows(rows)
        others = batch.filter(pc.is_valid(batch.column("single")))
        for row in others.select(["version", "ordinal", "kind", "single"]).to_pylist():
            position = row["version"], row["ordinal"]
            singles.enter(row["kind"], position, orjson.loads(row["single"]))


def _own(staging: Staging) -> Staging:
    """Return the same folder, with names that are this attempt's alone."""
    return replace(staging, prefix=f"{uuid.uuid4().hex[:12]}-")


def _told(
    files: Iterable[StagedFile], own: Staging, singles: Singles, part: int = 0
) -> pa.RecordBatch:
    told = [
        {
            "name": f"{own.prefix}{file.name}",
            "bytes": file.size_bytes,
            "counts": file.content.counts,
            "sums": file.content.sums,
            "newestDeletion": file.newest_deletion,
        }
        for file in files
    ]
    seen = [(kind, at, value) for kind in STATE_KEYS for _, at, value in singles.entries(kind)]
    row = {
        "part": part,
        "files": orjson.dumps(told).decode(),
        "singles": orjson.dumps(seen).decode(),
    }
    return pa.RecordBatch.from_pylist([row], TOLD_SCHEMA)
