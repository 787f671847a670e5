"""What is done when checkpoints are measured: one written, read from, and brought up to date."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from engine import open_log

if TYPE_CHECKING:
    from collections.abc import Generator

Found = dict[str, float]


def write(path: str) -> Found:
    """Load a table and write its checkpoint, proof included."""
    done = open_log(path).checkpoint().metrics()
    return {"files": done["numFiles"], "bytes": done["sizeInBytes"]}


def open_ours(path: str) -> Generator[None, None, Found]:
    """Open a table from the checkpoint that txlog wrote."""
    open_log(path).checkpoint()
    _forget(path)
    yield
    return {"files": open_log(path).snapshot().files().num_rows}


def open_theirs(path: str) -> Generator[None, None, Found]:
    """Open a table from the checkpoint that deltalake wrote, by deltalake."""
    from deltalake import DeltaTable

    DeltaTable(path).create_checkpoint()
    _forget(path)
    yield
    return {"files": len(DeltaTable(path).file_uris())}


def write_v2(path: str) -> Generator[None, None, Found]:
    """Write a V2 checkpoint of a million files, all of it."""
    _grow(path)
    yield
    done = open_log(path).checkpoint(shape="v2-parquet").metrics()
    return {"files": done["numFiles"], "bytes": done["bytesWritten"]}


def write_v2_again(path: str) -> Generator[None, None, Found]:
    """Write it again after a commit that adds a thousand files and removes a hundred young ones."""
    _grow(path)
    open_log(path).checkpoint(shape="v2-parquet")
    directory = Path(path) / "_delta_log"
    latest = max(int(file.stem) for file in directory.glob("?" * 20 + ".json"))
    gone = [json.loads(line)["add"] for line in _lines(directory, latest) if '"add"' in line][:100]
    now = int(time.time() * 1000)
    lines = [
        {"remove": {"path": add["path"], "deletionTimestamp": now, "dataChange": True}}
        for add in gone
    ]
    lines += [{"add": {**gone[0], "path": f"new-{number}"}} for number in range(1_000)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (directory / f"{latest + 1:020d}.json").write_text(text)
    yield
    done = open_log(path).checkpoint(shape="v2-parquet").metrics()
    return {"files": done["numFiles"], "bytes": done["bytesWritten"]}


def from_json(path: str) -> Found:
    """Open a table from all its commits."""
    return {"files": open_log(path).snapshot().files().num_rows}


def _lines(directory: Path, version: int) -> list[str]:
    return (directory / f"{version:020d}.json").read_text().splitlines()


def _grow(path: str) -> None:
    """Give the table the feature that V2 checkpoints need."""
    first = Path(path) / "_delta_log" / f"{0:020d}.json"
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["v2Checkpoint"],
        "writerFeatures": ["v2Checkpoint"],
    }
    lines = [
        json.dumps({"protocol": protocol}) if '{"protocol"' in line else line
        for line in first.read_text().splitlines()
    ]
    first.write_text("\n".join(lines) + "\n")


def _forget(path: str) -> None:
    """Leave the checkpoint and its commit only: nothing else is to be read from."""
    directory = Path(path) / "_delta_log"
    for file in sorted(directory.glob("?" * 20 + ".json"))[:-1]:
        file.unlink()
