"""What is the next act? Pure functions of what exists; a swap and its recovery are the same loop.

`forward` and `back` are asked again after every act until they answer SETTLE or DONE. Since they
see only what exists, it makes no difference whether the act before was this process's or that of
one which died.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from engine.hive.model import Swap


class Act(str, Enum):
    """One change of the file system or of the metastore."""

    SET_ASIDE = "rename live to kept"
    PUT_IN_PLACE = "rename staged to live"
    MERGE_IN = "move the staged files into the directory a writer made"
    REPOINT = "set the location to staged"
    SETTLE = "look for late files; the swap is done"
    TAKE_OUT = "rename live to staged"
    PUT_BACK = "rename kept to live"
    MERGE_BACK = "move the kept files into the directory a writer made"
    REPOINT_BACK = "set the location to live"
    DISCARD = "delete staged, after what came late was carried out of it"
    DONE = "nothing is left to do"
    TURN_BACK = "the staged files, or the originals, are gone; go back"
    ELSEWHERE = "someone else set the location"
    LOST = "neither live nor kept exists"


class Pointer(str, Enum):
    """Where the metastore says the unit is."""

    LIVE = "live"
    STAGED = "staged"
    ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True)
class Facts:
    """Which of a unit's directories exist, and where the metastore points.

    `aside` says that the originals were, or may have been, renamed to `kept`. Where they never
    were and are gone from `live`, a writer took them away, and that stands.
    """

    live: bool
    staged: bool
    kept: bool
    pointer: Pointer = Pointer.LIVE
    aside: bool = True

    @property
    def emptied(self) -> bool:
        """Whether a writer took the originals away before we touched them."""
        return not (self.live or self.kept or self.aside)


def forward(swap: Swap, facts: Facts) -> Act:
    """Return the next act on the way to the rewritten files."""
    if swap is Swap.LOCATION:
        if facts.pointer is Pointer.ELSEWHERE:
            return Act.ELSEWHERE
        if facts.pointer is Pointer.STAGED:
            return Act.SETTLE
        return Act.REPOINT if facts.staged else Act.TURN_BACK
    if facts.emptied:
        return Act.TURN_BACK
    return {
        (True, True, False): Act.SET_ASIDE,
        (False, True, True): Act.PUT_IN_PLACE,
        (False, True, False): Act.PUT_IN_PLACE,
        (True, True, True): Act.MERGE_IN,
        (True, False, True): Act.SETTLE,
        (False, False, True): Act.TURN_BACK,
        (True, False, False): Act.TURN_BACK,
        (False, False, False): Act.LOST,
    }[facts.live, facts.staged, facts.kept]


def in_place(swap: Swap, facts: Facts) -> bool:
    """Say whether the rewritten files are, whole, what readers see."""
    if swap is Swap.LOCATION:
        return facts.pointer is Pointer.STAGED
    return facts.live and facts.kept and not facts.staged


def back(swap: Swap, facts: Facts, *, verified: bool) -> Act:
    """Return the next act on the way to the originals.

    When nothing but verified rewritten files is left, they are the way back; files that were
    never verified are not.
    """
    if swap is Swap.LOCATION:
        if facts.pointer is Pointer.STAGED:
            return Act.REPOINT_BACK if facts.live else Act.LOST
        return Act.DISCARD if facts.staged else Act.DONE
    if facts.emptied:
        return Act.DISCARD if facts.staged else Act.DONE
    only_staged = Act.PUT_IN_PLACE if verified else Act.LOST
    return {
        (True, True, False): Act.DISCARD,
        (True, False, False): Act.DONE,
        (False, True, True): Act.PUT_BACK,
        (False, False, True): Act.PUT_BACK,
        (True, True, True): Act.MERGE_BACK,
        (True, False, True): Act.TAKE_OUT,
        (False, True, False): only_staged,
        (False, False, False): Act.LOST,
    }[facts.live, facts.staged, facts.kept]
