"""What is the state at one version?"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.config import (
    COMPACTION_READS,
    PROTOCOL_CHECK_ENABLED,
    PROTOCOL_ENFORCE_READER,
    Config,
)
from engine.errors import (
    CorruptCheckpointError,
    EmptyLogError,
    LogGapError,
    LogStartError,
    MissingMetadataError,
    MissingProtocolError,
    MissingSchemaError,
    ReplayError,
    UnreadableLogFileError,
)
from engine.log.listing import Listing, LogDirectory, list_log
from engine.log.segment import Fallback, LogSegment, segment_for
from engine.replay import Progress
from engine.replay.commits import in_commit_timestamp
from engine.replay.docmapping import resolved
from engine.replay.partitions import partition_keys
from engine.replay.predicate import Predicate, parse_predicate
from engine.replay.rules import check_protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from engine.replay.state import State, Totals

# Told of each segment before it is replayed; returns what is then told of the bytes done.
Watch = Callable[[LogSegment], Progress]

# Replays a segment: returns the engine that did it, the state, and what was not done as asked.
Run = Callable[
    [LogSegment, LogDirectory, Config, Progress | None],
    "tuple[str, State, tuple[Fallback, ...]]",
]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of a table at one version; it never changes.

    `fallbacks` names what in the log could not be used on the way, and what was done instead.
    """

    directory: LogDirectory
    segment: LogSegment
    state: State
    engine: str
    config: Config = field(default_factory=Config)
    fallbacks: tuple[Fallback, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def version(self) -> int:
        """The version this is the state of."""
        return self.segment.version

    @property
    def protocol(self) -> Mapping[str, Any]:
        """What a reader and a writer must support."""
        assert self.state.protocol is not None
        return self.state.protocol

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The table's metaData action, in wire names."""
        assert self.state.metadata is not None
        return self.state.metadata

    @property
    def configuration(self) -> Mapping[str, str]:
        """The table's properties."""
        return self.metadata.get("configuration") or {}

    @property
    def partition_columns(self) -> list[str]:
        """The partition columns' logical names."""
        return list(self.metadata.get("partitionColumns") or ())

    @property
    def schema_string(self) -> str:
        """The table's schema as the log has it; raises MissingSchemaError where it has none."""
        text = self.metadata.get("schemaString")
        if not text:
            raise MissingSchemaError(self.directory.url)
        return str(text)

    @property
    def txns(self) -> dict[str, int | None]:
        """The last version each application committed."""
        return {app: txn.get("version") for app, txn in self.state.txns.items()}

    @property
    def domains(self) -> dict[str, str | None]:
        """The configuration of each domain that was not removed."""
        return {
            name: domain.get("configuration")
            for name, domain in self.state.domains.items()
            if not domain.get("removed")
        }

    @property
    def skips(self) -> Mapping[str, Mapping[str, Any]]:
        """The newest skip of each skipped file."""
        return self.state.skips

    def files(self, where: str | None = None) -> pa.Table:
        """Return the live files: the add actions in wire names, and each one's `dvId`.

        `where` is a condition on partition columns, such as `date >= '2024-01-01' and hour = 3`.
        """
        if where is None:
            return self.state.files
        return self.predicate(where).filter(self.state.files)

    def resolved_files(self, where: str | None = None) -> pa.Table:
        """Return the live files, each with the mapping it names in `docMappingJson`.

        Raises MissingDocMappingError where the table does not hold a mapping that is named.
        """
        return resolved(self.files(where), self.configuration, self.directory.url)

    def to_spark(
        self, spark: SparkSession, columns: Sequence[str] | None = None, where: str | None = None
    ) -> DataFrame:
        """Return the live files as a DataFrame, replayed on the cluster when it is used.

        Given `columns`, only those are parsed and shuffled: a count reads no statistics.
        """
        from engine.replay.spark import ReplayFrames, live_files

        predicate = None if where is None else self.predicate(where)
        repeats = self.state.has_repeats
        frames = ReplayFrames(spark, self.segment, self.directory, self.config, has_repeats=repeats)
        return live_files(frames, columns, predicate)

    def tombstones(self) -> pa.Table:
        """Return the removes that won, expired ones included."""
        return self.state.tombstones

    def totals(self) -> Totals:
        """Return the number of live files, their bytes and records, and of tombstones."""
        return self.state.totals()

    def partition_count(self) -> int:
        """Return how many partitions have a live file; 1 for a table without partition columns."""
        keys = partition_keys(self.metadata.get("schemaString"), self.partition_columns)
        maps = self.state.files["partitionValues"]
        values = {
            str(at): pc.map_lookup(maps, pa.scalar(key), "first") for at, key in enumerate(keys)
        }
        if not values:
            return min(1, len(maps))
        return int(pa.table(values).group_by(list(values)).aggregate([]).num_rows)

    def predicate(self, where: str) -> Predicate:
        """Return `where` bound to this table's partition columns and their types."""
        return parse_predicate(where, self.schema_string, self.partition_columns)

    def in_commit_timestamp(self) -> int | None:
        """Return the timestamp that this version's own commit carries, if it carries one."""
        last = self.segment.last_commit
        if last is None:
            return None
        try:
            return in_commit_timestamp(self.directory, last, self.config)
        except UnreadableLogFileError:
            if last in self.segment.commits:
                raise
            return None  # its checkpoint, or a compaction, was read in its place

    def summary(self) -> dict[str, Any]:
        """Return what `txlog replay --json` prints."""
        totals, metadata, segment = self.totals(), self.metadata, self.segment
        checkpoint = segment.checkpoint
        return {
            "table": self.directory.table_url,
            "format": self.directory.log_format.name,
            "version": self.version,
            "protocol": {
                name: self.protocol.get(name)
                for name in (
                    "minReaderVersion",
                    "minWriterVersion",
                    "readerFeatures",
                    "writerFeatures",
                )
            },
            "metadata": {
                "id": metadata.get("id"),
                "name": metadata.get("name"),
                "partitionColumns": self.partition_columns,
                "schemaString": metadata.get("schemaString"),
                "configuration": dict(self.configuration),
                "createdTime": metadata.get("createdTime"),
            },
            "numFiles": totals.num_files,
            "sizeInBytes": totals.size_bytes,
            "numRecords": totals.num_records,
            "numTombstones": totals.num_tombstones,
            "txns": self.txns,
            "domains": self.domains,
            "inCommitTimestamp": self.in_commit_timestamp(),
            "segment": {
                "checkpoint": checkpoint
                and {"version": checkpoint.version, "kind": checkpoint.kind.value},
                "compactions": [[ref.start_version, ref.version] for ref in segment.compactions],
                "commits": len(segment.commits),
                "bytes": segment.size_bytes,
            },
            "fallbacks": [str(fallback) for fallback in self.fallbacks],
            "engine": self.engine,
            "seconds": dict(self.seconds),
            **({"metrics": metrics} if (metrics := self.state.metrics()) else {}),
        }

    def diff(self, newer: Snapshot) -> tuple[pa.Table, pa.Table]:
        """Return the live files that `newer` has and this one has not, and the other way round."""
        mine, theirs = _keys(self.state.files), _keys(newer.state.files)
        added = newer.state.files.filter(pc.invert(pc.is_in(theirs, value_set=mine)))
        removed = self.state.files.filter(pc.invert(pc.is_in(mine, value_set=theirs)))
        return added, removed


def load_snapshot(
    directory: LogDirectory,
    listing: Listing,
    version: int | None,
    run: Run,
    config: Config,
    watch: Watch | None = None,
) -> Snapshot:
    """Replay `version`, or the latest, routing around what is damaged where that is safe.

    An unreadable checkpoint or compaction is left out, reported, and the rest is tried; an
    unreadable commit is an error. What was first found damaged is what is raised when nothing
    sound is left.
    """
    unusable: dict[str, str] = {}
    first_damage: ReplayError | None = None
    started = time.perf_counter()
    for used, segment in _segments(directory, listing, version, unusable, config):
        listed = time.perf_counter()
        try:
            progress = watch and watch(segment)
            name, state, skipped = run(segment, directory, config, progress)
        except UnreadableLogFileError as damage:
            first_damage = first_damage or damage
            culprit = _culprit(segment, damage)
            if culprit is None:
                raise
            where = "" if damage.place == culprit else f"{damage.place}: "
            unusable[culprit] = f"{where}{damage.reason}"
            continue
        return Snapshot(
            directory=directory,
            segment=segment,
            state=complete(state, segment, config),
            engine=name,
            config=config,
            fallbacks=used.fallbacks + segment.fallbacks + skipped,
            seconds={
                "list": round(listed - started, 6),
                "replay": round(time.perf_counter() - listed, 6),
            },
        )
    assert first_damage is not None
    raise first_damage


def complete(state: State, segment: LogSegment, config: Config) -> State:
    """Return the state with a protocol it may be read by; refuse one without metaData."""
    default = segment.log_format.default_protocol
    if state.protocol is None:
        if default is None:
            raise MissingProtocolError(segment.directory, segment.version)
        reader, writer = default
        state = state.with_protocol({"minReaderVersion": reader, "minWriterVersion": writer})
    if config[PROTOCOL_CHECK_ENABLED]:
        check_protocol(
            state.protocol,
            segment.log_format,
            segment.directory,
            by_version=config[PROTOCOL_ENFORCE_READER],
        )
    if state.metadata is None:
        raise MissingMetadataError(segment.directory, segment.version)
    return state


def _segments(
    directory: LogDirectory,
    listing: Listing,
    version: int | None,
    unusable: dict[str, str],
    config: Config,
) -> Iterator[tuple[Listing, LogSegment]]:
    """Yield the segment to try next; ends where what is unusable leaves no other way."""
    while True:
        try:
            segment = segment_for(
                listing.refs,
                version,
                log_format=directory.log_format,
                directory=directory.url,
                unusable=unusable,
                use_compactions=config[COMPACTION_READS],
            )
        except (LogStartError, LogGapError, EmptyLogError):
            if not listing.is_whole:
                listing = replace(list_log(directory), fallbacks=listing.fallbacks)
                continue
            if unusable:
                return
            raise
        yield listing, segment


def _culprit(segment: LogSegment, damage: UnreadableLogFileError) -> str | None:
    """Return the name of the file to do without, or None when it is one we cannot do without."""
    if any(ref.path == damage.path for ref in segment.compactions):
        return damage.path
    if isinstance(damage, CorruptCheckpointError) and segment.checkpoint is not None:
        return segment.checkpoint.name
    return None


def _keys(files: pa.Table) -> pa.ChunkedArray:
    ids = pc.fill_null(files["dvId"], "")
    return pc.binary_join_element_wise(files["path"], ids, "\t")
