"""How is a measurement taken? Fresh processes, in turn, every run kept."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.logs import ROOT, warm

if TYPE_CHECKING:
    from bench.measurements import Contender, Goal, Measurement

Say = Callable[[str], None]


@dataclass(frozen=True)
class Run:
    """One run: the operation alone, the whole process around it, and what it found.

    `cpu_seconds` are those of all threads: they tell when a machine was busy with other things.
    """

    seconds: float
    cpu_seconds: float
    import_seconds: float
    process_seconds: float
    peak_mb: float
    found: dict[str, float]

    def metric(self, name: str) -> float:
        return getattr(self, name) if hasattr(self, name) else self.found[name]


class BenchError(Exception):
    """A contender failed."""


@dataclass(frozen=True)
class Result:
    """All runs of one measurement, by contender; the first contender is ours."""

    measurement: Measurement
    data_bytes: int
    runs: dict[str, list[Run]]

    def median(self, contender: str, metric: str) -> float:
        return statistics.median(run.metric(metric) for run in self.runs[contender])

    @property
    def disagreement(self) -> str | None:
        """How the contenders' answers differ, or None where they are one."""
        answers = {
            name: {tuple(run.found.get(key) for key in self.measurement.agree) for run in runs}
            for name, runs in self.runs.items()
        }
        if len(set().union(*answers.values())) == 1:
            return None
        shown = "; ".join(f"{name} {sorted(answer)}" for name, answer in answers.items())
        return f"{self.measurement.name}: {', '.join(self.measurement.agree)} differ: {shown}"


@dataclass(frozen=True)
class Verdict:
    """A goal, and the ratio (or number) that was measured; None where the other was not."""

    goal: Goal
    ratio: float | None

    @property
    def met(self) -> bool | None:
        if self.ratio is None:
            return None
        if self.goal.at_least is not None:
            return self.ratio >= self.goal.at_least
        return self.ratio <= (self.goal.at_most or 0)


def take(measurement: Measurement, data: Path, runs: int, say: Say) -> Result:
    """Prepare the data and run every contender `runs` times, in turn."""
    say(f"{measurement.name}: preparing {measurement.what}")
    table = measurement.prepare(data)
    size = warm(table)
    found: dict[str, list[Run]] = {contender.name: [] for contender in measurement.contenders}
    for number in range(runs):
        order = measurement.contenders if number % 2 == 0 else measurement.contenders[::-1]
        for contender in order:
            run = run_once(contender, table, copy=measurement.copies)
            found[contender.name].append(run)
            say(
                f"{measurement.name}: {number + 1}/{runs} {contender.name}"
                f" {run.seconds:.3f} s, {run.peak_mb:.0f} MB"
            )
    return Result(measurement, size, found)


def run_once(contender: Contender, table: Path, *, copy: bool) -> Run:
    """Run a contender in a fresh process, on the data or on a copy of it."""
    if copy:
        with tempfile.TemporaryDirectory(dir=table.parent) as scratch:
            own = Path(scratch) / table.name
            shutil.copytree(table, own)
            return run_once(contender, own, copy=False)
    command = [sys.executable, "-m", "bench.child", contender.operation, str(table)]
    started = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    process_seconds = time.perf_counter() - started
    if done.returncode != 0:
        raise BenchError(f"{contender.name} failed on {table}:\n{done.stderr}")
    answer = json.loads(done.stdout.splitlines()[-1])
    return Run(process_seconds=process_seconds, **answer)


def judge(result: Result, results: Sequence[Result]) -> list[Verdict]:
    """Hold a result against its goals."""
    by_name = {other.measurement.name: other for other in results}
    verdicts = []
    for goal in result.measurement.goals:
        ours = result.median(result.measurement.contenders[0].name, goal.metric)
        if goal.than is None:
            verdicts.append(Verdict(goal, ours))
            continue
        other = by_name.get(goal.of or result.measurement.name)
        if other is None or goal.than not in other.runs:
            verdicts.append(Verdict(goal, None))
            continue
        theirs = other.median(goal.than, goal.metric)
        ratio = theirs / ours if goal.at_least is not None else ours / theirs
        verdicts.append(Verdict(goal, ratio))
    return verdicts
