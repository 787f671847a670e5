"""Which files of a log may go? Deciding only: every file gets a verdict and the rule behind it.

Everything below one checkpoint may go, and nothing else: the newest whose version is past its
retention. That checkpoint, its commit and all that is newer stay, so every version from it on
reads as before. Where no checkpoint can be relied on, nothing goes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from engine import config as c
from engine.log.paths import FileKind
from engine.log.segment import Checkpoint, complete_checkpoints

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from engine.config import Config
    from engine.formats import LogFormat
    from engine.log.paths import TransactionFileRef

DAY_MS: Final = 86_400_000
PROTECTION: Final = "checkpointProtection"
# The turn of files that may go in any order.
NO_ORDER: Final = 3

_PARTS: Final = (FileKind.CHECKPOINT_JSON_PART, FileKind.CHECKPOINT_METADATA)


@dataclass(frozen=True, slots=True)
class Rules:
    """What must hold before a file goes. The strictest of all settings is what counts.

    `everything` leaves out age: all history before the newest checkpoint goes.
    """

    off: str = ""
    log_retention_ms: int = 30 * DAY_MS
    checkpoint_retention_ms: int = 0
    keep_versions: int = 0
    protected_before: int = 0
    older_than_ms: int | None = None
    everything: bool = False

    def cutoff_ms(self, now_ms: int) -> int:
        """Return the time up to which commits are past their retention.

        As Delta has it, retention ends with a day, UTC; an age asked for by hand is taken as is.
        """
        if self.older_than_ms is not None:
            return now_ms - self.older_than_ms
        cutoff = now_ms - self.log_retention_ms
        return cutoff - cutoff % DAY_MS


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found out about a log.

    `expired` is the newest version whose commit is past its retention, and `moved` are those
    whose time was moved up so that times grow. `anchor` is the checkpoint that was read and
    proven, and `doubts` tell why others were not relied on.
    """

    latest: int
    expired: int | None
    moved: frozenset[int] = frozenset()
    anchor: Checkpoint | None = None
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether one file goes, and by which rule. Files of one `turn` may go together."""

    path: str
    goes: bool
    rule: str
    size: int = 0
    version: int = -1
    kind: str = ""
    turn: int = NO_ORDER

    def summary(self) -> dict[str, Any]:
        """Return what `txlog cleanup --json` tells of a file."""
        return {
            "path": self.path,
            "action": "delete" if self.goes else "keep",
            "rule": self.rule,
            "size": self.size,
        }


def rules_of(
    config: Config,
    protocol: Mapping[str, Any],
    log_format: LogFormat,
    *,
    older_than_ms: int | None = None,
    everything: bool = False,
) -> Rules:
    """Return the rules of a table; `config` has the table's own properties."""
    off = ""
    for setting in (c.EXPIRED_LOG_CLEANUP, c.CLEANUP_ENABLED):
        if not config[setting] and not everything:
            off = f"{setting.key} is false"
    counts = log_format.checkpoint_directory is not None
    versions = config[c.CHECKPOINT_RETENTION_VERSIONS]
    if not counts and config.source(c.CHECKPOINT_RETENTION_VERSIONS) == "default":
        versions = 0
    features = protocol.get("writerFeatures") or ()
    return Rules(
        off=off,
        log_retention_ms=_log_retention_ms(config),
        checkpoint_retention_ms=0 if everything else config[c.CHECKPOINT_RETENTION_MS],
        keep_versions=0 if everything else versions,
        protected_before=config[c.PROTECTED_BEFORE] if PROTECTION in features else 0,
        older_than_ms=older_than_ms,
        everything=everything,
    )


def _log_retention_ms(config: Config) -> int:
    """Return the longer of the retentions that were set; a default counts where none was.

    A conf file, which is no table's own, counts where nothing nearer says anything.
    """
    keys = (c.LOG_RETENTION, c.LOG_RETENTION_MS)
    for layers in (replace(config, file={}), config):
        told = [layers[key] for key in keys if layers.source(key) != "default"]
        if told:
            return max(told)
    return max(key.default for key in keys)


def candidates(
    refs: Sequence[TransactionFileRef], facts: Facts, rules: Rules
) -> tuple[list[Checkpoint], str]:
    """Return the checkpoints that may be relied on if they prove sound, the newest first.

    Where there is none, also why. Of several of one version it is the one that readers choose: if
    that is damaged, other engines fall back to an older version, and not to its sibling. A
    checkpoint whose own commit is gone is none, for other engines need it; and where a commit
    above it is missing, what lies below may be all that tells of it.
    """
    if rules.off:
        return [], rules.off
    if facts.expired is None:
        return [], "no commit is past its retention"
    whole = [
        checkpoint
        for checkpoint in complete_checkpoints(refs)
        if all(ref.size for ref in checkpoint.files) and checkpoint.version <= facts.latest
    ]
    if not whole:
        return [], "there is no complete checkpoint"
    commits = {ref.version for ref in refs if ref.kind is FileKind.COMMIT}
    whole = list({c.version: c for c in sorted(whole, key=lambda c: c.rank)}.values())
    newest = max(checkpoint.version for checkpoint in whole)
    unbroken = max(commits, default=0)
    while unbroken - 1 in commits:
        unbroken -= 1
    tests = (
        (
            lambda v: rules.everything or v <= (facts.expired or 0),
            f"no checkpoint is at version {facts.expired} or before, the last past its retention",
        ),
        (lambda v: v in commits, "the commit of each such checkpoint is gone"),
        (
            lambda v: rules.everything or v <= newest - rules.keep_versions,
            f"{rules.keep_versions} versions before checkpoint {newest} are kept",
        ),
        (lambda v: v >= unbroken, f"commit {unbroken - 1} is missing after each such checkpoint"),
        (
            lambda v: rules.everything or v not in facts.moved,
            "without earlier commits, those that remain would have other times",
        ),
    )
    for test, why_none in tests:
        whole = [checkpoint for checkpoint in whole if test(checkpoint.version)]
        if not whole:
            return [], why_none
    return sorted(whole, key=lambda checkpoint: checkpoint.rank, reverse=True), ""


