"""Which part of a multi-part checkpoint holds a file? The one that Spark would put it in.

Whoever writes the same parts of the same version then writes the same rows into each, so that
parts of two racing writers make up one sound checkpoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

_C1: Final = np.uint32(0xCC9E2D51)
_C2: Final = np.uint32(0x1B873593)
_SEED: Final = 42
_BITS: Final = 32
_WORD: Final = 4


def part_numbers(paths: pa.Array, parts: int) -> np.ndarray:
    """Return the part of each path, counted from 0: Spark's `pmod(hash(path), parts)`."""
    return np.mod(spark_hashes(paths).astype(np.int64), parts)


def spark_hashes(strings: pa.Array) -> np.ndarray:
    """Return Spark's `hash` of each string, as int32; no string may be null."""
    with np.errstate(over="ignore"):
        return _hashes(strings)


def _hashes(strings: pa.Array) -> np.ndarray:
    _, offset_buffer, data_buffer = strings.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int32)
    offsets = offsets[strings.offset : strings.offset + len(strings) + 1].astype(np.int64)
    start, length = offsets[:-1], np.diff(offsets)
    data = np.zeros(int(offsets[-1]) + _WORD, dtype=np.uint8)
    if data_buffer is not None:
        data[:-_WORD] = np.frombuffer(data_buffer, dtype=np.uint8)[: int(offsets[-1])]
    hashed = np.full(len(strings), _SEED, dtype=np.uint32)
    words = np.ndarray((len(data) - _WORD + 1,), dtype="<u4", buffer=data.data, strides=(1,))
    whole = length - length % _WORD
    for at in range(0, int(whole.max(initial=0)), _WORD):
        rows = np.flatnonzero(whole > at)
        hashed[rows] = _mix(hashed[rows], words[start[rows] + at])
    # Unlike Murmur3 itself, Spark mixes each byte that is left over as a word of its own.
    for at in range(_WORD - 1):
        rows = np.flatnonzero(length - whole > at)
        left = data[start[rows] + whole[rows] + at].view(np.int8).astype(np.int32)
        hashed[rows] = _mix(hashed[rows], left.view(np.uint32))
    hashed ^= length.astype(np.uint32)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        hashed = (hashed ^ (hashed >> np.uint32(shift))) * np.uint32(factor)
    return (hashed ^ (hashed >> np.uint32(16))).view(np.int32)


def _mix(hashed: np.ndarray, word: np.ndarray) -> np.ndarray:
    mixed = hashed ^ (_rotated(word * _C1, 15) * _C2)
    return _rotated(mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _rotated(value: np.ndarray, bits: int) -> np.ndarray:
    rotated: np.ndarray = (value << np.uint32(bits)) | (value >> np.uint32(_BITS - bits))
    return rotated
