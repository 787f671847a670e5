"""What txlog does when it is measured. See `bench.child` for how an operation is run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine import Config, open_log

if TYPE_CHECKING:
    from collections.abc import Generator

    from engine.table import TableLog

# As often as deltalake writes a checkpoint after a commit, by its own default.
CONFIG = Config(options={"delta.checkpointInterval": 100})
COMMITS = 200
FEW = 50
MANY = 1_000


def replay(path: str) -> dict[str, float]:
    """Load the latest version and list its live files."""
    return {"files": open_log(path).snapshot().files().num_rows}


def verify(path: str) -> dict[str, float]:
    """Prove the whole log."""
    found = open_log(path).verify()
    return {"sound": found.sound, "actions": found.checked["actions"]}


def commits(path: str) -> dict[str, float]:
    """Commit one file, many times."""
    log = open_log(path, CONFIG)
    _append(log, range(COMMITS))
    return {"files": log.snapshot().files().num_rows}


def first_commits(path: str) -> Generator[None, None, dict[str, float]]:
    """Commit one file a few times, to a table that has hardly any commits."""
    log = open_log(path, CONFIG)
    log.snapshot()
    yield
    return _append(log, range(FEW))


def last_commits(path: str) -> Generator[None, None, dict[str, float]]:
    """Commit one file a few times, through a log that has committed a thousand before."""
    log = open_log(path, CONFIG)
    _append(log, range(MANY - FEW))
    yield
    return _append(log, range(MANY - FEW, MANY))


def refresh(path: str) -> Generator[None, None, dict[str, float]]:
    """Ask an open log again, after another process committed."""
    log = open_log(path)
    log.snapshot()
    _one_more(path)
    yield
    return {"files": log.snapshot().files().num_rows}


def cold(path: str) -> Generator[None, None, dict[str, float]]:
    """Open the same table, with that commit in it, for the first time."""
    _one_more(path)
    yield
    return replay(path)


def compact(path: str) -> dict[str, float]:
    """Compact all commits into one file."""
    (done,) = open_log(path).compact(0, open_log(path).latest_version())
    return {"commits": done.commits, "file_mb": done.file_size / 1e6}


def compacted(path: str) -> Generator[None, None, dict[str, float]]:
    """Open a table whose commits were compacted, and list its live files."""
    open_log(path).compact()
    yield
    return opened(path)


def opened(path: str) -> dict[str, float]:
    """Open a table, list its live files, and tell how many files of the log were read."""
    snapshot = open_log(path).snapshot()
    return {"files": snapshot.files().num_rows, "log_files": len(snapshot.segment.files)}


def _append(log: TableLog, numbers: range) -> dict[str, float]:
    for number in numbers:
        log.add_files([{"path": f"new-{number}", "size": 1}])
    return {"version": numbers[-1]}


def _one_more(path: str) -> None:
    directory = Path(path) / "_delta_log"
    latest = max(int(file.stem) for file in directory.glob("?" * 20 + ".json"))
    values = '{"date":"2024-01-01","hour":"1"}'
    add = f'{{"add":{{"path":"new","partitionValues":{values},"size":1,"dataChange":true}}}}\n'
    (directory / f"{latest + 1:020d}.json").write_text(add)
