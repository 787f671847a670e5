"""What was asked for? Every setting: its key, default, unit, what it allows, and who set it.

A value comes from the nearest place that has it: call option, Spark session, table property,
conf file, default. A new setting is one line in the table below.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from engine.errors import ConfFileError, ConfigError, UnknownKeyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """How a value is written. `parse` raises ValueError for what `allowed` does not describe."""

    parse: Callable[[object], T]
    allowed: str


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """One key that someone may set. `doc` says what it does, and its unit."""

    key: str
    kind: Kind[T]
    default: T
    doc: str

    def parse(self, value: object, source: str) -> T:
        """Return `value` as this setting's type.

        Raises:
            ConfigError: the value is not allowed.
        """
        try:
            return self.kind.parse(value)
        except ValueError:
            raise ConfigError(self.key, value, self.kind.allowed, source) from None


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of one table, nearest layer first. Values in `session` and `table` are text.

    A key that no setting has is refused in `options` and in `file`, which are written for txlog,
    and ignored in `session` and `table`, which others share. `file` and `options` are checked at
    birth; `session` and `table` when a value is asked for.
    """

    options: Mapping[str, object] = field(default_factory=dict)
    session: Mapping[str, str] = field(default_factory=dict)
    table: Mapping[str, str] = field(default_factory=dict)
    file: Mapping[str, object] = field(default_factory=dict)
    file_path: str = ""

    def __post_init__(self) -> None:
        for source, layer in (("call option", self.options), (self.file_path, self.file)):
            for key, value in layer.items():
                _known(key, source).parse(value, source)

    def __getitem__(self, setting: Setting[T]) -> T:
        """Return the value of `setting`.

        Raises:
            ConfigError: the nearest place that has it has a value that is not allowed.
        """
        for source, layer in self._layers():
            if setting.key in layer:
                return setting.parse(layer[setting.key], source)
        return setting.default

    def source(self, setting: Setting[Any]) -> str:
        """Return where the value of `setting` comes from, in words."""
        return next((source for source, layer in self._layers() if setting.key in layer), "default")

    def of_table(self, properties: Mapping[str, str] | None) -> Config:
        """Return the settings with a table's own properties in their place."""
        return replace(self, table={**self.table, **(properties or {})})

    @classmethod
    def from_toml(cls, path: str | Path, **layers: Mapping[str, Any]) -> Config:
        """Return the settings of a conf file, under the nearer `layers`.

        Raises:
            ConfigError: the file cannot be read, or holds a key or value that is not allowed.
        """
        return cls(file=_read_toml(Path(path)), file_path=str(path), **layers)

    def _layers(self) -> Iterator[tuple[str, Mapping[str, object]]]:
        yield "call option", self.options
        yield "Spark session", self.session
        yield "table property", self.table
        yield self.file_path or "conf file", self.file


# --- kinds of values ---------------------------------------------------------------------------


def count(minimum: int = 0, maximum: int = 2**63 - 1) -> Kind[int]:
    """Return the kind for a whole number in a range."""

    def parse(value: object) -> int:
        if not re.fullmatch(r"[+-]?\d+", str(value).strip()):
            raise ValueError(value)
        return _bounded(int(str(value)), minimum, maximum)

    most = "" if maximum == 2**63 - 1 else f" to {maximum}"
    return Kind(parse, f"a whole number, {minimum}{most or ' or more'}")


def choice(*names: str) -> Kind[str]:
    """Return the kind for one of a few words, in any case."""

    def parse(value: object) -> str:
        if str(value).lower() not in names:
            raise ValueError(value)
        return str(value).lower()

    return Kind(parse, "one of " + ", ".join(names))


def parse_boolean(value: object) -> bool:
    """Return true or false, as written by Spark, TOML or Python."""
    text = str(value).strip().lower()
    if text not in {"true", "false"}:
        raise ValueError(value)
    return text == "true"


def parse_size(value: object) -> int:
    """Return a size in bytes, from a number of bytes or text such as `64m` or `1 GiB`."""
    match = re.fullmatch(r"(\d+)\s*(?:([kmgt])i?)?b?", str(value).strip().lower())
    if not match:
        raise ValueError(value)
    return _bounded(int(match[1]) * 1024 ** ("kmgt".index(match[2]) + 1 if match[2] else 0))


