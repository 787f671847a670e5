"""Which lines of a window of commits win? The lines themselves, as their writer wrote them.

A compaction in JSON holds actions as commits have them, so the line of an action that wins is
copied byte for byte: with fields that nobody here knows, numbers as they were spelled, statistics
to the letter. Every line of a window is parsed as a replay parses it, also one that loses: what
makes a commit unreadable may not vanish with it. Keys are found by their quotes where that is
enough.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.actions import ActionBatch, kinds
from engine.config import CHECKPOINT_PARALLELISM, MAX_DECOMPRESSED_BYTES, Config
from engine.errors import StorageError, UnreadableLogFileError
from engine.replay.compression import decode
from engine.replay.files import FileRows, file_rows, newest_of_run
from engine.replay.keys import canonical_paths, fingerprints
from engine.replay.lines import read_line
from engine.replay.local import in_order
from engine.replay.parse import Parser
from engine.replay.pieces import RANGE_BYTES, Piece
from engine.replay.plan import split
from engine.replay.reading import chunked, range_bytes
from engine.replay.rules import FILE_KINDS, STATE_KEYS
from engine.upkeep.compaction.text import Text, file_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.log.listing import LogDirectory
    from engine.log.paths import TransactionFileRef
    from engine.replay.keyset import KeySet


@dataclass(frozen=True, slots=True)
class Single:
    """One action of a kind that is rare: its key, where it stands, its line, what it says."""

    kind: str
    key: str
    position: tuple[int, int]
    line: bytes
    value: Any


@dataclass(frozen=True, slots=True)
class Run:
    """The actions of some commits: newer than any run that comes later, in any order within.

    Of file actions there is the key: `column` of its `files` may have no more than the path.
    """

    files: list[FileRows]
    singles: list[Single]
    text: Text

    def won(self, seen: KeySet) -> list[tuple[FileRows, np.ndarray]]:
        """Return which file actions have a key that was not seen before; enters their keys."""
        masks = newest_of_run(self.files, seen)
        return [(part, keep) for part, keep in zip(self.files, masks, strict=True) if keep.any()]

    def lines(self, won: Iterable[tuple[FileRows, np.ndarray]]) -> bytes:
        """Return the lines of these file actions, in the order of the text."""
        rows = [self.text.rows(part.versions[keep], part.ordinals[keep]) for part, keep in won]
        return self.text.joined(np.concatenate(rows)) if rows else b""


@dataclass(slots=True)
class WonSingles:
    """Reconciles the actions that are rare, run by run, the newest run first."""

    won: dict[tuple[str, str], Single] = field(default_factory=dict)

    def take(self, singles: Iterable[Single]) -> None:
        """Enter the actions of a run."""
        for single in singles:
            known = self.won.get((single.kind, single.key))
            if known is None or known.position <= single.position:
                self.won[single.kind, single.key] = single

    def in_order(self) -> list[Single]:
        """Return the winners, kind by kind and key by key."""
        order = list(STATE_KEYS)
        return [self.won[key] for key in sorted(self.won, key=lambda k: (order.index(k[0]), k[1]))]


@dataclass(slots=True)
class Keys:
    """How many actions of each kind, and the sum of what their keys are compared by."""

    counts: dict[str, int] = field(default_factory=dict)
    total: int = 0

    def take(self, part: FileRows, keep: np.ndarray | None = None) -> None:
        """Enter the file actions that `keep` marks, or all."""
        first, second = part.first, part.second
        if keep is not None:
            first, second = first[keep], second[keep]
        self.counts[part.kind] = self.counts.get(part.kind, 0) + len(first)
        self.total += int((first ^ (second << np.uint64(1))).sum(dtype=np.uint64))
        self.total %= 1 << 64

    def take_single(self, single: Single) -> None:
        """Enter an action of another kind."""
        self.counts[single.kind] = self.counts.get(single.kind, 0) + 1

    @property
    def size(self) -> int:
        """The number of actions."""
        return sum(self.counts.values())


def newest_runs(
    refs: Sequence[TransactionFileRef], directory: LogDirectory, config: Config
) -> Iterator[Run]:
    """Yield the actions of commits, the newest first, working ahead on a few runs.

    A commit of any size is read in pieces: what is held does not grow with it.
    """
    pieces = [piece for ref in refs for piece in split(ref, RANGE_BYTES)]
    pieces.sort(key=lambda piece: (piece.ref.version, piece.offset), reverse=True)
    reader = RunReader(directory, config)
    for _, run in in_order(reader.read, chunked(pieces), workers(config)):
        yield run


class RunReader:
    """Reads pieces of JSON log files for their keys. Safe to use from many threads.

    With `proven`, the lines are those of files that were read before: no more than their keys is
    looked at.
    """

    def __init__(self, directory: LogDirectory, config: Config, *, proven: bool = False) -> None:
        self._directory = directory
        self._proven = proven
        self._limit = config[MAX_DECOMPRESSED_BYTES]
        self._known = kinds(directory.log_format)
        # All kinds: a line that holds two actions is refused, and so none is copied with another.
        self._parser = Parser(directory.log_format, self._limit, fields=() if proven else None)

    def read(self, pieces: Sequence[Piece]) -> Run:
        """Return the keys of whole files, or of one piece of one, with their lines.

        Raises UnreadableLogFileError for a line that is not sound.
        """
        contents = sorted(self._contents(pieces), key=lambda entry: entry[0].ref.version)
        text = Text.of(contents)
        run = self._scanned(text)
        if run is None:
            return self._parsed(text, contents)
        if not self._proven:
            self._sound(contents)
        return run

    def batches(self, pieces: Sequence[Piece]) -> Iterator[ActionBatch]:
        """Yield all fields of all actions of some pieces."""
        parser = Parser(self._directory.log_format, self._limit)
        yield from parser.parse((piece.ref, data) for piece, data in self._contents(pieces))

    def _scanned(self, text: Text) -> Run | None:
        """Find keys by their quotes; None where a line does not begin as it should."""
        found = file_lines(text)
        if found is None:
            return None
        singles = []
        for row in found.rest:
            single = self._single(text, int(row))
            if single is not None:
                if single.kind in FILE_KINDS:
                    return None
                singles.append(single)
        root, files = self._directory.table_url, []
        for kind, mark in found.marks.items():
            if mark.any():
                files.append(_rows(kind, found.paths.filter(pa.array(mark)), mark, text, root))
        return Run(files, singles, text)

    def _single(self, text: Text, row: int) -> Single | None:
        line = text.line(row)
        if not line.strip():
            return None
        versions, ordinals = text.places(np.array([row]))
        ref, offset = text.owners[int(versions[0])]
        position = int(versions[0]), int(ordinals[0])
        action = read_line(line, ref, position[1] - offset, self._known)
        if action is None:
            return None
        kind = action.kind
        if kind not in STATE_KEYS:
            return Single(kind, "", position, line, None) if kind in FILE_KINDS else None
        key = STATE_KEYS[kind]
        return Single(kind, action.value[key] if key else "", position, line, action.value)

    def _parsed(self, text: Text, contents: Sequence[tuple[Piece, bytes]]) -> Run:
        files: list[FileRows] = []
        singles: list[Single] = []
        shift = contents[0][0].offset if contents else 0
        for batch in self._sound(contents):
            # A part of a file goes alone; any number that grows along the file orders its lines.
            moved = pc.add(batch.ordinal, pa.scalar(shift, pa.int64())) if shift else batch.ordinal
            placed = replace(batch, ordinal=moved)
            files += file_rows(placed, self._directory.table_url)
            singles += _singles(placed, text)
        return Run(files, singles, text)

    def _sound(self, contents: Sequence[tuple[Piece, bytes]]) -> list[ActionBatch]:
        """Return all actions; raise UnreadableLogFileError for the first line that is not sound."""
        try:
            return self._parser.parse((piece.ref, data) for piece, data in contents)
        except UnreadableLogFileError:
            for piece in (piece for piece, _ in contents if piece.is_part):
                # Only the whole file can tell on which line.
                path = self._directory.file(piece.ref.path)
                self._parser.parse([(piece.ref, self._directory.storage.read(path))])
            raise

    def _contents(self, pieces: Sequence[Piece]) -> Iterator[tuple[Piece, bytes]]:
        directory = self._directory
        whole = [piece for piece in pieces if not piece.is_part]
        read = directory.storage.read_many([directory.file(p.ref.path) for p in whole])
        try:
            for piece, (_, data) in zip(whole, read, strict=True):
                yield piece, self._plain(piece.ref, data)
            for piece in pieces:
                # No line may begin in a part; all of a compressed file is in its first.
                if piece.is_part and (data := range_bytes(piece, directory)):
                    yield piece, self._plain(piece.ref, data)
        except FileNotFoundError as error:
            raise StorageError(
                directory.url, f"{error}: a log file went away while it was read; try again"
            ) from None

    def _plain(self, ref: TransactionFileRef, data: bytes) -> bytes:
        if not self._directory.log_format.compressed_commits:
            return data
        return decode(data, ref.path, self._limit)


def workers(config: Config) -> int:
    """Return how many threads read and parse."""
    return max(1, min(config[CHECKPOINT_PARALLELISM], os.cpu_count() or 1))


def _rows(kind: str, paths: pa.Array, mark: np.ndarray, text: Text, root: str) -> FileRows:
    """Return what `file_rows` does, of paths alone."""
    raw = paths.buffers()[2].to_pybytes()
    # No path is absolute that has no scheme and does not begin with a slash.
    may_be = b":" in raw or pc.any(pc.starts_with(paths, "/")).as_py()
    first, second = fingerprints(canonical_paths(paths, root) if may_be else paths, None)
    versions, ordinals = text.places(np.flatnonzero(mark))
    column = pa.StructArray.from_arrays([paths], ["path"])
    return FileRows(kind, column, np.arange(len(paths)), first, second, versions, ordinals)


def _singles(batch: ActionBatch, text: Text) -> Iterator[Single]:
    for kind, key in STATE_KEYS.items():
        column = batch.columns.get(kind)
        if column is None or column.null_count == len(column):
            continue
        here = column.is_valid()
        rows = zip(
            batch.version.filter(here).to_pylist(),
            batch.ordinal.filter(here).to_pylist(),
            column.filter(here).to_pylist(maps_as_pydicts="lossy"),
            strict=True,
        )
        for version, ordinal, value in rows:
            row = int(text.rows(np.array([version]), np.array([ordinal]))[0])
            position = (version, ordinal)
            yield Single(kind, value[key] if key else "", position, text.line(row), value)
