"""What did a run do? The report as a value, for programs and for people."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.hive.inspect import Assessment
    from engine.hive.model import Swap, Table, Unit
    from engine.hive.state import UnitState


@dataclass(frozen=True, slots=True)
class UnitReport:
    """One unit: its files before and after, and how long readers saw no directory."""

    unit: str
    outcome: str
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    rows: int
    gap_ms: int
    seconds: float
    warning: str = ""

    @staticmethod
    def of(state: UnitState, stands: bool, gap_ms: int, seconds: float, warning: str) -> UnitReport:  # noqa: FBT001
        """Return the report of one unit."""
        outputs = (state.outputs or ()) if stands else state.inputs
        return UnitReport(
            unit=state.unit.label,
            outcome="compacted" if stands else "left alone: a writer changed it meanwhile",
            files_before=len(state.inputs),
            files_after=len(outputs),
            bytes_before=sum(entry.size for entry in state.inputs),
            bytes_after=sum(entry.size for entry in outputs),
            rows=int(state.verified["rows"]),
            gap_ms=gap_ms,
            seconds=round(seconds, 3),
            warning=warning,
        )

    @staticmethod
    def untouched(verdict: Assessment) -> UnitReport:
        """Return the report of a unit that was due when the run was planned, and is no more."""
        files, size = verdict.files, verdict.size_bytes
        outcome = f"left alone: {verdict.reason}"
        return UnitReport(verdict.unit, outcome, files, files, size, size, 0, 0, 0.0)


@dataclass(frozen=True, slots=True)
class RunReport:
    """One run over one table."""

    table: str
    run: str
    swap: str
    backup: str
    seconds: float
    units: tuple[UnitReport, ...]
    left: tuple[dict[str, Any], ...]
    recovered: tuple[dict[str, Any], ...]

    @staticmethod
    def of(
        table: Table,
        run: str,
        swap: Swap,
        units: tuple[UnitReport, ...],
        left: Sequence[tuple[Unit, Assessment, str]],
        recovered: tuple[dict[str, Any], ...],
        seconds: float = 0.0,
        backup: str = "",
    ) -> RunReport:
        """Return the report of a run; a run that had nothing to do has no id."""
        return RunReport(
            table=table.full_name,
            run=run,
            swap=swap.value,
            backup=backup,
            seconds=round(seconds, 3),
            units=units,
            left=tuple({"unit": unit.label, "reason": reason} for unit, _, reason in left),
            recovered=recovered,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the answer a program reads, with the totals."""
        body = asdict(self)
        for key in ("files_before", "files_after", "bytes_before", "bytes_after", "rows"):
            body[key] = sum(getattr(unit, key) for unit in self.units)
        for when in ("before", "after"):
            files = body[f"files_{when}"]
            body[f"average_{when}"] = body[f"bytes_{when}"] // files if files else 0
        body["gap_ms_max"] = max((unit.gap_ms for unit in self.units), default=0)
        return body
