"""The truth: replay as one dict a kind, in the order of the lines. Uses nothing of the engine."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Action = dict[str, Any]
KEYS = {"txn": "appId", "domainMetadata": "domain", "mergeskip": "path"}


@dataclass
class Model:
    """What is left of a run of commits. Every value is `normal`."""

    files: dict[tuple[str, str | None], Action] = field(default_factory=dict)
    tombstones: dict[tuple[str, str | None], Action] = field(default_factory=dict)
    singles: dict[str, Action] = field(default_factory=dict)
    keyed: dict[str, dict[str, Action]] = field(default_factory=lambda: {k: {} for k in KEYS})

    @property
    def domains(self) -> dict[str, str | None]:
        found = self.keyed["domainMetadata"].items()
        return {name: d.get("configuration") for name, d in found if not d.get("removed")}


def replay(commits: Iterable[Sequence[Action]], root: str) -> Model:
    model = Model()
    for kind, value in (one for actions in commits for line in actions for one in line.items()):
        if kind in {"add", "remove"}:
            key = file_key(value, root)
            model.files.pop(key, None)
            model.tombstones.pop(key, None)
            (model.files if kind == "add" else model.tombstones)[key] = normal(value)
        elif kind in {"protocol", "metaData"}:
            model.singles[kind] = normal(value)
        elif kind in KEYS:
            model.keyed[kind][value[KEYS[kind]]] = normal(value)
    return model


def file_key(value: Action, root: str) -> tuple[str, str | None]:
    path = re.sub("^file:/+", "/", value["path"]).removeprefix(f"{root}/")
    vector = value.get("deletionVector")
    if not vector:
        return path, None
    offset = vector.get("offset")
    tail = "" if offset is None else f"@{offset}"
    return path, f"{vector['storageType']}{vector['pathOrInlineDv']}{tail}"


def normal(value: Any, where: str = "") -> Any:
    """Drop what no reader keeps: unknown fields, and nulls where null equals absent."""
    if not isinstance(value, dict):
        return value
    return {
        name: normal(item, name)
        for name, item in value.items()
        if not name.startswith("unknown") and (item is not None or where == "partitionValues")
    }
