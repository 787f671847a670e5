"""The engine on Spark: refs as a DataFrame, parsed on executors, reconciled by a window.

Nothing that grows with the table comes to the driver: it holds the names of the log's files, the
sums, and the few actions that are one of a kind.

    refs ──mapInArrow(parse)──► newest per task ──shuffle by key──► window ──► winners
    checkpoint pieces ──mapInArrow(read)──► left anti (keys of the winners) ──► the rest
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import orjson
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.window import Window

from engine import errors
from engine.actions import files_schema, schema, tombstones_schema
from engine.config import (
    DISTRIBUTED_ADAPTIVE,
    DISTRIBUTED_PARALLELISM,
    MAX_DECOMPRESSED_BYTES,
    Config,
)
from engine.errors import DistributedError, ReplayError
from engine.replay.cache import Generation
from engine.replay.checkpoints import read_checkpoint_file, sidecars
from engine.replay.executor import (
    HISTORY_SCHEMA,
    MARK,
    RANGE_BYTES,
    REFS_SCHEMA,
    Job,
    Piece,
    keep_partitions,
    parse_actions,
    parse_checkpoint,
    parse_history,
    parse_tail,
)
from engine.replay.local import refuse_headless
from engine.replay.plan import balanced, parallelism, split
from engine.replay.rules import NEWEST, STATE_KEYS
from engine.replay.state import Singles, Totals
from engine.replay.watch import Watched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from engine.log.listing import LogDirectory
    from engine.log.paths import TransactionFileRef
    from engine.log.segment import LogSegment
    from engine.replay import Progress
    from engine.replay.predicate import Predicate

# The keys of a tail of this many bytes of log, about a quarter of it, are sent to every executor;
# a longer tail's keys are joined by hash.
BROADCAST_TAIL_BYTES: Final = 64 * 1024 * 1024

_FILES: Final = "file"
_SUMMED: Final = ("files", "tombstones", "size", "records", "known")


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
            state = ReplayFrames(self._spark, segment, directory, config, watched.count).state()
        if self._count is not None:
            self._count(watched.counts())
        return replace(state, counted=watched.metrics())


@dataclass(frozen=True)
class ReplayFrames:
    """The DataFrames of one replay. They are lazy: making them reads nothing but a V2 manifest."""

    spark: SparkSession
    segment: LogSegment
    directory: LogDirectory
    config: Config
    count: Callable[[dict[str, int]], None] | None = None

    @cached_property
    def checkpoint(self) -> tuple[list[TransactionFileRef], Singles]:
        """The files that hold the checkpoint's rows, and its single actions."""
        files: list[TransactionFileRef] = []
        singles = Singles()
        for ref in self.segment.checkpoint.files if self.segment.checkpoint else ():
            files.append(ref)
            for batch in read_checkpoint_file(
                self.directory,
                ref,
                wanted=tuple(STATE_KEYS),
                fields=(),
                limit_bytes=self.config[MAX_DECOMPRESSED_BYTES],
            ):
                singles.take(batch)
                files += sidecars(batch, ref.version)
        return files, singles

    def winners(self, fields: tuple[str, ...] | None = None) -> DataFrame:
        """Return the newest action of every key after the checkpoint."""
        pieces = [part for ref in self.segment.tail for part in split(ref, RANGE_BYTES)]
        rows = self._map(pieces, partial(parse_tail, job=self._job(fields)), self._schema(fields))
        return newest(rows)

    def files(self, fields: tuple[str, ...] | None = None) -> DataFrame:
        """Return the live files: the fields of `add`, `dvId`, and `records`."""
        return self._live(fields).select("add.*", "dvId", "records")

    def tombstones(self) -> DataFrame:
        """Return the removes that won: the fields of `remove`, and `dvId`."""
        return self._of_kind("remove", None).select("remove.*", "dvId")

    def actions(self) -> DataFrame:
        """Return every VersionedAction of the segment's commits."""
        pieces = [Piece(ref) for ref in self.segment.tail]
        job = self._job(None)
        return self._map(pieces, partial(parse_actions, job=job), schema(self.directory.log_format))

    def history(self) -> DataFrame:
        """Return what each of the segment's commits says of itself."""
        pieces = [Piece(ref) for ref in self.segment.commits]
        return self._map(pieces, partial(parse_history, job=self._job(None)), HISTORY_SCHEMA)

    def changes(self) -> DataFrame:
        """Return the file actions of the segment's commits, one a row, as they were committed."""
        is_add = F.col("add").isNotNull()
        both = [
            F.coalesce(f"add.{name}", f"remove.{name}").alias(name)
            for name in ("path", "partitionValues", "size", "dataChange")
        ]
        return (
            self.actions()
            .where(is_add | F.col("remove").isNotNull())
            .select(
                "version",
                "ordinal",
                F.when(is_add, F.lit("add")).otherwise(F.lit("remove")).alias("change"),
                *both,
            )
        )

    def state(self) -> SparkState:
        """Run a job for the tail, and one for the checkpoint: the sums, and the single actions."""
        stats = ("size", "stats", "numRecords")
        _, base = self.checkpoint
        tail = self.winners(stats)
        if self.segment.checkpoint is None:
            sums = [_sums(tail)]
        else:
            refuse_headless(base, self.segment)
            # Parsed once: by the first job, which leaves the second its keys.
            tail.persist()
            try:
                sums = [_sums(rows) for rows in (tail, self._untouched(stats, tail))]
            finally:
                tail.unpersist()
        for single in [single for found in sums for single in found["singles"]]:
            position = (single["version"], single["ordinal"])
            base.enter(single["kind"], position, orjson.loads(single["single"]))
        total = {name: sum(int(found[name] or 0) for found in sums) for name in _SUMMED}
        all_known = total["known"] == total["files"]
        totals = Totals(
            num_files=total["files"],
            size_bytes=total["size"],
            num_records=total["records"] if all_known else None,
            num_tombstones=total["tombstones"],
        )
        return SparkState(
            frames=replace(self, count=None),
            sums=totals,
            protocol=base.winner("protocol"),
            metadata=base.winner("metaData"),
            txns=base.winners("txn"),
            domains=base.winners("domainMetadata"),
            skips=base.winners("mergeskip"),
        )

    def _live(self, fields: tuple[str, ...] | None) -> DataFrame:
        return self._of_kind("add", fields)

    def _of_kind(self, kind: str, fields: tuple[str, ...] | None) -> DataFrame:
        tail = self.winners(fields)
        found = tail.where(F.col(kind).isNotNull())
        if self.segment.checkpoint is None:
            return found
        untouched = self._untouched(fields, tail).where(F.col(kind).isNotNull())
        return untouched.unionByName(found)

    def _untouched(self, fields: tuple[str, ...] | None, tail: DataFrame) -> DataFrame:
        """Return the checkpoint's rows whose key no later action names. They are not shuffled."""
        files, _ = self.checkpoint
        pieces = [part for ref in files for part in split(ref, RANGE_BYTES)]
        rows = self._map(
            pieces, partial(parse_checkpoint, job=self._job(fields)), self._schema(fields)
        )
        if not self.segment.tail:
            return rows
        keys = tail.where(F.col("kind") == _FILES).select(
            _key().alias("tailKey"), F.coalesce("dvId", F.lit("")).alias("tailDv")
        )
        is_small = sum(ref.size for ref in self.segment.tail) <= BROADCAST_TAIL_BYTES
        keys = F.broadcast(keys) if is_small else keys.hint("shuffle_hash")
        same = (_key() == keys["tailKey"]) & (F.coalesce("dvId", F.lit("")) == keys["tailDv"])
        return rows.join(keys, same, "left_anti")

    def _map(self, pieces: Sequence[Piece], function: partial[Any], wanted: pa.Schema) -> DataFrame:
        """Spread pieces over tasks, evenly by bytes, and run `function` on each task's refs."""
        # By this name Spark's plans and its UI call it.
        function.__name__ = function.func.__name__  # type: ignore[attr-defined]
        bins = balanced(pieces, self._tasks(pieces))
        rows = [piece.row(task) for task, members in enumerate(bins) for piece in members]
        refs = self.spark.createDataFrame(pa.Table.from_pylist(rows, REFS_SCHEMA))
        spread = refs.repartitionById(len(bins), F.col("task"))
        return spread.mapInArrow(function, from_arrow_schema(wanted))

    def _tasks(self, pieces: Sequence[Piece]) -> int:
        cores = self.config[DISTRIBUTED_PARALLELISM] or _default_parallelism(self.spark)
        if not self.config[DISTRIBUTED_ADAPTIVE]:
            return max(1, cores)
        return parallelism(len(pieces), sum(piece.size_bytes for piece in pieces), cores)

    def _job(self, fields: tuple[str, ...] | None) -> Job:
        generation = Generation.of(self.directory.table_url)
        return Job(self.directory, self.config, fields, generation, self.count)

    def _schema(self, fields: tuple[str, ...] | None) -> pa.Schema:
        return self._job(fields).schema


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

    def with_protocol(self, protocol: Mapping[str, Any]) -> SparkState:
        """Return the same state under another protocol."""
        return replace(self, protocol=protocol)


