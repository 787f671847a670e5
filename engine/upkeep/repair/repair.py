"""How does a damaged log become a sound one? Its newest proven state, written as a new log.

The damaged log is only read. The new one has no version 0 until everything else of it was written
and read back, and without a version 0 no reader takes it for a table: a process that dies leaves a
target that says of itself that it is unfinished, and the next run begins it anew.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import orjson

from engine.actions import files_schema, tombstones_schema
from engine.errors import NotProvableError, ReplayError, TargetNotEmptyError
from engine.log.listing import LogDirectory
from engine.log.paths import commit_name
from engine.replay.heads import read_head
from engine.replay.local import stream
from engine.replay.rules import skip_is_running
from engine.replay.state import Singles, State
from engine.snapshot import complete
from engine.upkeep.repair.bridges import judge
from engine.upkeep.repair.source import Source, choose_source
from engine.upkeep.repair.write import Adds, Paths
from engine.upkeep.verify.findings import Findings
from engine.upkeep.verify.listing import list_everything
from engine.upkeep.verify.verify import Verification, verify
from engine.upkeep.verify.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.config import Config
    from engine.formats import LogFormat
    from engine.storage import Storage
    from engine.upkeep.verify.findings import Finding

# Hidden, so that no reader of a log looks at it: what is begun here, and from what.
MARKER: Final = ".txlog-repair.json"
_TOLD: Final = 20


@dataclass(frozen=True)
class Repaired:
    """What became of a repair: what was kept, what was not, and why."""

    source: str
    target: str
    source_version: int
    status: str
    paths: Paths = Paths.RELATIVE
    num_files: int = 0
    missing: Sequence[tuple[str, str]] = ()
    kept: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    lost: Mapping[int, str] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)
    used: Mapping[str, Any] = field(default_factory=dict)
    version: int | None = None
    findings: Sequence[Finding] = ()
    sound: bool = True
    seconds: float = 0.0

    def summary(self) -> dict[str, Any]:
        """Return what `txlog repair --json` prints; first the columns of IndexTables' REPAIR."""
        told = [{"path": path, "reason": why} for path, why in self.missing[:_TOLD]]
        return {
            "source_path": self.source,
            "target_path": self.target,
            "source_version": self.source_version,
            "total_splits": self.num_files + len(self.missing),
            "valid_splits": self.num_files,
            "missing_splits": len(self.missing),
            "status": self.status,
            "version": self.version,
            "sound": self.sound,
            "kept": dict(self.kept),
            "dropped": {**self.dropped, "files": told},
            "lost": [{"version": v, "reason": why} for v, why in self.lost.items()],
            "ignored": [{"path": path, "reason": why} for path, why in self.ignored.items()],
            "used": dict(self.used),
            "findings": [finding.summary() for finding in self.findings],
            "seconds": round(self.seconds, 6),
        }


@dataclass(frozen=True)
class Asked:
    """What a repair was asked for."""

    version: int | None = None
    deep: bool = False
    paths: Paths = Paths.RELATIVE
    dry_run: bool = False


def repair(
    directory: LogDirectory, target: LogDirectory, config: Config, asked: Asked, *, now_ms: int
) -> Repaired:
    """Write the newest proven state of a log as a new log, and prove that.

    With `deep`, files that are gone are left out. Raises NotProvableError, with what is missing,
    and TargetNotEmptyError.
    """
    started = time.perf_counter()
    if f"{target.url}/".startswith(f"{directory.url}/"):
        raise TargetNotEmptyError(directory.url, "the log to be repaired")
    if _is_whole(target):
        # An earlier run died after its last write: what is left to do is to say so.
        told = orjson.loads(target.storage.read(target.file(MARKER)))
        done = Repaired(directory.url, target.url, told["version"], "repaired", asked.paths)
        return _finished(done, target, config, now_ms, started)
    source = find_source(directory, config, asked.version, now_ms=now_ms)
    head = _complete(read_head(source.segment, directory, config), source, config)
    assert head.metadata is not None
    adds = Adds(
        source=directory,
        target=target,
        config=config,
        metadata=head.metadata,
        paths=asked.paths,
        now_ms=now_ms,
        source_version=source.version,
        deep=asked.deep,
        dry_run=asked.dry_run,
    )
    if not asked.dry_run:
        _begin(target, directory, source)
    singles, removes = Singles(), 0
    for won in stream(source.segment, directory, config, singles):
        if won.kind == "add":
            adds.take(won.actions)
        else:
            removes += len(won.actions)
    adds.finish()
    few = _Few.of(_complete(_state(singles, source), source, config), now_ms)
    done = Repaired(
        source=directory.url,
        target=target.url,
        source_version=source.version,
        status="dry run" if asked.dry_run else "repaired",
        paths=asked.paths,
        num_files=adds.count,
        missing=adds.missing,
        kept={"files": adds.count, **few.kept},
        dropped={"tombstones": removes, **few.dropped},
        lost=source.lost,
        ignored=source.ignored,
        used=_used(source),
        seconds=time.perf_counter() - started,
    )
    if asked.dry_run:
        return done
    target.storage.write_new(target.file(commit_name(0)), adds.head(few.actions))
    return _finished(done, target, config, now_ms, started)


