"""Can a checkpoint be relied on? It is read whole, and held against everything that may be deleted.

What it is measured by is the longest history there is: all commits from version 0 on, or from the
oldest checkpoint that they reach back to. A checkpoint that was made from one that had lost files
agrees with that one, and not with the commits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from engine.actions import kinds
from engine.config import MAX_DECOMPRESSED_BYTES, TXN_RETENTION_MS
from engine.errors import (
    CorruptCheckpointError,
    MissingMetadataError,
    MissingProtocolError,
    ReplayError,
    UnreadableLogFileError,
)
from engine.log.checksum import checksum_of, contradictions, parse_checksum
from engine.log.paths import FileKind
from engine.log.segment import Checkpoint, LogSegment, complete_checkpoints, segment_for
from engine.replay.checkpoints import read_checkpoint
from engine.replay.commits import plain_bytes
from engine.replay.lines import read_lines
from engine.replay.local import refuse_headless, stream
from engine.replay.rules import STATE_KEYS
from engine.replay.state import Singles, exact_sum
from engine.upkeep.allowed import refuse_unkept
from engine.upkeep.compaction.essence import Essence, checkpoint_differences

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from engine.actions import ActionBatch
    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.log.paths import TransactionFileRef

_UNSOUND = (UnreadableLogFileError, MissingProtocolError, MissingMetadataError)


def doubt(
    refs: Sequence[TransactionFileRef],
    checkpoint: Checkpoint,
    directory: LogDirectory,
    config: Config,
) -> str:
    """Read a checkpoint, and what it was made from where that is there; tell what is wrong."""
    found, singles, size_bytes = Essence(directory.table_url), Singles(), 0
    limit = config[MAX_DECOMPRESSED_BYTES]
    alone = segment_for(
        checkpoint.files,
        checkpoint.version,
        log_format=directory.log_format,
        directory=directory.url,
    )
    try:
        for batch in read_checkpoint(directory, checkpoint, limit_bytes=limit):
            found.take([batch])
            singles.take(batch)
            size_bytes += _size_bytes(batch)
        refuse_headless(singles, alone)
    except _UNSOUND as error:
        return str(error)
    damage, damaged = "", -1
    for history in _histories(refs, checkpoint, directory):
        if history.checkpoint is None or history.checkpoint.version >= damaged:
            try:
                wanted = _essence(history, directory, config)
            except (CorruptCheckpointError, MissingProtocolError, MissingMetadataError):
                continue  # an older checkpoint: the next may do
            except UnreadableLogFileError as error:
                damage = f"the history it covers cannot be replayed: {error}"
                damaged = _version_of(error, history)
                continue
            return _told(wanted, found, directory, config)
    return damage or _contradicted(refs, checkpoint, directory, found, singles, size_bytes)


def unknown_protocol(
    refs: Sequence[TransactionFileRef], below: int, directory: LogDirectory, config: Config
) -> str:
    """Tell which version below another has a protocol that txlog does not know, if one has.

    What a version's protocol is, its checksum says; where there is none, its commit or a
    checkpoint of it, or else it is that of the version before.
    """
    protocol: Mapping[str, Any] | None = None
    try:
        for version, stated in _protocols(refs, below, directory, config):
            protocol = stated or protocol
            if protocol is None:
                return f"the protocol of version {version} is not told anywhere"
            refuse_unkept(protocol, {}, directory)
    except ReplayError as error:
        return str(error)
    return ""


def _histories(
    refs: Sequence[TransactionFileRef], checkpoint: Checkpoint, directory: LogDirectory
) -> Iterator[LogSegment]:
    """Yield what makes a checkpoint's version without it, the longest history first."""
    commits = {ref.version: ref for ref in refs if ref.kind is FileKind.COMMIT}
    first = checkpoint.version + 1
    while first - 1 in commits:
        first -= 1
    older = [
        c
        for c in complete_checkpoints(refs)
        if first - 1 <= c.version < checkpoint.version and all(ref.size for ref in c.files)
    ]
    older.sort(key=lambda c: c.rank)
    for base in ([None] if first == 0 else []) + older:
        start = base.version + 1 if base else 0
        after = [commits[version] for version in range(start, checkpoint.version + 1)]
        yield segment_for(
            [*(base.files if base else ()), *after],
            checkpoint.version,
            log_format=directory.log_format,
            directory=directory.url,
        )


