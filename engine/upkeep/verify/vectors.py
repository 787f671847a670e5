"""Where is a deletion vector's file? PROTOCOL.md#deletion-vector-descriptor-schema."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

# Of an encoded deletion vector id, the last so many characters are the uuid (Z85).
_UUID_TEXT: Final = 20
_VECTOR_HEAD: Final = 4  # the length that stands before a vector in its file
_VECTOR_TAIL: Final = 4  # and the checksum behind it
_Z85: Final = (
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
)


def vector_path(vector: Mapping[str, Any]) -> str | None:
    """Return where a deletion vector's file is, None for one that lies in the log itself."""
    kind, where = vector["storageType"], vector.get("pathOrInlineDv") or ""
    if kind == "p":
        return where
    if kind != "u" or len(where) < _UUID_TEXT:
        return None
    prefix, encoded = where[:-_UUID_TEXT], where[-_UUID_TEXT:]
    try:
        name = uuid.UUID(bytes=_z85(encoded))
    except ValueError:
        return None
    return f"{prefix}/deletion_vector_{name}.bin" if prefix else f"deletion_vector_{name}.bin"


def vector_end(vector: Mapping[str, Any]) -> int:
    """Return how long a file must be to hold a vector."""
    end: int = (vector.get("offset") or 0) + (vector.get("sizeInBytes") or 0)
    return end + _VECTOR_HEAD + _VECTOR_TAIL


def _z85(text: str) -> bytes:
    """Return what an encoded uuid stands for; raise ValueError where it stands for none."""
    plain = text.encode()
    digits = bytes(_Z85.find(byte) % 256 for byte in plain)
    if any(byte not in _Z85 for byte in plain):
        raise ValueError(text)
    words = (digits[at : at + 5] for at in range(0, len(digits), 5))
    return b"".join(_word(word).to_bytes(4, "big") for word in words)


def _word(digits: bytes) -> int:
    value = 0
    for digit in digits:
        value = value * 85 + digit
    return value
