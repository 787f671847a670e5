"""How is a damaged checkpoint, compaction, checksum or hint made right beside its commits?

A file is touched only where its version is proven without it, in the way every reader goes: from a
start over commits without a gap. What takes its place is made ready first; then the old file moves
out of the log and the new one in, and the old one back should that fail. Commits are never touched.
A process that dies in between leaves a log that reads the same, with a derived file less.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson

from engine.errors import AlreadyExistsError, NotProvableError, ReplayError
from engine.log.listing import Listing, list_log
from engine.log.paths import FileKind, TransactionFileRef, checksum_name
from engine.log.segment import complete_checkpoints
from engine.replay.engines import Engines
from engine.snapshot import load_snapshot
from engine.upkeep.allowed import refuse_unkept
from engine.upkeep.checkpoint.checkpoint import Asked, checkpoint
from engine.upkeep.checksum import checksum_content
from engine.upkeep.compaction.local import Local
from engine.upkeep.compaction.write import staged
from engine.upkeep.repair.hints import mend_hint
from engine.upkeep.repair.mended import Mended
from engine.upkeep.repair.source import choose_source
from engine.upkeep.verify.findings import Findings, some
from engine.upkeep.verify.listing import LogFiles, list_everything
from engine.upkeep.verify.verify import verify
from engine.upkeep.verify.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.upkeep.publish import Staging
    from engine.upkeep.verify.verify import Verification


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
    # Where the end is not known, whatever the table once was it may still be.
    protocols, metadata = walk.protocols, walk.metadata
    if walk.is_known:
        protocols = [walk.singles.winner("protocol") or {}]
        metadata = walk.singles.winner("metaData") or {}
    for protocol in protocols:
        refuse_unkept(protocol, metadata, directory)
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
        """Mend all that is wrong, checkpoints first, then the hint."""
        wrong = list(self._wrong())
        gone = {ref.path for _, refs in wrong for ref in refs}
        done = []
        with staged(self.directory, self.now_ms) as staging:
            for planned, refs in wrong:
                done.append(self._mended(planned, refs, gone, staging))
        yield from done
        damaged = {mended.path for mended in done if mended.action == "refused"}
        yield from mend_hint(
            self.directory, self.walk.doubts, damaged, self.now_ms, dry_run=self.dry_run
        )

    def _mended(
        self,
        planned: Mended,
        refs: Sequence[TransactionFileRef],
        gone: set[str],
        staging: Staging,
    ) -> Mended:
        moved = False
        try:
            publish = self._ready(planned, self._proof(planned, gone), staging)
            if self.dry_run:
                return planned
            for ref in refs:
                self.directory.storage.publish(self.directory.file(ref.path), _aside(ref, staging))
                moved = True
            made = publish()
            gone -= {ref.path for ref in refs}  # who has such a name now was just proven
            return replace(planned, action="recreated", reason=made)
        except NotProvableError as error:
            return replace(planned, action="refused", reason=error.reason)
        except ReplayError as error:
            if moved:
                self._put_back(refs, staging)
            return replace(planned, action="refused", reason=str(error))

    def _put_back(self, refs: Sequence[TransactionFileRef], staging: Staging) -> None:
        storage = self.directory.storage
        for ref in refs:
            if storage.exists(_aside(ref, staging)):
                with suppress(AlreadyExistsError):  # what has the name was proven
                    storage.publish(_aside(ref, staging), self.directory.file(ref.path))

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

    def _proof(self, planned: Mended, gone: set[str]) -> Listing:
        """Return the files that prove a version without anything that is wrong.

        Raises NotProvableError where they do not.
        """
        assert planned.version is not None
        wrong = {**self.walk.unusable, planned.path: planned.wrong}
        tolerated = {k: why for k, why in self.walk.tolerated.items() if k != planned.path}
        source = choose_source(
            self.directory,
            self.files,
            wrong,
            planned.version,
            # What it says otherwise than an unproven base would be lost with it.
            doubts=[*self.walk.doubts, *(d for d in self.walk.denied if d.later == planned.path)],
            tolerated=tolerated,
        )
        gone = gone - {ref.path for ref in source.segment.files}
        refs = [ref for ref in list_log(self.directory).refs if ref.path not in gone]
        # Readers take a compaction only where its commits are, and those prove the same.
        return Listing(tuple(ref for ref in refs if ref.kind is not FileKind.COMPACTION), 0)

    def _ready(self, planned: Mended, proof: Listing, staging: Staging) -> Callable[[], str]:
        """Make a new file ready; return what publishes it, and tells its name.

        Raises what keeps it from being written.
        """
        assert planned.version is not None
        if planned.what == "checkpoint":
            return self._checkpoint(planned.version, proof)
        if planned.what == "compaction":
            return self._compaction(planned.path, staging)
        return self._checksum(planned.version, proof)

    def _checkpoint(self, version: int, proof: Listing) -> Callable[[], str]:
        def write(*, dry_run: bool = False) -> str:
            asked = Asked(version, dry_run=dry_run)
            done = checkpoint(self.directory, proof, self.config, asked, now_ms=self.now_ms)
            return ", ".join(done.files)

        write(dry_run=True)  # which refuses what may not be written
        return write

    def _compaction(self, path: str, staging: Staging) -> Callable[[], str]:
        ref = next(ref for ref in self.files.refs if ref.path == path)
        commits = self.files.commits
        wanted = range(ref.start_version, ref.version + 1)
        if lost := [v for v in wanted if v not in commits or commits[v].path in self.walk.unusable]:
            why = f"not all of its commits can be read: {some([str(v) for v in lost])}"
            raise NotProvableError(self.directory.url, why)
        name = f"{ref.start_version}-{ref.version}.{path.rpartition('.')[2]}"
        if not self.dry_run:
            window = [commits[version] for version in wanted]
            name = Local(self.directory, self.config).write(window, staging, name).name or name

        def publish() -> str:
            self.directory.storage.publish(staging.path(name), self.directory.file(path))
            return path

        return publish

    def _checksum(self, version: int, proof: Listing) -> Callable[[], str]:
        run = Engines("local").replay
        snapshot = load_snapshot(self.directory, proof, version, run, self.config)
        content = orjson.dumps(checksum_content(snapshot))
        name = checksum_name(version)

        def publish() -> str:
            self.directory.storage.write_new(self.directory.file(name), content)
            return name

        return publish


def _aside(ref: TransactionFileRef, staging: Staging) -> str:
    """Return where an old file waits: under a name in the staging folder that is no log file's."""
    return staging.path(f"aside.{ref.path.replace('/', '.')}.old")
