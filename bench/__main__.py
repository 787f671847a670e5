"""`python -m bench`: measure, print the table, write the numbers and the chart.

Exits with 1 only when contenders disagree about the answer, or one fails: speed is for reading.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench.logs import ROOT
from bench.measurements import MEASUREMENTS, Measurement
from bench.report import machine, table, write_chart, write_json
from bench.run import BenchError, Result, take

if TYPE_CHECKING:
    from collections.abc import Sequence

_ENOUGH_RUNS = 5


def main(
    argv: Sequence[str] | None = None, measurements: Sequence[Measurement] = MEASUREMENTS
) -> int:
    args = _arguments(argv, measurements)
    output: Path = args.output
    (output / "data").mkdir(parents=True, exist_ok=True)
    wanted = args.shapes.split(",") if args.shapes else [m.name for m in measurements]
    chosen = [measurement for measurement in measurements if measurement.name in wanted]
    if unknown := set(wanted) - {measurement.name for measurement in chosen}:
        print(f"unknown shapes: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    about = machine()
    print(" | ".join(f"{name} {value}" for name, value in about.items()))
    results: list[Result] = []
    try:
        for measurement in chosen:
            results.append(take(measurement, output / "data", args.runs, _say))  # noqa: PERF401
    except BenchError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"\n{table(results)}\n")
    print(f"Medians of {args.runs} runs each, in fresh processes, in turn, the files read once")
    print("before. Seconds are the operation alone, imports excluded (the JSON has both).")
    if args.runs < _ENOUGH_RUNS:
        print(f"Fewer than {_ENOUGH_RUNS} runs: do not quote these.")
    numbers, chart = output / "bench.json", output / "bench.png"
    write_json(results, numbers, about)
    write_chart(results, chart)
    print(f"numbers: {numbers}\nchart:   {chart}")
    differ = [result.disagreement for result in results if result.disagreement]
    for line in differ:
        print(f"DISAGREEMENT {line}", file=sys.stderr)
    return 1 if differ else 0


def _arguments(argv: Sequence[str] | None, known: Sequence[Measurement]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    names = ",".join(measurement.name for measurement in known)
    parser.add_argument("--shapes", help=f"which to measure, of {names} (default: all)")
    parser.add_argument("--runs", type=int, default=_ENOUGH_RUNS, help="runs of each contender")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "bench")
    return parser.parse_args(argv)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