def start_session() -> SparkSession:
    """Return the session of this program, starting a quiet one on this machine where none runs."""
    return (
        SparkSession.builder.appName("txlog")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )


def live_files(
    spark: SparkSession,
    segment: LogSegment,
    directory: LogDirectory,
    config: Config,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
) -> DataFrame:
    """Return the live files of a segment as a DataFrame, with `columns` only where given."""
    wanted = files_schema(directory.log_format)
    for name in columns or ():
        if name not in wanted.names:
            raise ValueError(f"unknown column {name!r}; use {', '.join(wanted.names)}")
    needed = None if columns is None else {*columns, *(("partitionValues",) if predicate else ())}
    fields = None if needed is None else tuple(sorted(needed))
    frames = ReplayFrames(spark, segment, directory, config)
    files = frames.files(fields)
    if predicate is not None:
        files = files.mapInArrow(partial(keep_partitions, predicate=predicate), files.schema)
    return files.select(*(wanted.names if columns is None else columns))


def newest(actions: DataFrame) -> DataFrame:
    """Keep the newest action of each key."""
    order = [F.desc(name) for name in NEWEST]
    window = Window.partitionBy("kind", _key(), F.coalesce("dvId", F.lit(""))).orderBy(*order)
    ranked = actions.withColumn("rank", F.row_number().over(window))
    return ranked.where(F.col("rank") == 1).drop("rank")


