"""Which engine `auto` takes: how much there is to parse decides, wherever it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine import Config, open_log
from engine.replay.choice import choose_engine
from engine.replay.heads import sidecars_of
from tests.logs import LogBuilder, Shape, add

if TYPE_CHECKING:
    from pathlib import Path

DISTRIBUTED = "spark.indextables.transaction.distributed"


@pytest.mark.parametrize("shape", [Shape.V2_PARQUET_SIDECARS, Shape.V2_JSON_SIDECARS])
def test_sidecars_count_as_files_and_bytes_of_the_log(tmp_path: Path, shape: Shape) -> None:
    log = LogBuilder(tmp_path).start(*(add(f"file-{at:04d}") for at in range(3000)))
    log.checkpoint(0, shape)
    segment = open_log(str(tmp_path)).snapshot().segment
    aside = [path.stat().st_size for path in (log.directory / "_sidecars").iterdir()]
    directory = open_log(str(tmp_path)).directory
    assert sum(aside) > 2 * segment.size_bytes
    options = {
        f"{DISTRIBUTED}.minFiles": len(segment.files) + len(aside),
        f"{DISTRIBUTED}.minBytes": segment.size_bytes + sum(aside),
    }
    asked = []

    def sidecars() -> list:
        asked.append(1)
        return sidecars_of(segment, directory, Config())

    def chosen(**more: int) -> str:
        config = Config(options={**options, **{f"{DISTRIBUTED}.{k}": v for k, v in more.items()}})
        return choose_engine("auto", segment, config, has_session=True, sidecars=sidecars)[0]

    assert chosen() == "spark"
    assert chosen(minBytes=segment.size_bytes + sum(aside) + 1) == "local"
    assert chosen(minFiles=len(segment.files) + len(aside) + 1) == "local"
    assert len(asked) == 3
    assert chosen(enabled=False) == "local"
    assert chosen(minFiles=1, minBytes=1) == "spark"
    assert len(asked) == 3


def test_a_manifest_that_cannot_be_read_is_for_its_reader_to_tell(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).start(add("f"))
    (manifest, *_) = log.checkpoint(0, Shape.V2_PARQUET_SIDECARS)
    segment, directory = (
        open_log(str(tmp_path)).snapshot().segment,
        open_log(str(tmp_path)).directory,
    )
    manifest.write_bytes(b"PAR1")
    assert sidecars_of(segment, directory, Config()) == []
