"""How is a damaged checkpoint, compaction, checksum or hint made right beside its commits?

What is wrong is moved out of the log, where every version it speaks of is proven without it; then
it is written anew from what proves it. Commits are never touched. A process that dies in between
leaves a log that reads the same, with a derived file less, and the next run writes it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import orjson

from engine.errors import NotProvableError, ReplayError
from engine.log.hint import checksums
from engine.log.listing import list_log
from engine.log.paths import HINT, FileKind, TransactionFileRef, checksum_name
from engine.log.segment import Checkpoint, complete_checkpoints
from engine.replay.engines import Engines
from engine.snapshot import load_snapshot
from engine.upkeep.allowed import refuse_unkept
from engine.upkeep.checkpoint.checkpoint import Asked, checkpoint
from engine.upkeep.checkpoint.found import hint_to, read_whole
from engine.upkeep.checksum import checksum_content
from engine.upkeep.compaction.local import Local
from engine.upkeep.compaction.write import staged
from engine.upkeep.repair.source import choose_source
from engine.upkeep.verify.findings import Findings
from engine.upkeep.verify.listing import LogFiles, list_everything
from engine.upkeep.verify.verify import check_hint, verify
from engine.upkeep.verify.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.upkeep.publish import Staging
    from engine.upkeep.verify.verify import Verification

_WRONG_HINTS: Final = ("HINT_UNREADABLE", "HINT_DANGLING", "HINT_WRONG")


@dataclass(frozen=True, slots=True)
class Mended:
    """What became of one derived file: `recreated`, `removed`, `planned` or `refused`."""

    path: str
    what: str
    version: int | None
    wrong: str
    action: str
    reason: str = ""

    def summary(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True)
class DerivedRepair:
    """What was mended in place, and what a verification says afterwards."""

    table: str
    mended: Sequence[Mended]
    proof: Verification

    @property
    def sound(self) -> bool:
        """Whether no error is left."""
        return self.proof.sound

    def summary(self) -> dict[str, Any]:
        """Return what `txlog repair --derived --json` prints."""
        return {
            "table": self.table,
            "version": self.proof.version,
            "sound": self.sound,
            "mended": [mended.summary() for mended in self.mended],
            "findings": [finding.summary() for finding in self.proof.findings],
        }


def repair_derived(
    directory: LogDirectory, config: Config, *, now_ms: int, dry_run: bool = False
) -> DerivedRepair:
    """Make the derived files of a log right, next to commits that stay as they are.

    Raises what makes a table one that txlog does not keep; what cannot be mended is told, with
    its reason, and left as it is.
    """
    files = list_everything(directory)
    found = Findings()
    walk = Walk(directory, config, files, found, now_ms)
    walk.run()
    if walk.is_known:
        head = walk.singles
        protocol = head.winner("protocol") or {}
        refuse_unkept(protocol, head.winner("metaData") or {}, directory)
    work = _Work(directory, config, files, walk, now_ms, dry_run)
    mended = list(work.run())
    proof = verify(directory, config, now_ms=now_ms)
    return DerivedRepair(directory.table_url, mended, proof)


@dataclass(frozen=True)
class _Work:
    directory: LogDirectory
    config: Config
    files: LogFiles
    walk: Walk
    now_ms: int
    dry_run: bool

    def run(self) -> Iterator[Mended]:
        """Mend all that is wrong: what is moved out first, then what is written, then the hint."""
        with staged(self.directory, self.now_ms) as staging:
            waiting = list(self._moved_out(staging))
            for mended in waiting:
                yield self._written(mended, staging) if mended.action == "planned" else mended
        yield from self._hint({mended.path for mended in waiting if mended.action == "refused"})

    def _moved_out(self, staging: Staging) -> Iterator[Mended]:
        for mended, refs in self._wrong():
            try:
                self._refuse_needed(mended)
            except NotProvableError as error:
                yield replace(mended, action="refused", reason=error.reason)
                continue
            for ref in () if self.dry_run else refs:
                # Its name in the staging folder is no log file's.
                aside = staging.path(f"aside.{ref.path.replace('/', '.')}.old")
                self.directory.storage.publish(self.directory.file(ref.path), aside)
            yield mended

    def _wrong(self) -> Iterator[tuple[Mended, Sequence[TransactionFileRef]]]:
        """Yield each derived file that is wrong, oldest first, and the files it consists of."""
        whole = complete_checkpoints(self.files.refs)
        for c in sorted(whole, key=lambda c: c.rank):
            empty = next((ref for ref in c.files if not ref.size), None)
            why = "it has 0 bytes" if empty else self.walk.unusable.get(c.name)
            if why:
                yield Mended(c.name, "checkpoint", c.version, why, "planned"), c.files
        yield from self._incomplete({ref.path for c in whole for ref in c.files})
        for ref in self.files.of(FileKind.COMPACTION):
            if why := self.walk.unusable.get(ref.path):
                yield Mended(ref.path, "compaction", ref.version, why, "planned"), (ref,)
        for ref in self.files.of(FileKind.CHECKSUM):
            if why := self.walk.unusable.get(ref.path):
                yield Mended(ref.path, "checksum", ref.version, why, "planned"), (ref,)

    def _incomplete(self, whole: set[str]) -> Iterator[tuple[Mended, Sequence[TransactionFileRef]]]:
        groups: dict[tuple[int, int], list[TransactionFileRef]] = {}
        for ref in self.files.of(FileKind.CHECKPOINT_PART):
            if ref.path not in whole:
                groups.setdefault((ref.version, ref.parts), []).append(ref)
        for (version, parts), refs in groups.items():
            why = f"{len(refs)} of its {parts} parts are there"
            yield Mended(refs[0].path, "checkpoint", version, why, "planned"), refs

    def _refuse_needed(self, mended: Mended) -> None:
        """Raise NotProvableError where a file's version is not proven without it."""
        assert mended.version is not None
        wrong = {**self.walk.unusable, mended.path: mended.wrong}
        doubts = self.walk.doubts
        choose_source(self.directory, self.files, wrong, mended.version, doubts=doubts)

    def _written(self, mended: Mended, staging: Staging) -> Mended:
        if self.dry_run:
            return mended
        assert mended.version is not None
        try:
            if mended.what == "checkpoint":
                made = self._checkpoint(mended.version)
            elif mended.what == "compaction":
                made = self._compaction(mended, staging)
            else:
                made = self._checksum(mended.version)
        except ReplayError as error:
            return replace(mended, action="removed", reason=str(error))
        return replace(mended, action="recreated", reason=made)

    def _checkpoint(self, version: int) -> str:
        listing = list_log(self.directory)
        done = checkpoint(self.directory, listing, self.config, Asked(version), now_ms=self.now_ms)
        return ", ".join(done.files)

    def _compaction(self, mended: Mended, staging: Staging) -> str:
        ref = next(ref for ref in self.files.refs if ref.path == mended.path)
        commits = self.files.commits
        window = [commits[version] for version in range(ref.start_version, ref.version + 1)]
        name = f"0-{ref.version}.{ref.path.rpartition('.')[2]}"
        written = Local(self.directory, self.config).write(window, staging, name)
        staging.publish(written.name or name, ref.path)
        return ref.path

    def _checksum(self, version: int) -> str:
        run = Engines("local").replay
        listing = list_log(self.directory)
        snapshot = load_snapshot(self.directory, listing, version, run, self.config)
        name = checksum_name(version)
        content = orjson.dumps(checksum_content(snapshot))
        self.directory.storage.write_new(self.directory.file(name), content)
        return name

    def _hint(self, damaged: set[str]) -> Iterator[Mended]:
        """Point a wrong hint at the newest checkpoint, or at the newest that is not damaged."""
        directory = self.directory
        files = list_everything(directory)
        found = Findings()
        check_hint(directory, files, found)
        wrong = [finding for finding in found.all() if finding.code in _WRONG_HINTS]
        if not wrong:
            return
        why = wrong[0].message
        sound = [c for c in files.checkpoints if c.name not in damaged]
        newest = max(sound, key=lambda c: c.rank, default=None)
        version = None if newest is None else newest.version
        action = "recreated" if newest else "removed"
        if self.dry_run:
            action = "planned"
        elif newest is None:
            directory.storage.delete_many([directory.file(HINT)])
        else:
            directory.storage.replace(directory.file(HINT), self._hint_to(newest))
        yield Mended(HINT, "hint", version, why, action)

    def _hint_to(self, newest: Checkpoint) -> bytes:
        told = read_whole(self.directory, newest, self.files.refs)
        hint = hint_to(told, self.directory, self.now_ms)
        if self.directory.log_format.checkpoint_directory is None:
            hint["checksum"] = checksums(hint)[0]
        return orjson.dumps(hint)
