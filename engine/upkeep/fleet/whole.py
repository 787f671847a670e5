"""Is a derived file of a log whole? Looked at by its ends, or, where that is asked for, read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson

from engine.config import MAX_DECOMPRESSED_BYTES
from engine.errors import MissingSidecarError, UnreadableLogFileError
from engine.replay.checkpoints import (
    ALL_KINDS,
    read_checkpoint,
    read_checkpoint_file,
    sidecars,
)
from engine.replay.pieces import RANGE_BYTES
from engine.replay.plan import split
from engine.replay.rules import STATE_KEYS
from engine.upkeep.compaction.lines import RunReader

if TYPE_CHECKING:
    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.log.paths import TransactionFileRef
    from engine.log.segment import Checkpoint

_END_BYTES: Final = 64 * 1024


def examine_checkpoint(
    checkpoint: Checkpoint, directory: LogDirectory, config: Config, *, deep: bool
) -> None:
    """Raise CorruptCheckpointError where a checkpoint is not whole, as far as is looked."""
    limit = config[MAX_DECOMPRESSED_BYTES]
    if deep:
        for _ in read_checkpoint(directory, checkpoint, limit_bytes=limit):
            pass
        return
    for ref in checkpoint.files:
        for batch in read_checkpoint_file(
            directory, ref, wanted=tuple(STATE_KEYS), fields=(), limit_bytes=limit
        ):
            for sidecar in sidecars(batch, ref.version):
                if not directory.storage.exists(directory.file(sidecar.path)):
                    raise MissingSidecarError(
                        sidecar.path, "a sidecar of the checkpoint is missing"
                    )


def examine_compaction(
    ref: TransactionFileRef, directory: LogDirectory, config: Config, *, deep: bool
) -> None:
    """Raise UnreadableLogFileError where a compaction is not whole, as far as is looked.

    Text that may be compressed has no end to look at, and is read.
    """
    if not ref.is_json:
        wanted, fields = (ALL_KINDS, None) if deep else (tuple(STATE_KEYS), ())
        for _ in read_checkpoint_file(directory, ref, wanted=wanted, fields=fields):
            pass
    elif deep or directory.log_format.compressed_commits:
        reader = RunReader(directory, config)
        for piece in split(ref, RANGE_BYTES):
            for _ in reader.batches([piece]):
                pass
    else:
        _examine_end(ref, directory)


def _examine_end(ref: TransactionFileRef, directory: LogDirectory) -> None:
    start = max(0, ref.size - _END_BYTES)
    data = directory.storage.read_range(directory.file(ref.path), start, ref.size - start)
    _, newline, line = data.rstrip().rpartition(b"\n")
    if start and not newline:
        is_whole = line.endswith(b"}")  # one line that is longer than what was read
    else:
        try:
            is_whole = isinstance(orjson.loads(line), dict)
        except orjson.JSONDecodeError:
            is_whole = False
    if not is_whole:
        raise UnreadableLogFileError(ref.path, "it is torn: its last line is not whole")
