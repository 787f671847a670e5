"""`python -m bench.spark`: the replay on Spark, in one warm session, beside other ways to do it.

All contenders take turns in the same local[2] session: our replay, the same replay by Spark's own
JSON reader and a window, the one that shuffles the checkpoint too, and deltalake in this process.
Executor caches are emptied before every run. Prints a table and writes its numbers.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.logs import ROOT, sampled, warm
from bench.measurements import MEASUREMENTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

SMALL, LARGE = 400_000, 4_000_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "bench")
    parser.add_argument("--parts", default="A,C,memory,scale")
    args = parser.parse_args()
    data = args.output / "data"
    data.mkdir(parents=True, exist_ok=True)
    logs = {m.name: m.prepare for m in MEASUREMENTS}
    spark = session()
    found: dict[str, Any] = {}
    for part in args.parts.split(","):
        found[part] = PARTS[part](spark, data, logs, args.runs)
        print(f"\n{part}: {json.dumps(found[part], indent=1)}", flush=True)
    (args.output / "spark.json").write_text(json.dumps(found, indent=1))
    print(f"numbers: {args.output / 'spark.json'}")
    return 0


def session() -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ.update({"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)})
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.driver.memory", "4g")
        .getOrCreate()
    )


def shape_a(spark: SparkSession, data: Path, logs: dict[str, Any], runs: int) -> dict[str, Any]:
    """Commits only: ours against Spark's own reader, and against deltalake."""
    table = logs["A"](data)
    warm(table)
    medians = in_turn(
        {
            "txlog": lambda: ours(spark, table),
            "json reader": lambda: by_json_reader(spark, table),
            "deltalake": lambda: by_deltalake(table),
        },
        runs,
    )
    return medians | {
        "over json reader (goal 1.5)": medians["json reader"] / medians["txlog"],
        "over deltalake (goal 1.1)": medians["deltalake"] / medians["txlog"],
    }


def shape_c(spark: SparkSession, data: Path, logs: dict[str, Any], runs: int) -> dict[str, Any]:
    """A checkpoint and a short tail: ours against the window over everything."""
    table = logs["C"](data)
    warm(table)
    medians = in_turn(
        {
            "txlog": lambda: ours(spark, table),
            "full shuffle": lambda: by_full_shuffle(spark, table),
        },
        runs,
    )
    return medians | {"over full shuffle (goal 2)": medians["full shuffle"] / medians["txlog"]}


def scale(spark: SparkSession, data: Path, _: dict[str, Any], runs: int) -> dict[str, Any]:
    """Twice the actions, how much more time."""
    once, twice = (
        sampled(commits=commits, adds=1_000, removes=300, seed=4)(data) for commits in (500, 1_000)
    )
    medians = in_turn(
        {"once": lambda: ours(spark, once), "twice": lambda: ours(spark, twice)}, runs
    )
    return medians | {"twice / once (goal at most 2.3)": medians["twice"] / medians["once"]}


def memory(spark: SparkSession, data: Path, _: dict[str, Any], __: int) -> dict[str, Any]:
    """What the driver holds after a replay, in Python and in the JVM after a collection."""
    held: dict[str, Any] = {}
    for actions in (SMALL, LARGE):
        table = sampled(commits=actions // 1_000, adds=769, removes=231, seed=6)(data)
        ours(spark, table)
        held[f"{actions}"] = {"python_mb": python_mb(), "heap_mb": heap_mb(spark)}
    small, large = held[str(SMALL)], held[str(LARGE)]
    for name in ("python_mb", "heap_mb"):
        held[f"{name} (goal at most 1.2)"] = large[name] / small[name]
    return held


PARTS: dict[str, Callable[..., dict[str, Any]]] = {
    "A": shape_a,
    "C": shape_c,
    "scale": scale,
    "memory": memory,
}


def in_turn(contenders: dict[str, Callable[[], int]], runs: int) -> dict[str, Any]:
    """Run each once unmeasured, then all in turn; return the median seconds of each."""
    answers = {name: run() for name, run in contenders.items()}
    if len(set(answers.values())) > 1 and "once" not in answers:
        raise SystemExit(f"contenders disagree: {answers}")
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(runs):
        for name, run in contenders.items():
            started = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - started)
    print(json.dumps(seconds), file=sys.stderr)
    return {name: statistics.median(taken) for name, taken in seconds.items()}


def ours(spark: SparkSession, table: Path) -> int:
    """Replay on Spark to the sums of the live files, with nothing in the executors' caches."""
    from engine import open_log

    log = open_log(str(table), spark=spark)
    log.invalidate_caches()
    return log.snapshot(engine="spark").totals().num_files


def by_json_reader(spark: SparkSession, table: Path) -> int:
    """The same sums from Spark's JSON reader, whose schema is given, and a window."""
    from pyspark.sql import functions as F

    rows = (
        spark.read.schema(
            "add struct<path:string, size:long, stats:string>, remove struct<path:string>"
        )
        .json(str(table / "_delta_log" / "*.json"))
        .select(
            "add",
            "remove",
            F.regexp_extract(F.input_file_name(), r"(\d{20})\.json$", 1)
            .cast("long")
            .alias("version"),
        )
    )
    return summed(rows.where("add is not null or remove is not null"))


def by_full_shuffle(spark: SparkSession, table: Path) -> int:
    """The same sums with the checkpoint's rows in the window."""
    from dataclasses import replace

    from engine import open_log
    from engine.log.segment import segment_for
    from engine.replay.spark import ReplayFrames

    log = open_log(str(table), spark=spark)
    directory = log.directory
    refs = log.listing().refs
    segment = segment_for(refs, None, log_format=directory.log_format, directory=directory.url)
    frames = ReplayFrames(spark, segment, directory, log.config)
    checkpoint = ReplayFrames(
        spark, replace(segment, commits=(), compactions=()), directory, log.config
    )
    fields = ("size", "stats")
    tail = frames.winners(fields).where("kind = 'file'")
    rows = checkpoint._untouched(fields, tail).unionByName(tail)
    return summed(rows.select("add", "remove", "version"))


def summed(rows: DataFrame) -> int:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    key = F.coalesce("add.path", "remove.path")
    newest = Window.partitionBy(key).orderBy(F.desc("version"), F.col("add").isNull())
    won = rows.withColumn("rank", F.row_number().over(newest)).where("rank = 1")
    found = won.where("add is not null").agg(
        F.count("*").alias("files"),
        F.sum("add.size"),
        F.sum(F.get_json_object("add.stats", "$.numRecords").cast("long")),
    )
    return int(found.collect()[0]["files"])


def by_deltalake(table: Path) -> int:
    from deltalake import DeltaTable

    return len(DeltaTable(str(table)).file_uris())


def python_mb() -> float:
    import gc

    gc.collect()
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def heap_mb(spark: SparkSession) -> float:
    jvm: Any = spark.sparkContext._jvm
    for _ in range(3):
        jvm.System.gc()
        time.sleep(0.5)
    runtime = jvm.Runtime.getRuntime()
    return (runtime.totalMemory() - runtime.freeMemory()) / 1024 / 1024


if __name__ == "__main__":
    sys.exit(main())
