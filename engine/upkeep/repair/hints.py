"""Where should a hint that is wrong point? At what readers may rely on, or nowhere."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import orjson

from engine.log.hint import checksums
from engine.log.paths import HINT
from engine.upkeep.checkpoint.found import hint_to, read_whole
from engine.upkeep.repair.mended import Mended
from engine.upkeep.verify.findings import Findings
from engine.upkeep.verify.listing import list_everything
from engine.upkeep.verify.verify import check_hint

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from engine.log.listing import LogDirectory
    from engine.log.paths import TransactionFileRef
    from engine.log.segment import Checkpoint
    from engine.upkeep.verify.doubts import Doubt

_WRONG: Final = ("HINT_UNREADABLE", "HINT_DANGLING", "HINT_WRONG")


def mend_hint(
    directory: LogDirectory,
    doubts: Sequence[Doubt],
    damaged: Container[str],
    now_ms: int,
    *,
    dry_run: bool,
) -> Iterator[Mended]:
    """Point a wrong hint at the newest checkpoint that is neither damaged nor in doubt.

    Where there is none the hint goes, and readers list; where all are in doubt it stays.
    """
    files = list_everything(directory)
    found = Findings()
    check_hint(directory, files, found)
    wrong = [finding for finding in found.all() if finding.code in _WRONG]
    if not wrong:
        return
    planned = Mended(HINT, "hint", None, wrong[0].message, "planned")
    whole = [c for c in files.checkpoints if c.name not in damaged]
    doubts = [d for d in doubts if any(d.covers(c.version) for c in whole)]
    sound = [c for c in whole if not any(d.covers(c.version) for d in doubts)]
    newest = max(sound, key=lambda c: c.rank, default=None)
    if newest is None and doubts:
        yield replace(planned, action="refused", reason=doubts[0].told())
        return
    planned = replace(planned, version=None if newest is None else newest.version)
    if dry_run:
        yield planned
    elif newest is None:
        directory.storage.delete_many([directory.file(HINT)])
        yield replace(planned, action="removed")
    else:
        hint = _to(newest, directory, files.refs, now_ms)
        directory.storage.replace(directory.file(HINT), hint)
        yield replace(planned, action="recreated")


def _to(
    newest: Checkpoint,
    directory: LogDirectory,
    refs: Sequence[TransactionFileRef],
    now_ms: int,
) -> bytes:
    hint = hint_to(read_whole(directory, newest, refs), directory, now_ms)
    if directory.log_format.checkpoint_directory is None:
        hint["checksum"] = checksums(hint)[0]
    return orjson.dumps(hint)
