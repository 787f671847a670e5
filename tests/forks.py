"""Where do processes that are killed come from? From one that has loaded what they need, and forks.

Run as `python -m tests.forks MODULE`: each line of stdin is an order, in JSON; a fork obeys it by
`MODULE.obey(order)`, and what became of it is a line of stdout. The forking process itself reads,
forks and waits: it has no threads, no Arrow pools and no JVM. What the forks of a module load as
they go, `MODULE.rehearse(folder)` loads once, in the first of them.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

PROJECT = Path(__file__).parents[1]


class Forks:
    """The forking process, seen from a test."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def begin(self, **order: Any) -> None:
        """Have an order obeyed by a new process, in this environment; its end is waited for."""
        line = json.dumps({"order": order, "environment": dict(os.environ)})
        assert self._process.stdin
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def end(self) -> int:
        """Return how the process ended: its status, or the signal that killed it, below zero."""
        assert self._process.stdout
        return int(self._process.stdout.readline())

    def run(self, **order: Any) -> int:
        """Have an order obeyed, and return how the process ended."""
        self.begin(**order)
        return self.end()


@contextmanager
def forks(module: str) -> Iterator[Forks]:
    """Have forks of a process that has loaded `module`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.forks", module],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Forks(process)
    finally:
        assert process.stdin
        assert process.stdout
        process.stdin.close()
        process.stdout.close()
        process.wait(timeout=10)


def forked(act: Callable[[], object]) -> int:
    """Act in a fork of this process; return the fork's id. It ends with 0 if the act returns."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            act()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return child


def ended(child: int) -> int:
    """Wait for a fork; return how it ended."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(name: str) -> None:
    module = importlib.import_module(name)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a fork prints is no answer
    _load_what_is_needed(module)
    for line in sys.stdin:
        told = json.loads(line)
        os.environ.clear()
        os.environ.update(told["environment"])
        answers.write(f"{ended(forked(lambda order=told['order']: module.obey(order)))}\n")
        answers.flush()


def _load_what_is_needed(module: ModuleType) -> None:
    listening, telling = os.pipe()

    def rehearse() -> None:
        with tempfile.TemporaryDirectory() as folder:
            module.rehearse(folder)
        os.write(telling, json.dumps([*sys.modules]).encode())

    child = forked(rehearse)
    os.close(telling)
    with os.fdopen(listening) as told:
        names = json.loads(told.read())
    assert ended(child) == 0
    for name in names:
        if name not in sys.modules and name != "__mp_main__":
            importlib.import_module(name)


if __name__ == "__main__":
    main(sys.argv[1])
