"""What is done after a commit? Each hook runs, is timed, and has no say in the commit."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from engine.commit.transaction import Committed, HookRun

# Run after a commit, with the log and what was committed.
Hook = Callable[["Any", Committed], object]

_logger: Final = logging.getLogger(__name__)
_running: Final = threading.local()


def hooked(log: Any, done: Committed, hooks: Sequence[Hook]) -> Committed:
    """Run the hooks of a log and return what was committed, with what became of them.

    Nothing was committed, nothing is run; and a commit that a hook makes runs none.
    """
    if not done.is_new or not hooks or getattr(_running, "here", False):
        return done
    _running.here = True
    try:
        return replace(done, hooks=tuple(_run(hook, log, done) for hook in tuple(hooks)))
    finally:
        _running.here = False


def _run(hook: Hook, log: Any, done: Committed) -> HookRun:
    name = getattr(hook, "__name__", type(hook).__name__)
    started, failure = time.perf_counter(), ""
    try:
        hook(log, done)
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
        _logger.warning("after version %d: %s: %s", done.version, name, failure)
    return HookRun(name, time.perf_counter() - started, failure)
