"""What comes in a stream is what a replay finds, and holds no more than keys on the way."""

from __future__ import annotations

import pytest
from hypothesis import given

from engine import open_log
from engine.actions import conform, kinds
from engine.config import Config
from engine.replay.content import content_of, total
from engine.replay.local import stream
from engine.replay.state import Singles
from tests.random_logs import RandomLog, random_logs


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory):
    return tmp_path_factory.mktemp("streamed") / "table"


@given(log=random_logs())
def test_a_stream_yields_what_a_replay_finds(root, log: RandomLog) -> None:
    log.write(root)
    snapshot = open_log(str(root)).snapshot(engine="local")
    singles = Singles()
    won = list(stream(snapshot.segment, snapshot.directory, Config(), singles))
    state = snapshot.state
    for kind, table in (("add", state.files), ("remove", state.tombstones)):
        wanted = content_of({kind: table.drop_columns("dvId").to_struct_array().combine_chunks()})
        assert total(content_of({kind: w.actions}) for w in won if w.kind == kind) == wanted
    assert singles.winner("metaData") == state.metadata
    assert singles.winners("txn") == state.txns
    assert singles.winners("domainMetadata") == state.domains
    assert singles.winners("mergeskip") == state.skips
    for found in won:
        assert found.actions.null_count == 0
        conform(found.actions, kinds(snapshot.directory.log_format)[found.kind])
