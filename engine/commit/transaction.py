"""How does a change become a version? Optimistically: build, check, put if absent, or rebase.

A commit is one file that appears whole or not at all. When another writer was faster, what it
wrote is read, the change is checked against it and built anew on top.
"""

from __future__ import annotations

import logging
import random
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson

from engine.commit import conflicts, validate
from engine.commit.given import taken
from engine.commit.mappings import deduplicated
from engine.commit.serialize import Body, commit_bytes, engine_info
from engine.commit.upgrades import upgraded
from engine.config import RETRY_BASE_DELAY_MS, RETRY_MAX_ATTEMPTS, RETRY_MAX_DELAY_MS
from engine.errors import (
    AlreadyExistsError,
    ContentionError,
    InvalidCommitError,
    LogNotFoundError,
    MetadataChangedError,
)
from engine.log.paths import commit_name
from engine.log.timestamps import in_commit_start
from engine.replay.rules import FILE_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from engine.commit.changes import Change
    from engine.commit.follow import Follower
    from engine.commit.known import View
    from engine.config import Config
    from engine.formats import LogFormat
    from engine.log.listing import LogDirectory

_logger: Final = logging.getLogger(__name__)

_LOOKS: Final = 3
DRY_RUN: Final = "dry run"


@dataclass(frozen=True)
class HookRun:
    """What became of one hook. `failure` is empty where it did what it does."""

    name: str
    seconds: float
    failure: str = ""

    def summary(self) -> dict[str, Any]:
        """Return what the commands print with --json."""
        failed = {"failure": self.failure} if self.failure else {}
        return {"name": self.name, "seconds": round(self.seconds, 6), **failed}


@dataclass(frozen=True)
class Committed:
    """What became of a change.

    `is_new` is false where there was nothing to write: the txn is in the log already, or the
    table is as asked; `version` is then the latest. `hooks` tells what was run after it.
    """

    version: int
    is_new: bool
    reason: str = ""
    txn_id: str = ""
    operation: str = ""
    num_added: int = 0
    num_removed: int = 0
    attempts: int = 1
    seconds: float = 0.0
    compression: Mapping[str, Any] = field(default_factory=dict)
    hooks: tuple[HookRun, ...] = ()

    @property
    def is_dry(self) -> bool:
        """Whether it was not written because it was a dry run."""
        return self.reason == DRY_RUN

    @property
    def hook_failures(self) -> tuple[str, ...]:
        """The hooks that failed, and why."""
        return tuple(f"{hook.name}: {hook.failure}" for hook in self.hooks if hook.failure)

    def summary(self) -> dict[str, Any]:
        """Return what the commands print with --json."""
        return {
            "version": self.version,
            "committed": self.is_new,
            **({"reason": self.reason} if self.reason else {}),
            "operation": self.operation,
            "txnId": self.txn_id,
            "numAdded": self.num_added,
            "numRemoved": self.num_removed,
            "attempts": self.attempts,
            "seconds": round(self.seconds, 6),
            "compression": dict(self.compression),
            **({"hooks": [hook.summary() for hook in self.hooks]} if self.hooks else {}),
        }


@dataclass(frozen=True)
class Clock:
    """Time and chance, as a commit needs them."""

    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[float, float], float] = random.uniform


def commit(
    follower: Follower,
    change: Change,
    clock: Clock,
    *,
    dry_run: bool = False,
) -> Committed:
    """Write a change as the next version, however many others write too.

    With `dry_run` everything is checked and nothing is written. Raises what `validate.check` and
    `conflicts.check` raise, and ContentionError when others were faster at every attempt.
    """
    started = time.perf_counter()
    table, txn_id = follower.directory.table_url, str(uuid.uuid4())
    attempts = follower.config[RETRY_MAX_ATTEMPTS]
    view = follower.view(files=change.needs_files)
    seen = view.version if change.read_version is None else change.read_version
    metadata = view.metadata if seen == view.version else None
    if seen < 0:
        raise InvalidCommitError(table, f"it read version {seen}; versions count from 0")
    if seen > view.version:
        raise InvalidCommitError(table, f"it read version {seen}; the latest is {view.version}")
    for attempt, delay in enumerate(_delays(follower.config, clock), 1):
        if done := _already(change, view):
            return done
        if view.version > seen:
            winners = follower.commits(seen + 1, view.version)
            conflicts.check(winners, change.given, change.reads, table, metadata)
        now_ms, config = clock.now_ms(), follower.config.of_table(view.configuration)
        body = _checked(
            change, view, follower.directory, config, now_ms, is_rebased=view.version > seen
        )
        if not body.actions and not body.removes and change.txn is None:
            return _nothing(change, view)
        seen, metadata = view.version, view.metadata
        info = _commit_info(change, body, view, txn_id, now_ms)
        encoded = commit_bytes(info, body, follower.directory.log_format, config, now_ms)
        try:
            if not dry_run:
                path = follower.directory.file(commit_name(view.version + 1))
                follower.directory.storage.write_new(path, encoded.data, makes_parent=False)
        except FileNotFoundError:
            # The table was dropped since; a commit alone would be no table.
            raise LogNotFoundError(table) from None
        except AlreadyExistsError:
            _logger.info("%s: version %d was taken", table, view.version + 1)
            if delay is None:
                break
            clock.sleep(delay)
            view = _settled(follower, files=change.needs_files)
            continue
        if not dry_run:
            follower.wrote(view.version + 1, encoded.data)
        return Committed(
            version=view.version + 1,
            is_new=not dry_run,
            reason=DRY_RUN if dry_run else "",
            txn_id=txn_id,
            operation=change.operation,
            num_added=body.adds,
            num_removed=body.removes,
            attempts=attempt,
            seconds=time.perf_counter() - started,
            compression=encoded.metrics(),
        )
    raise ContentionError(table, attempts, view.version + 1)


