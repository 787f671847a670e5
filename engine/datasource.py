"""`spark.read.format("txlog")`: a table's log as rows, in batch, in SQL and as a stream.

    register(spark)
    spark.read.format("txlog").option("view", "files").option("versionAsOf", 5).load(path)
    spark.readStream.format("txlog").option("view", "actions").load(path)

Checkpoint rows are read by the tasks. Where the read is planned, the checkpoint's keys are looked
at, 16 bytes of each, for one that is there twice; and the tail after the checkpoint is reconciled
and must fit. `snapshot.to_spark` needs neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema

from engine.config import SETTINGS, Config
from engine.datasource_parts import (
    Rows,
    commit_partitions,
    file_partitions,
    read,
    to_bytes,
    view_schema,
)
from engine.errors import ConfigError
from engine.replay.travel import explained
from engine.table import TableLog, open_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_VIEWS: Final = ("files", "tombstones", "actions", "history", "skips")
_STREAMED: Final = ("actions", "history")


def register(spark: SparkSession) -> None:
    """Make `format("txlog")` known to a session."""
    spark.dataSource.register(TxlogSource)


class TxlogSource(DataSource):
    """One view of one table's log. Options: view, versionAsOf, timestampAsOf, startingVersion.

    Any setting of txlog is an option too, by its own name; whatever else is given goes to the
    storage.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name to use with `format`."""
        return "txlog"

    def schema(self) -> StructType:
        """Return the rows of the view that was asked for."""
        asked = Asked.of(self.options)
        return from_arrow_schema(view_schema(asked.view, asked.open().directory.log_format))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of one version."""
        return _Reader(Asked.of(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of commits as they arrive."""
        asked = Asked.of(self.options)
        if asked.view not in _STREAMED:
            raise ConfigError("view", asked.view, f"{' or '.join(_STREAMED)} for a stream")
        return _StreamReader(asked)


@dataclass(frozen=True)
class Asked:
    """What the options of a read ask for."""

    path: str
    view: str
    version: int | None
    timestamp: datetime | None
    starting_version: int | None
    settings: Mapping[str, str]
    storage: Mapping[str, str]

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Asked:
        """Return the options checked; raise ConfigError for the first that is not allowed."""
        # Spark keeps option names in lower case only.
        known = {key.lower(): key for key in SETTINGS}
        rest = {key.lower(): value for key, value in options.items()}
        view = rest.pop("view", "files")
        if view not in _VIEWS:
            raise ConfigError("view", view, ", ".join(_VIEWS))
        version, moment = rest.pop("versionasof", None), rest.pop("timestampasof", None)
        starting = rest.pop("startingversion", None)
        path = rest.pop("path", None)
        if path is None:
            raise ConfigError("path", None, "the table's root, with load(path)")
        return cls(
            path=path,
            view=view,
            version=None if version is None else _version("versionAsOf", version),
            timestamp=None if moment is None else _moment(moment),
            starting_version=None if starting is None else _version("startingVersion", starting),
            settings={known[key]: value for key, value in rest.items() if key in known},
            storage={key: value for key, value in rest.items() if key not in known},
        )

    def open(self) -> TableLog:
        """Open the log."""
        config = Config(options=self.settings)
        return open_log(self.path, config, storage_options=self.storage)


class _Reader(DataSourceReader):
    """Reads one view of one version."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the read."""
        asked, log = self._asked, self._asked.open()
        version = asked.version
        if asked.timestamp is not None:
            version = log.version_at(asked.timestamp)
        if asked.view in _STREAMED:
            return commit_partitions(log, asked.view, log.earliest_commit(), version)
        if asked.view == "skips":
            state = log.snapshot(version, engine="local").state
            wanted = view_schema("skips", log.directory.log_format)
            rows = pa.Table.from_pylist([dict(skip) for skip in state.skips.values()], wanted)
            return [Rows(to_bytes(rows))]
        return file_partitions(log, asked.view, version)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one partition on an executor."""
        with explained():
            yield from read(partition)


class _StreamReader(DataSourceStreamReader):
    """Reads commits as they arrive; an offset is the last version that was read."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    def initialOffset(self) -> dict[str, int]:
        """Begin before the version that was asked for, or before the first that is there."""
        start = self._asked.starting_version
        return {"version": (self._asked.open().earliest_commit() if start is None else start) - 1}

    def latestOffset(
        self, start: dict[str, int] | None = None, limit: object = None
    ) -> dict[str, int]:
        """Return the latest version in the log; never less than where the stream is.

        A stream may be told to start at a version that is still to come.
        """
        begun = start or {"version": (self._asked.starting_version or 0) - 1}
        return {"version": max(self._asked.open().latest_version(), begun["version"])}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Plan the commits after `start` up to `end`."""
        log = self._asked.open()
        return commit_partitions(log, self._asked.view, start["version"] + 1, end["version"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one partition on an executor."""
        with explained():
            yield from read(partition)


def _version(key: str, value: str) -> int:
    if not value.isdecimal():
        raise ConfigError(key, value, "a version number")
    return int(value)


def _moment(value: str) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise ConfigError("timestampAsOf", value, "a moment such as 2024-01-31T12:00:00") from None
