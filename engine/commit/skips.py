"""Which files failed an operation, and when are they tried again? They stay live meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.actions import kinds
from engine.commit.changes import Change
from engine.commit.serialize import Body
from engine.errors import NoSkipsError
from engine.replay.rules import skip_is_running

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.commit.known import View
    from engine.formats import LogFormat

_KIND: Final = "mergeskip"


def refuse_without_skips(log_format: LogFormat, table: str) -> None:
    """Refuse a format whose logs have no skips. Raises NoSkipsError."""
    if _KIND not in kinds(log_format):
        raise NoSkipsError(table, log_format.name)


def skipping(
    path: str,
    reason: str,
    operation: str,
    *,
    cooldown_ms: int,
    now_ms: int,
    about: Mapping[str, Any] | None = None,
) -> Change:
    """Return the change that records a skip, so that the newest of a path tells of all before.

    It counts one more than the last, and a cooldown that runs longer goes on. `about` may bring
    the file's `partitionValues` and `size`.
    """

    def build(view: View) -> Body:
        before = view.skips.get(path)
        count = 0 if before is None else before.get("skipCount") or 1
        running = 0 if before is None else before.get("retryAfter") or 0
        skip = {
            "path": path,
            "skipTimestamp": now_ms,
            "reason": reason,
            "operation": operation,
            **(about or {}),
            "retryAfter": max(now_ms + cooldown_ms, running),
            "skipCount": count + 1,
        }
        return Body([{_KIND: skip}])

    return Change("SKIP FILE", build, parameters={"path": path, "operation": operation})


def in_cooldown(skips: Mapping[str, Mapping[str, Any]], now_ms: int) -> dict[str, int]:
    """Return the paths whose cooldown is running, each with the moment it ends."""
    return {
        path: int(skip["retryAfter"])
        for path, skip in skips.items()
        if skip_is_running(skip, now_ms=now_ms)
    }


def without_cooldown(
    files: pa.Table, skips: Mapping[str, Mapping[str, Any]], now_ms: int
) -> pa.Table:
    """Return the rows of `files` whose cooldown is not running."""
    waiting = pa.array(in_cooldown(skips, now_ms), pa.string())
    return files.filter(pc.invert(pc.is_in(files["path"], value_set=waiting)))
