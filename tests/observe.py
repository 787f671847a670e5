"""What a snapshot says, in the form of the model, and the one comparison between the two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.model import Model, file_key, normal

if TYPE_CHECKING:
    import pyarrow as pa

    from engine.snapshot import Snapshot


def observed(snapshot: Snapshot) -> Model:
    """Return all of a snapshot's content as the model would have it."""
    root, state = snapshot.directory.table_url, snapshot.state
    return Model(
        files=_files(snapshot.files(), root),
        tombstones=_files(snapshot.tombstones(), root),
        singles={"protocol": normal(state.protocol), "metaData": normal(state.metadata)},
        keyed={
            "txn": _normal(state.txns),
            "domainMetadata": _normal(state.domains),
            "mergeskip": _normal(snapshot.skips),
        },
    )


def assert_same(got: Model, wanted: Model) -> None:
    assert got.files == wanted.files
    assert got.tombstones == wanted.tombstones
    assert got.singles == wanted.singles
    assert got.keyed["txn"] == wanted.keyed["txn"]
    assert got.domains == wanted.domains
    assert got.keyed["mergeskip"] == wanted.keyed["mergeskip"]


def rows(table: pa.Table) -> list[dict[str, Any]]:
    return table.to_pylist(maps_as_pydicts="strict")


def _files(table: pa.Table, root: str) -> dict[tuple[str, str | None], dict[str, Any]]:
    found = {}
    for row in rows(table):
        key = file_key({"path": row["path"]}, root)[0], row.pop("dvId")
        assert key not in found, f"{key} twice"
        found[key] = normal(row)
    return found


def _normal(values: Any) -> dict[str, Any]:
    return {key: normal(value) for key, value in values.items()}
