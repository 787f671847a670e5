"""Only the protocol and the metaData of a version: newest first, and stop when both are found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from engine.actions import files_schema, kinds, tombstones_schema
from engine.config import MAX_DECOMPRESSED_BYTES
from engine.errors import CorruptCheckpointError
from engine.replay.checkpoints import read_checkpoint, read_checkpoint_file, sidecars
from engine.replay.claims import METADATA, Tally
from engine.replay.compression import decode
from engine.replay.footers import footer_counts
from engine.replay.lines import read_line
from engine.replay.rules import FILE_KINDS, STATE_KEYS
from engine.replay.state import Singles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.log.paths import TransactionFileRef
    from engine.log.segment import LogSegment
    from engine.replay.state import LocalState

HEAD_KINDS: Final = ("protocol", "metaData")


@dataclass(frozen=True, slots=True)
class Head:
    """What a reader must support, and what the table says of itself, at one version."""

    version: int
    protocol: Mapping[str, Any]
    metadata: Mapping[str, Any]


def read_head(segment: LogSegment, directory: LogDirectory, config: Config) -> LocalState:
    """Return a state that has its protocol and metaData, and no files."""
    limit = config[MAX_DECOMPRESSED_BYTES]
    singles = Singles()
    for ref in reversed(segment.tail):
        _take(ref, directory, limit, singles)
        if all(singles.winner(kind) for kind in HEAD_KINDS):
            break
    else:
        if segment.checkpoint:
            for batch in read_checkpoint(
                directory, segment.checkpoint, wanted=HEAD_KINDS, limit_bytes=limit
            ):
                singles.take(batch)
    log_format = directory.log_format
    return singles.state(
        files_schema(log_format).empty_table(), tombstones_schema(log_format).empty_table()
    )


def read_base(
    segment: LogSegment, directory: LogDirectory, config: Config
) -> tuple[list[TransactionFileRef], Singles]:
    """Return the files that hold the rows of the checkpoint, and its single actions.

    Of its file actions nothing is kept: a V2 manifest, and these few columns, are all that is read,
    and the footers of sidecars where it is said how much they hold.
    Raises CorruptCheckpointError where that much shows that there is less than should be.
    """
    files: list[TransactionFileRef] = []
    singles = Singles()
    if segment.checkpoint is None:
        return files, singles
    wanted = (*STATE_KEYS, METADATA)
    tally = Tally(segment.checkpoint, wanted)
    named: list[TransactionFileRef] = []
    for ref in segment.checkpoint.files:
        files.append(ref)
        for batch in read_checkpoint_file(
            directory,
            ref,
            wanted=wanted,
            fields=(),
            limit_bytes=config[MAX_DECOMPRESSED_BYTES],
            tally=tally,
        ):
            tally.take(batch)
            singles.take(batch)
            named += sidecars(batch, ref.version)
    counted = tally.asks_for_sidecars(directory)
    if counted:
        for adds, others in footer_counts(directory, named):
            tally.take_footer(adds, others)
    tally.settle(directory, FILE_KINDS if counted else ())
    return files + named, singles


def sidecars_of(
    segment: LogSegment, directory: LogDirectory, config: Config
) -> list[TransactionFileRef]:
    """Return the sidecars of a checkpoint; of a damaged one, which its reader tells of, none."""
    limit = config[MAX_DECOMPRESSED_BYTES]
    try:
        return [
            sidecar
            for ref in (segment.checkpoint.files if segment.checkpoint else ())
            for batch in read_checkpoint_file(
                directory, ref, wanted=(), fields=(), limit_bytes=limit
            )
            for sidecar in sidecars(batch, ref.version)
        ]
    except CorruptCheckpointError:
        return []


def _take(
    ref: TransactionFileRef, directory: LogDirectory, limit_bytes: int, singles: Singles
) -> None:
    if not ref.is_json:
        for batch in read_checkpoint_file(directory, ref, wanted=HEAD_KINDS):
            singles.take(batch)
        return
    data = directory.storage.read(directory.file(ref.path))
    if directory.log_format.compressed_commits:
        data = decode(data, ref.path, limit_bytes)
    known = {kind: kinds(directory.log_format)[kind] for kind in HEAD_KINDS}
    if not any(f'"{kind}"'.encode() in data for kind in known):
        return
    for ordinal, line in enumerate(data.split(b"\n")):
        if any(f'"{kind}"'.encode() in line for kind in known):
            action = read_line(line, ref, ordinal, known)
            if action is not None:
                singles.enter(action.kind, (ref.version, ordinal), action.value)
