"""What do the files of a log say, one file at a time? Damage is told, not raised."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson

from engine.config import MAX_DECOMPRESSED_BYTES, Config
from engine.errors import (
    CorruptCheckpointError,
    MissingSidecarError,
    StorageError,
    UnreadableLogFileError,
)
from engine.log.paths import SIDECARS, TransactionFileRef
from engine.replay.checkpoints import ALL_KINDS, read_checkpoint_file, sidecars
from engine.replay.files import file_rows
from engine.replay.keys import SEEDS
from engine.replay.parse import Parser
from engine.replay.rules import STATE_KEYS
from engine.replay.state import Singles
from engine.upkeep.verify.actions import Complaint, Use, action_complaints, feature_uses
from engine.upkeep.verify.surviving import Entries, entries, joined_entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.actions import ActionBatch
    from engine.log.listing import LogDirectory
    from engine.log.segment import Checkpoint
    from engine.replay.keys import Seeds

_CHECKPOINT_KINDS: Final = (*ALL_KINDS, "checkpointMetadata", "cdc", "commitInfo")
_NOT_IN_DERIVED: Final = ("cdc", "commitInfo")


@dataclass(frozen=True)
class Single:
    """One action of a kind that is not a file's, where it stands."""

    version: int
    ordinal: int
    kind: str
    value: Any


