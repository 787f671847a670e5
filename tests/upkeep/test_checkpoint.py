"""A checkpoint says what the commits it stands for say, in every shape."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings

from engine import open_log
from engine.log.paths import FileKind
from engine.upkeep.checkpoint.shape import SHAPES, Shape
from tests.random_logs import RandomLog, random_logs
from tests.upkeep.kept import seen, write

KINDS = {
    Shape.CLASSIC: FileKind.CHECKPOINT,
    Shape.MULTI_PART: FileKind.CHECKPOINT_PART,
    Shape.V2_PARQUET: FileKind.CHECKPOINT_V2,
    Shape.V2_JSON: FileKind.CHECKPOINT_V2,
    Shape.JSON: FileKind.CHECKPOINT_JSON,
    Shape.JSON_PARTS: FileKind.CHECKPOINT_JSON,
}
SMALL = {
    "spark.databricks.delta.checkpoint.partSize": 3,
    "spark.indextables.checkpoint.actionsPerPart": 3,
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory):
    return tmp_path_factory.mktemp("checkpoints") / "table"


V2 = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["v2Checkpoint"],
    "writerFeatures": ["v2Checkpoint"],
}


def writable(log: RandomLog, shape: Shape) -> RandomLog:
    """Return the log without foreign checkpoints, under protocols that allow the shape."""

    def allowed(action: dict[str, Any]) -> dict[str, Any]:
        if "protocol" not in action:
            return action
        return {"protocol": V2 if shape.is_v2 else {**action["protocol"], "minWriterVersion": 4}}

    commits = [[allowed(action) for action in actions] for actions in log.commits]
    return replace(log, commits=commits, checkpoints=[], hint=None, is_cleaned=False)


@pytest.mark.parametrize("shape", Shape)
@settings(max_examples=10, phases=[Phase.explicit, Phase.generate])
@given(log=random_logs())
def test_a_checkpoint_says_what_its_commits_say_after_every_version(root, shape, log) -> None:
    if shape not in SHAPES[log.log_format]:
        return
    log = writable(log, shape)
    log.write(root)
    for version in range(log.latest + 1):
        wanted = seen(open_log(str(root)).snapshot(version))
        small = SMALL if shape.is_split or shape.is_v2 else {}
        result = write(str(root), shape, version, options=small)
        assert result.created
        found = open_log(str(root)).snapshot(version)
        assert found.segment.checkpoint is not None
        assert (found.segment.checkpoint.version, found.segment.checkpoint.kind) == (
            version,
            KINDS[shape],
        )
        assert not found.fallbacks
        got = seen(found)
        assert not {name: (got[name], wanted[name]) for name in got if got[name] != wanted[name]}
