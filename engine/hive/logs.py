"""Do files belong to a table that keeps a log of its own, whatever the metastore calls it?

Delta, Hudi, Iceberg and IndexTables name their data files in a log. Rewritten, those names lead
nowhere, and the table is lost, so the directory is asked and not the metastore alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.hive.files import Files
    from engine.hive.model import Table, Unit

_LOGS: Final = {"_delta_log": "Delta", "_transaction_log": "IndexTables", ".hoodie": "Hudi"}
_METADATA: Final = "metadata"


def tops(table: Table, units: Iterable[Unit]) -> list[str]:
    """Return where a log of the table would lie: its root, and the root its partitions lie under.

    Partitions that lie anywhere are not among them; their own directories are looked at anyway.
    """
    above = {
        unit.location.removesuffix(f"/{unit.name}")
        for unit in units
        if unit.name and unit.location.endswith(f"/{unit.name}")
    }
    return sorted({table.location.rstrip("/"), *above})


def found(files: Files, place: str) -> str:
    """Return whose log a directory holds, for one listing; empty when it holds none."""
    names = files.names(place)
    if kept := named(names):
        return kept
    inner = files.names(f"{place}/{_METADATA}") if _METADATA in names else ()
    if any(name.endswith(".metadata.json") for name in inner):
        return f"it holds {_METADATA}/*.metadata.json, which is the log of an Iceberg table"
    return ""


def named(names: Iterable[str]) -> str:
    """Return whose log is among the names of a directory; empty when none is."""
    for name in names:
        if name in _LOGS:
            return f"it holds {name}, which is the log of a table of {_LOGS[name]}"
    return ""
