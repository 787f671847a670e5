"""Runs the engine that was asked for, or that fits, and falls back where Spark fails."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from engine.errors import DistributedError
from engine.log.segment import Fallback, LogSegment
from engine.replay import Progress, Replay, local, reference
from engine.replay.choice import choose_engine
from engine.replay.heads import sidecars_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.replay.state import State

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines at hand for one question, and which of them was asked for."""

    asked: str = "auto"
    spark: SparkSession | None = None
    count: Callable[[Mapping[str, int]], None] | None = None

    def replay(
        self,
        segment: LogSegment,
        directory: LogDirectory,
        config: Config,
        progress: Progress | None = None,
    ) -> tuple[str, State, tuple[Fallback, ...]]:
        """Return the engine that did it, the state, and what was not done as asked.

        A failure of Spark is not a failure of the log: the local engine takes over. A cluster
        that was never set up for txlog is told to whoever asked for Spark by name.
        """
        spark = self.spark or active_session()
        name, skipped = choose_engine(
            self.asked,
            segment,
            config,
            has_session=spark is not None,
            sidecars=partial(sidecars_of, segment, directory, config),
        )
        if skipped is not None:
            _logger.info("%s", skipped)
        fallbacks = () if skipped is None else (skipped,)
        try:
            state = self._engine(name, spark)(segment, directory, config, progress)
        except DistributedError as error:
            if self.asked == "spark" and error.is_setup:
                raise
            fallback = Fallback("engine", "spark", f"{error.reason}; replayed in this process")
            _logger.warning("%s", fallback)
            state = local.replay(segment, directory, config, progress)
            return "local", state, (*fallbacks, fallback)
        return name, state, fallbacks

    def _engine(self, name: str, spark: SparkSession | None) -> Replay:
        if name == "local":
            return local.replay
        if name == "reference":
            return reference.replay
        if name != "spark":
            raise ValueError(f"unknown engine {name!r}; use auto, local, reference or spark")
        if spark is None:
            raise DistributedError(
                "there is no Spark session; give one with open_log(..., spark=...)", is_setup=True
            )
        from engine.replay.spark_state import SparkReplay

        return SparkReplay(spark, self.count)


def active_session() -> Any:
    """Return the active session, if this program uses Spark at all; never start one."""
    module = sys.modules.get("pyspark.sql")
    return module.SparkSession.getActiveSession() if module is not None else None
