"""What is file number n? Its path, size, statistics: all a function of the seed and of n.

So a history of millions of files is kept as numbers, and any of them can be written again, in a
later commit or in a checkpoint, as it was written the first time.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.sample.spec import SampleSpec

Numbers = np.ndarray[Any, np.dtype[np.int64]]
_Hashes = np.ndarray[Any, np.dtype[np.uint64]]

HOURS: Final = 24
_FIRST_DAY: Final = date(2024, 1, 1)
_HEX_PLACES: Final = [i for i in range(36) if i not in {8, 13, 18, 23}]
_Z85: Final = np.frombuffer(
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
    dtype=np.uint8,
)
_UUID, _SIZE, _RECORDS, _VALUE, _PARTITION, _NULLS, _JITTER, _VECTOR = range(8)


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition: its values, as JSON, and the directory of its files."""

    values_json: str
    directory: str


@dataclass(frozen=True, slots=True)
class FileColumns:
    """Some files, one list a fact."""

    paths: list[str]
    partitions: list[Partition]
    sizes: list[int]
    times_ms: list[int]
    records: list[int]


class Files:
    """Every file a sample will ever hold, by number: commit v adds `adds` files from v * adds.

    `times_ms` says when each version was committed: one after the other, not quite evenly.
    """

    def __init__(self, spec: SampleSpec, suffix: str) -> None:
        self._spec = spec
        self._suffix = suffix
        self._partitions = [_partition(index) for index in range(spec.partitions)] or [
            Partition("{}", "")
        ]
        interval_ms = spec.interval_s * 1000
        versions = np.arange(spec.commits, dtype=np.int64)
        jitter = (self._hash(versions, _JITTER) % np.uint64(interval_ms // 2)).astype(np.int64)
        self.times_ms = spec.start_ms + versions * interval_ms + jitter
        self._ends = np.datetime_as_string(self.times_ms.view("M8[ms]"))
        self._starts = np.datetime_as_string((self.times_ms - interval_ms).view("M8[ms]"))

    def columns(self, ids: Numbers) -> FileColumns:
        """Return what both an add and a remove say of these files."""
        partitions = self._hash(ids, _PARTITION) % np.uint64(len(self._partitions))
        where = [self._partitions[index] for index in partitions.tolist()]
        names = _uuids(self._hash(ids, _UUID), self._hash(ids, _VECTOR))
        tasks = (ids % max(self._spec.adds, 1)).tolist()
        suffix = self._suffix
        return FileColumns(
            paths=[
                f"{partition.directory}part-{task:05d}-{name}{suffix}"
                for partition, task, name in zip(where, tasks, names, strict=True)
            ],
            partitions=where,
            sizes=self._sizes(ids),
            times_ms=self.times_ms[self._versions(ids)].tolist(),
            records=self._records(ids).tolist(),
        )

    def statistics(self, ids: Numbers) -> list[tuple[Any, ...]]:
        """Return, for each file: records, min and max of id, ts, name, value, and nulls."""
        records = self._records(ids)
        low = ids * 100_000
        versions = self._versions(ids)
        value = self._hash(ids, _VALUE)
        value_low = (value % np.uint64(50_000)).astype(np.int64) / 100
        value_high = value_low + (value >> np.uint64(32)).astype(np.int64) % 50_000 / 100
        name_low = (value >> np.uint64(16)).astype(np.int64) % 500
        name_high = name_low + records % 500
        nulls = self._hash(ids, _NULLS)
        columns: Sequence[Numbers | Any] = (
            records,
            low,
            self._starts[versions],
            name_low,
            value_low,
            low + records - 1,
            self._ends[versions],
            name_high,
            value_high,
            (nulls % np.uint64(7)).astype(np.int64),
            (nulls >> np.uint64(32)).astype(np.int64) % 100,
        )
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def vectors(self, ids: Numbers, versions: Numbers) -> list[tuple[str, int, int, int] | None]:
        """Return the deletion vector that each version gave each file; None where it is 0.

        A vector is its name (a UUID in Z85), its offset, its size and its cardinality.
        """
        high = self._hash(ids * 1_000_003 + versions, _VECTOR)
        low = self._hash(ids * 1_000_003 + versions, _UUID)
        names = _z85(high, low)
        offsets = (1 + (high % np.uint64(4)).astype(np.int64) * 46).tolist()
        deleted = 1 + (low >> np.uint64(1)).astype(np.int64) % self._records(ids)
        sizes = (34 + 2 * np.minimum(deleted, 1000)).tolist()
        found = zip(names, offsets, sizes, deleted.tolist(), strict=True)
        return [
            vector if has else None for vector, has in zip(found, versions.tolist(), strict=True)
        ]

    def uuids(self, what: str, numbers: Numbers) -> list[str]:
        """Return the UUIDs of things that are no files: of a kind, and of a version each."""
        stream = 1000 + zlib.crc32(what.encode())
        return _uuids(self._hash(numbers, stream), self._hash(numbers, stream + 1000))

    def uuid(self, what: str, number: int = 0) -> str:
        """Return one such UUID."""
        return self.uuids(what, np.array([number], np.int64))[0]

    def _versions(self, ids: Numbers) -> Numbers:
        return ids // max(self._spec.adds, 1)

    def _sizes(self, ids: Numbers) -> list[int]:
        spread = (self._hash(ids, _SIZE) >> np.uint64(38)).astype(np.int64)
        sizes: list[int] = (65_536 + spread * 2).tolist()
        return sizes

    def _records(self, ids: Numbers) -> Numbers:
        return 1000 + (self._hash(ids, _RECORDS) >> np.uint64(48)).astype(np.int64)

    def _hash(self, ids: Numbers, stream: int) -> _Hashes:
        """Return 64 even bits for each number: the finaliser of splitmix64."""
        start = (self._spec.seed * 0x9E3779B97F4A7C15 + stream * 0xD1B54A32D192ED03) % 2**64
        z = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(start)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashes: _Hashes = z ^ (z >> np.uint64(31))
        return hashes


def _uuids(high: _Hashes, low: _Hashes) -> list[str]:
    """Return each pair of hashes as a UUID of version 4."""
    raw = np.stack([high, low], axis=1).astype(">u8").view(np.uint8)
    raw[:, 6] = raw[:, 6] & 0x0F | 0x40
    raw[:, 8] = raw[:, 8] & 0x3F | 0x80
    digits = np.frombuffer(raw.tobytes().hex().encode(), np.uint8).reshape(-1, 32)
    spelled = np.full((len(raw), 36), ord("-"), np.uint8)
    spelled[:, _HEX_PLACES] = digits
    return _split(spelled)


def _z85(high: _Hashes, low: _Hashes) -> list[str]:
    words = np.stack([high, low], axis=1).astype(">u8").view(">u4").astype(np.int64)
    digits = np.stack([words // 85**power % 85 for power in (4, 3, 2, 1, 0)], axis=2)
    return _split(_Z85[digits.reshape(len(words), 20)])


def _split(letters: np.ndarray[Any, np.dtype[np.uint8]]) -> list[str]:
    text, width = letters.tobytes().decode(), letters.shape[1]
    return [text[start : start + width] for start in range(0, len(text), width)]


def _partition(index: int) -> Partition:
    day, hour = _FIRST_DAY + timedelta(days=index // HOURS), index % HOURS
    return Partition(f'{{"date":"{day}","hour":"{hour}"}}', f"date={day}/hour={hour}/")
