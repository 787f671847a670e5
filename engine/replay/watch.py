"""What a Spark job did: counts from its tasks, bytes shuffled, and how far it is."""

from __future__ import annotations

import threading
import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from pyspark.sql import SparkSession

    from engine.replay import Progress

_POLL_SECONDS: Final = 0.2

# What `setJobGroup` sets for this thread, and so what must be put back as it was.
_GROUP: Final = (
    "spark.jobGroup.id",
    "spark.job.description",
    "spark.job.interruptOnCancel",
)


class _Counts(AccumulatorParam[dict[str, int]]):
    """Sums dicts of numbers, name by name."""

    def zero(self, value: dict[str, int]) -> dict[str, int]:
        return {}

    def addInPlace(self, value1: dict[str, int], value2: dict[str, int]) -> dict[str, int]:
        for name, number in value2.items():
            value1[name] = value1.get(name, 0) + number
        return value1


class Watched:
    """Watches the jobs that this thread starts inside a `with`.

    Spark Connect has neither accumulators nor a status tracker: there `count` is None, and only
    the seconds are known.
    """

    def __init__(
        self, spark: SparkSession, size_bytes: int, progress: Progress | None = None
    ) -> None:
        self._context: Any = _context(spark)
        self._progress = progress
        self._size_bytes = size_bytes
        self._group = f"txlog-{uuid.uuid4().hex[:12]}"
        self._stop = threading.Event()
        self._reporter: threading.Thread | None = None
        self._told = 0
        self._seconds = 0.0
        self._phases: dict[str, float] = {}
        self._started = 0.0
        self._before: dict[str, str | None] = {}
        self._accumulator: Accumulator[dict[str, int]] | None = (
            None if self._context is None else self._context.accumulator({}, _Counts())
        )

    @property
    def count(self) -> Callable[[dict[str, int]], None] | None:
        """What tasks call with their counts."""
        return None if self._accumulator is None else self._accumulator.add

    def __enter__(self) -> Watched:
        self._started = time.perf_counter()
        if self._context is not None:
            self._before = {name: self._context.getLocalProperty(name) for name in _GROUP}
            self._context.setJobGroup(self._group, "txlog replay")
            if self._progress is not None:
                self._reporter = threading.Thread(target=self._report, daemon=True)
                self._reporter.start()
        return self

    def __exit__(
        self,
        _: type[BaseException] | None,
        error: BaseException | None,
        __: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._seconds = time.perf_counter() - self._started
        if self._reporter is not None:
            self._reporter.join()
        if error is None:
            self._tell(self._size_bytes)
        if self._context is not None:
            for name, value in self._before.items():
                self._context.setLocalProperty(name, value)

    def counts(self) -> dict[str, int]:
        """Return what the tasks counted."""
        return dict(self._accumulator.value) if self._accumulator else {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the seconds that a `with` takes to those of a phase."""
        started = time.perf_counter()
        try:
            yield
        finally:
            took = time.perf_counter() - started
            self._phases[name] = self._phases.get(name, 0.0) + took

    def metrics(self) -> dict[str, Any]:
        """Return the counts, the bytes shuffled (None where Spark does not tell), the seconds.

        `phases` are the seconds of each phase that there was.
        """
        return {
            **self.counts(),
            "shuffleBytes": self._shuffle_bytes(),
            "phases": {name: round(seconds, 3) for name, seconds in self._phases.items()},
            "seconds": round(self._seconds, 3),
        }

    def _shuffle_bytes(self) -> int | None:
        if self._context is None:
            return None
        try:
            store = self._context._jsc.sc().statusStore()
            stages = {stage for job in self._jobs() for stage in job.stageIds}
            return sum(int(store.lastStageAttempt(stage).shuffleWriteBytes()) for stage in stages)
        except (Py4JError, AttributeError):
            return None

    def _jobs(self) -> list[Any]:
        tracker = self._context.statusTracker()
        found = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._group)]
        return [job for job in found if job is not None]

    def _report(self) -> None:
        while not self._stop.wait(_POLL_SECONDS):
            self._tell(int(self._size_bytes * self._fraction()))

    def _tell(self, done: int) -> None:
        if self._progress is not None and done > self._told:
            self._progress(done - self._told)
            self._told = done

    def _fraction(self) -> float:
        tracker = self._context.statusTracker()
        stages = [tracker.getStageInfo(stage) for job in self._jobs() for stage in job.stageIds]
        known = [stage for stage in stages if stage is not None]
        tasks = sum(stage.numTasks for stage in known)
        return sum(stage.numCompletedTasks for stage in known) / tasks if tasks else 0.0


def _context(spark: SparkSession) -> Any:
    try:
        return spark.sparkContext
    except (PySparkException, AttributeError):
        return None