def _settled(follower: Follower, *, files: bool) -> View:
    """Return the latest version, looked at again while catching up with it took others' commits.

    Reading what many others wrote takes so long that they are ahead again; the little that is
    new after that does not.
    """
    view = follower.view(files=files)
    for _ in range(_LOOKS):
        newer = follower.view(files=files)
        if newer.version == view.version:
            break
        view = newer
    return view


def _delays(config: Config, clock: Clock) -> Iterator[float | None]:
    """Yield how long to wait after each attempt, None after the last."""
    longest = config[RETRY_MAX_DELAY_MS]
    for attempt in range(config[RETRY_MAX_ATTEMPTS] - 1):
        delay = min(config[RETRY_BASE_DELAY_MS] * 2 ** min(attempt, 40), longest)
        # Jitter, so that writers who collided do not come back together.
        yield clock.jitter(delay / 2, delay) / 1000
    yield None


def _already(change: Change, view: View) -> Committed | None:
    if change.txn is None:
        return None
    app, version = change.txn
    known = (view.txns.get(app) or {}).get("version")
    if known is None or known < version:
        return None
    reason = f"txn {app} is at {known} already; {version} was committed before"
    return Committed(view.version, is_new=False, reason=reason, operation=change.operation)


def _nothing(change: Change, view: View) -> Committed:
    reason = "there is nothing to change"
    return Committed(view.version, is_new=False, reason=reason, operation=change.operation)


def _checked(
    change: Change,
    view: View,
    directory: LogDirectory,
    config: Config,
    now_ms: int,
    *,
    is_rebased: bool,
) -> Body:
    table, log_format = directory.table_url, directory.log_format
    body = change.build(view)
    if change.txn is not None:
        app, version = change.txn
        txn = {"txn": {"appId": app, "version": version, "lastUpdated": now_ms}}
        body = Body([*body.actions, txn], body.removed)
    try:
        body = _prepared(body, view, log_format, config, table)
        is_schema_change = change.schema_change
        validate.check(body, view, log_format, table, config, schema_change=is_schema_change)
    except InvalidCommitError as error:
        if not is_rebased:
            raise
        reason = f"or one before it, made this commit unfit: {error.reason}"
        raise MetadataChangedError(table, view.version, reason) from error
    return body


def _prepared(body: Body, view: View, log_format: LogFormat, config: Config, table: str) -> Body:
    """Return the commit with what the format adds to it of its own accord."""
    try:
        body = deduplicated(body, view, log_format, config)
        body = upgraded(body, view, log_format, config)
    except ValueError as error:
        raise InvalidCommitError(table, str(error)) from None
    # Files are as they were given, and were looked at then; the rest may be ours.
    rest = [action for action in body.actions if action.keys().isdisjoint(FILE_KINDS)]
    files = [action for action in body.actions if not action.keys().isdisjoint(FILE_KINDS)]
    return Body([*taken(rest, log_format, table), *files], body.removed)


def _commit_info(
    change: Change, body: Body, view: View, txn_id: str, now_ms: int
) -> dict[str, Any]:
    own: dict[str, Any] = {}
    if in_commit_start(view.configuration) is not None:
        # It grows strictly, whatever the clocks do (PROTOCOL.md#in-commit-timestamps).
        own["inCommitTimestamp"] = max(now_ms, (view.in_commit_timestamp or 0) + 1)
    return {
        **own,
        "timestamp": own.get("inCommitTimestamp", now_ms),
        "operation": change.operation,
        "operationParameters": {k: _text(v) for k, v in change.parameters.items()},
        "readVersion": view.version,
        "isolationLevel": "Serializable",
        "isBlindAppend": change.is_blind,
        "operationMetrics": {
            "numAddedFiles": str(body.adds),
            "numRemovedFiles": str(body.removes),
        },
        "engineInfo": engine_info(),
        "txnId": txn_id,
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