def decide(
    refs: Iterable[TransactionFileRef], facts: Facts, rules: Rules, now_ms: int
) -> list[Verdict]:
    """Return a verdict on every file, in the order in which those that go are deleted.

    Compactions first, which nobody misses; then commits; checksums and checkpoints after the
    commits they speak of, or made readable; always the oldest first, so that wherever it ends
    what remains has no gap above it.
    """
    ordered = sorted(refs, key=_order)
    if facts.anchor is None:
        why = "; ".join(facts.doubts)
        return [_verdict(ref, goes=False, rule=why) for ref in ordered]
    anchor = facts.anchor.version
    young = _young_checkpoints(ordered, rules, now_ms)
    return [_judged(ref, anchor, rules, now_ms, young) for ref in ordered]


def _young_checkpoints(
    refs: Iterable[TransactionFileRef], rules: Rules, now_ms: int
) -> frozenset[int]:
    """Return the versions of checkpoints within their retention.

    All that was written of a checkpoint stays as long as the youngest of its files.
    """
    if not rules.checkpoint_retention_ms:
        return frozenset()
    cutoff = now_ms - rules.checkpoint_retention_ms
    files = (ref for ref in refs if ref.kind.is_checkpoint or ref.kind in _PARTS)
    return frozenset(ref.version for ref in files if ref.modification_time > cutoff)


def _judged(
    ref: TransactionFileRef, anchor: int, rules: Rules, now_ms: int, young: frozenset[int]
) -> Verdict:
    below = f"covered by checkpoint {anchor}"
    if ref.kind is FileKind.COMPACTION:
        if ref.start_version > anchor:
            return _verdict(ref, goes=False, rule=f"after checkpoint {anchor}")
        fresh = not rules.everything and ref.modification_time > rules.cutoff_ms(now_ms)
        return _verdict(ref, goes=not fresh, rule="within its retention" if fresh else below)
    if ref.version > anchor:
        return _verdict(ref, goes=False, rule=f"after checkpoint {anchor}")
    if ref.version == anchor:
        return _verdict(ref, goes=False, rule=f"checkpoint {anchor} is relied on")
    if ref.version in young and (ref.kind.is_checkpoint or ref.kind in _PARTS):
        return _verdict(ref, goes=False, rule="a checkpoint within its retention")
    return _verdict(ref, goes=True, rule=below)


def _verdict(ref: TransactionFileRef, *, goes: bool, rule: str) -> Verdict:
    turn = _PASSES.get(ref.kind, _LAST_PASS)
    return Verdict(ref.path, goes, rule, ref.size, ref.version, ref.kind.value, turn)


_PASSES: Final = {FileKind.COMPACTION: 0, FileKind.COMMIT: 1}
_LAST_PASS: Final = 2


def _order(ref: TransactionFileRef) -> tuple[int, int, int, int, str]:
    # A manifest goes before its parts: what is left of it is then no checkpoint at all.
    is_part = ref.kind in _PARTS
    is_checksum = ref.kind is FileKind.CHECKSUM
    start = ref.start_version
    return _PASSES.get(ref.kind, _LAST_PASS), start, int(is_checksum), int(is_part), ref.path


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What a cleanup did, or would do. `reason` tells why nothing may go."""

    verdicts: tuple[Verdict, ...]
    anchor: int | None = None
    reason: str = ""
    dry_run: bool = False
    deleted: int = 0
    deleted_bytes: int = 0
    failures: Mapping[str, str] = field(default_factory=dict)
    leftovers: tuple[str, ...] = ()

    @property
    def going(self) -> list[Verdict]:
        """The files that go."""
        return [verdict for verdict in self.verdicts if verdict.goes]

    def summary(self) -> dict[str, Any]:
        """Return what `txlog cleanup --json` prints."""
        return {
            "checkpoint": self.anchor,
            "reason": self.reason or None,
            "dryRun": self.dry_run,
            "toDelete": len(self.going),
            "deleted": self.deleted,
            "deletedBytes": self.deleted_bytes,
            "failures": dict(self.failures),
            "leftovers": list(self.leftovers),
            "files": [verdict.summary() for verdict in self.verdicts],
        }
