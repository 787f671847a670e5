"""`_last_checkpoint`: where to start listing. A hint, never trusted, never needed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Hint:
    """A checkpoint that somebody said is there; its layout, name and size, where they were said.

    `size` counts its actions (kernel-java: its adds), `adds` its add actions; `checkpoint_id` tells
    the JSON parts of one writer from those of another.
    """

    version: int
    layout: str | None = None
    v2_name: str | None = None
    size: int | None = None
    adds: int | None = None
    checkpoint_id: str | None = None


def parse_hint(data: bytes) -> Hint | str:
    """Return the hint, or the reason why these bytes are none."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    if not isinstance(found, dict):
        return "not a JSON object"
    version = found.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or not 0 <= version < 2**63:
        return f"version is {version!r:.40}"
    checksum = found.get("checksum")
    try:
        if checksum is not None and checksum not in checksums(found):
            return "its checksum does not match its content"
    except (ValueError, RecursionError) as error:
        return f"it has no checksum: {error}"
    layout, v2 = found.get("format"), found.get("v2Checkpoint")
    path = v2.get("path") if isinstance(v2, dict) else None
    unique = found.get("checkpointId")
    return Hint(
        version,
        layout if isinstance(layout, str) else None,
        path.rpartition("/")[2] if isinstance(path, str) else None,
        _count(found.get("size")),
        _count(found.get("numOfAddFiles", found.get("numFiles"))),
        unique if isinstance(unique, str) else None,
    )


def checksums(hint: dict[str, Any]) -> tuple[str, str]:
    """Return the two checksums a correct writer may have given `hint`.

    The protocol sorts by path (first answer); Spark sorts whole `path=value` strings, which
    differs for arrays of eleven elements or more (second answer).
    """
    pairs = list(_flatten({k: v for k, v in hint.items() if k != "checksum"}, ()))
    by_path = [text for _, text in sorted(pairs, key=lambda pair: pair[0])]
    by_text = sorted(text for _, text in pairs)
    return _md5(by_path), _md5(by_text)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _md5(lines: list[str]) -> str:
    return hashlib.md5(",".join(lines).encode(), usedforsecurity=False).hexdigest()


def _flatten(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, child in value.items():
            yield from _flatten(child, (*path, _text(key)))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _flatten(child, (*path, str(index)))
    else:
        joined = "+".join(path)
        yield joined, f"{joined}={_text(value) if isinstance(value, str) else json.dumps(value)}"


def _text(value: str) -> str:
    return f'"{quote(value, safe="-_.~")}"'
