"""What verify advises is true: who follows it gets what it says, and nobody is sent in vain."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from engine import open_log
from engine.errors import NotProvableError, ReplayError
from tests.logs import LogBuilder, Shape, add
from tests.upkeep.defects import DEFECTS, SKIP, Defect, compaction, sound_log, sound_splits, without
from tests.upkeep.test_repair import repair
from tests.upkeep.test_repair_derived import mend
from tests.upkeep.test_verify import look

if TYPE_CHECKING:
    from pathlib import Path


def damaged(root: Path, *, gone: tuple[int, ...] = (), checkpoints: tuple[int, ...] = (7,)):
    """Return a log of versions 0 to 15 with torn checkpoints and without some commits."""
    log = LogBuilder(root / "table").start(add("a")).filler(15)
    for version in checkpoints:
        path = log.checkpoint(version, Shape.CLASSIC)[0]
        path.write_bytes(path.read_bytes()[:-20])
    for version in gone:
        log.commit_path(version).unlink()
    return log


def advice(log: LogBuilder) -> dict[str, str]:
    return {finding.code: finding.advice for finding in look(log).findings}


def test_a_gap_that_only_a_torn_checkpoint_bridges_is_an_error_and_the_way_out_is_true(tmp_path):
    log = damaged(tmp_path, gone=(2,))
    with pytest.raises(ReplayError):
        open_log(str(log.root)).snapshot()
    told = advice(log)
    assert told.keys() == {"GAP", "UNREADABLE_CHECKPOINT"}
    assert {mended.action for mended in mend(log).mended} == {"refused"}
    for text in told.values():
        assert "repair --derived" not in text
        assert re.findall(r"--to TARGET --version (\d+)", text) == ["1"]
    assert repair(log, tmp_path / "new", version=1).sound


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_what_is_said_to_be_written_anew_is_written_anew(tmp_path, defect: Defect):
    log = sound_log(tmp_path)
    defect.plant(log)
    if "repair --derived" in advice(log).get(defect.code, ""):
        mend(log)
        assert defect.code not in advice(log)


def test_a_compaction_that_lost_a_skip_is_written_anew_by_the_command_that_is_named(tmp_path):
    log = sound_splits(tmp_path)
    log.commit({"mergeskip": {**SKIP, "path": "c.split"}})
    log.commit(add("d.split"))
    compaction(log, 5, 6, without("mergeskip"))
    assert advice(log) == {"COMPACTION_LOST_SKIP": "txlog compact --repair writes it anew"}
    open_log(str(log.root)).compact(repair=True)
    assert advice(log) == {}


def test_a_torn_checkpoint_that_the_commits_lead_to_is_written_anew(tmp_path):
    log = damaged(tmp_path)
    assert "repair --derived" in advice(log)["UNREADABLE_CHECKPOINT"]
    assert {mended.action for mended in mend(log).mended} == {"recreated"}


def test_a_torn_checkpoint_below_a_whole_one_is_not_in_the_way_of_the_newest_version(tmp_path):
    log = damaged(tmp_path, gone=(2,))
    log.checkpoint(12)
    told = advice(log)
    assert told.keys() == {"OLD_GAP", "UNREADABLE_CHECKPOINT", "CHECKPOINT_UNPROVEN"}
    assert "the newest version does not need it" in told["UNREADABLE_CHECKPOINT"]
    assert open_log(str(log.root)).snapshot().version == 15


def test_a_lost_start_is_told_where_the_only_checkpoint_is_torn(tmp_path):
    log = damaged(tmp_path, gone=(0, 1, 2))
    told = advice(log)
    assert told.keys() == {"NO_START", "UNREADABLE_CHECKPOINT"}
    assert not any("txlog repair" in text for text in told.values())
    with pytest.raises(NotProvableError, match="no version is proven"):
        repair(log, tmp_path / "new")


def test_where_no_version_is_proven_nobody_is_sent_to_a_repair(tmp_path):
    log = damaged(tmp_path, gone=(0, 10), checkpoints=())
    told = advice(log)
    assert told.keys() == {"NO_START", "GAP"}
    assert not any("txlog repair" in text for text in told.values())


def test_a_torn_commit_in_the_middle_names_the_version_that_a_repair_takes(tmp_path):
    log = damaged(tmp_path, checkpoints=())
    log.commit_path(12).write_bytes(b'{"add": {')
    assert "--to TARGET --version 11" in advice(log)["UNREADABLE_COMMIT"]
    with pytest.raises(NotProvableError):
        repair(log, tmp_path / "new")
    assert repair(log, tmp_path / "new", version=11).sound


def test_a_torn_end_is_repaired_without_a_version(tmp_path):
    log = damaged(tmp_path, checkpoints=())
    log.commit_path(15).write_bytes(b'{"add": {')
    assert advice(log)["UNREADABLE_COMMIT"].endswith("txlog repair --to")
    assert repair(log, tmp_path / "new").source_version == 14


def test_a_gap_that_a_compaction_spans_is_left_to_a_repair_that_looks_at_it(tmp_path):
    log = damaged(tmp_path, checkpoints=())
    log.compaction(8, 12)
    log.commit_path(10).unlink()
    assert "whether a compaction stands in" in advice(log)["GAP"]


def test_an_incomplete_checkpoint_without_any_commit_is_told_and_not_tripped_over(tmp_path):
    log = damaged(tmp_path, checkpoints=())
    part = log.checkpoint(15, Shape.MULTI_PART)[0]
    for path in log.directory.iterdir():
        if path != part:
            path.unlink()
    assert {"NO_START", "INCOMPLETE_CHECKPOINT"} <= advice(log).keys()
