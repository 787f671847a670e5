"""One run of one operation, in a process of its own: `python -m bench.child MODULE:FUNCTION PATH`.

An operation is a function of the path of the data, which returns what it found, name by name.
It may be a generator instead: what it does before its one `yield` is setting up, and not measured.
Importing its module is measured apart. The answer is one JSON object, the last line on stdout.
"""

from __future__ import annotations

import inspect
import json
import resource
import sys
import time
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

Found = dict[str, float]


def main(operation: str, path: str) -> None:
    module, _, name = operation.partition(":")
    started = time.perf_counter()
    function = getattr(import_module(module), name)
    imported = time.perf_counter()
    seconds, cpu_seconds, found = measure(function, path)
    answer = {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "import_seconds": imported - started,
        "peak_mb": peak_mb(),
        "found": found,
    }
    print(json.dumps(answer))


def measure(function: Callable[[str], Any], path: str) -> tuple[float, float, Found]:
    """Return the seconds an operation took, those of all its threads, and what it found."""
    run = partial(function, path)
    if inspect.isgeneratorfunction(function):
        run = partial(_finish, function(path))
        next(run.args[0])
    started, cpu_started = time.perf_counter(), time.process_time()
    found = run()
    return time.perf_counter() - started, time.process_time() - cpu_started, found


def _finish(steps: Generator[None, None, Found]) -> Found:
    try:
        next(steps)
    except StopIteration as end:
        found: Found = end.value
        return found
    raise TypeError("an operation sets up, yields once, and runs to its end")


def peak_mb() -> float:
    """Return the most memory this process ever had, in MB of a million bytes.

    Linux hands `ru_maxrss` of a large parent down to its children; VmHWM starts anew.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


if __name__ == "__main__":
    main(*sys.argv[1:])
