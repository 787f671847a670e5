"""Which tables were meant? A database is all its tables; `database.table` is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import HiveRefusedError, HiveTableNotFoundError
from engine.hive.catalog import BACKUP_OF
from engine.hive.finish import home_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.hive.catalog import Catalog
    from engine.hive.model import Table
    from engine.hive.swap import Doors


def resolve(catalog: Catalog, targets: Sequence[str]) -> Iterator[tuple[Table, bool]]:
    """Yield each table of `targets`, and whether it was named itself.

    Raises:
        HiveTableNotFoundError: a target is neither DATABASE nor DATABASE.TABLE, or is not there.
        HiveRefusedError: a target is the backup of a compaction.
    """
    for target in targets:
        database, dot, name = target.partition(".")
        if not database or (dot and not name) or "." in name:
            raise HiveTableNotFoundError(target)
        for each in [name] if name else catalog.table_names(database):
            table = catalog.table(database, each)
            if BACKUP_OF not in table.properties:
                yield table, bool(name)
            elif name:
                raise HiveRefusedError(target, "it is the backup of a compaction")


def keeps_runs(doors: Doors, table: Table) -> bool:
    """Say whether a table was ever compacted, so that there is something to look after."""
    return bool(table.location) and doors.files.exists(home_of(table))
