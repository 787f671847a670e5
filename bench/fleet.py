"""What is measured of upkeep on Spark, and of many tables at once. See `bench.child`."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from engine import open_log
from engine.sample import make_sample

if TYPE_CHECKING:
    from collections.abc import Generator

    from bench.child import Found

TABLES = 1_000
BROKEN = 20
# Of the loop of processes so many tables are measured: all of them would take a quarter of an hour.
LOOPED = 40


def tables(data: Path) -> Path:
    """Make the tables, or find them made: a few commits each, some of them broken."""
    directory = data / f"fleet-{TABLES}-{BROKEN}"
    if not directory.exists():
        made = directory.with_suffix(".unfinished")
        for number in range(TABLES):
            table = made / f"table-{number:04d}"
            if not table.exists():
                make_sample(str(table), commits=12, adds=10, removes=2, seed=number)
            if number % (TABLES // BROKEN) == 0:
                _break(table, number // (TABLES // BROKEN))
        made.rename(directory)
    return directory


def spark_checkpoint(path: str) -> Generator[None, None, Found]:
    """Write a classic checkpoint on a session that has written one before."""
    from bench.on_spark import session

    spark = session()
    shutil.copytree(path, f"{path}-warm")
    open_log(f"{path}-warm", spark=spark).checkpoint(engine="spark")
    yield
    done = open_log(path, spark=spark).checkpoint(engine="spark").metrics()
    assert done["created"]
    assert done["engine"] == "spark"
    return {"files": done["numFiles"], "bytes": done["sizeInBytes"]}


def maintain_on_spark(path: str) -> Generator[None, None, Found]:
    """Keep up all tables, on local[2]."""
    from bench.on_spark import session
    from engine.upkeep.fleet.maintain import Request, lost, maintain
    from engine.upkeep.fleet.spark import executors
    from engine.upkeep.fleet.tables import Target, find_tables

    spark = session()
    yield
    started = time.perf_counter()
    request = Request(open_log, lambda: time.time_ns() // 1_000_000, spark=spark)
    report = maintain(find_tables([Target(f"{path}/*")]), request, executors(spark, lost))
    seconds = time.perf_counter() - started
    assert (report.count("done"), report.count("failed")) == (TABLES - BROKEN, BROKEN)
    return {"seconds_a_table": seconds / TABLES, "tables": TABLES}


def maintain_in_process(path: str) -> Found:
    """Keep up all tables, by the threads of this process."""
    from engine.upkeep.fleet.maintain import Request, maintain, threads
    from engine.upkeep.fleet.tables import Target, find_tables

    started = time.perf_counter()
    request = Request(open_log, lambda: time.time_ns() // 1_000_000)
    report = maintain(find_tables([Target(f"{path}/*")]), request, threads(8))
    seconds = time.perf_counter() - started
    assert (report.count("done"), report.count("failed")) == (TABLES - BROKEN, BROKEN)
    return {"seconds_a_table": seconds / TABLES, "tables": TABLES}


def process_a_table(path: str) -> Found:
    """Checkpoint some of the tables, each by a process of its own."""
    chosen = sorted(Path(path).iterdir())[1 : LOOPED + 1]
    started = time.perf_counter()
    for table in chosen:
        command = [sys.executable, "-m", "engine.cli", "checkpoint", str(table), "--json"]
        subprocess.run(command, check=True, capture_output=True)
    seconds = time.perf_counter() - started
    return {"seconds_a_table": seconds / len(chosen), "tables": TABLES}


def deltalake_checkpoint(path: str) -> Found:
    """Load a table and write its checkpoint, by deltalake."""
    from deltalake import DeltaTable

    table = DeltaTable(path)
    table.create_checkpoint()
    (file,) = (Path(path) / "_delta_log").glob("*.checkpoint.parquet")
    return {"files": len(table.file_uris()), "bytes": file.stat().st_size}


def _break(table: Path, number: int) -> None:
    log = table / "_delta_log"
    commit = log / f"{5:020d}.json"
    if number % 4 == 0:
        commit.unlink()
    elif number % 4 == 1:
        commit.write_bytes(commit.read_bytes()[:-40])
    elif number % 4 == 2:
        (log / f"{0:020d}.json").write_text('{"commitInfo":{}}\n')
    else:
        protocol = '{"protocol":{"minReaderVersion":99,"minWriterVersion":99}}\n'
        commit.write_text(protocol)
