"""What a task writes, without Spark: the staged files and what it tells of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from engine import open_log
from engine.config import Config
from engine.log.segment import segment_for
from engine.replay.content import total
from engine.upkeep.checkpoint.shape import Shape, plan_checkpoint
from engine.upkeep.checkpoint.tasks import WriteJob, entered, files_of, singles_of, write_whole
from engine.upkeep.publish import new_staging
from tests.logs import LogBuilder, add, remove
from tests.upkeep.kept import NOW, write

if TYPE_CHECKING:
    from pathlib import Path

CALL = pa.RecordBatch.from_pylist([{"id": 0}])


@pytest.mark.parametrize("shape", [Shape.CLASSIC, Shape.JSON])
def test_one_task_writes_what_the_local_engine_does(tmp_path: Path, shape: Shape) -> None:
    log = LogBuilder(tmp_path / "table", "indextables").start(*(add(f"f{i}") for i in range(9)))
    log.checkpoint(0)
    log.commit(remove("f1"), add("g"), {"txn": {"appId": "app", "version": 3}})
    opened = open_log(str(log.root))
    directory, head = opened.directory, opened.head()
    segment = segment_for(
        opened.listing().refs, None, log_format=directory.log_format, directory=directory.url
    )
    plan = plan_checkpoint(
        1, head.protocol, head.metadata, directory.log_format, Config(), now_ms=NOW, shape=shape
    )
    staging = new_staging(directory, NOW)
    job = WriteJob(staging, plan, segment, Config())
    (first,) = (batch.to_pylist()[0] for batch in write_whole([CALL], job))
    (again,) = (batch.to_pylist()[0] for batch in write_whole([CALL], job))
    names = {file.name for told in (first, again) for file in files_of(told)}
    assert len(names) == 2, "a task that is tried again writes another file"
    assert all(directory.storage.exists(staging.path(name)) for name in names)
    state = job.state(entered(singles_of(first)))
    assert (state.txns["app"]["version"], state.metadata) == (3, head.metadata)
    staged = total(file.content for file in files_of(first))
    staging.clear()
    assert staged == write(str(log.root), shape).content


def test_a_task_without_a_call_writes_nothing(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).start()
    opened = open_log(str(log.root))
    head, directory = opened.head(), opened.directory
    plan = plan_checkpoint(
        0, head.protocol, head.metadata, directory.log_format, Config(), now_ms=NOW
    )
    segment = segment_for(
        opened.listing().refs, None, log_format=directory.log_format, directory=directory.url
    )
    job = WriteJob(new_staging(directory, NOW), plan, segment, Config())
    assert list(write_whole([], job)) == []
    assert not (log.directory / ".txlog-staging").exists()
