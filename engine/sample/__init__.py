"""A realistic log of any size, to try things on: seedable, and made without data files."""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from engine.errors import AlreadyExistsError, StorageError
from engine.formats import DELTA, FORMATS, INDEXTABLES, by_name
from engine.log.paths import HINT, commit_name
from engine.sample.checkpoints import Checkpointer
from engine.sample.delta import DeltaLines
from engine.sample.history import Actions, History, concat, reconcile
from engine.sample.indextables import IndexTablesLines
from engine.sample.spec import CHECKPOINT_KINDS, COMPRESSIONS, SampleSpec
from engine.storage import Storage, join, open_storage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine.sample.lines import Lines

__all__ = ["CHECKPOINT_KINDS", "COMPRESSIONS", "Sample", "SampleSpec", "make_sample"]

_LINES: Final[Mapping[str, type[Lines]]] = {
    DELTA.name: DeltaLines,
    INDEXTABLES.name: IndexTablesLines,
}
_WEEK_MS: Final = 7 * 24 * 60 * 60 * 1000
_DAY_MS: Final = 24 * 60 * 60 * 1000
_BLOCK_ACTIONS: Final = 50_000


@dataclass(frozen=True, slots=True)
class Sample:
    """What was made: the facts every reader of the log must find in it."""

    directory: str
    spec: SampleSpec
    version: int
    num_files: int
    num_tombstones: int
    num_actions: int
    size_bytes: int


def make_sample(
    directory: str,
    spec: SampleSpec | None = None,
    *,
    progress: Callable[[int], None] | None = None,
    **options: Any,
) -> Sample:
    """Make a log in a directory or URL that has none: `make_sample(path, commits=100, seed=7)`.

    `options` are the fields of SampleSpec. `progress` is called with the number of commits
    written since the last call.

    Raises:
        AlreadyExistsError: there is a log already. Nothing was written.
        ValueError: an option has a value that is not allowed.
    """
    if spec is not None and options:
        raise ValueError("give a spec or options, not both")
    spec = spec or SampleSpec(**options)
    storage, root = open_storage(directory)
    _refuse_existing(storage, root)
    return _Maker(spec, storage, root, progress or (lambda _: None)).make()


class _Maker:
    def __init__(
        self, spec: SampleSpec, storage: Storage, root: str, progress: Callable[[int], None]
    ) -> None:
        self._spec, self._storage, self._progress = spec, storage, progress
        log_format = by_name(spec.log_format)
        self._root, self._path = root, join(root, log_format.directory)
        self._lines: Lines = _LINES[spec.log_format](spec)
        self._checkpointer = Checkpointer(
            log_format, self._lines, spec.checkpoint_kind, self._compress, self._write
        )
        self._checkpoints = set(spec.checkpoint_versions)
        # As a cleanup would leave it: the last checkpoint, its commit, and what came after.
        self._cleaned_to = max(self._checkpoints, default=-1) if spec.cleaned else -1
        self._block: list[Actions] = []
        self._made: set[Path] = set()
        self._waiting = self._actions = self._bytes = 0

    def make(self) -> Sample:
        spec, history = self._spec, History(self._spec)
        window: list[Actions] = []
        for version in range(spec.commits):
            commit = history.commit(version)
            self._block.append(commit)
            self._waiting += len(commit) + 1
            if spec.compact_every:
                window.append(commit)
            if len(window) == spec.compact_every > 0:
                self._compact(window)
                window = []
            if version in self._checkpoints:
                self._checkpoint(history, version)
                window = []
            if self._waiting >= _BLOCK_ACTIONS:
                self._flush()
        self._flush()
        return Sample(
            directory=self._storage.url(self._root),
            spec=spec,
            version=spec.commits - 1,
            num_files=history.num_files,
            num_tombstones=history.num_tombstones,
            num_actions=self._actions + len(self._lines.table()),
            size_bytes=self._bytes,
        )

    def _compact(self, window: list[Actions]) -> None:
        self._flush()
        if window[0].version > self._cleaned_to:
            self._checkpointer.compaction(reconcile(window))

    def _checkpoint(self, history: History, version: int) -> None:
        self._flush()
        if version < self._cleaned_to:
            return
        times = self._lines.files.times_ms[: version + 1]
        since = [np.searchsorted(times, times[-1] - kept, "right") for kept in (_WEEK_MS, _DAY_MS)]
        state = history.state(version, tombstones_since=int(since[0]), skips_since=int(since[1]))
        hint = self._checkpointer.checkpoint(state)
        data = json.dumps(hint, separators=(",", ":")).encode()
        self._storage.replace(join(self._path, HINT), data)
        self._bytes += len(data)

    def _flush(self) -> None:
        """Write the commits that wait: their lines are made together, and then dealt out."""
        self._progress(len(self._block))
        block = [commit for commit in self._block if commit.version >= self._cleaned_to]
        self._actions, self._waiting, self._block = self._actions + self._waiting, 0, []
        adds = iter(self._lines.adds(concat([commit.added for commit in block])))
        removes = iter(self._lines.removes(concat([commit.removed for commit in block])))
        for commit, info in zip(block, self._lines.commit_infos(block), strict=True):
            texts = [info]
            if commit.version == 0:
                texts += self._lines.table()
            texts += self._lines.others(commit)
            texts += islice(removes, len(commit.removed))
            texts += islice(adds, len(commit.added))
            data = self._compress(("\n".join(texts) + "\n").encode(), commit.version)
            self._write(commit_name(commit.version), data, self._lines.time_ms(commit.version))

    def _compress(self, data: bytes, version: int) -> bytes:
        form = {"none": 0, "gzip": 1, "mixed": version % 3}[self._spec.compression]
        if form == 0:
            return data
        packer = zlib.compressobj(level=6, wbits=31)
        packed = packer.compress(data) + packer.flush()
        return b"\x01\x01" + packed if form == 1 else packed

    def _write(self, name: str, data: bytes, time_ms: int | None = None) -> None:
        path = join(self._path, name)
        self._bytes += len(data)
        if self._storage.scheme != "file":
            self._storage.write_new(path, data)
            return
        # On disk without its sync: a sample need not outlive a power cut, only never overwrite.
        file = Path(path)
        try:
            if file.parent not in self._made:
                _make_directory(file.parent)
                self._made.add(file.parent)
            with file.open("xb") as opened:
                opened.write(data)
        except FileExistsError:
            raise AlreadyExistsError(path) from None
        except OSError as error:
            raise StorageError(path, (error.strerror or str(error)).lower()) from None
        if time_ms is not None:
            os.utime(path, ns=(time_ms * 1_000_000, time_ms * 1_000_000))


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(error.errno, "a file is in the way", error.filename) from None


def _refuse_existing(storage: Storage, root: str) -> None:
    for log_format in FORMATS:
        path = join(root, log_format.directory)
        try:
            found = storage.list_from(path) or storage.list_directories(path)
        except FileNotFoundError:
            continue
        if found:
            raise AlreadyExistsError(storage.url(path))
