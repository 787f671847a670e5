"""Is a log sound? It is proven, or what is wrong with it is named. Nothing is ever written."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from engine.log.hint import parse_hint
from engine.log.paths import HINT, FileKind
from engine.upkeep.verify.catalogue import ERROR, SEVERITIES
from engine.upkeep.verify.data import check_data
from engine.upkeep.verify.findings import Finding, Findings
from engine.upkeep.verify.listing import LogFiles, check_listing, list_everything
from engine.upkeep.verify.versions import Versions
from engine.upkeep.verify.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.replay import Gauge


@dataclass(frozen=True)
class Verification:
    """What was looked at, and what was found. `sound` is whether there is no error among it."""

    table: str
    format: str
    version: int
    findings: tuple[Finding, ...]
    checked: Mapping[str, int] = field(default_factory=dict)
    engine: str = "local"
    seconds: float = 0.0

    @property
    def sound(self) -> bool:
        """Whether nothing that was found is an error."""
        return not any(finding.severity == ERROR for finding in self.findings)

    def count(self, severity: str) -> int:
        """Return how many findings are of a severity."""
        return sum(finding.severity == severity for finding in self.findings)

    def summary(self) -> dict[str, Any]:
        """Return what `txlog verify --json` prints."""
        return {
            "table": self.table,
            "format": self.format,
            "version": self.version,
            "sound": self.sound,
            "checked": dict(self.checked),
            **{f"{severity}s": self.count(severity) for severity in SEVERITIES},
            "findings": [finding.summary() for finding in self.findings],
            "engine": self.engine,
            "seconds": round(self.seconds, 6),
        }


def verify(
    directory: LogDirectory,
    config: Config,
    *,
    now_ms: int,
    deep: bool = False,
    spark: SparkSession | None = None,
    progress: Gauge | None = None,
) -> Verification:
    """Prove a log, or name what is wrong with it.

    With `deep`, the data files and deletion vectors of the latest version are looked for too.
    Given `spark`, its executors read the log, settle its keys and look for the files.
    Damage is a finding; raises only what keeps anything from being read: LogNotFoundError,
    EmptyLogError, UnsupportedLogFormatError, StorageError.
    """
    started = time.perf_counter()
    found = Findings()
    files = list_everything(directory)
    check_listing(files, found)
    check_hint(directory, files, found)
    advance = progress and progress(sum(ref.size for ref in files.refs))
    if spark is None:
        walk = Walk(directory, config, files, found, now_ms, deep)
        walk.run(advance)
    else:
        from engine.upkeep.verify.far import FarWalk
        from engine.upkeep.verify.spark import run_on_spark

        walk = FarWalk(directory, config, files, found, now_ms, deep)
        run_on_spark(walk, spark, advance)
    Versions(files, walk.unusable.keys(), walk.tolerated.keys()).check(found)
    if deep:
        walk.counts |= check_data(directory, config, files, found, spark)
    return Verification(
        table=directory.table_url,
        format=directory.log_format.name,
        version=files.latest,
        findings=tuple(found.all()),
        engine="local" if spark is None else "spark",
        checked={name: walk.counts.get(name, 0) for name in _CHECKED} | _deep_counts(walk.counts),
        seconds=time.perf_counter() - started,
    )


def check_hint(directory: LogDirectory, files: LogFiles, found: Findings) -> None:
    """Enter what is wrong with `_last_checkpoint`."""
    if not files.has_hint:
        return
    data = directory.storage.read(directory.file(HINT))
    hint = parse_hint(data)
    if isinstance(hint, str):
        found.add("HINT_UNREADABLE", hint, path=HINT)
        return
    whole = [c for c in files.checkpoints if c.version == hint.version]
    newest = max((c.version for c in files.checkpoints), default=None)
    if not whole:
        message = f"it names checkpoint {hint.version}, which is not there whole"
        found.add("HINT_DANGLING", message, path=HINT, version=hint.version)
        return
    parts = orjson.loads(data).get("parts")
    sizes = {len(c.files) for c in whole if c.kind is FileKind.CHECKPOINT_PART}
    # Of JSON parts only their manifest tells how many there are.
    is_told = not any(c.kind is FileKind.CHECKPOINT_JSON for c in whole)
    if isinstance(parts, int) and is_told and parts not in sizes:
        message = f"it says {parts} parts; checkpoint {hint.version} has none such"
        found.add("HINT_WRONG", message, path=HINT, version=hint.version)
    if newest is not None and newest > hint.version:
        message = f"it names checkpoint {hint.version}; the newest is {newest}"
        found.add("HINT_STALE", message, path=HINT, version=hint.version)


_CHECKED = ("commits", "actions", "checkpoints", "compactions", "checksums", "sidecars")


def _deep_counts(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: counts[name] for name in ("dataFiles", "deletionVectors") if name in counts}