@contextmanager
def told() -> Iterator[None]:
    """Turn what Spark makes of an executor's error back into that error, or into one line."""
    try:
        yield
    except ReplayError:
        raise
    except (PySparkException, Py4JError) as error:
        raise explained(error) from error


def explained(error: BaseException) -> ReplayError:
    """Return the ReplayError that a failed Spark job stands for."""
    text = str(error)
    at = text.find(MARK)
    if at >= 0:
        return _revived(text[at + len(MARK) :])
    if "No module named 'engine'" in text:
        return DistributedError(
            "the executors cannot import txlog: ship it with --py-files (make dist builds the "
            "wheel), or install txlog-engine where they run",
            is_setup=True,
        )
    return DistributedError(_first_reason(text) or type(error).__name__)


def _revived(text: str) -> ReplayError:
    told_of, _ = json.JSONDecoder().raw_decode(text)
    kind = getattr(errors, told_of["type"], ReplayError)
    error: ReplayError = kind.__new__(kind)
    Exception.__init__(error, told_of["message"])
    for name, value in told_of["fields"].items():
        setattr(error, name, value)
    return error


def _first_reason(text: str) -> str:
    # What Python raised says more than what Spark made of it.
    raised = text[max(text.find("Traceback"), 0) :]
    reasons = re.findall(r"^(?:: )?(?:\w+\.)*(\w*(?:Error|Exception): .+)$", raised, re.MULTILINE)
    line = reasons[0] if reasons else next(iter(text.strip().splitlines()), "")
    return line[:300]


def _key() -> Column:
    return F.coalesce("key", F.col("add.path"), F.col("remove.path"))


def _sums(rows: DataFrame) -> Row:
    """Run a job for the sums of file actions, and the single actions among them."""
    is_add = F.col("add").isNotNull()
    single = F.struct("kind", "version", "ordinal", "single")
    # In 64 bits a sum of bytes may wrap, or raise under ANSI.
    wide = "decimal(20,0)"
    return rows.agg(
        F.count_if(is_add).alias("files"),
        F.count_if(F.col("remove").isNotNull()).alias("tombstones"),
        F.sum(F.when(is_add, F.col("add.size").cast(wide))).alias("size"),
        F.sum(F.when(is_add, F.col("records").cast(wide))).alias("records"),
        F.count_if(is_add & F.col("records").isNotNull()).alias("known"),
        F.collect_list(F.when(F.col("kind") != _FILES, single)).alias("singles"),
    ).collect()[0]


def _default_parallelism(spark: SparkSession) -> int:
    try:
        return int(spark.sparkContext.defaultParallelism)
    except (PySparkException, AttributeError, NotImplementedError):
        # Spark Connect does not tell; its shuffle width is the next best guess.
        return int(spark.conf.get("spark.sql.shuffle.partitions") or 8)


def _arrow(frame: DataFrame, wanted: pa.Schema) -> pa.Table:
    table = frame.select(*wanted.names).toArrow()
    return table.cast(wanted)
