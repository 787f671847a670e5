"""A process whose children each mend a damaged log in place and are killed at one step of it.

python -m tests.upkeep.derived_victim FOLDER: child n works in FOLDER/n and dies before its n-th
write, child n.5 after it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from engine import open_log
from tests.upkeep.defects import NOW, checksum, compaction, sound_log, without
from tests.upkeep.repair_victim import STEPS_AT_MOST, die_at


class Stopped:
    """A clock that stands still."""

    def now_ms(self) -> int:
        return NOW


def damaged(root: Path) -> str:
    """Write a log of which something of each kind is wrong; return where."""
    log = sound_log(root)
    path = log.file(f"{3:020d}.checkpoint.parquet")
    path.write_bytes(path.read_bytes()[:-9])
    compaction(log, 4, 6, without("remove", path="part=x/c"))
    checksum(log, 5, numFiles=9)
    log.hint(4)
    return str(log.root)


def main(folder: str) -> None:
    for half in range(2, STEPS_AT_MOST * 2):
        root = Path(folder) / str(half / 2)
        child = os.fork()
        if child == 0:
            root.mkdir()
            log = open_log(damaged(root))
            log.clock = Stopped()  # type: ignore[assignment]
            die_at(half / 2)
            log.repair_derived()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
