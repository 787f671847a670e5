"""The golden tables: where they are, what they expect, and what counts as right (FORMAT.md)."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

REPOSITORY = Path(__file__).parents[2]
GOLDEN = Path(os.environ.get("TXLOG_GOLDEN") or REPOSITORY.parent / "shared" / "golden")
TABLES = sorted(path.parent.name for path in GOLDEN.glob("*/expected.json"))
PROTOCOL_CODES = {"UNSUPPORTED_READER_VERSION", "UNSUPPORTED_READER_FEATURE", "CATALOG_MANAGED"}
MISSING = f"no golden tables at {GOLDEN}; set TXLOG_GOLDEN to the folder that holds them"


@dataclass(frozen=True)
class Case:
    """One version of one table: the states and the refusals that are right."""

    table: str
    version: int | None
    states: list[Mapping[str, Any]] = field(default_factory=list)
    codes: frozenset[str] = frozenset()

    @property
    def path(self) -> str:
        return str(GOLDEN / self.table)

    def check_state(
        self, summary: Mapping[str, Any], files: Iterable[tuple[str, str | None]]
    ) -> None:
        """Assert that a summary, and (path, dvId) of the live files, are a right state."""
        assert self.states, f"must be refused with {sorted(self.codes)}"
        got = state_of(summary, files)
        assert any(not differences(got, state) for state in self.states), [
            differences(got, state) for state in self.states
        ]

    def check_refusal(self, code: str, message: str) -> None:
        assert code in self.codes, f"{code}: {message}"
        assert message
        assert "\n" not in message


def cases(table: str) -> Iterator[Case]:
    """Yield the latest version, every older one, and those that must be refused."""
    expected = json.loads((GOLDEN / table / "expected.json").read_bytes())
    accepted = frozenset(expected.get("accept_error", ()))
    also = [expected["accept_state"]] if "accept_state" in expected else []
    if "error" in expected:
        yield Case(table, None, also, frozenset({expected["error"]["code"]}))
    else:
        yield _readable(table, None, expected["state"], accepted)
    for state in expected["time_travel"]:
        yield _readable(table, state["version"], state, accepted)
    for refused in expected["unreadable_versions"]:
        version = refused["version"]
        right = [state for state in also if state["version"] == version]
        yield Case(table, version, right, frozenset({refused["code"]}))


def forced_state(table: str) -> Mapping[str, Any] | None:
    """Return the state that replay gives when a refused protocol is overridden on purpose."""
    expected = json.loads((GOLDEN / table / "expected.json").read_bytes())
    if expected.get("error", {}).get("code") not in PROTOCOL_CODES:
        return None
    forced: Mapping[str, Any] | None = expected.get("state_if_forced")
    return forced


def differences(got: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return what differs, of all that `wanted` tells."""
    names = got.keys() & wanted.keys()
    return {name: (got[name], wanted[name]) for name in names if got[name] != wanted[name]}


def state_of(summary: Mapping[str, Any], files: Iterable[tuple[str, str | None]]) -> dict[str, Any]:
    """Return a summary and its live files in the names of expected.json."""
    lines = sorted(f"{path}\t{unique or ''}" for path, unique in files)
    schema = summary["metadata"]["schemaString"]
    canonical = schema and orjson.dumps(orjson.loads(schema), option=orjson.OPT_SORT_KEYS)
    protocol = summary["protocol"]
    return {
        "version": summary["version"],
        "protocol": {k: sorted(v) if isinstance(v, list) else v for k, v in protocol.items()},
        "metadata_id": summary["metadata"]["id"],
        "partition_columns": summary["metadata"]["partitionColumns"],
        "schema_sha256": canonical and hashlib.sha256(canonical).hexdigest(),
        "num_files": len(lines),
        "num_files_with_dv": sum(not line.endswith("\t") for line in lines),
        "size_bytes": summary["sizeInBytes"],
        "num_records": summary["numRecords"],
        "files_sha256": hashlib.sha256("\n".join(lines).encode()).hexdigest(),
        "txns": summary["txns"],
        "domains": summary["domains"],
        "in_commit_timestamp": summary["inCommitTimestamp"],
    }


def _readable(
    table: str, version: int | None, state: Mapping[str, Any], accepted: frozenset[str]
) -> Case:
    no_schema = frozenset() if state["schema_sha256"] else frozenset({"MISSING_SCHEMA"})
    return Case(table, version, [state], accepted | no_schema)