def _essence(history: LogSegment, directory: LogDirectory, config: Config) -> Essence:
    found, singles = Essence(directory.table_url), Singles()
    for won in stream(history, directory, config, singles):
        found.take_files(won.kind, won.actions)
    for kind in STATE_KEYS:
        for _, _, value in singles.entries(kind):
            found.take_single(kind, value)
    return found


def _told(wanted: Essence, found: Essence, directory: LogDirectory, config: Config) -> str:
    is_delta = directory.log_format.default_protocol is None
    expire = config[TXN_RETENTION_MS] > 0
    return "; ".join(checkpoint_differences(wanted, found, protocol=is_delta, txns_expire=expire))


def _size_bytes(batch: ActionBatch) -> int:
    adds = batch.columns.get("add")
    if adds is None or adds.type.get_field_index("size") < 0:
        return 0
    return exact_sum(pc.struct_field(adds, "size"))


def _version_of(error: UnreadableLogFileError, history: LogSegment) -> int:
    """Return which commit of a history an error is about; the last where it does not say."""
    commits = (ref.version for ref in history.commits if ref.path == error.path)
    return next(commits, history.version)


def _contradicted(
    refs: Sequence[TransactionFileRef],
    checkpoint: Checkpoint,
    directory: LogDirectory,
    found: Essence,
    singles: Singles,
    size_bytes: int,
) -> str:
    """Ask the only witness that is left where the commits are gone: the version's checksum."""
    ref = next(
        (r for r in refs if r.kind is FileKind.CHECKSUM and r.version == checkpoint.version), None
    )
    if ref is None:
        return ""
    said = _checksum(ref, directory)
    if said is None:
        return ""
    counted = checksum_of(
        num_files=found.files.counts.get("add", 0),
        size_bytes=size_bytes,
        protocol=singles.winner("protocol") or {},
        metadata=singles.winner("metaData") or {},
        txns={},
        domains={},
    )
    said = {name: said.get(name) for name in ("numFiles", "tableSizeBytes")}
    told = "; ".join(contradictions(said, counted))
    return told and f"its commits are gone, and {ref.path} says otherwise: {told}"


def _protocols(
    refs: Sequence[TransactionFileRef], below: int, directory: LogDirectory, config: Config
) -> Iterator[tuple[int, Mapping[str, Any] | None]]:
    """Yield the versions below another, oldest first, each with the protocol that it states."""
    older = [ref for ref in refs if ref.version < below]
    checksums = {ref.version: ref for ref in older if ref.kind is FileKind.CHECKSUM}
    commits = {ref.version: ref for ref in older if ref.kind is FileKind.COMMIT}
    checkpoints = {
        c.version: c for c in complete_checkpoints(older) if all(ref.size for ref in c.files)
    }
    for version in sorted({*commits, *checkpoints}):
        stated = None
        if version in checksums:
            stated = (_checksum(checksums[version], directory) or {}).get("protocol")
        if stated is None and version in checkpoints:
            singles = Singles()
            for batch in read_checkpoint(directory, checkpoints[version], wanted=("protocol",)):
                singles.take(batch)
            stated = singles.winner("protocol")
        if stated is None and version in commits:
            stated = _protocol_in(commits[version], directory, config)
        yield version, stated


def _checksum(ref: TransactionFileRef, directory: LogDirectory) -> dict[str, Any] | None:
    """Return what a checksum says; one that cannot be read says nothing."""
    said = parse_checksum(directory.storage.read(directory.file(ref.path)))
    return None if isinstance(said, str) else said


def _protocol_in(
    ref: TransactionFileRef, directory: LogDirectory, config: Config
) -> Mapping[str, Any] | None:
    """Return the protocol that a commit states, if it states one."""
    data = plain_bytes(directory, directory.storage.read(directory.file(ref.path)), ref, config)
    if b'"protocol"' not in data:
        return None
    known = {"protocol": kinds(directory.log_format)["protocol"]}
    stated = [action.value for action in read_lines(data, ref, known)]
    return stated[-1] if stated else None
