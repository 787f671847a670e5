"""How is a log cleaned? Look, prove the checkpoint that is relied on, decide, delete oldest first.

If the process dies between two deletions, every version from the checkpoint on reads as before, and
the next cleanup goes on from there.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from engine.config import CLEANUP_FAILURE_POLICY, STAGING_RETENTION_MS
from engine.errors import CleanupError
from engine.log.listing import list_log, read_hint
from engine.log.paths import FileKind
from engine.replay.commits import in_commit_timestamp
from engine.upkeep.allowed import refuse_unkept
from engine.upkeep.cleanup.ages import look, too_young
from engine.upkeep.cleanup.folders import judge_sidecars, judge_staged_commits
from engine.upkeep.cleanup.proof import doubt, unknown_protocol
from engine.upkeep.cleanup.verdicts import (
    NO_ORDER,
    Cleaned,
    Facts,
    Rules,
    Verdict,
    candidates,
    decide,
    rules_of,
)
from engine.upkeep.compaction.compact import with_properties
from engine.upkeep.publish import move_hint, remove_leftovers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from engine.commit.transaction import Committed
    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.log.paths import TransactionFileRef
    from engine.log.segment import Checkpoint
    from engine.replay.heads import Head

# S3 takes this many names in one request, which arrives as a whole or not at all. Elsewhere a call
# that dies may have deleted any of its files, so what has an order is deleted one by one.
_A_REQUEST: Final = 1000
_REQUESTS: Final = frozenset({"s3", "s3a"})

_logger: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cleaner:
    """Cleans one log; `config` has the table's own properties, `properties` are those."""

    directory: LogDirectory
    config: Config
    rules: Rules
    now_ms: int
    properties: Mapping[str, str]

    def run(
        self,
        refs: Sequence[TransactionFileRef] | None = None,
        *,
        dry_run: bool = False,
        planned: Checkpoint | None = None,
    ) -> Cleaned:
        """Delete what may go, and tell of every file. A dry run reads as much, and deletes nothing.

        `planned` is a checkpoint that would be there, for a dry run. Raises CleanupError where a
        file cannot be deleted and that was asked to be an error.
        """
        refs = list_log(self.directory).refs if refs is None else refs
        looked = self._look(refs)
        facts = replace(looked, anchor=planned) if planned else self.proven(refs, looked)
        done = self._decided(refs, facts, dry_run=dry_run)
        if self.rules.off:
            return done
        if dry_run:
            gone = {verdict.path for verdict in done.going}
            more = judge_sidecars(self.directory, self.config, self.now_ms, gone)
            return replace(done, verdicts=(*done.verdicts, *more))
        if facts.anchor is not None and done.going:
            if changed := self._changed(refs, facts.anchor, done):
                return self._decided(refs, replace(facts, anchor=None, doubts=(changed,)))
            self._point_at(facts.anchor)
        done = self._deleted(done, done.going)
        if not done.failures:
            more = judge_sidecars(self.directory, self.config, self.now_ms)
            done = replace(done, verdicts=(*done.verdicts, *more))
            done = self._deleted(done, [verdict for verdict in more if verdict.goes])
        age = self.config[STAGING_RETENTION_MS]
        left = remove_leftovers(self.directory, now_ms=self.now_ms, safe_age_ms=age)
        said = (self.directory.url, done.deleted, done.deleted_bytes)
        _logger.info("%s: %d log files deleted, %d bytes", *said)
        return replace(done, leftovers=tuple(left))

    def is_due(self, refs: Sequence[TransactionFileRef]) -> bool:
        """Tell whether there is something to delete, if a checkpoint proves sound. Reads little."""
        looked = self._look(refs)
        found, _ = candidates(refs, looked, self.rules)
        if not found:
            return False
        facts = replace(looked, anchor=found[0])
        return any(verdict.goes for verdict in decide(refs, facts, self.rules, self.now_ms))

    def proven(self, refs: Sequence[TransactionFileRef], facts: Facts) -> Facts:
        """Return the facts with the newest checkpoint that can be relied on, read just now."""
        found, why_none = candidates(refs, facts, self.rules)
        doubts = [why_none] if why_none else []
        for checkpoint in found:
            why = self._forbidden(refs, checkpoint) or doubt(
                refs, checkpoint, self.directory, self.config
            )
            if not why:
                return replace(facts, anchor=checkpoint, doubts=tuple(doubts))
            doubts.append(f"checkpoint {checkpoint.name} cannot be relied on: {why}")
            _logger.warning("%s: %s", self.directory.url, doubts[-1])
        return replace(facts, doubts=tuple(doubts))

    def _decided(
        self, refs: Sequence[TransactionFileRef], facts: Facts, *, dry_run: bool = False
    ) -> Cleaned:
        verdicts = decide(refs, facts, self.rules, self.now_ms)
        if facts.anchor is None:
            return Cleaned(tuple(verdicts), None, "; ".join(facts.doubts), dry_run)
        anchor = facts.anchor.version
        verdicts += judge_staged_commits(self.directory, anchor, self.rules, self.now_ms)
        return Cleaned(tuple(verdicts), anchor, "", dry_run)

    def _look(self, refs: Sequence[TransactionFileRef]) -> Facts:
        return look(
            refs, self.rules, self.now_ms, properties=self.properties, time_of=self._time_of
        )

    def _forbidden(self, refs: Sequence[TransactionFileRef], checkpoint: Checkpoint) -> str:
        """Tell which rule of the table keeps what lies below a checkpoint from going."""
        version, protected = checkpoint.version, self.rules.protected_before
        commit = next(r for r in refs if r.kind is FileKind.COMMIT and r.version == version)
        why = too_young(
            commit, self.rules, self.now_ms, properties=self.properties, time_of=self._time_of
        )
        if why or version >= protected:
            return why
        why = unknown_protocol(refs, version, self.directory, self.config)
        return why and f"checkpoints before version {protected} are protected, and {why}"

    def _changed(
        self, refs: Sequence[TransactionFileRef], anchor: Checkpoint, done: Cleaned
    ) -> str:
        """Look again before the first deletion: is this still the log that was looked at?

        Proving takes its time, and a table may be dropped and made anew meanwhile.
        """
        there = {ref.path: _identity(ref) for ref in list_log(self.directory).refs}
        before = {ref.path: _identity(ref) for ref in refs}
        if lost := [ref.path for ref in anchor.files if there.get(ref.path) != before[ref.path]]:
            return f"{lost[0]}, which was relied on, was changed or deleted meanwhile"
        going = (verdict.path for verdict in done.going if verdict.path in before)
        changed = (path for path in going if there.get(path, before[path]) != before[path])
        path = next(changed, None)
        return f"{path} was changed meanwhile" if path else ""

    def _point_at(self, anchor: Checkpoint) -> None:
        """Move a hint that names a checkpoint which is about to go."""
        hint, _ = read_hint(self.directory)
        if hint is None or hint.version >= anchor.version:
            return
        found: dict[str, Any] = {"version": anchor.version, "size": -1}
        if anchor.kind is FileKind.CHECKPOINT_PART:
            found["parts"] = len(anchor.files)
        move_hint(self.directory, found, checksum=False)

    def _deleted(self, done: Cleaned, going: Sequence[Verdict]) -> Cleaned:
        storage, deleted, size = self.directory.storage, done.deleted, done.deleted_bytes
        failures: dict[str, str] = {}
        for batch in _batches(going, in_requests=storage.scheme in _REQUESTS):
            names = {self.directory.file(verdict.path): verdict for verdict in batch}
            failed = self._failed(list(names))
            deleted += len(names) - len(failed)
            size += sum(v.size for path, v in names.items() if path not in failed)
            if failed:
                # What is newer stays as well: there is no gap above what remains.
                failures = {names[path].path: reason for path, reason in failed.items()}
                break
        if failures and self.config[CLEANUP_FAILURE_POLICY] == "fail":
            path, reason = next(iter(failures.items()))
            raise CleanupError(storage.url(self.directory.file(path)), reason)
        for path, reason in failures.items():
            _logger.warning("%s: not deleted: %s", path, reason)
        return replace(done, deleted=deleted, deleted_bytes=size, failures=failures)

    def _failed(self, names: list[str]) -> dict[str, str]:
        """Delete files; return those that are there still, each with its reason.

        Of a request that did some of its work, the rest is tried once more, the oldest first.
        """
        delete = self.directory.storage.delete_many
        failed = delete(names)
        for name in names if 0 < len(failed) < len(names) else ():
            if name in failed:
                if delete([name]):
                    break
                del failed[name]
        return failed

    def _time_of(self, ref: TransactionFileRef) -> int:
        return in_commit_timestamp(self.directory, ref, self.config) or ref.modification_time


