"""Bytes of commits and JSON compactions -> VersionedActions. The same on both engines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from engine.actions import ActionBatch, pruned_kinds
from engine.replay.columns import ColumnReader
from engine.replay.compression import DEFAULT_LIMIT_BYTES, decode
from engine.replay.lines import LineAction, read_line, read_lines, to_batch
from engine.replay.plain import NotPlainError, line_ends

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from engine.formats import LogFormat
    from engine.log.paths import TransactionFileRef

# Files are read together in chunks of about this size: large enough to keep Arrow busy, small
# enough that a few of them in flight stay out of the way of the result.
CHUNK_BYTES: Final = 8 * 1024 * 1024

_FILE_ACTIONS: Final = (b'{"add"', b'{"remove"')
_HEAD_LINES: Final = 16
_TAIL_LINES: Final = 4
_NEWLINE: Final = 0x0A


class Parser:
    """Parses log files of one format; keeps what it learned of their fields between calls."""

    def __init__(
        self,
        log_format: LogFormat,
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
        fields: tuple[str, ...] | None = None,
        wanted: Collection[str] | None = None,
    ) -> None:
        self._format = log_format
        known = pruned_kinds(log_format, fields)
        self._known = {k: t for k, t in known.items() if wanted is None or k in wanted}
        self._limit_bytes = limit_bytes
        self._reader = ColumnReader(self._known)

    def parse(self, files: Iterable[tuple[TransactionFileRef, bytes]]) -> list[ActionBatch]:
        """Return every action of `files`, each with its version and its place in its file.

        Raises UnreadableLogFileError for the first line that is not sound.
        """
        aside: list[LineAction] = []
        sections: list[_Section] = []
        pieces: list[bytes | memoryview] = []
        length = 0
        for ref, data in files:
            plain = data
            if self._format.compressed_commits:
                plain = decode(data, ref.path, self._limit_bytes)
            head, start = _head(plain)
            tail, end = _tail(plain, start)
            if end > start:
                pieces.append(memoryview(plain)[start:end])
                length += end - start
                if plain[end - 1] != _NEWLINE:
                    pieces.append(b"\n")
                    length += 1
            if head or tail:
                after = len(head) + plain.count(b"\n", start, end) if tail else 0
                self._read_aside(ref, head, tail, after, aside)
            if end > start:
                sections.append(_Section(ref, len(head), length))
        body = b"".join(pieces)
        pieces.clear()
        batches = self._bodies(body, sections)
        return [to_batch(aside, self._known), *batches] if aside else batches

    def _read_aside(
        self,
        ref: TransactionFileRef,
        head: list[bytes],
        tail: list[bytes],
        after: int,
        aside: list[LineAction],
    ) -> None:
        """Read the lines around a file's run of file actions; `after` is the first tail's place."""
        for first, lines in ((0, head), (after, tail)):
            for ordinal, line in enumerate(lines, first):
                if line.strip():
                    action = read_line(line, ref, ordinal, self._known)
                    if action is not None:
                        aside.append(action)

    def _bodies(self, body: bytes, sections: Sequence[_Section]) -> list[ActionBatch]:
        if not sections:
            return []
        try:
            return self._columns(body, sections)
        except NotPlainError:
            if len(sections) == 1:
                # Here an unsound line raises, with its place.
                lines = read_lines(body, sections[0].ref, self._known, sections[0].first_ordinal)
                return [to_batch(list(lines), self._known)]
        batches = []
        start = 0
        for section in sections:
            alone = replace(section, end=section.end - start)
            batches += self._bodies(body[start : section.end], [alone])
            start = section.end
        return batches

    def _columns(self, body: bytes, sections: Sequence[_Section]) -> list[ActionBatch]:
        ends = line_ends(body)
        lines_so_far = np.searchsorted(ends, [section.end for section in sections])
        counts = np.diff(lines_so_far, prepend=0)
        versions = np.repeat(np.array([s.ref.version for s in sections], dtype=np.int64), counts)
        offsets = np.array([s.first_ordinal for s in sections], dtype=np.int64)
        offsets -= lines_so_far - counts
        ordinals = np.arange(len(versions), dtype=np.int64) + np.repeat(offsets, counts)
        batch, exact = self._reader.read(body, ends, versions, ordinals)
        if not exact.any():
            return [batch]
        lines = body.split(b"\n")
        owner = np.repeat(np.arange(len(sections)), counts)
        found = (
            read_line(lines[row], sections[owner[row]].ref, int(ordinals[row]), self._known)
            for row in np.flatnonzero(exact)
        )
        return [batch, to_batch([action for action in found if action], self._known)]


def chunks(
    refs: Iterable[TransactionFileRef], size_bytes: int = CHUNK_BYTES
) -> Iterator[list[TransactionFileRef]]:
    """Group refs, in their order, into runs of about `size_bytes`."""
    run: list[TransactionFileRef] = []
    room = size_bytes
    for ref in refs:
        run.append(ref)
        room -= ref.size
        if room <= 0:
            yield run
            run, room = [], size_bytes
    if run:
        yield run


@dataclass(frozen=True, slots=True)
class _Section:
    """One file's run of file actions: its first line's place, and where it ends in the text."""

    ref: TransactionFileRef
    first_ordinal: int
    end: int


def _head(data: bytes) -> tuple[list[bytes], int]:
    lines: list[bytes] = []
    start = 0
    while start < len(data) and len(lines) < _HEAD_LINES:
        if data.startswith(_FILE_ACTIONS, start):
            break
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        lines.append(data[start:end])
        start = end + 1
    return lines, min(start, len(data))


def _tail(data: bytes, start: int) -> tuple[list[bytes], int]:
    lines: list[bytes] = []
    end = len(data)
    while end > start and len(lines) < _TAIL_LINES:
        stop = end - 1 if data[end - 1] == _NEWLINE else end
        begin = max(data.rfind(b"\n", start, stop) + 1, start)
        if data.startswith(_FILE_ACTIONS, begin):
            break
        lines.append(data[begin:stop])
        end = begin
    return lines[::-1], end
