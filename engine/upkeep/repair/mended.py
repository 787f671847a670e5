"""What became of a derived file that was wrong?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Mended:
    """What became of one derived file: `recreated`, `removed`, `planned` or `refused`.

    Only a hint is ever removed: without one, readers list.
    """

    path: str
    what: str
    version: int | None
    wrong: str
    action: str
    reason: str = ""

    def summary(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {name: getattr(self, name) for name in self.__slots__}
