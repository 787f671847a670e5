"""How does a version get its checksum? After its commit, from what is in memory; never twice."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from engine.errors import AlreadyExistsError
from engine.log.checksum import CHECKSUM, checksum_of, contradictions, parse_checksum
from engine.log.paths import FileKind, checksum_name
from engine.log.segment import Fallback
from engine.replay.state import LocalState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.commit.transaction import Committed
    from engine.log.paths import TransactionFileRef
    from engine.snapshot import Snapshot


def write_checksum(log: Any, done: Committed) -> None:
    """Write the checksum of the version that was committed: a hook.

    Readers work without it: where the state of that version is not the latest any more, or not in
    memory, there is none.
    """
    snapshot = log.snapshot()
    if snapshot.version != done.version or not isinstance(snapshot.state, LocalState):
        return
    said = {"txnId": done.txn_id, **checksum_content(snapshot)}
    path = log.directory.file(checksum_name(done.version))
    try:
        log.directory.storage.write_new(path, orjson.dumps(said))
    except AlreadyExistsError:
        return


def checksum_content(snapshot: Snapshot) -> dict[str, Any]:
    """Return what the checksum of a snapshot's version says, whoever writes it."""
    stamp = snapshot.in_commit_timestamp()
    return _of(snapshot) | ({} if stamp is None else {"inCommitTimestampOpt": stamp})


def cross_checked(snapshot: Snapshot, refs: Iterable[TransactionFileRef]) -> Snapshot:
    """Return the snapshot, its fallbacks with what its checksum, one of `refs`, contradicts."""
    ref = next(
        (ref for ref in refs if ref.kind is FileKind.CHECKSUM and ref.version == snapshot.version),
        None,
    )
    if ref is None:
        return snapshot
    try:
        said = parse_checksum(snapshot.directory.storage.read(snapshot.directory.file(ref.path)))
    except FileNotFoundError:
        return snapshot
    found = [said] if isinstance(said, str) else list(contradictions(said, _of(snapshot)))
    if not found:
        return snapshot
    reason = f"{'; '.join(found)}; the log counts"
    fallback = Fallback(CHECKSUM, ref.path, reason)
    return replace(snapshot, fallbacks=(*snapshot.fallbacks, fallback))


def _of(snapshot: Snapshot) -> dict[str, Any]:
    totals = snapshot.totals()
    return checksum_of(
        num_files=totals.num_files,
        size_bytes=totals.size_bytes,
        protocol=snapshot.protocol,
        metadata=snapshot.metadata,
        txns=snapshot.state.txns,
        domains=snapshot.domains,
    )
