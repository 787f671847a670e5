"""Killed between any two changes to the disk, upkeep leaves a log whose versions read as before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine import open_log
from engine.upkeep.cleanup.verdicts import DAY_MS
from tests.logs import LogBuilder, Shape, add, metadata, protocol, remove
from tests.observe import assert_same, observed
from tests.upkeep.compaction_victim import work

NOW = 1_760_000_000_000
ANCHOR, LATEST = 5, 7
WRONG = f"{1:020d}.{4:020d}.compacted.json"
GHOST = b'{"add":{"path":"ghost","size":1}}\n'
VICTIM = Path(__file__).with_name("compaction_victim.py")


@pytest.fixture
def template(tmp_path, request) -> LogBuilder:
    log_format, operation = request.param
    log = LogBuilder(tmp_path / "template", log_format)
    log.commit(protocol(), metadata(), add("first"), add("gone"))
    for version in range(1, LATEST + 1):
        log.commit(add(f"f{version}"), remove("gone" if version == 3 else f"f{version - 2}"))
    if operation in {"cleanup", "truncate"}:
        log.checkpoint(2, Shape.V2_JSON_SIDECARS if log_format == "delta" else Shape.JSON_PARTS)
        log.checkpoint(ANCHOR, Shape.MULTI_PART)
        log.hint(2)
        log.compaction(1, 2)
        log.write(f"{1:020d}.crc", b"{}")
    elif operation == "repair":
        log.write(WRONG, GHOST)
    moment = (NOW - 40 * DAY_MS) * 10**6
    for number, path in enumerate(sorted(log.directory.rglob("*"))):
        os.utime(path, ns=(moment + number * 10**6,) * 2)
    for version in range(LATEST + 1):
        log.modified(version, NOW - 40 * DAY_MS + version)
    return log


CASES = [
    *(("delta", operation) for operation in ("compact", "repair", "cleanup", "truncate")),
    *(("indextables", operation) for operation in ("compact", "cleanup", "truncate")),
]


@pytest.mark.parametrize(
    ("template", "operation"), [(case, case[1]) for case in CASES], indirect=["template"]
)
def test_killed_at_every_step_every_retained_version_still_reads(tmp_path, template, operation):
    out = tmp_path / "out"
    out.mkdir()
    command = [sys.executable, str(VICTIM), str(template.root), str(out), operation, str(NOW)]
    root = Path(__file__).parents[2]
    ran = subprocess.run(
        command,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        timeout=300,
        check=False,
        stdout=subprocess.PIPE,
    )
    assert ran.returncode == 0
    assert int(ran.stdout) >= 8, "it was killed at no more than a few steps"
    tables = sorted(out.iterdir(), key=lambda path: int(path.name))
    assert len(tables) > 5
    first = {"cleanup": ANCHOR, "truncate": LATEST}.get(operation, 0)
    for killed in tables:
        for version in range(first, LATEST + 1):
            snapshot = open_log(str(killed)).snapshot(version)
            if operation == "truncate":  # its checkpoint leaves old tombstones out
                assert set(observed(snapshot).files) == set(template.truth(version).files)
            elif not misled(snapshot, killed / template.directory.name):
                assert_same(observed(snapshot), template.truth(version))
        if int(killed.name) % 4:
            continue
        work(str(killed), operation, NOW + 2 * DAY_MS)
        final = open_log(str(killed)).snapshot()
        assert set(observed(final).files) == set(template.truth().files)
        if operation in {"cleanup", "truncate"}:
            assert not list(killed.rglob(".txlog-staging"))


def misled(snapshot, directory: Path) -> bool:
    """Whether the wrong compaction, which was there before, is there still and was read."""
    is_read = any(ref.path == WRONG for ref in snapshot.segment.compactions)
    return is_read and (directory / WRONG).read_bytes() == GHOST
