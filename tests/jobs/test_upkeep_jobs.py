"""jobs/compact_log.py and jobs/cleanup.py, each as a program with a session of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine import open_log
from tests.logs import LogBuilder
from tests.spark.fixtures import environment

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

REPOSITORY = Path(__file__).parents[2]
# Both in one process, one session after the other: a JVM takes longer to start than they take.
PROGRAM = """
import sys
from jobs import cleanup, compact_log
table = sys.argv[1]
assert compact_log.main(["--table", table, "--engine", "spark", "--json"]) == 0
assert compact_log.main(["--table", table, "--from", "3", "--to", "3", "--json"]) == 1
assert cleanup.main(["--table", table, "--older-than", "1 day", "--json"]) == 0
assert cleanup.main(["--table", table, "--truncate", "--dry-run"]) == 0
"""


def test_a_log_is_compacted_and_cleaned_by_jobs(tmp_path):
    log = LogBuilder(tmp_path / "t").start().filler(12)
    log.checkpoint(4)
    for version in range(13):
        log.modified(version, 1_600_000_000_000 + version)
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(log.root)],
        cwd=REPOSITORY,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    answers = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    compacted, refused, cleaned = answers
    assert (compacted["startVersion"], compacted["endVersion"]) == (5, 10)
    assert (compacted["engine"], compacted["status"]) == ("spark", "completed")
    assert refused["error"]["code"] == "COMPACTION_REFUSED"
    assert (cleaned["checkpoint"], cleaned["deleted"]) == (4, 4)
    assert "would delete" in ran.stdout
    assert set(open_log(str(log.root)).snapshot().files()["path"].to_pylist()) == {
        f"file-{version}" for version in range(1, 13)
    }