def cleaner_of(
    head: Head,
    directory: LogDirectory,
    config: Config,
    now_ms: int,
    *,
    older_than_ms: int | None = None,
    everything: bool = False,
) -> Cleaner:
    """Return who cleans a log, by the rules of its table; refuse where it is not ours to keep."""
    refuse_unkept(head.protocol, head.metadata, directory)
    properties = head.metadata.get("configuration") or {}
    config = with_properties(config, properties)
    rules = rules_of(
        config,
        head.protocol,
        directory.log_format,
        older_than_ms=older_than_ms,
        everything=everything,
    )
    return Cleaner(directory, config, rules, now_ms, properties)


def clean_after(log: Any, done: Committed) -> Cleaned | None:
    """Clean the log after a commit that left a checkpoint behind: a hook for `log.hooks`.

    What it raises is told beside the commit, which stands.
    """
    refs = log.listing().refs
    if not any(ref.kind.is_checkpoint and ref.version == done.version for ref in refs):
        return None
    cleaner = cleaner_of(log.head(), log.directory, log.config, log.clock.now_ms())
    refs = list_log(log.directory).refs
    return cleaner.run(refs) if cleaner.is_due(refs) else None


def _identity(ref: TransactionFileRef) -> tuple[int, int, str]:
    return ref.size, ref.modification_time, ref.etag


def _batches(verdicts: Sequence[Verdict], *, in_requests: bool) -> Iterator[Sequence[Verdict]]:
    """Yield files to delete together, never of two turns. The last turn has no order."""
    start = 0
    while start < len(verdicts):
        turn = verdicts[start].turn
        most = _A_REQUEST if in_requests or turn == NO_ORDER else 1
        end = start + 1
        while end < min(start + most, len(verdicts)) and verdicts[end].turn == turn:
            end += 1
        yield verdicts[start:end]
        start = end
