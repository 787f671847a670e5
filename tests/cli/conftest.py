"""A small table, and `txlog` run in this process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from engine.cli import main

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {"name": "date", "type": "date", "nullable": True, "metadata": {}},
            {"name": "hour", "type": "integer", "nullable": True, "metadata": {}},
        ],
    }
)
PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
METADATA = {
    "metaData": {
        "id": "b6e3",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": SCHEMA,
        "partitionColumns": ["date", "hour"],
        "configuration": {},
        "createdTime": 1_704_067_200_000,
    }
}


def add(path: str, hour: int | None = 0, **fields: Any) -> dict[str, Any]:
    values = {"date": "2024-01-01", "hour": None if hour is None else str(hour)}
    action = {"path": path, "partitionValues": values, "size": 1024, "dataChange": True}
    return {"add": action | {"modificationTime": 1_704_067_200_000} | fields}


def commit_info(operation: str, timestamp: int) -> dict[str, Any]:
    metrics = {"numFiles": "1"}
    info = {"timestamp": timestamp, "operation": operation, "operationMetrics": metrics}
    return {"commitInfo": info}


class Log:
    """The `_delta_log` of a table, written line by line."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.directory = root / "_delta_log"
        self.directory.mkdir(parents=True)

    def __str__(self) -> str:
        return str(self.root)

    def path(self, version: int, suffix: str = "json") -> Path:
        return self.directory / f"{version:020d}.{suffix}"

    def commit(self, version: int, *actions: dict[str, Any]) -> Log:
        text = "".join(json.dumps(action) + "\n" for action in actions)
        self.path(version).write_text(text)
        return self


@dataclass(frozen=True)
class Answer:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> dict[str, str]:
        assert self.status in {1, 2}, self.out
        return self.json["error"]


@pytest.fixture
def txlog(capsys):
    def run(*arguments: object) -> Answer:
        status = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Answer(status, out, err)

    return run


@pytest.fixture
def log(tmp_path) -> Log:
    """Four versions: three adds, then one remove and one add, a deletion vector, a txn."""
    log = Log(tmp_path / "events")
    log.commit(
        0,
        commit_info("CREATE TABLE", 1_704_067_200_000),
        PROTOCOL,
        METADATA,
        add("a", hour=1, stats='{"numRecords":10}'),
        add("b", hour=2, stats='{"numRecords":20}'),
    )
    log.commit(
        1,
        commit_info("WRITE", 1_704_067_260_000),
        add('c é"\\', hour=10, stats='{"numRecords":30}'),
        {"txn": {"appId": "stream", "version": 7}},
    )
    vector = {
        "storageType": "u",
        "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
        "offset": 4,
        "sizeInBytes": 40,
        "cardinality": 6,
    }
    remove = {"path": "a", "deletionTimestamp": 1_704_067_320_000, "dataChange": True}
    log.commit(2, commit_info("DELETE", 1_704_067_320_000), {"remove": remove})
    log.commit(
        3,
        commit_info("DELETE", 1_704_067_380_000),
        {"remove": {"path": "b", "deletionTimestamp": 1_704_067_380_000, "dataChange": True}},
        add("b", hour=2, stats='{"numRecords":20}', deletionVector=vector),
    )
    return log
