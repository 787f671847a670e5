"""What reconciliation leaves: live files, tombstones, and one of each other kind a key."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from engine.replay.rules import NEWEST, STATE_KEYS
from engine.replay.stats import record_counts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.actions import ActionBatch


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums of a state. `num_records` is None unless every live file tells its own."""

    num_files: int
    size_bytes: int
    num_records: int | None
    num_tombstones: int


class State(Protocol):
    """The reconciled state of one version, wherever its files are.

    `domains` and `txns` hold every winner, `removed=true` domains and old txns included.
    """

    @property
    def files(self) -> pa.Table:
        """The live files, brought to this process."""

    @property
    def tombstones(self) -> pa.Table:
        """The tombstones, brought to this process."""

    @property
    def protocol(self) -> Mapping[str, Any] | None:
        """The protocol action that won."""

    @property
    def metadata(self) -> Mapping[str, Any] | None:
        """The metaData action that won."""

    @property
    def txns(self) -> Mapping[str, Mapping[str, Any]]:
        """The newest txn of each application."""

    @property
    def domains(self) -> Mapping[str, Mapping[str, Any]]:
        """The newest action of each domain."""

    @property
    def skips(self) -> Mapping[str, Mapping[str, Any]]:
        """The newest skip of each file."""

    @property
    def has_repeats(self) -> bool:
        """Whether its checkpoint was found to hold a key more than once."""

    def totals(self) -> Totals:
        """Return the sums of the live files, and the number of tombstones."""

    def metrics(self) -> dict[str, Any]:
        """Return what the engine counted on the way."""

    def with_protocol(self, protocol: Mapping[str, Any]) -> State:
        """Return the same state under another protocol."""


@dataclass(frozen=True, slots=True)
class LocalState:
    """The reconciled state of one version, in this process.

    `domains` and `txns` hold every winner, `removed=true` domains and old txns included.
    """

    files: pa.Table
    tombstones: pa.Table
    protocol: Mapping[str, Any] | None
    metadata: Mapping[str, Any] | None
    txns: Mapping[str, Mapping[str, Any]]
    domains: Mapping[str, Mapping[str, Any]]
    skips: Mapping[str, Mapping[str, Any]]
    has_repeats: bool = False

    def totals(self) -> Totals:
        """Return the sums of the live files, and the number of tombstones."""
        records = record_counts(self.files)
        known = records.null_count == 0
        return Totals(
            num_files=self.files.num_rows,
            size_bytes=exact_sum(self.files["size"]),
            num_records=exact_sum(records) if known else None,
            num_tombstones=self.tombstones.num_rows,
        )

    def metrics(self) -> dict[str, Any]:
        """Return what the engine counted; this one counts nothing."""
        return {}

    def with_protocol(self, protocol: Mapping[str, Any]) -> LocalState:
        """Return the same state under another protocol."""
        return replace(self, protocol=protocol)


@dataclass(slots=True)
class Singles:
    """Reconciles the kinds that are few: protocol, metaData, txns, domains, skips."""

    _won: dict[str, dict[str, tuple[tuple[int, int], Any]]] = field(
        default_factory=lambda: {kind: {} for kind in STATE_KEYS}
    )

    def take(self, batch: ActionBatch) -> None:
        """Enter the actions of a batch, in any order."""
        for kind in STATE_KEYS:
            column = batch.columns.get(kind)
            if column is None or column.null_count == len(column):
                continue
            here = column.is_valid()
            versions, ordinals = batch.version.filter(here), batch.ordinal.filter(here)
            values = column.filter(here).to_pylist(maps_as_pydicts="lossy")
            for version, ordinal, value in zip(
                versions.to_pylist(), ordinals.to_pylist(), values, strict=True
            ):
                self.enter(kind, (version, ordinal), value)

    def enter(self, kind: str, position: tuple[int, int], value: Mapping[str, Any]) -> None:
        """Enter one action that stands at `position`, which is (version, ordinal)."""
        assert len(position) == len(NEWEST)
        field_name = STATE_KEYS[kind]
        key = "" if field_name is None else value[field_name]
        won = self._won[kind].get(key)
        if won is None or won[0] <= position:
            self._won[kind][key] = (position, value)

    def entries(self, kind: str) -> list[tuple[str, tuple[int, int], Mapping[str, Any]]]:
        """Return (key, position, action) of each winner of a kind."""
        return [(key, position, value) for key, (position, value) in self._won[kind].items()]

    def winner(self, kind: str) -> Mapping[str, Any] | None:
        """Return the one action of a kind that has no key."""
        entry = self._won[kind].get("")
        return entry[1] if entry else None

    def winners(self, kind: str) -> dict[str, Mapping[str, Any]]:
        """Return the winning action of each key, ordered by key."""
        return {key: value for key, (_, value) in sorted(self._won[kind].items())}

    def state(
        self, files: pa.Table, tombstones: pa.Table, *, has_repeats: bool = False
    ) -> LocalState:
        """Return the whole state, with the files that another reconciliation left."""
        return LocalState(
            files=files,
            tombstones=tombstones,
            protocol=self.winner("protocol"),
            metadata=self.winner("metaData"),
            txns=self.winners("txn"),
            domains=self.winners("domainMetadata"),
            skips=self.winners("mergeskip"),
            has_repeats=has_repeats,
        )


def exact_sum(numbers: pa.Array | pa.ChunkedArray) -> int:
    """Return a sum that may need more than 64 bits, which `pc.sum` would wrap."""
    return int(pc.sum(numbers.cast(pa.decimal128(38))).as_py() or 0)
