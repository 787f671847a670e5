"""Which version was the latest at a moment? By the commits' own clocks where the table has them."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from engine.errors import ConfigError
from engine.log.paths import FileKind, TransactionFileRef

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_START: Final = "delta.inCommitTimestampEnablementVersion"


def commit_times(refs: Sequence[TransactionFileRef]) -> list[tuple[int, int]]:
    """Return (version, milliseconds) of each commit, ascending in both.

    Modification times may run backwards (a copied log, a skewed clock); each commit is taken to
    be at least a millisecond after the one before it, as other engines do.
    """
    times: list[tuple[int, int]] = []
    for ref in sorted((r for r in refs if r.kind is FileKind.COMMIT), key=lambda r: r.version):
        floor = times[-1][1] + 1 if times else ref.modification_time
        times.append((ref.version, max(ref.modification_time, floor)))
    return times


def version_at(times: Sequence[tuple[int, int]], moment_ms: int) -> int | None:
    """Return the last version not later than `moment_ms`, or None when all are later."""
    at = bisect_right(times, moment_ms, key=lambda entry: entry[1])
    return times[at - 1][0] if at else None


def version_at_in_commit_time(
    versions: Sequence[int], moment_ms: int, time_of: Callable[[int], int]
) -> int | None:
    """Return the last of `versions` whose own timestamp is not later than `moment_ms`.

    In-commit timestamps grow strictly, so few commits are asked: `time_of` reads one of them.
    """
    at = bisect_right(versions, moment_ms, key=time_of)
    return versions[at - 1] if at else None


def in_commit_start(configuration: Mapping[str, str]) -> int | None:
    """Return the first version with an in-commit timestamp, or None where they are off."""
    if configuration.get("delta.enableInCommitTimestamps", "false").lower() != "true":
        return None
    start = configuration.get(_START) or "0"
    if not (start.isascii() and start.isdecimal()):
        raise ConfigError(_START, start, "a version", "table property")
    return int(start)
