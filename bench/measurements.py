"""What is measured: add a Measurement to the registry, and `make bench` runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.logs import Prepare, sampled


@dataclass(frozen=True)
class Contender:
    """Who runs, and what: `operation` is a function of a module, as `bench.child` takes it."""

    name: str
    operation: str


@dataclass(frozen=True)
class Goal:
    """What our number must be, as a multiple of another.

    `metric` is `seconds`, `peak_mb`, or whatever an operation found. `at_least` is for speed: the
    other's number over ours; `at_most` is ours over the other's. The other is the contender
    called `than` of the same measurement, or of the one called `of`.
    """

    metric: str
    at_least: float | None = None
    at_most: float | None = None
    than: str = "deltalake"
    of: str | None = None


@dataclass(frozen=True)
class Measurement:
    """One question put to all contenders; the first of them is ours.

    `prepare` makes the data, or finds it made. All contenders must find the same `agree`.
    `copies` gives every run a copy of the data of its own, for operations that write.
    """

    name: str
    what: str
    prepare: Prepare
    contenders: tuple[Contender, ...]
    goals: tuple[Goal, ...] = ()
    agree: tuple[str, ...] = ("files",)
    copies: bool = False


REPLAY: Final = (
    Contender("txlog", "bench.ours:replay"),
    Contender("deltalake", "bench.peers:replay"),
)

MEASUREMENTS: Final = (
    Measurement(
        name="A",
        what="1,000 commits x (1,000 adds + 300 removes)",
        prepare=sampled(commits=1_000, adds=1_000, removes=300, seed=1),
        contenders=REPLAY,
        goals=(Goal("seconds", at_least=3), Goal("peak_mb", at_most=0.8)),
    ),
    Measurement(
        name="B",
        what="10,000 commits x (10 adds + 3 removes)",
        prepare=sampled(commits=10_000, adds=10, removes=3, seed=2),
        contenders=REPLAY,
        goals=(Goal("seconds", at_least=5),),
    ),
    Measurement(
        # Commits an hour apart: of the tombstones, a week's are in the checkpoint.
        name="C",
        what="checkpoint of 700,000 files + 10 commits",
        prepare=sampled(
            commits=1_010,
            adds=1_000,
            removes=300,
            seed=3,
            interval_s=3_600,
            checkpoint_at=(999,),
            cleaned=True,
        ),
        contenders=REPLAY,
        goals=(Goal("seconds", at_least=1.3),),
    ),
    Measurement(
        name="D",
        what="20,000 commits x (10 adds + 3 removes)",
        prepare=sampled(commits=20_000, adds=10, removes=3, seed=2),
        contenders=REPLAY,
        goals=(Goal("seconds", at_most=2.2, than="txlog", of="B"),),
    ),
    Measurement(
        name="E",
        what="200 commits of one file each",
        prepare=sampled(commits=1, adds=1, removes=0, partitions=0, seed=4),
        contenders=(
            Contender("txlog", "bench.ours:commits"),
            Contender("deltalake", "bench.peers:commits"),
        ),
        goals=(Goal("seconds", at_least=3),),
        copies=True,
    ),
    Measurement(
        name="F",
        what="A again after one more commit: refreshed, and opened cold",
        prepare=sampled(commits=1_000, adds=1_000, removes=300, seed=1),
        contenders=(
            Contender("txlog", "bench.ours:refresh"),
            Contender("cold", "bench.ours:cold"),
        ),
        goals=(Goal("seconds", at_least=20, than="cold"),),
        copies=True,
    ),
    Measurement(
        name="G",
        what="the last 50 of 1,000 commits in a row, and the first 50",
        prepare=sampled(commits=1, adds=1, removes=0, partitions=0, seed=4),
        contenders=(
            Contender("txlog", "bench.ours:last_commits"),
            Contender("first", "bench.ours:first_commits"),
        ),
        goals=(Goal("seconds", at_most=2, than="first"),),
        agree=(),
        copies=True,
    ),
)
