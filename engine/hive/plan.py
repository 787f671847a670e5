"""What would a compaction take, what would it leave, and why? Reads only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import HiveRefusedError
from engine.hive import finish as finishing
from engine.hive import rewrite
from engine.hive.inspect import inspect, refusal
from engine.hive.model import Swap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.hive.inspect import Assessment
    from engine.hive.model import Options, Table, Unit
    from engine.hive.swap import Doors


@dataclass(frozen=True, slots=True)
class Plan:
    """What a compaction of a table would do: the units it takes, and the others with the reason."""

    table: Table
    swap: Swap
    taken: tuple[tuple[Unit, Assessment], ...]
    left: tuple[tuple[Unit, Assessment, str], ...]


def plan(doors: Doors, table: Table, options: Options) -> Plan:
    """Return what `compact` would do now; changes nothing.

    Raises:
        HiveRefusedError: the table must be left alone.
    """
    refuse(doors, table, options)
    made = finishing.files_made(doors, finishing.home_of(table))
    now_ms = doors.clock()
    found = inspect(doors.catalog, doors.files, table, options, now_ms=now_ms, made=made)
    if options.sort_columns:
        rewrite.refuse_sort(table, doors.catalog.data_schema(table), options.sort_columns)
    swap = options.swap or (
        Swap.RENAME if doors.files.renames_atomically(table.location) else Swap.LOCATION
    )
    copies = [] if swap is Swap.LOCATION else _copies(doors, found)
    if copies and options.swap:
        place = copies[0][0].location
        raise HiveRefusedError(
            table.full_name, f"a rename is a copy at {place}; use --swap location there"
        )
    why = "a rename is a copy where it lies; compact it with --swap location"
    apart = {unit.name for unit, _ in copies}
    taken, left = choose([p for p in found if p[0].name not in apart], options.max_bytes)
    left += [(unit, verdict, why) for unit, verdict in copies]
    return Plan(table, swap, tuple(taken), tuple(left))


def refuse(doors: Doors, table: Table, options: Options) -> None:
    """Raise HiveRefusedError when the table must be left alone; nothing is written to it."""
    reason = refusal(table, options) or rewrite.can_read(doors.catalog.spark, table)
    if reason:
        raise HiveRefusedError(table.full_name, reason)


def _copies(
    doors: Doors, found: Sequence[tuple[Unit, Assessment]]
) -> list[tuple[Unit, Assessment]]:
    # A partition may lie on another store than its table.
    return [
        pair
        for pair in found
        if pair[1].due and not doors.files.renames_atomically(pair[0].location)
    ]


def choose(
    found: Sequence[tuple[Unit, Assessment]], max_bytes: int
) -> tuple[list[tuple[Unit, Assessment]], list[tuple[Unit, Assessment, str]]]:
    """Split units into those to take and to leave, most files first while the budget lasts."""
    due = sorted((pair for pair in found if pair[1].due), key=lambda pair: -pair[1].files)
    left = [(unit, verdict, verdict.reason) for unit, verdict in found if not verdict.due]
    taken, spent = [], 0
    for unit, verdict in due:
        if max_bytes and spent + verdict.size_bytes > max_bytes:
            left.append((unit, verdict, "the byte budget of this run is spent"))
        else:
            taken.append((unit, verdict))
            spent += verdict.size_bytes
    return sorted(taken, key=lambda pair: pair[0].name), left
