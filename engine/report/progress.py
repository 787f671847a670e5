"""How far is it? A bar on stderr, for a person who waits, and only for work worth waiting for."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Timer
from typing import TYPE_CHECKING, Final, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.replay import Gauge
    from engine.snapshot import Watch
    from engine.upkeep.fleet.maintain import Each

Item = TypeVar("Item")
Result = TypeVar("Result")

# Before that, an answer is there before a bar could be read.
_PATIENCE_S: Final = 1.0


@dataclass(frozen=True)
class Bars:
    """What a person who waits is shown; None is yielded where nobody is to be shown anything.

    A Gauge is called with how much there is to do, and returns what is called with how much more
    is done. Called again, it begins again.
    """

    shown: bool

    @contextmanager
    def bytes(self, what: str) -> Iterator[Gauge | None]:
        """Yield a Gauge of bytes."""
        with self._shown(
            BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn()
        ) as bar:
            yield None if bar is None else partial(_begin, bar, what)

    @contextmanager
    def count(self, what: str) -> Iterator[Gauge | None]:
        """Yield a Gauge of things that are counted."""
        with self._shown(BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()) as bar:
            yield None if bar is None else partial(_begin, bar, what)

    @contextmanager
    def replay(self, what: str) -> Iterator[Watch | None]:
        """Yield what is told of a segment before it is read, as `TableLog.snapshot` tells it."""
        with self.bytes(what) as gauge:
            yield None if gauge is None else lambda segment: gauge(segment.size_bytes)

    @contextmanager
    def each(self, what: str, each: Each) -> Iterator[Each]:
        """Yield an Each of this process whose items are counted as they are done."""
        with self.count(what) as gauge:
            yield each if gauge is None else _counted(each, gauge)

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Show that something is done that cannot be measured, and for how long it has been."""
        with self._shown(SpinnerColumn(), TimeElapsedColumn()) as bar:
            if bar is not None:
                bar.add_task(what, total=None)
            yield

    @contextmanager
    def _shown(self, *columns: ProgressColumn) -> Iterator[Progress | None]:
        console = Console(stderr=True)
        if not (self.shown and console.is_interactive):
            yield None
            return
        text = TextColumn("{task.description}")
        bar = Progress(text, *columns, console=console, transient=True)
        timer = Timer(_PATIENCE_S, bar.start)
        timer.daemon = True
        timer.start()
        try:
            yield bar
        finally:
            timer.cancel()
            timer.join()
            bar.stop()


def _begin(bar: Progress, what: str, total: int) -> Callable[[int], None]:
    for old in bar.task_ids:
        bar.remove_task(old)
    return partial(bar.advance, bar.add_task(what, total=total))


def _counted(each: Each, gauge: Gauge) -> Each:
    def counted(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        advance = gauge(len(items))

        def one(item: Item) -> Result:
            result = work(item)
            advance(1)
            return result

        return each(one, items)

    return counted