@dataclass(frozen=True)
class Commits:
    """What some commits in a row say; `damage` tells of those that cannot be read."""

    refs: tuple[TransactionFileRef, ...]
    batches: list[ActionBatch]
    rows: Entries
    singles: list[Single]
    complaints: list[Complaint]
    uses: list[Use]
    damage: dict[int, str]
    num_actions: int
    checksums: dict[int, tuple[TransactionFileRef, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Derived:
    """What a checkpoint or a compaction says, or why it cannot be read.

    `counts` is how many actions of each kind it has, beside those of files; `said_version` is that
    of its checkpointMetadata.
    """

    rows: Entries
    singles: Singles
    counts: dict[str, int]
    sidecars: list[TransactionFileRef]
    damage: str = ""
    damage_code: str = ""
    damaged: str = ""
    said_version: int | None = None


class Reader:
    """Reads the files of one log; safe to use from many threads."""

    def __init__(
        self,
        directory: LogDirectory,
        config: Config,
        *,
        stats: bool = False,
        seeds: Seeds = SEEDS,
    ) -> None:
        self.directory, self._config, self._stats, self._seeds = directory, config, stats, seeds
        self._limit = config[MAX_DECOMPRESSED_BYTES]
        self._parser = Parser(directory.log_format, self._limit)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy on an executor gives its keys the same numbers."""
        again = partial(Reader, stats=self._stats, seeds=self._seeds)
        return again, (self.directory, self._config)

    def commits(
        self,
        refs: Sequence[TransactionFileRef],
        checksums: Sequence[TransactionFileRef] = (),
    ) -> Commits:
        """Return what commits say, and the checksums beside them."""
        data = self._contents(refs)
        damage: dict[int, str] = {}
        try:
            batches = self._parser.parse(zip(refs, data, strict=True))
        except UnreadableLogFileError:
            batches = []
            for ref, content in zip(refs, data, strict=True):
                try:
                    batches += self._parser.parse([(ref, content)])
                except UnreadableLogFileError as error:
                    line = f"line {error.line}: " if error.line else ""
                    damage[ref.version] = f"{line}{error.reason}"
        return Commits(
            refs=tuple(refs),
            batches=batches,
            rows=entries(batches, self.directory.table_url, self._seeds),
            singles=_singles(batches),
            complaints=action_complaints(batches, self.directory, stats=self._stats),
            uses=feature_uses(batches),
            damage=damage,
            num_actions=sum(len(batch) for batch in batches),
            checksums={ref.version: (ref, self.checksum(ref)) for ref in checksums},
        )

    def batches(self, ref: TransactionFileRef) -> list[ActionBatch]:
        """Return what one commit or JSON compaction says; raises where it cannot be read."""
        return self._parser.parse([(ref, self._contents([ref])[0])])

    def checkpoint(self, checkpoint: Checkpoint) -> Derived:
        """Return what a checkpoint says, sidecars included."""
        return self._derived(checkpoint.files)

    def compaction(self, ref: TransactionFileRef) -> Derived:
        """Return what a compaction says."""
        if not ref.size:
            return _damaged(ref.path, "it has 0 bytes")
        return self._derived((ref,))

    def files(self, files: Sequence[TransactionFileRef]) -> Derived:
        """Return what the files of a checkpoint or a compaction say."""
        return self._derived(files)

    def checksum(self, ref: TransactionFileRef) -> dict[str, Any] | str:
        """Return a checksum file's object, or why it is none."""
        try:
            found = orjson.loads(self._contents([ref])[0])
        except orjson.JSONDecodeError as error:
            return "it has 0 bytes" if not ref.size else f"not JSON: {error}"
        return found if isinstance(found, dict) else "not a JSON object"

    def derived_batches(self, files: Sequence[TransactionFileRef]) -> Iterator[ActionBatch]:
        """Yield the actions of a checkpoint's or a compaction's files, sidecars included."""
        for ref in files:
            for batch in self._file(ref):
                yield batch
                for sidecar in sidecars(batch, ref.version):
                    yield from self._file(sidecar)

    def _file(self, ref: TransactionFileRef) -> Iterator[ActionBatch]:
        return read_checkpoint_file(
            self.directory, ref, wanted=_CHECKPOINT_KINDS, limit_bytes=self._limit
        )

    def _derived(self, files: Sequence[TransactionFileRef]) -> Derived:
        parts: list[Entries] = []
        singles, counts = Singles(), dict.fromkeys((*STATE_KEYS, "checkpointMetadata"), 0)
        named: list[TransactionFileRef] = []
        said: int | None = None
        try:
            for batch in self.derived_batches(files):
                parts.append(entries([batch], self.directory.table_url, self._seeds))
                singles.take(batch)
                named += sidecars(batch, files[0].version)
                for kind, column in batch.columns.items():
                    if kind == "checkpointMetadata":
                        said = next(
                            (m.get("version") for m in column.drop_null().to_pylist()), said
                        )
                    if kind in counts or kind in _NOT_IN_DERIVED:
                        counts[kind] = counts.get(kind, 0) + len(column) - column.null_count
        except MissingSidecarError as error:
            return _damaged(error.path, error.reason, "MISSING_SIDECAR")
        except CorruptCheckpointError as error:
            return _damaged(error.path, error.reason)
        return Derived(joined_entries(parts), singles, counts, named, said_version=said)

    def _contents(self, refs: Sequence[TransactionFileRef]) -> list[bytes]:
        paths = [self.directory.file(ref.path) for ref in refs]
        try:
            return [data for _, data in self.directory.storage.read_many(paths)]
        except FileNotFoundError as error:
            raise StorageError(
                self.directory.url, f"{error}: a log file went away while it was read; try again"
            ) from None


def paths_with(
    batches: Iterable[ActionBatch], root: str, first: np.ndarray, second: np.ndarray
) -> list[str]:
    """Return the paths of the actions in batches that have one of some keys."""
    keys = set(zip(first.tolist(), second.tolist(), strict=True))
    found = []
    for batch in batches:
        for rows in file_rows(batch, root):
            found += [
                rows.column[int(rows.rows[at])]["path"].as_py()
                for at in np.flatnonzero(np.isin(rows.first, first)).tolist()
                if (int(rows.first[at]), int(rows.second[at])) in keys
            ]
    return found


def sidecar_size(ref: TransactionFileRef) -> tuple[str, int]:
    """Return a sidecar's name in its folder, and the size its checkpoint says it has."""
    return ref.path.removeprefix(f"{SIDECARS}/"), ref.size


def _damaged(path: str, reason: str, code: str = "") -> Derived:
    return Derived(joined_entries([]), Singles(), {}, [], reason, code, path)


def _singles(batches: Sequence[ActionBatch]) -> list[Single]:
    found = []
    for batch in batches:
        for kind in (*STATE_KEYS, "commitInfo"):
            column = batch.columns.get(kind)
            if column is None or column.null_count == len(column):
                continue
            here = column.is_valid()
            found += [
                Single(version, ordinal, kind, value)
                for version, ordinal, value in zip(
                    batch.version.filter(here).to_pylist(),
                    batch.ordinal.filter(here).to_pylist(),
                    column.filter(here).to_pylist(maps_as_pydicts="lossy"),
                    strict=True,
                )
            ]
    return sorted(found, key=lambda single: (single.version, single.ordinal))
