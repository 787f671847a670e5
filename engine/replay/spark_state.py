"""What is the state of one version, found on Spark? Sums and single actions now, files when asked.

Nothing that grows with the table comes to the driver: it holds the names of the log's files, the
sums, and the few actions that are one of a kind.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import orjson

from engine.actions import files_schema, tombstones_schema
from engine.replay.local import refuse_headless
from engine.replay.spark import ReplayFrames
from engine.replay.spark_errors import told
from engine.replay.spark_sums import add_up
from engine.replay.state import Totals
from engine.replay.watch import Watched

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.log.segment import LogSegment
    from engine.replay import Progress

_logger: Final = logging.getLogger(__name__)


class SparkReplay:
    """Replays segments on one Spark session."""

    def __init__(
        self,
        spark: SparkSession,
        count: Callable[[Mapping[str, int]], None] | None = None,
    ) -> None:
        self._spark = spark
        self._count = count

    def __call__(
        self,
        segment: LogSegment,
        directory: LogDirectory,
        config: Config,
        progress: Progress | None = None,
    ) -> SparkState:
        """Return the state of a segment: sums and single actions now, files when asked for."""
        with told(), Watched(self._spark, segment.size_bytes, progress) as watched:
            frames = ReplayFrames(self._spark, segment, directory, config, watched.count)
            state = _state(frames, watched)
        metrics = watched.metrics()
        _logger.info("%s at version %d: %s", directory.table_url, segment.version, metrics)
        if self._count is not None:
            self._count(watched.counts())
        return replace(state, counted=metrics)


@dataclass(frozen=True)
class SparkState:
    """The reconciled state of one version, its files still on the cluster."""

    frames: ReplayFrames
    sums: Totals
    protocol: Mapping[str, Any] | None
    metadata: Mapping[str, Any] | None
    txns: Mapping[str, Mapping[str, Any]]
    domains: Mapping[str, Mapping[str, Any]]
    skips: Mapping[str, Mapping[str, Any]]
    counted: Mapping[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> pa.Table:
        """The live files, brought to the driver."""
        wanted = files_schema(self.frames.directory.log_format)
        with told():
            return _arrow(self.frames.files(), wanted)

    @property
    def tombstones(self) -> pa.Table:
        """The tombstones, brought to the driver."""
        wanted = tombstones_schema(self.frames.directory.log_format)
        with told():
            return _arrow(self.frames.tombstones(), wanted)

    def totals(self) -> Totals:
        """Return the sums of the live files, and the number of tombstones."""
        return self.sums

    def metrics(self) -> dict[str, Any]:
        """Return what the job read, reduced and shuffled."""
        return dict(self.counted)

    @property
    def has_repeats(self) -> bool:
        """Whether the checkpoint was found to hold a key more than once."""
        return self.frames.has_repeats

    def with_protocol(self, protocol: Mapping[str, Any]) -> SparkState:
        """Return the same state under another protocol."""
        return replace(self, protocol=protocol)


def _state(frames: ReplayFrames, watched: Watched) -> SparkState:
    """Run the jobs that the sums and the single actions take."""
    with watched.phase("base"):
        _, base = frames.checkpoint
    if frames.segment.checkpoint is not None:
        refuse_headless(base, frames.segment)
    sums = add_up(frames, watched.phase)
    for version, ordinal, kind, _, text in sums.singles:
        base.enter(kind, (version, ordinal), orjson.loads(text))
    total = sums.total
    totals = Totals(
        num_files=total["files"],
        size_bytes=total["size"],
        num_records=total["records"] if total["known"] == total["files"] else None,
        num_tombstones=total["tombstones"],
    )
    return SparkState(
        frames=replace(frames, count=None, has_repeats=sums.has_repeats),
        sums=totals,
        protocol=base.winner("protocol"),
        metadata=base.winner("metaData"),
        txns=base.winners("txn"),
        domains=base.winners("domainMetadata"),
        skips=base.winners("mergeskip"),
    )


def _arrow(frame: DataFrame, wanted: pa.Schema) -> pa.Table:
    table = frame.select(*wanted.names).toArrow()
    return table.cast(wanted)
