"""The logs that are measured: made once, each in a process of its own, and kept."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import engine.sample
from engine.sample import SampleSpec

ROOT = Path(__file__).resolve().parent.parent

Prepare = Callable[[Path], Path]


def sampled(**options: object) -> Prepare:
    """Return how to prepare the sample log of these options."""
    spec = SampleSpec(**options)  # type: ignore[arg-type]

    def prepare(data: Path) -> Path:
        text = json.dumps(asdict(spec), sort_keys=True)
        table = data / f"log-{_digest(text)}"
        if not table.exists():
            made = table.with_suffix(".unfinished")
            shutil.rmtree(made, ignore_errors=True)
            # Elsewhere, so that this process stays small.
            command = [sys.executable, "-m", "bench.logs", str(made), text]
            subprocess.run(command, check=True, cwd=ROOT)
            made.rename(table)
        return table

    return prepare


def warm(table: Path) -> int:
    """Read every file once, so that no contender pays for a cold disk; return their bytes."""
    return sum(len(file.read_bytes()) for file in table.rglob("*") if file.is_file())


def _digest(text: str) -> str:
    """Another spec, or another way to make samples, is another log."""
    digest = hashlib.sha256(text.encode())
    for source in sorted(Path(engine.sample.__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    directory, options = sys.argv[1:]
    engine.sample.make_sample(directory, **json.loads(options))
