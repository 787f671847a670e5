"""Which engine replays a segment? Deciding only."""

from __future__ import annotations

from engine.config import (
    DISTRIBUTED_ENABLED,
    DISTRIBUTED_MIN_BYTES,
    DISTRIBUTED_MIN_FILES,
    Config,
)
from engine.log.segment import Fallback, LogSegment


def choose_engine(
    asked: str, segment: LogSegment, config: Config, *, has_session: bool
) -> tuple[str, Fallback | None]:
    """Return the engine for a segment and, where `auto` leaves Spark unused, why.

    Spark pays when there is much to parse and a session is running: below that, starting and
    shuffling cost more than they save.
    """
    if asked != "auto":
        return asked, None
    if not has_session:
        return "local", None
    files, size = len(segment.files), segment.size_bytes
    if not config[DISTRIBUTED_ENABLED]:
        reason = f"{DISTRIBUTED_ENABLED.key} is false"
    elif files < config[DISTRIBUTED_MIN_FILES]:
        reason = f"{files} log files are fewer than {DISTRIBUTED_MIN_FILES.key}"
    elif size < config[DISTRIBUTED_MIN_BYTES]:
        reason = f"{size} bytes of log are fewer than {DISTRIBUTED_MIN_BYTES.key}"
    else:
        return "spark", None
    return "local", Fallback("engine", "spark", f"{reason}; replayed in this process")
