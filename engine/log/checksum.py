"""What does a version's checksum (`.crc`) say, and does a state agree? Never a source of files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# What a fallback is about that tells of a contradiction.
CHECKSUM: Final = "checksum"

_PROTOCOL: Final = ("minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures")


def parse_checksum(data: bytes) -> dict[str, Any] | str:
    """Return the one object of a checksum file, or the reason why these bytes are none."""
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        return f"not JSON: {error}"
    return found if isinstance(found, dict) else "not a JSON object"


def checksum_of(
    *,
    num_files: int,
    size_bytes: int,
    protocol: Mapping[str, Any],
    metadata: Mapping[str, Any],
    txns: Mapping[str, Mapping[str, Any]],
    domains: Mapping[str, str | None],
) -> dict[str, Any]:
    """Return what a version's checksum says, in wire names."""
    return {
        "tableSizeBytes": size_bytes,
        "numFiles": num_files,
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": [_set(txn) for txn in txns.values()],
        "domainMetadata": [
            {"domain": name, "configuration": text or "", "removed": False}
            for name, text in domains.items()
        ],
        "metadata": _set(metadata),
        "protocol": _set(protocol),
    }


def contradictions(said: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    """Yield where a checksum file and a state differ; what the file leaves out is fine."""
    for name in ("numFiles", "tableSizeBytes"):
        if isinstance(said.get(name), int) and said[name] != found[name]:
            yield f"{name} is {said[name]:,} in it, {found[name]:,} in the log"
    for name, key in (("setTransactions", "appId"), ("domainMetadata", "domain")):
        if isinstance(said.get(name), list) and _by(said[name], key) != _by(found[name], key):
            yield f"{name} differs"
    protocol = said.get("protocol")
    if isinstance(protocol, dict) and _comparable(protocol) != _comparable(found["protocol"]):
        yield "protocol differs"
    metadata = said.get("metadata")
    if isinstance(metadata, dict) and metadata.get("id") != found["metadata"].get("id"):
        yield "metadata.id differs"


def _by(actions: list[Any], key: str) -> dict[str, Any]:
    known = [action for action in actions if isinstance(action, dict) and not action.get("removed")]
    value = {"appId": "version", "domain": "configuration"}[key]
    return {str(action.get(key)): action.get(value) for action in known}


def _comparable(protocol: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: protocol.get(name) for name in _PROTOCOL}
    return {
        name: sorted(value) if isinstance(value, list) else value
        for name, value in found.items()
        if value
    }


def _set(action: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in action.items() if value is not None}
