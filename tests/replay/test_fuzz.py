"""Damaged bytes anywhere: a clear refusal or the right answer, and the same from both engines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.replay.fuzz import TARGETS

SEEDS = int(os.environ.get("TXLOG_FUZZ_SEEDS") or (60 if "CI" in os.environ else 8))
PARQUET = ("classic", "delta-part", "sidecar", "parquet")
GROUPS = {
    "commits": [name for name in TARGETS if "commit" in name],
    "parquet": [n for n in TARGETS if any(w in n for w in PARQUET)],
}
GROUPS["the rest"] = [name for name in TARGETS if not any(name in g for g in GROUPS.values())]


@pytest.mark.parametrize("group", GROUPS)
def test_damage_is_refused_or_harmless_and_never_takes_the_program_down(group: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.replay.fuzz", ",".join(GROUPS[group]), "0", str(SEEDS)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\nlast lines: {done.stderr[-500:]}"
