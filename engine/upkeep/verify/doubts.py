"""What contradicts a checkpoint, where no commit is old enough to tell who is right?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

DISAGREE: Final = "CHECKPOINTS_DISAGREE"

# What breaks a rule and keeps nobody from reading the right files.
TOLERATED: Final = frozenset({"CHECKPOINT_ADD_AND_REMOVE", "CHECKPOINT_V2_METADATA"})

# What is found by holding a file against an older checkpoint and the commits in between.
AGAINST_BASE: Final = frozenset(
    {
        "CHECKPOINT_LOST_FILES",
        "CHECKPOINT_EXTRA_FILES",
        "CHECKPOINT_DIFFERS",
        "CHECKPOINT_LOST_TXN",
        "CHECKPOINT_LOST_DOMAIN",
        "CHECKPOINT_PROTOCOL",
        "CHECKPOINT_METADATA",
        "CHECKSUM_DIFFERS",
    }
)


@dataclass(frozen=True, slots=True)
class Doubt:
    """Two derived files, by the names of their first files, of which at least one is wrong.

    `base` is a checkpoint that was taken for granted; with the commits after it, it does not make
    `later`, a checkpoint or a checksum of the same version or a newer one.
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


def settled(
    doubts: Iterable[Doubt], useless: Container[str], *, and_later: bool = True
) -> list[Doubt]:
    """Return the doubts that are left, one for each two files, with all that was said.

    A base that is wrong by itself is no witness, nor, with `and_later`, is what contradicts it.
    """
    found: dict[tuple[str, str], tuple[Doubt, set[str]]] = {}
    for doubt in doubts:
        if doubt.base not in useless and not (and_later and doubt.later in useless):
            said = found.setdefault((doubt.base, doubt.later), (doubt, set()))[1]
            said.add(doubt.message)
    return [replace(doubt, message="; ".join(sorted(said))) for doubt, said in found.values()]
