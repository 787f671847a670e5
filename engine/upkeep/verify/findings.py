"""What was found wrong with a log? Every finding has a stable code, a severity and an advice."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from engine.upkeep.verify.catalogue import RULES, SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Callable

# As many findings of one code are told apart; the rest are counted.
_EACH: Final = 20
_NAMES: Final = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or worth knowing: where, what, and what to do."""

    severity: str
    code: str
    path: str
    version: int | None
    message: str
    advice: str

    def summary(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "severity": self.severity,
            "code": self.code,
            "path": self.path,
            "version": self.version,
            "message": self.message,
            "advice": self.advice,
        }


@dataclass
class Findings:
    """Collects findings; of many alike, the first ones are kept and the others counted."""

    _kept: list[Finding] = field(default_factory=list)
    _counts: Counter[str] = field(default_factory=Counter)

    def add(self, code: str, message: str, *, path: str = "", version: int | None = None) -> None:
        """Enter a finding. Its severity and advice are those of its code."""
        rule = RULES[code]
        self._counts[code] += 1
        if self._counts[code] <= _EACH:
            self._kept.append(Finding(rule.severity, code, path, version, message, rule.advice))

    def advise(self, advice: Callable[[Finding], str]) -> None:
        """Give each finding the advice that a function has for it."""
        self._kept = [replace(finding, advice=advice(finding)) for finding in self._kept]

    def __contains__(self, code: str) -> bool:
        return self._counts[code] > 0

    def all(self) -> list[Finding]:
        """Return what was found, the worst first, then by version."""
        more = [
            Finding(
                RULES[code].severity, code, "", None, f"{count - _EACH:,} more of this kind", ""
            )
            for code, count in self._counts.items()
            if count > _EACH
        ]
        # What is said of "more" stands behind the ones it is more of.
        return sorted(
            [*self._kept, *more],
            key=lambda f: (
                SEVERITIES.index(f.severity),
                f.version is None and not f.advice,
                -1 if f.version is None else f.version,
            ),
        )


def some(names: list[str], total: int | None = None) -> str:
    """Return a few names, and how many there are beside them."""
    count = len(names) if total is None else total
    shown = ", ".join(names[:_NAMES])
    left = count - min(len(names), _NAMES)
    if not shown:
        return f"{count:,}"
    return f"{shown} and {left:,} more" if left else shown
