"""Small tables to write to, in both formats."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from engine import create_log, open_log
from engine.commit.transaction import Clock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine.table import TableLog

FIELDS = {"id": "long", "date": "date", "hour": "integer"}
SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in FIELDS.items()
    ],
}
DAY = {"date": "2024-01-01", "hour": "3"}


def file(path: str, date: str | None = "2024-01-01", hour: str | None = "3", **fields: Any):
    return {"path": path, "size": 10, "partitionValues": {"date": date, "hour": hour}, **fields}


def new_table(path: object, log_format: str = "delta", **options: Any) -> TableLog:
    return create_log(str(path), SCHEMA, ["date", "hour"], log_format=log_format, **options)


def paths(log: TableLog) -> list[str]:
    """What a reader who knows nothing yet sees."""
    return sorted(open_log(log.directory.table_url).snapshot().files()["path"].to_pylist())


def lines(log: TableLog, version: int) -> list[dict[str, Any]]:
    """The plain lines of one commit."""
    return [{a.kind: a.value} for a in log.commit_actions(version)]


def info(log: TableLog, version: int) -> dict[str, Any]:
    first = lines(log, version)[0]
    return json.loads(first["commitInfo"])


def content(log: TableLog) -> dict[str, bytes]:
    """Every file of the log, temp files included."""
    from pathlib import Path

    directory = Path(log.directory.path)
    return {p.name: p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}


@pytest.fixture(params=["delta", "indextables"])
def log_format(request) -> str:
    return request.param


@pytest.fixture
def log(tmp_path: Path, log_format: str) -> TableLog:
    return new_table(tmp_path / "events", log_format)


@pytest.fixture
def delta(tmp_path: Path) -> TableLog:
    return new_table(tmp_path / "events")


@pytest.fixture
def interloper() -> Callable[[TableLog, Callable[[TableLog], object]], None]:
    """Lets another writer commit right before the first attempt of the next commit is written."""

    def arrange(log: TableLog, act: Callable[[TableLog], object]) -> None:
        waiting = [act]
        write_new = log.directory.storage.write_new

        def late(path: str, data: bytes, **how: bool) -> None:
            if waiting:
                waiting.pop()(open_log(log.directory.table_url))
            write_new(path, data, **how)

        log.directory.storage.write_new = late
        log.clock = Clock(sleep=lambda _: None)

    return arrange
