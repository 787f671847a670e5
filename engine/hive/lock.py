"""Who may work on the table? A lock with an owner and an epoch that only grows.

Taking the table is creating `<epoch>.json`, which only one can. A holder that is provably dead, or
was not heard of for a lease, is succeeded by the next epoch; from then on it is fenced: `check`
fails, and its journal takes no further transition.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from engine.errors import AlreadyExistsError, HiveFencedError, HiveLockedError
from engine.hive.journal import LOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.hive.files import Files

LEASE_MS: Final = 10 * 60 * 1000


@dataclass(frozen=True, slots=True)
class Owner:
    """A process: its host, its number, and what tells it from a later one with that number.

    `space` is where the number counts: containers of one name have numbers of their own.
    """

    host: str
    pid: int
    started: str
    space: str = ""

    @property
    def label(self) -> str:
        """The owner for people."""
        return f"{self.host}:{self.pid}"


class Lock:
    """A table that is ours until `release`, or until another run succeeds us."""

    def __init__(self, files: Files, directory: str, epoch: int) -> None:
        self.epoch = epoch
        self._files = files
        self._directory = directory
        self._beats = 0

    def check(self) -> None:
        """Raise HiveFencedError when another run succeeded this one."""
        newest = max(_epochs(self._files.names(self._directory)), default=0)
        if newest != self.epoch:
            raise HiveFencedError(f"{self._directory}/{newest:08d}.json")

    def beat(self, now_ms: int) -> None:
        """Say that the owner is alive."""
        # In two files by turns: one of them is whole while the other is written.
        self._beats += 1
        name = f"{self.epoch:08d}.beat{self._beats % 2}"
        self._files.write(f"{self._directory}/{name}", str(now_ms))

    def release(self) -> None:
        """Free the table; a lock that was succeeded stays its successor's."""
        try:
            self._files.write_new(f"{self._directory}/{self.epoch:08d}.released", "")
        except AlreadyExistsError:
            return


def acquire(
    files: Files,
    home: str,
    *,
    table: str,
    command: str,
    clock: Callable[[], int],
    take_over: bool = False,
) -> Lock:
    """Take the table, or succeed a holder that is dead.

    Raises:
        HiveLockedError: someone alive holds it.
    """
    directory = f"{home}/{LOCK}"
    names = files.names(directory)
    newest = max(_epochs(names), default=0)
    if newest and f"{newest:08d}.released" not in names:
        holder = _holder(files, directory, newest, names)
        age_ms = max(0, clock() - holder["beat_ms"])
        owner = Owner(holder["host"], holder["pid"], holder["started"], holder.get("space", ""))
        if not (take_over or age_ms > LEASE_MS or is_dead(owner)):
            raise HiveLockedError(table, owner.label, holder["command"], age_ms // 1000)
    me = this_process()
    text = json.dumps(
        {
            "host": me.host,
            "pid": me.pid,
            "started": me.started,
            "space": me.space,
            "command": command,
            "beat_ms": clock(),
        }
    )
    try:
        files.write_new(f"{directory}/{newest + 1:08d}.json", text)
    except AlreadyExistsError as error:
        raise HiveLockedError(table, "another run", "a command that started just now", 0) from error
    lock = Lock(files, directory, newest + 1)
    # Others may have come and gone since the look above, and taken the number's file with them.
    try:
        lock.check()
    except HiveFencedError as error:
        raise HiveLockedError(table, "another run", "a command that started just now", 0) from error
    for name in names:
        files.delete(f"{directory}/{name}")
    return lock


@contextmanager
def beating(lock: Lock, clock: Callable[[], int]) -> Iterator[None]:
    """Keep the lock's lease fresh while the body runs."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(LEASE_MS / 3000):
            # One beat that fails is not the last: the next may be heard.
            with suppress(Exception):
                lock.beat(clock())

    thread = threading.Thread(target=beat, daemon=True, name="txlog-hive-lock")
    thread.start()
    try:
        yield
    finally:
        ended.set()


def this_process() -> Owner:
    """Return the owner that this process is."""
    return Owner(socket.gethostname(), os.getpid(), _started(os.getpid()), _space())


def is_dead(owner: Owner) -> bool:
    """Say whether the owner certainly runs no more.

    Of another host, and of another container, nothing is certain.
    """
    here = (owner.host, owner.space) == (socket.gethostname(), _space())
    return here and _started(owner.pid) != owner.started


def _space() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _started(pid: int) -> str:
    # Field 22 of stat is the start time since boot; with the boot's own id it names one process.
    # A zombie (state Z) acts no more.
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "gone" if Path("/proc/self").exists() else _alive(pid)
    return "gone" if state == "Z" else f"{boot}/{rest[18]}"


def _alive(pid: int) -> str:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "gone"
    except PermissionError:
        return "alive"
    return "alive"


def _holder(files: Files, directory: str, epoch: int, names: tuple[str, ...]) -> dict[str, Any]:
    try:
        holder: dict[str, Any] = json.loads(files.read(f"{directory}/{epoch:08d}.json"))
    except ValueError:
        # Not written to its end: its owner died before it held anything.
        holder = {
            "host": socket.gethostname(),
            "pid": 0,
            "started": "",
            "space": _space(),
            "command": "",
            "beat_ms": 0,
        }
    for name in names:
        if name.startswith(f"{epoch:08d}.beat"):
            text = files.read(f"{directory}/{name}")
            holder["beat_ms"] = max(holder["beat_ms"], int(text) if text.isdigit() else 0)
    return holder


def _epochs(names: tuple[str, ...]) -> list[int]:
    return [int(name[:8]) for name in names if name.endswith(".json") and name[:8].isdigit()]
