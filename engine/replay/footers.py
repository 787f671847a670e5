"""How many actions does a sidecar hold? Its footer tells, and no row of it is read."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from engine.errors import CorruptCheckpointError, MissingSidecarError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.log.listing import LogDirectory
    from engine.log.paths import TransactionFileRef

_AT_ONCE: Final = 16


def footer_counts(
    directory: LogDirectory, named: Iterable[TransactionFileRef]
) -> list[tuple[int, int]]:
    """Return how many adds each sidecar holds, and how many other rows.

    Where a footer does not tell, the column of paths is read. Raises CorruptCheckpointError, or
    its kind MissingSidecarError.
    """
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="txlog-footer") as pool:
        return list(pool.map(partial(_counts, directory), named))


def _counts(directory: LogDirectory, sidecar: TransactionFileRef) -> tuple[int, int]:
    try:
        source = directory.storage.open_input(directory.file(sidecar.path))
        with pq.ParquetFile(source) as parquet:
            adds = sum(_adds(parquet, group) for group in range(parquet.num_row_groups))
            return adds, parquet.metadata.num_rows - adds
    except FileNotFoundError:
        raise MissingSidecarError(sidecar.path, "a sidecar of the checkpoint is missing") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CorruptCheckpointError(sidecar.path, f"unreadable Parquet: {reason}") from None


def _adds(parquet: pq.ParquetFile, group: int) -> int:
    """Return how many rows of a row group are adds: those that have a path."""
    about = parquet.metadata.row_group(group)
    columns = (about.column(at) for at in range(about.num_columns))
    path = next((c for c in columns if c.path_in_schema == "add.path"), None)
    if path is None:
        return 0
    if path.is_stats_set and path.statistics.has_null_count:
        return int(about.num_rows - path.statistics.null_count)
    column = parquet.read_row_group(group, ["add.path"]).column("add")
    return len(column) - int(column.null_count)
