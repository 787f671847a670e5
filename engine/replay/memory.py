"""Where do columns live while a log is replayed? In memory that is not given back in between.

Columns come and go with every chunk. Arrow's own pool gives their pages back to the system each
time and asks for them again: a sixth of a replay's time, and a quarter more memory at its peak.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

_lock: Final = threading.Lock()
_before: Final[list[pa.MemoryPool]] = []


@contextmanager
def steady_memory() -> Iterator[None]:
    """Allocate from the system's memory; the pool is as it was when the last replay ends.

    Whoever chose a pool by ARROW_DEFAULT_MEMORY_POOL keeps it. What others allocate meanwhile is
    none the worse: a buffer knows its own pool.
    """
    if "ARROW_DEFAULT_MEMORY_POOL" in os.environ:
        yield
        return
    with _lock:
        _before.append(pa.default_memory_pool())
        pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        with _lock:
            first = _before[0]
            _before.pop()
            if not _before:
                pa.set_memory_pool(first)
