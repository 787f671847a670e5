"""Are the files that a table's latest version names there, and as large as it says?

Directories are listed, many at once, instead of asking for each file: a table of a million files
has thousands of directories.
"""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from engine.config import MAX_CONCURRENT_READS, Config
from engine.errors import DistributedError, ReplayError, StorageError
from engine.log.listing import list_log
from engine.replay.engines import Engines
from engine.replay.keys import canonical_path, canonical_paths, may_be_absolute
from engine.snapshot import load_snapshot
from engine.storage import join
from engine.upkeep.verify.findings import Findings, some
from engine.upkeep.verify.vectors import vector_end, vector_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from engine.log.listing import LogDirectory
    from engine.storage import Storage
    from engine.upkeep.verify.listing import LogFiles

# So many of the files that are not as they should be are named.
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file that must be there: its path under the root, and its size or the least it can be."""

    path: str
    size: int | None
    least: int = 0
    named: str = ""


@dataclass(frozen=True, slots=True)
class Missed:
    """A file that is not as it should be."""

    wanted: Wanted
    size: int | None

    @property
    def told(self) -> str:
        """The file, and in what its size differs."""
        wanted = self.wanted.size or self.wanted.least
        return f"{self.wanted.named} ({self.size:,} bytes, not {wanted:,})"


@dataclass(frozen=True, slots=True)
class Looked:
    """What came of looking for files: how many there should be, and a few that are not as said.

    What was looked for in several places adds up.
    """

    wanted: int = 0
    gone: int = 0
    changed: int = 0
    gone_names: tuple[str, ...] = ()
    changed_names: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, wanted: int, missed: Sequence[Missed]) -> Looked:
        """Return what was missed of so many files."""
        gone = [miss.wanted.named for miss in missed if miss.size is None]
        changed = [(miss.wanted.named, miss.told) for miss in missed if miss.size is not None]
        return cls(wanted, len(gone), len(changed), _few(gone), _few(changed))

    def __add__(self, other: Looked) -> Looked:
        return Looked(
            self.wanted + other.wanted,
            self.gone + other.gone,
            self.changed + other.changed,
            _few((*self.gone_names, *other.gone_names)),
            _few((*self.changed_names, *other.changed_names)),
        )

    def tell(self, found: Findings, version: int, *, kind: str) -> None:
        """Enter what was missed, a few by name."""
        if self.gone:
            message = f"{self.gone:,} are not there: {some(list(self.gone_names), self.gone)}"
            found.add(f"{kind}_MISSING", message, path=self.gone_names[0], version=version)
        if self.changed:
            told = some([told for _, told in self.changed_names], self.changed)
            message = f"{self.changed:,} of another size: {told}"
            found.add(f"{kind}_SIZE", message, path=self.changed_names[0][0], version=version)


@dataclass(frozen=True, slots=True)
class Searched:
    """What came of looking for data files and for deletion vectors, and how many lie elsewhere."""

    data: Looked = field(default_factory=Looked)
    vectors: Looked = field(default_factory=Looked)
    elsewhere: int = 0

    def __add__(self, other: Searched) -> Searched:
        return Searched(
            self.data + other.data,
            self.vectors + other.vectors,
            self.elsewhere + other.elsewhere,
        )


def check_data(
    directory: LogDirectory,
    config: Config,
    files: LogFiles,
    found: Findings,
    spark: SparkSession | None = None,
) -> dict[str, int]:
    """Enter what is missing of the latest version; return how many files were looked for.

    Given `spark`, its executors list the directories.
    """
    try:
        if spark is None:
            searched = _searched(latest_files(directory, config), directory, config)
        else:
            from engine.upkeep.verify.data_spark import search

            searched = search(directory, config, spark)
    except (StorageError, DistributedError):
        raise
    except ReplayError:
        return {}  # why the latest version cannot be read is a finding already
    searched.data.tell(found, files.latest, kind="DATA_FILE")
    searched.vectors.tell(found, files.latest, kind="DELETION_VECTOR")
    if searched.elsewhere:
        message = f"{searched.elsewhere:,} files"
        found.add("DATA_FILE_ELSEWHERE", message, version=files.latest)
    return {"dataFiles": searched.data.wanted, "deletionVectors": searched.vectors.wanted}


def _searched(live: pa.Table, directory: LogDirectory, config: Config) -> Searched:
    data, vectors, elsewhere = wanted_files(live, directory.table_url)
    known: dict[str, dict[str, int]] = {}
    return Searched(
        Looked.of(len(data), missing(directory, data, config, known)),
        Looked.of(len(vectors), missing(directory, vectors, config, known)),
        elsewhere,
    )


def latest_files(directory: LogDirectory, config: Config) -> pa.Table:
    """Return the live files of the latest version; raises where it cannot be read."""
    run = Engines("local", None, lambda _: None).replay
    return load_snapshot(directory, list_log(directory), None, run, config).files()


def wanted_files(live: pa.Table, root: str) -> tuple[list[Wanted], list[Wanted], int]:
    """Return the data files, the files of deletion vectors, and how many lie elsewhere."""
    paths = live["path"]
    absolute = may_be_absolute(paths, root)
    if pc.any(absolute).as_py() or pc.any(pc.match_substring(paths, ":/")).as_py():
        paths = pa.chunked_array([canonical_paths(c, root) for c in paths.chunks], pa.string())
    data: list[Wanted] = []
    vectors: list[Wanted] = []
    elsewhere = 0
    has_vectors = "deletionVector" in live.column_names
    columns: list[Iterable[Any]] = [paths.to_pylist(), live["size"].to_pylist()]
    columns.append(live["deletionVector"].to_pylist() if has_vectors else [None] * len(live))
    for path, size, vector in zip(*columns, strict=True):
        if _is_elsewhere(path):
            elsewhere += 1
        else:
            data.append(Wanted(unquote(path), size, named=path))
        found = _vector(vector, root) if vector and vector.get("storageType") else None
        if found is not None and _is_elsewhere(found.path):
            elsewhere += 1
        elif found is not None:
            vectors.append(found)
    return data, longest(vectors), elsewhere


def longest(vectors: Iterable[Wanted]) -> list[Wanted]:
    """Return the files of deletion vectors once each, as long as the last vector in it needs."""
    found: dict[str, Wanted] = {}
    for file in vectors:
        if file.path not in found or found[file.path].least < file.least:
            found[file.path] = file
    return list(found.values())


def missing(
    directory: LogDirectory,
    wanted: Sequence[Wanted],
    config: Config,
    known: dict[str, dict[str, int]] | None = None,
) -> list[Missed]:
    """Return the files that are not there, or not of their size. Lists each directory once.

    `known` are directories that were listed before, and takes in those that were not.
    """
    known = {} if known is None else known
    folders: dict[str, list[Wanted]] = defaultdict(list)
    for file in wanted:
        folders[file.path.rpartition("/")[0]].append(file)
    new = [name for name in folders if name not in known]
    if new:
        workers = min(config[MAX_CONCURRENT_READS], len(new))
        with ThreadPoolExecutor(workers, thread_name_prefix="txlog") as pool:
            sizes = pool.map(lambda name: _sizes(directory.storage, directory.root, name), new)
            known |= zip(new, sizes, strict=True)
    return [miss for name, files in folders.items() for miss in _compared(files, known[name])]


def _vector(vector: Mapping[str, Any], root: str) -> Wanted | None:
    path = vector_path(vector)
    if path is None:
        return None
    own = unquote(canonical_path(path, root)) if vector["storageType"] == "p" else path
    return Wanted(own, None, vector_end(vector), path)


def _few(found: Iterable[Any]) -> tuple[Any, ...]:
    """Return the first few in their order, whichever way they came."""
    return tuple(sorted(found)[:_NAMED])


def _compared(wanted: Sequence[Wanted], there: Mapping[str, int]) -> list[Missed]:
    found = []
    for file in wanted:
        size = there.get(file.path.rpartition("/")[2])
        is_whole = size is not None and size >= file.least and file.size in {None, size}
        if not is_whole:
            found.append(Missed(file, size))
    return found


def _sizes(storage: Storage, root: str, folder: str) -> dict[str, int]:
    try:
        path = join(root, folder) if folder else root
        return {file.name: file.size for file in storage.list_from(path)}
    except (FileNotFoundError, StorageError) as error:
        if isinstance(error, StorageError) and "not the name of a file" not in str(error):
            raise
        return {}


def _is_elsewhere(path: str) -> bool:
    head, _, _ = path.partition("/")
    return path.startswith("/") or (":" in head and path[len(head) :].startswith("/"))
