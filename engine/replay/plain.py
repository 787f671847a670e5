"""Is a text plain: one sound JSON object a line, which Arrow reads as any JSON reader does?"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

# Arrow's type inference recurses without a limit; the exact reader refuses more than this many
# brackets inside each other. A shorter line cannot hold as many.
_SAFE_NESTING: Final = 1000
_NEWLINE, _RETURN, _OPEN, _CLOSE, _BRACKET = b"\n\r{}["
_PIECE_BYTES: Final = 1 << 17


class NotPlainError(Exception):
    """These lines need the exact reader."""


def line_ends(body: bytes) -> np.ndarray:
    """Return where the newlines of `body` are."""
    text = np.frombuffer(body, dtype=np.uint8)
    # In pieces that stay in the processor's cache.
    pieces = range(0, len(text), _PIECE_BYTES)
    found = [np.flatnonzero(text[at : at + _PIECE_BYTES] == _NEWLINE) + at for at in pieces]
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


def refuse_unsafe(body: bytes, ends: np.ndarray) -> None:
    """Raise NotPlainError for text that Arrow reads otherwise than line by line, or not at all.

    Arrow takes one object after the other and does not look at line ends. Where a line end stands
    between two braces it cannot stand inside an object; so no object goes over a line end, and as
    many rows as lines means one in each.
    """
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise NotPlainError(str(error)) from None
    text = np.frombuffer(body, dtype=np.uint8)
    last = ends - 1 - (text[ends - 1] == _RETURN)
    if text[0] != _OPEN or (text[ends[:-1] + 1] != _OPEN).any() or (text[last] != _CLOSE).any():
        raise NotPlainError("a line is not one object")
    if np.diff(ends, prepend=-1).max() > _SAFE_NESTING:
        brackets = np.flatnonzero((text == _OPEN) | (text == _BRACKET))
        if np.diff(np.searchsorted(brackets, ends), prepend=0).max() > _SAFE_NESTING:
            raise NotPlainError("deeply nested")


def refuse_not_finite(table: pa.Table) -> None:
    """Raise NotPlainError for numbers that JSON does not have, and that Arrow takes.

    No field that we know is a fraction: only what unknown ones hold is looked at.
    """
    columns = (column for column in table.columns if _has_fractions(column.type))
    left = [chunk for column in columns for chunk in column.chunks]
    while left:
        array = left.pop()
        if pt.is_floating(array.type) and pc.all(pc.is_finite(array)).as_py() is False:
            raise NotPlainError("a number that is none")
        if array.type.num_fields:
            left += array.flatten() if pt.is_struct(array.type) else [array.flatten()]


def _has_fractions(kind: pa.DataType) -> bool:
    left = [kind]  # not by recursion: an unknown field may be deep
    while left:
        kind = left.pop()
        if pt.is_floating(kind):
            return True
        left += [kind.field(index).type for index in range(kind.num_fields)]
    return False
