"""Which engine replays a segment? Deciding only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.config import (
    DISTRIBUTED_ENABLED,
    DISTRIBUTED_MIN_BYTES,
    DISTRIBUTED_MIN_FILES,
    Config,
)
from engine.log.paths import FileKind
from engine.log.segment import Fallback, LogSegment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.log.paths import TransactionFileRef


def choose_engine(
    asked: str,
    segment: LogSegment,
    config: Config,
    *,
    has_session: bool,
    sidecars: Callable[[], Sequence[TransactionFileRef]] = tuple,
) -> tuple[str, Fallback | None]:
    """Return the engine for a segment and, where `auto` leaves Spark unused, why.

    Spark pays when there is much to parse and a session is running: below that, starting and
    shuffling cost more than they save. `sidecars` are asked for only where they may decide.
    """
    if asked != "auto":
        return asked, None
    if not has_session:
        return "local", None
    if not config[DISTRIBUTED_ENABLED]:
        reason = f"{DISTRIBUTED_ENABLED.key} is false"
        return "local", Fallback("engine", "spark", f"{reason}; replayed in this process")
    files, size = len(segment.files), segment.size_bytes
    is_small = files < config[DISTRIBUTED_MIN_FILES] or size < config[DISTRIBUTED_MIN_BYTES]
    if is_small and segment.checkpoint and segment.checkpoint.kind is FileKind.CHECKPOINT_V2:
        aside = sidecars()
        files, size = files + len(aside), size + sum(ref.size for ref in aside)
    if files < config[DISTRIBUTED_MIN_FILES]:
        reason = f"{files} log files are fewer than {DISTRIBUTED_MIN_FILES.key}"
    elif size < config[DISTRIBUTED_MIN_BYTES]:
        reason = f"{size} bytes of log are fewer than {DISTRIBUTED_MIN_BYTES.key}"
    else:
        return "spark", None
    return "local", Fallback("engine", "spark", f"{reason}; replayed in this process")
