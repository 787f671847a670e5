"""How far is it? A bar on stderr, for a person who waits, and only for work worth waiting for."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.log.segment import LogSegment
    from engine.snapshot import Watch

# Below both, an answer is there before a bar could be read.
_LARGE_BYTES: Final = 32 * 1024**2
_LARGE_FILES: Final = 2_000


@contextmanager
def replay_bar(*, shown: bool) -> Iterator[Watch | None]:
    """Yield what `TableLog.snapshot` takes as `progress`, or None where no bar is to be shown."""
    console = Console(stderr=True)
    if not (shown and console.is_terminal):
        yield None
        return
    bar = _bar(console, DownloadColumn(binary_units=True))

    def watch(segment: LogSegment) -> Callable[[int], None]:
        if segment.size_bytes >= _LARGE_BYTES or len(segment.files) >= _LARGE_FILES:
            bar.start()
        for old in bar.task_ids:  # a damaged file was routed around: begin again
            bar.remove_task(old)
        task = bar.add_task("replay", total=segment.size_bytes)
        return lambda size: bar.advance(task, size)

    try:
        yield watch
    finally:
        bar.stop()


@contextmanager
def count_bar(what: str, total: int, *, shown: bool) -> Iterator[Callable[[int], None] | None]:
    """Yield a function to be called with how many more are done, or None for no bar."""
    console = Console(stderr=True)
    if not (shown and console.is_terminal):
        yield None
        return
    with _bar(console, MofNCompleteColumn()) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)


def _bar(console: Console, amount: ProgressColumn) -> Progress:
    text = TextColumn("{task.description}")
    return Progress(
        text, BarColumn(), amount, TimeRemainingColumn(), console=console, transient=True
    )
