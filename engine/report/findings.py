"""What do people read of a verification or a repair? One finding a line, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.upkeep.repair.write import Paths
from engine.upkeep.verify.catalogue import SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from engine.upkeep.repair.derived import DerivedRepair
    from engine.upkeep.repair.repair import Repaired
    from engine.upkeep.verify.findings import Finding
    from engine.upkeep.verify.verify import Verification

_SHOWN: Final = 5
_COUNTED: Final = {
    "commits": "commit",
    "actions": "action",
    "checkpoints": "checkpoint",
    "compactions": "compaction",
    "checksums": "checksum",
    "sidecars": "sidecar",
    "dataFiles": "data file",
    "deletionVectors": "deletion vector file",
}


def verification_lines(found: Verification, *, infos: bool = True) -> Iterator[str]:
    """Yield what a verification found, the worst first; the last line is the verdict."""
    yield f"{found.table}\n"
    told = [f for f in found.findings if infos or f.severity != SEVERITIES[-1]]
    yield from finding_lines(told)
    checked = [
        f"{count:,} {_COUNTED[name]}{'' if count == 1 else 's'}"
        for name, count in found.checked.items()
        if count
    ]
    yield f"checked {', '.join(checked)} in {found.seconds:.1f} s\n"
    counts = [
        f"{found.count(name):,} {name}{_plural(found.count(name), name)}" for name in SEVERITIES
    ]
    verdict = "sound" if found.sound else "NOT SOUND"
    yield f"version {found.version} is {verdict}: {', '.join(counts)}\n"


def repair_lines(done: Repaired) -> Iterator[str]:
    """Yield what a repair kept and what it did not, and why; the last line is the verdict."""
    said = "would write" if done.status == "dry run" else "wrote"
    yield f"{said} version {done.source_version} of {done.source}\n"
    yield f"to {done.target}\n"
    used = [done.used.get("checkpoint"), *done.used.get("compactions", ())]
    made = [name for name in used if name] + [f"{done.used.get('commits', 0):,} commits"]
    yield f"from    {', '.join(made)}\n"
    if witnesses := done.used.get("witnesses"):
        yield f"        the compactions are borne out by {', '.join(witnesses)}\n"
    if tolerated := done.used.get("tolerated"):
        yield f"        for want of a better checkpoint, and readers take it so: {tolerated}\n"
    yield f"kept    {_amounts(done.kept)}\n"
    yield f"dropped {_amounts({**done.dropped, 'files': len(done.missing)})}\n"
    for path, why in done.missing[:_SHOWN]:
        yield f"        {path}: {why}\n"
    for version, why in done.lost.items():
        yield f"lost    version {version}: {why}\n"
    for path, why in done.ignored.items():
        yield f"unused  {path}: {why}\n"
    yield from finding_lines(f for f in done.findings if f.severity != SEVERITIES[-1])
    if done.paths is Paths.RELATIVE:
        yield "paths   relative: the log is to lie where the old one does, beside the files; "
        yield "else repair with --paths absolute\n"
    if done.version is not None:
        yield f"version {done.version} of the new log is {'sound' if done.sound else 'NOT SOUND'}\n"


def derived_lines(done: DerivedRepair) -> Iterator[str]:
    """Yield what was mended in place, and what is left."""
    yield f"{done.table}\n"
    for mended in done.mended:
        yield f"{mended.action:<10}{mended.what:<11}{mended.path}: {mended.wrong}\n"
        if mended.reason and mended.reason != mended.path:
            yield f"{'':<21}-> {mended.reason}\n"
    if not done.mended:
        yield "nothing to mend: all that was derived from the commits is as it should be\n"
    yield from finding_lines(f for f in done.proof.findings if f.severity != SEVERITIES[-1])
    yield f"version {done.proof.version} is {'sound' if done.sound else 'NOT SOUND'}\n"


def _amounts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count) or "nothing"


def finding_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield two lines a finding: what is wrong and where; what to do."""
    for finding in findings:
        where = f"{finding.path}: " if finding.path else ""
        yield f"{finding.severity:<8}{finding.code:<27}{where}{finding.message}\n"
        if finding.advice:
            yield f"{'':<8}{'':<27}-> {finding.advice}\n"


def _plural(count: int, name: str) -> str:
    return "" if count == 1 or name == "info" else "s"
