"""What is measured: add a Measurement to the registry, and `make bench` runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.fleet import tables
from bench.hive_bench import small_files
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
    called `than` of the same measurement, or of the one called `of`. Without any `than`, `at_most`
    bounds our number itself.
    """

    metric: str
    at_least: float | None = None
    at_most: float | None = None
    than: str | None = "deltalake"
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


MANY: Final = 10_000

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
    Measurement(
        name="V",
        what="A verified, beside its replay",
        prepare=sampled(commits=1_000, adds=1_000, removes=300, seed=1),
        contenders=(
            Contender("txlog", "bench.ours:verify"),
            Contender("replay", "bench.ours:replay"),
        ),
        goals=(Goal("seconds", at_most=3, than="replay"),),
        agree=(),
    ),
    Measurement(
        name="S-A",
        what="A on a warm Spark session of two threads",
        prepare=sampled(commits=1_000, adds=1_000, removes=300, seed=1),
        contenders=(
            Contender("txlog", "bench.on_spark:replay"),
            Contender("Spark's JSON", "bench.on_spark:json_reader"),
            Contender("deltalake", "bench.peers:replay"),
        ),
        goals=(
            Goal("seconds", at_least=1.5, than="Spark's JSON"),
            Goal("seconds", at_least=1.1),
        ),
    ),
    Measurement(
        name="S-C",
        what="C on a warm Spark session of two threads",
        prepare=sampled(
            commits=1_010,
            adds=1_000,
            removes=300,
            seed=3,
            interval_s=3_600,
            checkpoint_at=(999,),
            cleaned=True,
        ),
        contenders=(
            Contender("txlog", "bench.on_spark:replay"),
            Contender("full shuffle", "bench.on_spark:full_shuffle"),
        ),
        goals=(Goal("seconds", at_least=2, than="full shuffle"),),
        agree=("files", "bytes", "records"),
    ),
    Measurement(
        name="S-A2",
        what="A doubled, on a warm Spark session of two threads",
        prepare=sampled(commits=2_000, adds=1_000, removes=300, seed=1),
        contenders=(Contender("txlog", "bench.on_spark:replay"),),
        goals=(Goal("seconds", at_most=2.3, than="txlog", of="S-A"),),
    ),
    Measurement(
        name="S-M",
        what="Spark's driver, 400,000 actions",
        prepare=sampled(commits=308, adds=1_000, removes=300, seed=1),
        contenders=(Contender("txlog", "bench.on_spark:memory"),),
    ),
    Measurement(
        name="S-M10",
        what="Spark's driver, 4,000,000 actions",
        prepare=sampled(commits=3_077, adds=1_000, removes=300, seed=1),
        contenders=(Contender("txlog", "bench.on_spark:memory"),),
        goals=(Goal("driver_mb", at_most=1.2, than="txlog", of="S-M"),),
    ),
    Measurement(
        # A checkpoint of two commits, and then a million keys that it does not know.
        name="S-T",
        what="a checkpoint, then a tail of a million keys, on Spark",
        prepare=sampled(commits=1_000, adds=1_000, removes=0, seed=1, checkpoint_at=(1,)),
        contenders=(Contender("txlog", "bench.on_spark:memory"),),
        goals=(Goal("driver_mb", at_most=1.2, than="txlog", of="S-M"),),
    ),
    Measurement(
        name="S-K",
        what="A -> classic checkpoint, on a warm Spark session of two threads",
        prepare=sampled(commits=1_000, adds=1_000, removes=300, seed=1),
        contenders=(
            Contender("txlog", "bench.fleet:spark_checkpoint"),
            Contender("deltalake", "bench.fleet:deltalake_checkpoint"),
        ),
        goals=(Goal("seconds", at_least=1.5), Goal("bytes", at_most=0.5)),
        copies=True,
    ),
    Measurement(
        name="M",
        what="maintain 1,000 tables, 20 of them broken; a process a table, and threads",
        prepare=tables,
        contenders=(
            Contender("Spark", "bench.fleet:maintain_on_spark"),
            Contender("processes", "bench.fleet:process_a_table"),
            Contender("threads", "bench.fleet:maintain_in_process"),
        ),
        goals=(Goal("seconds_a_table", at_least=5, than="processes"),),
        agree=("tables",),
        copies=True,
    ),
    Measurement(
        name="K",
        what="1,000 commits x 1,000 actions into one compaction",
        prepare=sampled(commits=1_000, adds=800, removes=200, seed=5),
        contenders=(
            Contender("txlog", "bench.ours:compact"),
            Contender("deltalake", "bench.peers:compact"),
        ),
        goals=(Goal("seconds", at_least=2),),
        agree=("commits",),
        copies=True,
    ),
    Measurement(
        name="L",
        what="opening 1,000 commits, compacted and not",
        prepare=sampled(commits=1_001, adds=10, removes=3, seed=2),
        contenders=(
            Contender("txlog", "bench.ours:compacted"),
            Contender("not compacted", "bench.ours:opened"),
        ),
        goals=(
            Goal("seconds", at_least=2, than="not compacted"),
            Goal("log_files", at_most=0.2, than="not compacted"),
        ),
        copies=True,
    ),
    Measurement(
        name="S-KC",
        what="K on a warm Spark session of two threads",
        prepare=sampled(commits=1_000, adds=800, removes=200, seed=5),
        contenders=(
            Contender("txlog", "bench.on_spark:compact"),
            Contender("deltalake", "bench.peers:compact"),
        ),
        goals=(Goal("seconds", at_least=2),),
        agree=("commits",),
        copies=True,
    ),
    Measurement(
        name="S-KM",
        what="Spark's driver, 400,000 actions compacted",
        prepare=sampled(commits=308, adds=1_000, removes=300, seed=1),
        contenders=(Contender("txlog", "bench.on_spark:compact_memory"),),
        agree=("commits",),
        copies=True,
    ),
    Measurement(
        name="S-KM3G",
        what="Spark's driver, 3 GB of commits compacted: 7,540,000 actions",
        prepare=sampled(commits=5_800, adds=1_000, removes=300, seed=1),
        contenders=(Contender("txlog", "bench.on_spark:compact_memory"),),
        goals=(Goal("driver_mb", at_most=1.2, than="txlog", of="S-KM"),),
        agree=("commits",),
        copies=True,
    ),
    Measurement(
        name="P",
        what="A -> classic checkpoint, read back and proven",
        prepare=sampled(commits=1_000, adds=1_000, removes=300, seed=1),
        contenders=(
            Contender("txlog", "bench.checkpoints:write"),
            Contender("deltalake", "bench.fleet:deltalake_checkpoint"),
        ),
        goals=(
            Goal("seconds", at_least=2.5),
            Goal("bytes", at_most=0.5),
            Goal("peak_mb", at_most=0.6),
        ),
        copies=True,
    ),
    Measurement(
        name="P-O",
        what="A, opened from the checkpoint that each wrote",
        prepare=sampled(commits=1_000, adds=1_000, removes=300, seed=1),
        contenders=(
            Contender("txlog", "bench.checkpoints:open_ours"),
            Contender("deltalake", "bench.checkpoints:open_theirs"),
        ),
        goals=(Goal("seconds", at_least=1.5),),
        copies=True,
    ),
    Measurement(
        name="P-V2",
        what="1,000,000 files -> V2 after 1,000 adds and 100 removes; and all of it",
        prepare=sampled(commits=500, adds=2_000, removes=0, seed=5),
        contenders=(
            Contender("again", "bench.checkpoints:write_v2_again"),
            Contender("whole", "bench.checkpoints:write_v2"),
        ),
        goals=(
            Goal("seconds", at_most=0.15, than="whole"),
            Goal("bytes", at_most=0.05, than="whole"),
        ),
        agree=(),
        copies=True,
    ),
    *(
        Measurement(
            name=f"T-{count}",
            what=f"{count:,} transactions that replace 9 of 10 files: checkpoint, and JSON",
            prepare=sampled(commits=count, adds=10, removes=9, seed=6),
            contenders=(
                Contender("checkpoint", "bench.checkpoints:open_ours"),
                Contender("JSON", "bench.checkpoints:from_json"),
            ),
            goals=(Goal("seconds", at_least=20, than="JSON"),) if count == MANY else (),
            copies=True,
        )
        for count in (10, 100, 1_000, MANY)
    ),
    *(
        Measurement(
            name=f"P-{millions}M",
            what=f"{millions},000,000 files -> classic checkpoint: memory",
            prepare=sampled(commits=millions * 200, adds=5_000, removes=0, seed=7),
            contenders=(Contender("txlog", "bench.checkpoints:write"),),
            goals=(
                Goal("peak_mb", at_most=1_500, than=None)
                if millions == 2
                else Goal("peak_mb", at_most=1.5, than="txlog", of="P-2M"),
            ),
            copies=True,
        )
        for millions in (2, 4)
    ),
    Measurement(
        name="H",
        what="a Hive table: 96 partitions of 20 small files, each compacted into one",
        prepare=small_files(partitions=96, files=20, megabytes=480),
        contenders=(
            Contender("parallel", "bench.hive_bench:parallel"),
            Contender("serial", "bench.hive_bench:serial"),
        ),
        goals=(Goal("seconds", at_least=1.5, than="serial"),),
        agree=("files", "files_after", "rows"),
        copies=True,
    ),
    *(
        Measurement(
            name=name,
            what=f"{megabytes:,} MB of small files in a Hive table: the driver's memory",
            prepare=small_files(partitions=16, files=50, megabytes=megabytes),
            contenders=(Contender("txlog", "bench.hive_bench:memory"),),
            goals=(Goal("driver_mb", at_most=1.2, than="txlog", of="H-M"),) if of_gigabyte else (),
            copies=True,
        )
        for name, megabytes, of_gigabyte in (("H-M", 100, False), ("H-G", 1_050, True))
    ),
)
