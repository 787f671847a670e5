"""What was the table before? Older versions, from the states at checkpoints that are kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from engine.config import DISTRIBUTED_MIN_BYTES
from engine.replay.advance import advance
from engine.replay.state import LocalState

if TYPE_CHECKING:
    from engine.commit.cache import Cache
    from engine.config import Config
    from engine.log.listing import LogDirectory
    from engine.log.segment import Fallback, LogSegment
    from engine.replay import Progress
    from engine.replay.state import State
    from engine.snapshot import Run

# Of a longer tail the replay of everything at once is the quicker one.
_TAIL_BYTES: Final = 64 * 1024**2


def from_checkpoint(run: Run, cache: Cache[LocalState]) -> Run:
    """Return `run` such that the state at a checkpoint is read once for all versions after it."""

    def replay(
        segment: LogSegment,
        directory: LogDirectory,
        config: Config,
        progress: Progress | None,
    ) -> tuple[str, State, tuple[Fallback, ...]]:
        checkpoint, tail = segment.checkpoint, segment.tail
        is_long = sum(ref.size for ref in tail) > _TAIL_BYTES
        is_large = segment.size_bytes >= config[DISTRIBUTED_MIN_BYTES]
        if checkpoint is None or is_long or is_large or not all(ref.is_json for ref in tail):
            return run(segment, directory, config, progress)
        key = tuple((ref.path, ref.size, ref.modification_time) for ref in checkpoint.files)
        name, state = "local", cache.get(key)
        fallbacks: tuple[Fallback, ...] = ()
        if state is None:
            base = replace(segment, version=checkpoint.version, compactions=(), commits=())
            name, found, fallbacks = run(base, directory, config, progress)
            if not isinstance(found, LocalState):
                return run(segment, directory, config, progress)
            cache.put(key, found, int(found.files.nbytes + found.tombstones.nbytes))
            state = found
        paths = [directory.file(ref.path) for ref in tail]
        try:
            contents = (data for _, data in directory.storage.read_many(paths))
            commits = list(zip(tail, contents, strict=True))
        except FileNotFoundError:
            return run(segment, directory, config, progress)
        return name, advance(state, commits, directory, config) if commits else state, fallbacks

    return replay
