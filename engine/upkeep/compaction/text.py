"""Where are the lines of some commits, and which are file actions? By their bytes, without parsing.

Every engine begins the line of a file action with `{"add":{"path":"…"`, and its key is found by
looking for those quotes. Whatever is written otherwise is left to the parser.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.replay.plain import line_ends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.log.paths import TransactionFileRef
    from engine.replay.pieces import Piece

PREFIXES: Final = {"add": b'{"add":{"path":"', "remove": b'{"remove":{"path":"'}

_LONGEST: Final = max(map(len, PREFIXES.values()))
_VECTOR: Final = b"deletionVector"
_END: Final = np.frombuffer(b"}}\n", np.uint8)
_RETURN: Final = 0x0D
# More lines of other kinds than this share of a text are read faster all at once.
_OTHERS: Final = 0.2


@dataclass(frozen=True, slots=True)
class FileLines:
    """Which lines are adds and which removes, the path of each, and which lines are neither."""

    marks: dict[str, np.ndarray]
    paths: pa.Array
    rest: np.ndarray


@dataclass(frozen=True, slots=True)
class Text:
    """The lines of some commits behind each other, each with its end.

    `offsets` says where lines begin; `firsts` which of them is a version's line 0. Of a piece of
    a file, lines are counted from its offset on.
    """

    body: bytes
    offsets: np.ndarray
    versions: np.ndarray
    starts: np.ndarray
    firsts: np.ndarray
    owners: dict[int, tuple[TransactionFileRef, int]]

    @classmethod
    def of(cls, contents: Sequence[tuple[Piece, bytes]]) -> Text:
        """Join what was read; `contents` is sorted by version."""
        parts: list[bytes] = []
        length, ends = 0, []
        for _, data in contents:
            parts.append(data)
            length += len(data)
            if data and not data.endswith(b"\n"):
                parts.append(b"\n")
                length += 1
            ends.append(length)
        body = b"".join(parts)
        newlines = line_ends(body)
        offsets = np.zeros(len(newlines) + 1, dtype=np.int64)
        np.add(newlines, 1, out=offsets[1:])
        starts = np.searchsorted(newlines, np.array([0, *ends], np.int64))
        moved = np.array([piece.offset for piece, _ in contents], np.int64)
        versions = np.array([piece.ref.version for piece, _ in contents], np.int64)
        owners = {piece.ref.version: (piece.ref, piece.offset) for piece, _ in contents}
        return cls(body, offsets, versions, starts, starts[:-1] - moved, owners)

    @property
    def count(self) -> int:
        """The number of lines."""
        return len(self.offsets) - 1

    def rows(self, versions: np.ndarray, ordinals: np.ndarray) -> np.ndarray:
        """Return which lines stand at these places."""
        found: np.ndarray = self.firsts[np.searchsorted(self.versions, versions)] + ordinals
        return found

    def places(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the version and the place in its file of each of these lines."""
        at = np.searchsorted(self.starts, rows, side="right") - 1
        return self.versions[at], rows - self.firsts[at]

    def line(self, row: int) -> bytes:
        """Return one line, without its end."""
        return self.body[self.offsets[row] : self.offsets[row + 1]].rstrip(b"\r\n")

    def joined(self, rows: np.ndarray) -> bytes:
        """Return these lines, in the order of the text."""
        mark = np.zeros(self.count + 2, dtype=np.int8)
        mark[rows + 1] = 1
        # Neighbours that are both wanted are one piece.
        edges = self.offsets[np.flatnonzero(np.diff(mark))].tolist()
        view = memoryview(self.body)
        return b"".join([view[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)])

    def array(self, rows: np.ndarray) -> pa.LargeBinaryArray:
        """Return these lines, in the order asked for."""
        buffers = [None, pa.py_buffer(self.offsets), pa.py_buffer(self.body)]
        lines = pa.LargeBinaryArray.from_buffers(pa.large_binary(), self.count, buffers)
        return lines.take(pa.array(rows))


def file_lines(text: Text) -> FileLines | None:
    """Find the file actions of a text, each by the path that its line begins with.

    None where that is not enough: where lines are of many kinds, a path is not plain text, or
    there may be a deletion vector, which is a part of the key.
    """
    if _VECTOR in text.body or not text.count:
        return None
    if not text.body.isascii():
        try:
            text.body.decode()
        except UnicodeDecodeError:
            return None
    data = np.frombuffer(text.body, np.uint8)
    begins, ends = text.offsets[:-1], text.offsets[1:]
    heads = data[np.minimum(begins[:, None] + np.arange(_LONGEST), len(data) - 1)]
    is_whole = _ends_well(data, begins, ends)
    marks, behind = {}, begins.copy()
    for kind, prefix in PREFIXES.items():
        same = (heads[:, : len(prefix)] == np.frombuffer(prefix, np.uint8)).all(axis=1)
        marks[kind] = same & is_whole
        behind[marks[kind]] += len(prefix)
    is_file = marks["add"] | marks["remove"]
    rest = np.flatnonzero(~is_file)
    if len(rest) > max(_OTHERS * text.count, 64):
        return None
    pairs = np.empty(2 * text.count + 1, np.int64)
    pairs[0:-1:2], pairs[1::2], pairs[-1] = begins, behind, ends[-1]
    quotes = pc.find_substring(_slices(text.body, pairs), '"').to_numpy()[1::2]
    lengths = np.where(is_file, quotes, 0)
    if (lengths[is_file] <= 0).any():
        return None
    cuts = np.empty(3 * text.count + 1, np.int64)
    cuts[0:-1:3], cuts[1::3], cuts[2::3], cuts[-1] = begins, behind, behind + lengths, ends[-1]
    taken = _slices(text.body, cuts).take(pa.array(np.arange(1, 3 * text.count, 3)))
    paths = taken.cast(pa.large_string()).cast(pa.string())
    if b"\\" in paths.buffers()[2].to_pybytes():
        return None
    return FileLines(marks, paths, rest)


def _ends_well(data: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return which lines end as an action in an object does."""
    lasts = ends - 1 - (data[np.maximum(ends - 2, 0)] == _RETURN)
    well = (data[np.maximum(lasts - 1, 0)] == _END[0]) & (data[np.maximum(lasts - 2, 0)] == _END[0])
    enough: np.ndarray = well & (ends - begins > _LONGEST)
    return enough


def _slices(body: bytes, offsets: np.ndarray) -> pa.LargeBinaryArray:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(body)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
