from __future__ import annotations

import pyarrow as pa
import pytest

from engine import open_log
from engine.errors import ReplayError
from engine.replay.memory import steady_memory
from tests.logs import LogBuilder, add


@pytest.fixture(autouse=True)
def unchosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARROW_DEFAULT_MEMORY_POOL", raising=False)


def test_the_pool_is_as_it_was_after_the_last_of_several_replays() -> None:
    before = pa.default_memory_pool().backend_name
    first, second = steady_memory(), steady_memory()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert pa.default_memory_pool().backend_name == "system"
    second.__exit__(None, None, None)
    assert pa.default_memory_pool().backend_name == before


def test_a_replay_leaves_the_pool_as_it_was_also_when_it_fails(tmp_path) -> None:
    before = pa.default_memory_pool().backend_name
    log = LogBuilder(tmp_path).start(add("a"))
    open_log(str(tmp_path)).snapshot()
    assert pa.default_memory_pool().backend_name == before
    log.write(f"{1:020d}.json", b"{broken")
    with pytest.raises(ReplayError):
        open_log(str(tmp_path)).snapshot()
    assert pa.default_memory_pool().backend_name == before


def test_a_pool_that_was_chosen_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARROW_DEFAULT_MEMORY_POOL", "system")
    before = pa.default_memory_pool().backend_name
    with steady_memory():
        assert pa.default_memory_pool().backend_name == before
