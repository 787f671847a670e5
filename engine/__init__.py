"""txlog: rebuild, keep and prove the transaction logs of lake tables.

>>> from engine import open_log
>>> log = open_log("/data/events")           # doctest: +SKIP
>>> log.snapshot().files()                   # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.config import Config
    from engine.errors import ReplayError
    from engine.snapshot import Snapshot
    from engine.table import TableLog, create_log, open_log

__all__ = ["Config", "ReplayError", "Snapshot", "TableLog", "create_log", "open_log"]

_HOMES = {
    "Config": "engine.config",
    "ReplayError": "engine.errors",
    "Snapshot": "engine.snapshot",
    "TableLog": "engine.table",
    "create_log": "engine.table",
    "open_log": "engine.table",
}


def __getattr__(name: str) -> Any:
    """Import the public names when they are first used: `txlog --help` needs none of them."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'engine' has no attribute {name!r}")
