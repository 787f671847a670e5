"""How is each task of a run done? Given the open log; what comes back is what it says of itself.

A summary that says `sound: false` is that of a table that is not as it should be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine.upkeep.cleanup.verdicts import Cleaned
    from engine.upkeep.compaction.write import Compacted
    from engine.upkeep.repair.derived import DerivedRepair
    from engine.upkeep.verify.findings import Finding
    from engine.upkeep.verify.verify import Verification

# What a summary tells of errors; the rest of them is what `txlog verify` is for.
_TOLD: Final = 10


def _cleaned(done: Cleaned) -> dict[str, Any]:
    return {name: value for name, value in done.summary().items() if name != "files"}


def _compacted(ranges: Sequence[Compacted]) -> dict[str, Any]:
    return {
        "ranges": [done.summary() for done in ranges],
        "bytesWritten": sum(done.file_size for done in ranges if done.status == "completed"),
    }


def _mended(done: DerivedRepair) -> dict[str, Any]:
    mended = [one.summary() for one in done.mended]
    return {"mended": mended, "sound": done.sound, "errors": _errors(done.proof.findings)}


def _verified(log: Any) -> dict[str, Any]:
    found: Verification = log.verify(engine="spark" if log.spark is not None else None)
    summary = found.summary()
    kept = {name: summary[name] for name in ("sound", "warnings", "checked", "engine")}
    return kept | {"errors": _errors(found.findings)}


def _errors(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    return [one.summary() for one in findings if one.severity == "error"][:_TOLD]


TASKS: Final[Mapping[str, Callable[[Any], Mapping[str, Any]]]] = {
    "checkpoint": lambda log: log.checkpoint(repair=True).metrics(),
    "repair": lambda log: _mended(log.repair_derived()),
    "compaction": lambda log: _compacted(log.compact()),
    "cleanup": lambda log: _cleaned(log.cleanup()),
    "verify": _verified,
}
