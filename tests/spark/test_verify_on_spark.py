"""Executors find what this process finds, in sound logs and in each with a defect."""

from __future__ import annotations

import pytest

from engine import open_log
from engine.upkeep.verify.verify import verify
from tests.upkeep.defects import (
    DEFECTS,
    DV_FILE,
    NOW,
    checkpoint,
    checksum,
    file,
    info,
    sound_log,
    sound_splits,
    without,
)

pytestmark = pytest.mark.jvm

# One of each way in which something is found, as many in one log as leave each other alone.
SOME = (
    ("UNREADABLE_COMMIT",),
    ("UNREADABLE_CHECKPOINT", "CHECKPOINT_UNPROVEN"),
    ("CONFLICTING_ACTIONS", "UNKNOWN_REMOVE", "FILE_LIVE_TWICE", "PARTITION_VALUE_TYPE"),
    ("TOMBSTONES_EXPIRED", "COMPACTION_LOST_TOMBSTONES", "CHECKSUM_DIFFERS"),
    ("CHECKPOINT_LOST_FILES",),
    ("CHECKPOINT_ADD_AND_REMOVE",),
    ("CHECKPOINTS_DISAGREE",),
)
CHOSEN = {defect.code: defect for defect in DEFECTS}


def both(log, spark, *, deep: bool = False):
    opened = open_log(str(log.root))
    args = (opened.directory, opened.config)
    here = verify(*args, now_ms=NOW, deep=deep)
    return here, verify(*args, now_ms=NOW, spark=spark, deep=deep)


@pytest.mark.parametrize("make", [sound_log, sound_splits])
def test_a_sound_log_is_sound_on_spark(tmp_path, spark, make):
    here, there = both(make(tmp_path), spark, deep=make is sound_log)
    assert there.findings == here.findings == ()
    assert there.checked == here.checked
    assert there.engine == "spark"


@pytest.mark.parametrize("codes", SOME, ids=" ".join)
def test_a_defect_is_told_by_executors_as_by_this_process(tmp_path, spark, codes):
    log = sound_log(tmp_path)
    for code in codes:
        CHOSEN[code].plant(log)
    here, there = both(log, spark)
    assert {finding.code for finding in there.findings} >= set(codes)
    assert set(there.findings) == set(here.findings)


def lossy(log) -> None:
    checkpoint(log, without("add", path="b"))


def doubled(log) -> None:
    checkpoint(log, lambda actions: [*without("add", path="b")(actions), file("part=x/c")])


@pytest.mark.parametrize(
    ("edit", "before", "counts"),
    [
        (lossy, 3, {}),
        (lossy, 4, {"numFiles": 99, "inCommitTimestampOpt": 1}),
        (doubled, 3, {"numFiles": 99}),
    ],
)
def test_executors_doubt_what_this_process_doubts(tmp_path, spark, edit, before, counts):
    log = sound_log(tmp_path)
    edit(log)
    checksum(log, 6, **counts)
    log.clean_up(before)
    here, there = both(log, spark)
    assert ("CHECKPOINTS_DISAGREE" in {f.code for f in here.findings}) is (edit is lossy)
    assert set(there.findings) == set(here.findings)


def test_executors_look_for_the_data_files(tmp_path, spark, monkeypatch):
    log = sound_log(tmp_path)
    log.commit(info(7), *(file(f"p={n % 5}/f{n}", size=3) for n in range(12)))
    log.commit(info(8), file("/elsewhere/g"), file("h"), file("d%20e"))
    for n in range(12):
        path = log.root / f"p={n % 5}" / f"f{n}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"." * (4 if n == 7 else 3))
    for n in range(4):
        (log.root / f"p={n}" / f"f{n}").unlink()
    (log.root / "d e").write_bytes(b"." * 100)
    (log.root / "ab" / DV_FILE).write_bytes(b"short")
    monkeypatch.setattr("engine.upkeep.verify.data.latest_files", None)
    opened = open_log(str(log.root))
    there = verify(opened.directory, opened.config, now_ms=NOW, deep=True, spark=spark)
    monkeypatch.undo()
    here = verify(opened.directory, opened.config, now_ms=NOW, deep=True)
    assert set(there.findings) == set(here.findings)
    assert there.checked == here.checked
    told = {finding.code: finding.message for finding in there.findings}
    assert told["DATA_FILE_MISSING"] == "5 are not there: h, p=0/f0, p=1/f1 and 2 more"
    assert told["DATA_FILE_SIZE"] == "1 of another size: p=2/f7 (4 bytes, not 3)"
    assert told["DELETION_VECTOR_SIZE"].startswith("1 of another size")
    assert told["DATA_FILE_ELSEWHERE"] == "1 files"
