"""What do the files of a segment say, and who wins?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.log.segment import LogSegment
    from engine.replay.state import State

Progress = Callable[[int], None]
# Called with how much there is to do; returns what is called with how much more is done.
Gauge = Callable[[int], Progress]


class Replay(Protocol):
    """An engine: from the files of one version to its reconciled state."""

    def __call__(
        self,
        segment: LogSegment,
        directory: LogDirectory,
        config: Config,
        progress: Progress | None = None,
    ) -> State:
        """Return the state; call `progress` with the bytes of each file as it is done."""
