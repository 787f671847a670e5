"""Has a table property a value that its readers and writers understand?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from engine.config import BOOLEAN, SETTINGS, Kind, count

if TYPE_CHECKING:
    from collections.abc import Mapping

CLOCK: Final = "delta.enableInCommitTimestamps"
# Who switches the clock on in the life of a table notes here when that was.
_CLOCK_STARTS: Final = (
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp",
)
# Properties that bind a table's writers and are no settings of ours.
_KINDS: Final[Mapping[str, Kind[Any]]] = {
    "delta.appendOnly": BOOLEAN,
    "delta.enableChangeDataFeed": BOOLEAN,
    "delta.enableDeletionVectors": BOOLEAN,
    "delta.inCommitTimestampEnablementTimestamp": count(),
}


def check_properties(old: Mapping[str, str] | None, new: Mapping[str, str]) -> None:
    """Raise ValueError where a property gets a value that is not allowed.

    `old` is what the table has: what it had already is not held against a commit that keeps it. A
    table that is created has none.
    """
    for key, value in new.items():
        if old is not None and old.get(key) == value:
            continue
        kind = SETTINGS[key].kind if key in SETTINGS else _KINDS.get(key)
        if kind is not None and not _is_allowed(kind, value):
            raise ValueError(
                f"the table property {key}={value!r} is not allowed; use {kind.allowed}"
            )
    if old is None and (early := [key for key in _CLOCK_STARTS if key in new]):
        raise ValueError(
            f"the table property {early[0]} is for tables that got {CLOCK} later; "
            "leave it away when a table is created"
        )
    if old is not None and any(old.get(key) != new.get(key) for key in (CLOCK, *_CLOCK_STARTS)):
        raise ValueError(f"{CLOCK} can only be set when a table is created")


def _is_allowed(kind: Kind[Any], value: str) -> bool:
    try:
        kind.parse(value)
    except ValueError:
        return False
    # Other engines compare the text as it stands.
    return value == value.strip()
