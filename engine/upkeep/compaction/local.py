"""How does this process write a compaction? The lines of winners as they are, or rows of Parquet.

What is held is the keys of the window and a few of its commits, however large it is.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from engine.actions import conform, kinds, nulls
from engine.errors import CompactionValidationError, UnreadableLogFileError
from engine.log.paths import FileKind, TransactionFileRef
from engine.log.segment import LogSegment
from engine.replay.checkpoints import ALL_KINDS, read_checkpoint_file
from engine.replay.content import Content, content_of, total
from engine.replay.keyset import KeySet
from engine.replay.local import in_order, stream
from engine.replay.plan import split
from engine.replay.rules import STATE_KEYS
from engine.replay.state import Singles
from engine.upkeep.compaction.essence import Essence, compaction_differences
from engine.upkeep.compaction.lines import Keys, RunReader, WonSingles, newest_runs, workers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.config import Config
    from engine.formats import LogFormat
    from engine.log.listing import LogDirectory
    from engine.upkeep.publish import Staging

# Read back in pieces of this size: small enough for all threads to have one.
_PIECE_BYTES: Final = 16 * 1024 * 1024
_ROW_GROUP_ROWS: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Written:
    """A staged compaction that was read back, and says what it should.

    `name` is its staged name, where that is not the one asked for.
    """

    size: int
    actions: int
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Local:
    """Writes compactions in this process, holding no more than the keys and a few commits."""

    directory: LogDirectory
    config: Config
    name: str = "local"

    def write(self, commits: Sequence[TransactionFileRef], staging: Staging, name: str) -> Written:
        """Write the winners of commits, newest first, and read them back."""
        if not name.endswith(".json"):
            return self._rows(commits, staging, name)
        path = staging.path(name)
        seen, singles, keys, crc = KeySet(), WonSingles(), Keys(), 0
        with self.directory.storage.open_output(path) as file:
            for run in newest_runs(commits, self.directory, self.config):
                singles.take(run.singles)
                won = run.won(seen)
                for part, keep in won:
                    keys.take(part, keep)
                crc = _put(file, run.lines(won), crc)
            for single in singles.in_order():
                keys.take_single(single)
                crc = _put(file, single.line + b"\n", crc)
        size = self.directory.storage.size(path)
        prove_lines(self.directory, self.config, staging.name(name), size, keys, crc)
        return Written(size, keys.size)

    def _rows(self, commits: Sequence[TransactionFileRef], staging: Staging, name: str) -> Written:
        path = staging.path(name)
        singles, content = Singles(), Content()
        segment = window_segment(commits, self.directory)
        with self.directory.storage.open_output(path) as file:
            rows = Rows(file, self.directory.log_format)
            for won in stream(segment, self.directory, self.config, singles):
                content += rows.write(won.kind, won.actions)
            for kind in STATE_KEYS:
                values = [value for _, _, value in singles.entries(kind)]
                if values:
                    content += rows.write(kind, values)
            rows.close()
        size = self.directory.storage.size(path)
        ref = staged_ref(staging.name(name), size)
        batches = read_checkpoint_file(self.directory, ref, wanted=ALL_KINDS)
        found = total(content_of(batch.columns) for batch in batches)
        if differences := content.differences(found):
            raise CompactionValidationError(self.directory.url, name, "; ".join(differences))
        return Written(size, content.size)


def prove_lines(
    directory: LogDirectory, config: Config, name: str, size: int, keys: Keys, crc: int
) -> None:
    """Read a staged file of JSON lines back: the same bytes, the same kinds, the same keys.

    Its lines are the bytes of commits. Raises CompactionValidationError.
    """
    reader = RunReader(directory, config, proven=True)
    found, found_crc, found_size = Keys(), 0, 0
    pieces = ([piece] for piece in split(staged_ref(name, size), _PIECE_BYTES))
    try:
        for _, run in in_order(reader.read, pieces, workers(config)):
            for part in run.files:
                found.take(part)
            for single in run.singles:
                found.take_single(single)
            found_crc = zlib.crc32(run.text.body, found_crc)
            found_size += len(run.text.body)
    except UnreadableLogFileError as error:
        raise CompactionValidationError(directory.url, name, error.reason) from None
    if (found, found_crc, found_size) != (keys, crc, size):
        told = f"{found.counts} of {keys.counts} actions, {found_size:,} of {size:,} bytes"
        raise CompactionValidationError(directory.url, name, told)


class Rows:
    """Writes actions as rows of Parquet, one struct column a kind, as checkpoints have them."""

    def __init__(self, file: Any, log_format: LogFormat) -> None:
        self._kinds = {k: t for k, t in kinds(log_format).items() if k in ALL_KINDS}
        self._schema = pa.schema(self._kinds)
        self._writer = pq.ParquetWriter(file, self._schema, write_page_checksum=True)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    def write(self, kind: str, actions: pa.StructArray | list[Any]) -> Content:
        """Write actions of one kind; return what they say."""
        wanted = self._kinds[kind]
        column = pa.array(actions, wanted) if isinstance(actions, list) else actions
        whole = conform(column, wanted)
        arrays = [
            whole if name == kind else nulls(len(whole), other)
            for name, other in self._kinds.items()
        ]
        self._waiting.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._rows += len(whole)
        if self._rows >= _ROW_GROUP_ROWS:
            self._flush()
        return content_of({kind: column})

    def close(self) -> None:
        """Write what is waiting, and the footer."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting))
        self._waiting, self._rows = [], 0


def damage(
    ref: TransactionFileRef, directory: LogDirectory, config: Config, wanted: Essence
) -> list[str]:
    """Return what is wrong with a compaction, in words; nothing where it is sound."""
    if not ref.size:
        return ["it is empty"]
    found = Essence(directory.table_url)
    try:
        if ref.is_json:
            reader = RunReader(directory, config)
            for piece in split(ref, _PIECE_BYTES):
                found.take(reader.batches([piece]))
        else:
            found.take(read_checkpoint_file(directory, ref, wanted=ALL_KINDS))
    except UnreadableLogFileError as error:
        return [error.reason]
    return compaction_differences(wanted, found)


def essence_of(
    commits: Sequence[TransactionFileRef], directory: LogDirectory, config: Config
) -> Essence:
    """Return the least that a compaction of these commits must say."""
    found, singles = Essence(directory.table_url), Singles()
    for won in stream(window_segment(commits, directory), directory, config, singles):
        found.take_files(won.kind, won.actions)
    for kind in STATE_KEYS:
        for _, _, value in singles.entries(kind):
            found.take_single(kind, value)
    return found


def window_segment(commits: Sequence[TransactionFileRef], directory: LogDirectory) -> LogSegment:
    """Return commits as a segment that begins nowhere: what they say, and nothing before them."""
    return LogSegment(
        log_format=directory.log_format,
        directory=directory.url,
        version=commits[-1].version,
        checkpoint=None,
        compactions=(),
        commits=tuple(commits),
        last_commit=commits[-1],
    )


def staged_ref(name: str, size: int) -> TransactionFileRef:
    """Return the ref of a staged compaction."""
    return TransactionFileRef(0, name, size, 0, FileKind.COMPACTION, 0)


def _put(file: Any, data: bytes, crc: int) -> int:
    file.write(data)
    return zlib.crc32(data, crc)