def parse_limit(value: object) -> int:
    """Return a size in bytes; 0, which stands for no limit, for a negative number."""
    text = str(value).strip()
    return 0 if re.fullmatch(r"-\d+", text) else parse_size(text)


def parse_interval(value: object) -> int:
    """Return the milliseconds of a Delta interval, such as `interval 30 days` or `1 week 12 hours`.

    Months and years are refused, as Delta does: they have no fixed length.
    """
    text = str(value).strip().lower()
    if not re.fullmatch(rf"(?:interval\s+)?{_TERM}(?:\s+{_TERM})*", text):
        raise ValueError(value)
    microseconds = sum(int(n) * _UNIT_MICROSECONDS[unit] for n, unit in re.findall(_TERM, text))
    return _bounded(microseconds // 1000)


def parse_milliseconds(value: object) -> int:
    """Return a duration given as a bare number of milliseconds, or as an interval."""
    text = str(value).strip()
    return _bounded(int(text)) if text.isdecimal() else parse_interval(text)


BOOLEAN: Final = Kind(parse_boolean, "true or false")
SIZE: Final = Kind(parse_size, "a number of bytes, or text such as 64m or 1g")
LIMIT: Final = Kind(parse_limit, "a number of bytes, or text such as 64m or 1g; 0 or less is none")
INTERVAL: Final = Kind(parse_interval, "an interval such as 'interval 30 days', with its unit")
MILLISECONDS: Final = Kind(parse_milliseconds, "milliseconds, or an interval such as '30 days'")

_UNIT_MICROSECONDS: Final = {
    "week": 604_800_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_TERM: Final = rf"(\d+)\s+({'|'.join(_UNIT_MICROSECONDS)})s?"

MOST_COOLDOWN_HOURS: Final = 24 * 366 * 100

# --- the table ---------------------------------------------------------------------------------
# One entry a setting. The names users know are kept; what is only ours is under `spark.txlog`.
# fmt: off
ENGINE: Final = Setting(
    "spark.txlog.engine", choice("auto", "local", "spark", "reference"), default="auto",
    doc="which engine replays; auto takes Spark only for logs that outgrow one machine")
DISTRIBUTED_ENABLED: Final = Setting(
    "spark.indextables.transaction.distributed.enabled", BOOLEAN, default=True,
    doc="let auto choose Spark")
DISTRIBUTED_MIN_FILES: Final = Setting(
    "spark.indextables.transaction.distributed.minFiles", count(1), default=10,
    doc="fewest log files for which auto chooses Spark; minBytes must hold too")
DISTRIBUTED_MIN_BYTES: Final = Setting(
    "spark.indextables.transaction.distributed.minBytes", SIZE, default=256 * 1024**2,
    doc="fewest bytes of log for which auto chooses Spark; minFiles must hold too")
DISTRIBUTED_PARALLELISM: Final = Setting(
    "spark.indextables.transaction.distributed.parallelism", count(), default=0,
    doc="tasks of a Spark replay; 0 means Spark's default parallelism")
DISTRIBUTED_ADAPTIVE: Final = Setting(
    "spark.indextables.transaction.distributed.adaptiveParallelism", BOOLEAN, default=True,
    doc="fit the tasks of a Spark replay to the number of log files")
CHECKPOINT_PARALLELISM: Final = Setting(
    "spark.indextables.checkpoint.parallelism", count(1), default=4,
    doc="threads that read and parse in the calling process")
READ_TIMEOUT_SECONDS: Final = Setting(
    "spark.indextables.checkpoint.read.timeoutSeconds", count(1), default=30,
    doc="seconds to wait for a storage to answer one request")
MAX_CONCURRENT_READS: Final = Setting(
    "spark.indextables.transaction.maxConcurrentReads", count(1), default=32,
    doc="files read from a remote storage at once")
PROTOCOL_CHECK_ENABLED: Final = Setting(
    "spark.indextables.protocol.checkEnabled", BOOLEAN, default=True,
    doc="refuse tables that ask for a newer reader; false reads them at your own risk")
PROTOCOL_ENFORCE_READER: Final = Setting(
    "spark.indextables.protocol.enforceReaderVersion", BOOLEAN, default=True,
    doc="hold the reader version against a read; false looks at the listed features only")
PROTOCOL_ENFORCE_WRITER: Final = Setting(
    "spark.indextables.protocol.enforceWriterVersion", BOOLEAN, default=True,
    doc="hold the writer version against a commit; false looks at the listed features only")
PROTOCOL_AUTO_UPGRADE: Final = Setting(
    "spark.indextables.protocol.autoUpgrade", BOOLEAN, default=True,
    doc="let a commit that needs it raise the protocol of a _transaction_log")
MAX_DECOMPRESSED_BYTES: Final = Setting(
    "spark.txlog.read.maxDecompressedBytes", SIZE, default=1024**3,
    doc="most bytes one compressed log file may unpack to")
STORAGE_MAX_ATTEMPTS: Final = Setting(
    "spark.txlog.storage.maxAttempts", count(1, 100), default=6,
    doc="tries of one storage request before its failure is reported")
COMPRESSION_ENABLED: Final = Setting(
    "spark.indextables.transaction.compression.enabled", BOOLEAN, default=True,
    doc="compress new commits of _transaction_log; commits of _delta_log never are")
COMPRESSION_CODEC: Final = Setting(
    "spark.indextables.transaction.compression.codec",
    choice("gzip", "zstd", "lz4", "snappy", "none"), default="gzip",
    doc="how they are compressed; engines older than txlog read only gzip and none")
GZIP_LEVEL: Final = Setting(
    "spark.indextables.transaction.compression.gzip.level", count(0, 9), default=6,
    doc="0 is fastest, 9 smallest")
COMPRESSION_MIN_BYTES: Final = Setting(
    "spark.txlog.transaction.compression.minBytes", SIZE, default=1024,
    doc="smaller log files stay plain, whatever the codec")
CHECKPOINT_COMPRESSION_ENABLED: Final = Setting(
    "spark.indextables.checkpoint.compression.enabled", BOOLEAN, default=True,
    doc="compress JSON checkpoints of _transaction_log, by the same codec")
RETRY_MAX_ATTEMPTS: Final = Setting(
    "spark.indextables.transaction.retry.maxAttempts", count(1, 1000), default=10,
    doc="tries of a commit that other writers got ahead of")
RETRY_BASE_DELAY_MS: Final = Setting(
    "spark.indextables.transaction.retry.baseDelayMs", count(0), default=100,
    doc="milliseconds before the second try; doubled for each one after, with jitter")
RETRY_MAX_DELAY_MS: Final = Setting(
    "spark.indextables.transaction.retry.maxDelayMs", count(0), default=5000,
    doc="most milliseconds between two tries")
CACHE_ENABLED: Final = Setting(
    "spark.indextables.transaction.cache.enabled", BOOLEAN, default=True,
    doc="keep what was read of a log, and read only what is new of it")
CACHE_EXPIRATION_SECONDS: Final = Setting(
    "spark.indextables.transaction.cache.expirationSeconds", count(0), default=0,
    doc="seconds for which every cache keeps what it has; 0 leaves each its own time")
CACHE_TTL_MS: Final = Setting(
    "spark.indextables.transaction.cache.ttl.ms", count(1), default=300_000,
    doc="milliseconds for which the list of versions is kept after it was last looked at")
CACHE_LOG_TTL: Final = Setting(
    "spark.indextables.cache.log.ttl", count(0), default=5,
    doc="minutes for which commits that were read are kept")
CACHE_LOG_SIZE: Final = Setting(
    "spark.indextables.cache.log.size", count(1), default=1000,
    doc="most entries of that cache")
CACHE_LOG_TTL_MS: Final = Setting(
    "spark.indextables.transaction.cache.version.ttl.ms", count(0), default=0,
    doc="the same in milliseconds; 0 leaves it to cache.log.ttl")
CACHE_LOG_CAPACITY: Final = Setting(
    "spark.indextables.transaction.cache.version.capacity", count(0), default=0,
    doc="most entries of that cache; 0 leaves it to cache.log.size")
CACHE_SNAPSHOT_TTL: Final = Setting(
    "spark.indextables.cache.snapshot.ttl", count(0), default=10,
    doc="minutes for which older versions are kept")
CACHE_SNAPSHOT_SIZE: Final = Setting(
    "spark.indextables.cache.snapshot.size", count(1), default=100,
    doc="most entries of that cache")
CACHE_SNAPSHOT_TTL_MS: Final = Setting(
    "spark.indextables.transaction.cache.snapshot.ttl.ms", count(0), default=0,
    doc="the same in milliseconds; 0 leaves it to cache.snapshot.ttl")
CACHE_SNAPSHOT_CAPACITY: Final = Setting(
    "spark.indextables.transaction.cache.snapshot.capacity", count(0), default=0,
    doc="most entries of that cache; 0 leaves it to cache.snapshot.size")
CACHE_FILES_TTL: Final = Setting(
    "spark.indextables.cache.filelist.ttl", count(0), default=2,
    doc="minutes for which the latest files are kept after they were last looked at")
CACHE_FILES_SIZE: Final = Setting(
    "spark.indextables.cache.filelist.size", count(1), default=50,
    doc="most entries of that cache")
CACHE_FILES_TTL_MS: Final = Setting(
    "spark.indextables.transaction.cache.fileList.ttl.ms", count(0), default=0,
    doc="the same in milliseconds; 0 leaves it to cache.filelist.ttl")
CACHE_FILES_CAPACITY: Final = Setting(
    "spark.indextables.transaction.cache.fileList.capacity", count(0), default=0,
    doc="most entries of that cache; 0 leaves it to cache.filelist.size")
CACHE_METADATA_TTL: Final = Setting(
    "spark.indextables.cache.metadata.ttl", count(0), default=30,
    doc="minutes for which protocol and metadata are kept after they were last looked at")
CACHE_METADATA_SIZE: Final = Setting(
    "spark.indextables.cache.metadata.size", count(1), default=100,
    doc="most entries of that cache")
CACHE_METADATA_TTL_MS: Final = Setting(
    "spark.indextables.transaction.cache.metadata.ttl.ms", count(0), default=0,
    doc="the same in milliseconds; 0 leaves it to cache.metadata.ttl")
CACHE_CHECKPOINT_TTL: Final = Setting(
    "spark.indextables.cache.checkpoint.ttl", count(0), default=5,
    doc="minutes for which states at checkpoints are kept")
CACHE_CHECKPOINT_SIZE: Final = Setting(
    "spark.indextables.cache.checkpoint.size", count(1), default=200,
    doc="most entries of that cache")
CACHE_MAX_BYTES: Final = Setting(
    "spark.txlog.cache.maxBytes", SIZE, default=512 * 1024**2,
    doc="most bytes that each cache of commits, checkpoints and older versions keeps")
MAX_STALENESS_MS: Final = Setting(
    "spark.indextables.snapshot.maxStaleness", MILLISECONDS, default=0,
    doc="milliseconds for which a reader takes what it knows for the latest, without looking")
SKIP_COOLDOWN_HOURS: Final = Setting(
    "spark.indextables.skippedFiles.cooldownDuration", count(0, MOST_COOLDOWN_HOURS), default=24,
    doc="hours before a skipped file is tried again")
SKIP_TRACKING_ENABLED: Final = Setting(
    "spark.indextables.skippedFiles.trackingEnabled", BOOLEAN, default=True,
    doc="write skips to the log")
STATS_TRUNCATION_ENABLED: Final = Setting(
    "spark.indextables.stats.truncation.enabled", BOOLEAN, default=True,
    doc="cut long minima and maxima in checkpoints and repaired logs of _transaction_log")
STATS_MAX_LENGTH: Final = Setting(
    "spark.indextables.stats.truncation.maxLength", count(1), default=32,
    doc="characters that are left of them; partition columns and numbers stay whole")
COMPACTION_READS: Final = Setting(
    "spark.databricks.delta.deltaLog.minorCompaction.useForReads", BOOLEAN, default=True,
    doc="read log compactions in place of the commits they cover")
CHECKPOINT_ENABLED: Final = Setting(
    "spark.indextables.checkpoint.enabled", BOOLEAN, default=True,
    doc="write a checkpoint after a commit when one is due")
CHECKPOINT_INTERVAL: Final = Setting(
    "spark.indextables.checkpoint.interval", count(1), default=10,
    doc="versions from one checkpoint of _transaction_log to the next")
CHECKPOINT_BACKGROUND: Final = Setting(
    "spark.indextables.checkpoint.background", BOOLEAN, default=False,
    doc="write them in the background, so that a commit does not wait")
CHECKPOINT_FORMAT: Final = Setting(
    "spark.indextables.checkpoint.format", choice("parquet", "json"), default="parquet",
    doc="Parquet in _checkpoints, or the JSON lines that engines older than txlog read")
CHECKPOINT_CODEC: Final = Setting(
    "spark.indextables.checkpoint.compression",
    choice("zstd", "snappy", "gzip", "lz4", "none"), default="zstd",
    doc="how Parquet checkpoints of either format are compressed")
CHECKPOINT_MAX_FILE_SIZE: Final = Setting(
    "spark.indextables.checkpoint.maxFileSize", SIZE, default=128 * 1024**2,
    doc="bytes beyond which a Parquet checkpoint of _transaction_log has parts")
CHECKPOINT_MULTI_PART: Final = Setting(
    "spark.indextables.checkpoint.multiPart.enabled", BOOLEAN, default=True,
    doc="let a checkpoint of _transaction_log have parts")
CHECKPOINT_ACTIONS_PER_PART: Final = Setting(
    "spark.indextables.checkpoint.actionsPerPart", count(1), default=100_000,
    doc="actions beyond which a JSON checkpoint of _transaction_log has parts")
CHECKPOINT_PART_SIZE: Final = Setting(
    "spark.databricks.delta.checkpoint.partSize", count(), default=0,
    doc="actions of one part of a _delta_log checkpoint; 0 means one file, or 50,000 a sidecar")
CHECKPOINT_V2_FORMAT: Final = Setting(
    "spark.databricks.delta.checkpointV2.topLevelFileFormat", choice("json", "parquet"),
    default="parquet", doc="the manifest of a V2 checkpoint")
CHECKSUM_WRITES: Final = Setting(
    "spark.databricks.delta.writeChecksumFile.enabled", BOOLEAN, default=False,
    doc="write a version checksum (.crc) beside each commit to _delta_log")
STAGING_RETENTION_MS: Final = Setting(
    "spark.txlog.staging.retention", MILLISECONDS, default=24 * 3600 * 1000,
    doc="milliseconds after which what an unfinished run left behind may go")
DELTA_CHECKPOINT_INTERVAL: Final = Setting(
    "delta.checkpointInterval", count(1), default=10,
    doc="versions from one checkpoint of _delta_log to the next")
CHECKPOINT_POLICY: Final = Setting(
    "delta.checkpointPolicy", choice("classic", "v2"), default="classic",
    doc="which checkpoints a table wants")
STATS_AS_JSON: Final = Setting(
    "delta.checkpoint.writeStatsAsJson", BOOLEAN, default=True,
    doc="checkpoints hold statistics as JSON text")
STATS_AS_STRUCT: Final = Setting(
    "delta.checkpoint.writeStatsAsStruct", BOOLEAN, default=False,
    doc="checkpoints hold statistics and partition values as typed columns")
INDEXED_COLUMNS: Final = Setting(
    "delta.dataSkippingNumIndexedCols", count(-1), default=32,
    doc="how many leading columns have statistics; -1 means all")
TOMBSTONE_RETENTION_MS: Final = Setting(
    "delta.deletedFileRetentionDuration", INTERVAL, default=7 * 24 * 3600 * 1000,
    doc="how long a checkpoint carries the tombstone of a removed file")
TXN_RETENTION_MS: Final = Setting(
    "delta.setTransactionRetentionDuration", INTERVAL, default=0,
    doc="how long a checkpoint carries an application's txn; not set means for ever")
PROTECTED_BEFORE: Final = Setting(
    "delta.requireCheckpointProtectionBeforeVersion", count(), default=0,
    doc="no checkpoint below this version; a property that the table's writers set")
COMPACTION_WRITES: Final = Setting(
    "spark.databricks.delta.deltaLog.minorCompaction.useForWrites", BOOLEAN, default=True,
    doc="compact the log after every so many commits; see delta.logCompactionInterval")
COMPACTION_MAX_WINDOW_BYTES: Final = Setting(
    "spark.databricks.delta.deltaLog.minorCompaction.maxWindowSizeBytes", LIMIT, default=0,
    doc="most bytes of commits that one log compaction may stand for; 0 sets no limit")
COMPACTION_INTERVAL: Final = Setting(
    "delta.logCompactionInterval", count(2), default=5,
    doc="commits between two log compactions; a table property")
COMPACTION_FORMAT: Final = Setting(
    "spark.txlog.compaction.format", choice("parquet", "json"), default="parquet",
    doc="how log compactions of _transaction_log are written; those of _delta_log are always JSON")
COMPACTION_TILE_BYTES: Final = Setting(
    "spark.txlog.compaction.tileBytes", SIZE, default=32 * 1024**2,
    doc="about how many bytes of commits each compaction of older history stands for")
LOG_RETENTION: Final = Setting(
    "delta.logRetentionDuration", INTERVAL, default=30 * 86_400_000,
    doc="how long a version can be read after it was replaced; a table property")
EXPIRED_LOG_CLEANUP: Final = Setting(
    "delta.enableExpiredLogCleanup", BOOLEAN, default=True,
    doc="let a cleanup delete what is older than that; a table property")
LOG_RETENTION_MS: Final = Setting(
    "spark.indextables.logRetention.duration", MILLISECONDS, default=30 * 86_400_000,
    doc="how long commits are kept; if delta.logRetentionDuration is set too, the longer counts")
CHECKPOINT_RETENTION_MS: Final = Setting(
    "spark.indextables.checkpointRetention.duration", MILLISECONDS, default=7_200_000,
    doc="how long a checkpoint is kept after a newer one could replace it")
CHECKPOINT_RETENTION_VERSIONS: Final = Setting(
    "spark.indextables.checkpoint.retention", count(), default=30,
    doc="versions before the newest checkpoint that stay readable; in _delta_log only where set")
CLEANUP_ENABLED: Final = Setting(
    "spark.indextables.cleanup.enabled", BOOLEAN, default=True,
    doc="let a cleanup delete anything at all")
CLEANUP_FAILURE_POLICY: Final = Setting(
    "spark.indextables.cleanup.failurePolicy", choice("continue", "fail"), default="continue",
    doc="what a file that cannot be deleted does to a cleanup: it is reported, or it is an error")
IN_COMMIT_TIMESTAMPS: Final = Setting(
    "delta.enableInCommitTimestamps", BOOLEAN, default=False,
    doc="commits carry their own timestamp; a property that the table's writers set")
IN_COMMIT_TIMESTAMPS_VERSION: Final = Setting(
    "delta.inCommitTimestampEnablementVersion", count(), default=0,
    doc="first version that carries its own timestamp; a property that the table's writers set")
# fmt: on
SETTINGS: Final[Mapping[str, Setting[Any]]] = {
    setting.key: setting for setting in list(globals().values()) if isinstance(setting, Setting)
}


def default_toml() -> str:
    """Return the text of a conf file that sets every key to its default, and explains it."""
    lines = [
        "# txlog's settings, each at its default. Change what you need, delete the rest.",
        "# Nearer places win over this file: call option, Spark session, table property.",
    ]
    for setting in SETTINGS.values():
        if not setting.key.startswith("delta."):
            lines += ["", f"# {setting.doc}", f"# allowed: {setting.kind.allowed}"]
            lines += [f"{json.dumps(setting.key)} = {json.dumps(setting.default)}"]
    return "\n".join(lines) + "\n"


def _known(key: str, source: str) -> Setting[Any]:
    if key in SETTINGS:
        return SETTINGS[key]
    near = difflib.get_close_matches(key, SETTINGS, n=1)
    allowed = f"did you mean {near[0]}?" if near else "conf/txlog.toml has all there are"
    raise UnknownKeyError(key, allowed, source)


def _bounded(number: int, minimum: int = 0, maximum: int = 2**63 - 1) -> int:
    if not minimum <= number <= maximum:
        raise ValueError(number)
    return number


def _read_toml(path: Path) -> dict[str, object]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return dict(_flattened("", tomllib.loads(path.read_text(encoding="utf-8"))))
    except OSError as error:
        raise ConfFileError(str(path), str(error.strerror), "a readable file") from None
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise ConfFileError(str(path), reason, "a TOML file") from None


def _flattened(prefix: str, table: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    # An unquoted `spark.a.b = 1` nests in TOML; users write it as they know it from Spark.
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flattened(f"{prefix}{key}.", value)
        else:
            yield f"{prefix}{key}", value
