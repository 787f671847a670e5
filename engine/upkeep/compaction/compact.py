"""What of a log is compacted, when, and by whom? From a listing to finished compactions."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from engine.config import (
    COMPACTION_INTERVAL,
    COMPACTION_TILE_BYTES,
    COMPACTION_WRITES,
    ENGINE,
)
from engine.errors import CompactionRefusedError, DistributedError, VersionNotFoundError
from engine.log.paths import FileKind
from engine.replay.choice import choose_engine
from engine.replay.engines import active_session
from engine.upkeep.allowed import refuse_unkept
from engine.upkeep.compaction.local import Local, window_segment
from engine.upkeep.compaction.tiles import Tile, backfill, logged, may_add, widen, window_after
from engine.upkeep.compaction.write import Compacted, Window, compact, repair

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from engine.commit.transaction import Committed
    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.log.paths import TransactionFileRef
    from engine.upkeep.compaction.write import Writer

_logger: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Asked:
    """What to compact: a range, or all that is not compacted yet; and whether to look at what is.

    With `widen`, many narrow compactions in a row get a wide one over them.
    """

    start: int | None = None
    end: int | None = None
    repair: bool = False
    widen: bool = False


def due(refs: Sequence[TransactionFileRef], config: Config) -> list[Tile]:
    """Return the ranges after the newest checkpoint that are not compacted and could be."""
    interval, size = config[COMPACTION_INTERVAL], config[COMPACTION_TILE_BYTES]
    return backfill(logged(refs), interval=interval, tile_bytes=size)


def plan(
    refs: Sequence[TransactionFileRef], asked: Asked, config: Config, directory: str
) -> list[Window]:
    """Return what is to be done, oldest first. Compactions to be looked at have `existing`.

    Raises VersionNotFoundError where a commit of the range is not there, and
    CompactionRefusedError for a range that some reader would be worse off with.
    """
    here = {
        Tile(ref.start_version, ref.version): ref for ref in refs if ref.kind is FileKind.COMPACTION
    }
    if asked.start is not None or asked.end is not None:
        tiles = [_asked_tile(refs, asked, directory, here)]
    else:
        tiles = due(refs, config)
        if asked.widen:
            tiles += widen(logged(refs), tiles, tile_bytes=config[COMPACTION_TILE_BYTES])
        if asked.repair:
            tiles = sorted({*tiles, *here})
    commits = {ref.version: ref for ref in refs if ref.kind is FileKind.COMMIT}
    return [
        Window(tile, tuple(commits[version] for version in tile.versions), here.get(tile))
        for tile in tiles
        if all(version in commits for version in tile.versions)
    ]


@dataclass(frozen=True)
class Compactor:
    """Compacts ranges of one log, each on the engine that fits it."""

    directory: LogDirectory
    config: Config
    now_ms: int
    spark: SparkSession | None = None
    engine: str | None = None
    dry_run: bool = False

    def run(self, windows: Iterable[Window], *, repairing: bool = False) -> list[Compacted]:
        """Compact ranges one after the other; look at what is there where that is asked for.

        Raises CompactionRefusedError where Spark is asked to look: only this process does.
        """
        if repairing and self.engine == "spark":
            raise CompactionRefusedError(
                self.directory.url,
                "compactions are compared and repaired in this process only; "
                "repair without the engine spark, or compact on it without repair",
            )
        return [
            self._repaired(window)
            if repairing and window.existing is not None
            else self._compacted(window, self._writer(window))
            for window in windows
        ]

    def _repaired(self, window: Window) -> Compacted:
        return repair(window, self.directory, self.config, now_ms=self.now_ms, dry_run=self.dry_run)

    def _compacted(self, window: Window, writer: Writer) -> Compacted:
        try:
            return compact(
                window,
                self.directory,
                self.config,
                now_ms=self.now_ms,
                dry_run=self.dry_run,
                writer=writer,
            )
        except DistributedError as error:
            if error.is_setup:
                raise
            _logger.warning("%s; compacted in this process", error)
            return self._compacted(window, Local(self.directory, self.config))

    def _writer(self, window: Window) -> Writer:
        spark = self.spark or active_session()
        segment = window_segment(window.commits, self.directory)
        asked = self.engine or self.config[ENGINE]
        name, _ = choose_engine(asked, segment, self.config, has_session=spark is not None)
        if name != "spark":
            return Local(self.directory, self.config)
        if spark is None:
            raise DistributedError(
                "there is no Spark session; give one with open_log(..., spark=...)", is_setup=True
            )
        from engine.upkeep.compaction.spark import OnSpark

        return OnSpark(spark, self.directory, self.config)


def is_time(version: int, config: Config, properties: Mapping[str, str]) -> bool:
    """Tell whether a commit of this version is one after which the log is compacted."""
    config = with_properties(config, properties)
    if not config[COMPACTION_WRITES] or version <= 0:
        return False
    return version % config[COMPACTION_INTERVAL] == 0


def compact_after(log: Any, done: Committed) -> Compacted | None:
    """Compact the log after a commit, where it is the time: a hook for `log.hooks`.

    What it raises is told beside the commit, which stands.
    """
    view = log._follower.view()
    if not is_time(done.version, log.config, view.configuration):
        return None
    config = with_properties(log.config, view.configuration)
    interval = config[COMPACTION_INTERVAL]
    refuse_unkept(view.protocol, view.metadata, log.directory)
    refs = log.listing().refs
    found = logged([ref for ref in refs if ref.version <= done.version])
    tile = window_after(
        done.version, interval=interval, checkpoint=found.checkpoint, tiles=found.tiles
    )
    if tile is None:
        return None
    windows = plan(refs, Asked(tile.start, tile.end), config, log.directory.url)
    now_ms = log.clock.now_ms()
    return Compactor(log.directory, config, now_ms, log.spark).run(windows)[0]


def with_properties(config: Config, properties: Mapping[str, str]) -> Config:
    """Return the settings with a table's own properties in their place."""
    return config.of_table(properties)


def _asked_tile(
    refs: Sequence[TransactionFileRef],
    asked: Asked,
    directory: str,
    here: Mapping[Tile, TransactionFileRef],
) -> Tile:
    found = logged(refs)
    commits = {ref.version for ref in refs if ref.kind is FileKind.COMMIT}
    start = found.checkpoint + 1 if asked.start is None else asked.start
    end = max(commits, default=-1) if asked.end is None else asked.end
    if end <= start:
        raise CompactionRefusedError(
            directory, f"{start} to {end} is not a range of two commits or more"
        )
    for version in range(start, end + 1):
        if version not in commits:
            earliest, latest = min(commits, default=None), max(commits, default=-1)
            raise VersionNotFoundError(directory, f"commit {version}", earliest, latest)
    tile = Tile(start, end)
    if tile not in here and not may_add(tile, here):
        other = next(t for t in sorted(here) if t.overlaps(tile) and not tile.holds(t))
        raise CompactionRefusedError(
            directory,
            f"a compaction of {tile} would overlap that of {other}, and readers would use "
            "one of them only; choose a range that ends where others end",
        )
    return tile