def target_directory(storage: Storage, root: str, log_format: LogFormat) -> LogDirectory:
    """Return where a repaired log goes, given its table root or the log directory in it."""
    parent, _, name = root.rstrip("/").rpartition("/")
    return LogDirectory(storage, parent if name == log_format.directory else root, log_format)


def find_source(
    directory: LogDirectory, config: Config, version: int | None, *, now_ms: int
) -> Source:
    """Return the files that prove a version of a log, or its newest provable one."""
    files = list_everything(directory)
    walk = Walk(directory, config, files, Findings(), now_ms)
    walk.run()
    refused: dict[str, str] = {}
    while True:
        unusable = {**walk.unusable, **refused}
        try:
            source = choose_source(
                directory,
                files,
                unusable,
                version,
                doubts=walk.doubts,
                tolerated=walk.tolerated,
                with_compactions=True,
            )
        except NotProvableError as error:
            told = [f"{name} does not stand in for it: {why}" for name, why in refused.items()]
            raise NotProvableError(directory.url, ". ".join([error.reason, *told])) from None
        if not source.segment.compactions:
            return source
        verdict = judge(walk.reader, files, source.segment, unusable)
        if not verdict.refused:
            return replace(source, witnesses=verdict.witnesses)
        refused[verdict.refused] = verdict.why


@dataclass(frozen=True)
class _Few:
    """The actions of version 0 beside the metaData, and what was kept and dropped for them."""

    actions: list[dict[str, Any]]
    kept: dict[str, int]
    dropped: dict[str, int]

    @classmethod
    def of(cls, state: State, now_ms: int) -> _Few:
        domains = [d for d in state.domains.values() if not d.get("removed")]
        skips = [s for s in state.skips.values() if skip_is_running(s, now_ms=now_ms)]
        actions = [{"protocol": state.protocol}]
        actions += [{"txn": txn} for txn in state.txns.values()]
        actions += [{"domainMetadata": domain} for domain in domains]
        actions += [{"mergeskip": skip} for skip in skips]
        return cls(
            actions,
            {"txns": len(state.txns), "domains": len(domains), "skips": len(skips)},
            {
                "domains": len(state.domains) - len(domains),
                "skips": len(state.skips) - len(skips),
            },
        )


def _is_whole(target: LogDirectory) -> bool:
    """Tell whether an earlier run wrote all of the target; make room where it did not.

    Raises TargetNotEmptyError where anything else is there.
    """
    storage = target.storage
    try:
        files, folders = storage.list_both(target.path)
    except FileNotFoundError:
        return False
    names = [file.name for file in files]
    if not names and not folders:
        return False
    if MARKER not in names:
        raise TargetNotEmptyError(target.url, (names + folders)[0])
    if commit_name(0) in names:
        return True
    # Unfinished, and ours: no reader has ever taken it for a log.
    begun = [file.path for file in files if file.name != MARKER]
    for path, why in storage.delete_many(begun).items():
        raise TargetNotEmptyError(target.url, f"{path}, which cannot be deleted ({why})")
    storage.delete_many([target.file(MARKER)])
    return False


def _begin(target: LogDirectory, directory: LogDirectory, source: Source) -> None:
    told = {"source": directory.url, "version": source.version}
    target.storage.write_new(target.file(MARKER), orjson.dumps(told))


def _finished(
    done: Repaired, target: LogDirectory, config: Config, now_ms: int, started: float
) -> Repaired:
    """Prove the new log; the files it names lie beside the old one, where they were looked for."""
    target.storage.delete_many([target.file(MARKER)])
    proof: Verification = verify(target, config, now_ms=now_ms)
    return replace(
        done,
        version=proof.version,
        sound=proof.sound,
        findings=proof.findings,
        status=done.status if proof.sound else "repaired; what was committed breaks rules",
        seconds=time.perf_counter() - started,
    )


def _state(singles: Singles, source: Source) -> State:
    log_format = source.segment.log_format
    return singles.state(
        files_schema(log_format).empty_table(), tombstones_schema(log_format).empty_table()
    )


def _complete(state: State, source: Source, config: Config) -> State:
    try:
        return complete(state, source.segment, config)
    except ReplayError as error:
        raise NotProvableError(source.segment.directory, str(error)) from error


def _used(source: Source) -> dict[str, Any]:
    segment = source.segment
    return {
        "checkpoint": segment.checkpoint.name if segment.checkpoint else None,
        "compactions": [ref.path for ref in segment.compactions],
        "commits": len(segment.commits),
        "witnesses": list(source.witnesses),
        "tolerated": source.tolerated or None,
    }
