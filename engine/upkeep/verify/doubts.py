"""Which checkpoints contradict each other, where no commit is old enough to tell who is right?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DISAGREE: Final = "CHECKPOINTS_DISAGREE"

# What is found by holding a checkpoint against an older one and the commits in between.
AGAINST_BASE: Final = frozenset(
    {
        "CHECKPOINT_LOST_FILES",
        "CHECKPOINT_EXTRA_FILES",
        "CHECKPOINT_DIFFERS",
        "CHECKPOINT_LOST_TXN",
        "CHECKPOINT_LOST_DOMAIN",
        "CHECKPOINT_PROTOCOL",
        "CHECKPOINT_METADATA",
    }
)


@dataclass(frozen=True, slots=True)
class Doubt:
    """Two checkpoints, by the names of their first files, of which at least one is wrong.

    `base` was taken for granted; with the commits after it, it does not make `later`.
    """

    base: str
    base_version: int
    later: str
    later_version: int
    message: str

    def covers(self, version: int) -> bool:
        """Tell whether a state that begins with a checkpoint of this version is in doubt."""
        return self.base_version <= version <= self.later_version

    def told(self) -> str:
        """Return who contradicts whom, in what."""
        return (
            f"{self.later} contradicts {self.base} and the commits after it ({self.message}), "
            "and nothing older proves either"
        )
