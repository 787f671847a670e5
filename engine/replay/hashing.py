"""How are many strings hashed at once? Eight bytes at a time, for all of them together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

_WORD: Final = 8
# Every step comes by all strings of a block: they should still be in the processor's cache.
_BLOCK: Final = 8192
_FULL: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
_SHIFT: Final = np.uint64(32)
_SHORT_SHIFT: Final = np.uint64(29)


def hash_pairs(strings: pa.Array, seeds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two 64-bit hashes of each string; `seeds` are four odd numbers of 64 bits."""
    first, second = np.empty((2, len(strings)), dtype=np.uint64)
    for at in range(0, len(strings), _BLOCK):
        block = slice(at, at + _BLOCK)
        first[block], second[block] = _block_of_pairs(strings.slice(at, _BLOCK), seeds)
    return first, second


def hash_strings(strings: pa.Array, seed: np.uint64) -> np.ndarray:
    """Return one 64-bit hash of each string; of a null, that of an empty one."""
    hashed = np.empty(len(strings), dtype=np.uint64)
    for at in range(0, len(strings), _BLOCK):
        hashed[at : at + _BLOCK] = _block_of_hashes(strings.slice(at, _BLOCK), seed)
    return hashed


def _block_of_pairs(strings: pa.Array, seeds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order, words, start, length = _longest_first(strings)
    first = length.astype(np.uint64) * seeds[0]
    second = length.astype(np.uint64) ^ seeds[1]
    for left, word in _steps(words, start, length):
        part = (first[:left] ^ word) * seeds[2]
        part ^= part >> _SHIFT
        first[:left] = part
        part = (second[:left] + word) * seeds[3]
        part ^= part >> _SHORT_SHIFT
        second[:left] = part
    return _in_place(first, order), _in_place(second, order)


def _block_of_hashes(strings: pa.Array, seed: np.uint64) -> np.ndarray:
    order, words, start, length = _longest_first(strings)
    hashed = length.astype(np.uint64) * seed
    for left, word in _steps(words, start, length):
        part = (hashed[:left] ^ word) * seed
        part ^= part >> _SHIFT
        hashed[:left] = part
    return _in_place(hashed, order)


def _longest_first(strings: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    words, start, length = _words(strings)
    order = np.argsort(-length, kind="stable")
    return order, words, start[order], length[order]


def _in_place(hashed: np.ndarray, order: np.ndarray) -> np.ndarray:
    found = np.empty_like(hashed)
    found[order] = hashed
    return found


def _steps(
    words: np.ndarray, start: np.ndarray, length: np.ndarray
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the next word of every string that has one, and how many have.

    The longest strings come first: those with a word left are always the first ones.
    """
    shortness, left = -length, len(length)
    for at in range(0, int(length[0]), _WORD):
        left = int(np.searchsorted(shortness[:left], -at, side="left"))
        whole = int(np.searchsorted(shortness[:left], -(at + _WORD), side="right"))
        word = words[start[:left] + at]
        if whole < left:
            word[whole:] &= _mask(length[whole:left] - at)
        yield left, word


def _words(strings: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a view in which a word begins at every byte, and where each string lies in it."""
    _, offset_buffer, data_buffer = strings.buffers()
    bounds = np.frombuffer(offset_buffer, dtype=np.int32)
    bounds = bounds[strings.offset : strings.offset + len(strings) + 1].astype(np.int64)
    low, high = int(bounds[0]), int(bounds[-1])
    padded = np.zeros(high - low + _WORD, dtype=np.uint8)
    if high > low:
        padded[: high - low] = np.frombuffer(data_buffer, dtype=np.uint8)[low:high]
    words = np.ndarray((high - low + 1,), dtype=np.uint64, buffer=padded.data, strides=(1,))
    return words, bounds[:-1] - low, np.diff(bounds)


def _mask(left: np.ndarray) -> np.ndarray:
    """Return what keeps the bytes of a string's last word and drops those behind it."""
    bits = np.minimum(left, _WORD).astype(np.uint64) * np.uint64(_WORD)
    mask: np.ndarray = _FULL >> (np.uint64(64) - bits)
    return mask
