"""How is a file indexed? Mappings that many files share are kept once, in the table's metadata.

A file names its mapping by a hash; the table's properties hold the text under that hash.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import MissingDocMappingError

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX: Final = "docMappingSchema."
_HASH_LENGTH: Final = 16
_CONTROL: Final = re.compile("([\x00-\x07\x0b\x0e-\x1f])")
_PLAIN: Final = (Decimal("1e-3"), Decimal("1e7"))


@lru_cache(maxsize=1024)
def mapping_hash(text: str) -> str:
    """Return what a mapping is named by: the same for all texts that say the same.

    The order of an object's members does not count, nor that of a list of named objects. What is
    not JSON is named by its bytes.
    """
    with suppress(ValueError, RecursionError):
        text = _canonical(json.loads(text, parse_constant=_refuse))
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return base64.urlsafe_b64encode(digest).decode()[:_HASH_LENGTH]


def mapping_of(ref: str, configuration: Mapping[str, str]) -> str | None:
    """Return the mapping that a table's properties hold under a hash."""
    return configuration.get(PREFIX + ref, configuration.get(ref))


def resolved(files: pa.Table, configuration: Mapping[str, str], directory: str) -> pa.Table:
    """Return live files whose `docMappingJson` is filled in, as an indexer takes it.

    Objects without any field, which indexers refuse, are left out of it. Raises
    MissingDocMappingError where a mapping that a file names is not there.
    """
    if "docMappingRef" not in files.column_names:
        return files
    inline, refs = files["docMappingJson"], files["docMappingRef"]
    named = pc.and_(pc.is_null(inline), pc.is_valid(refs))
    names = pc.unique(refs.filter(named)).to_pylist()
    found = {name: mapping_of(name, configuration) for name in names}
    if missing := sorted(name for name, text in found.items() if text is None):
        raise MissingDocMappingError(directory, missing)
    texts = pa.array(found.values(), pa.string())
    looked_up = texts.take(pc.index_in(refs.combine_chunks(), pa.array(found, pa.string())))
    whole = pc.coalesce(inline.combine_chunks(), looked_up).dictionary_encode()
    usable = pa.array([_usable(text) for text in whole.dictionary.to_pylist()], pa.string())
    at = files.column_names.index("docMappingJson")
    return files.set_column(at, files.schema.field(at), usable.take(whole.indices))


def _usable(text: str) -> str:
    try:
        mapping = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(mapping, list):
        return text
    kept = [field for field in mapping if not _is_hollow(field)]
    if len(kept) == len(mapping):
        return text
    return json.dumps(kept, separators=(",", ":"), ensure_ascii=False)


def _is_hollow(field: Any) -> bool:
    if not isinstance(field, dict) or field.get("type") != "object":
        return False
    return bool(field.get("field_mappings", []) == [])


# --- the one text of all that say the same -------------------------------------------------------


def _canonical(node: Any) -> str:
    """Return compact JSON with everything sorted whose order says nothing, as the JVM sorts it."""
    if isinstance(node, dict):
        members = (f"{_quoted(k)}:{_canonical(node[k])}" for k in sorted(node, key=_utf16))
        return "{" + ",".join(members) + "}"
    if isinstance(node, list):
        if all(isinstance(item, dict) and "name" in item for item in node):
            node = sorted(node, key=lambda item: _utf16(_as_text(item["name"])))
        return "[" + ",".join(_canonical(item) for item in node) + "]"
    if isinstance(node, str):
        return _quoted(node)
    return _as_text(node)


def _as_text(node: Any) -> str:
    if isinstance(node, (dict, list)):
        return ""
    if isinstance(node, str):
        return node
    return _double(node) if isinstance(node, float) else json.dumps(node)


def _quoted(text: str) -> str:
    # The JVM writes the codes of control characters in capitals.
    parts = _CONTROL.split(text)
    return (
        '"'
        + "".join(
            f"\\u{ord(part):04X}" if at % 2 else json.dumps(part, ensure_ascii=False)[1:-1]
            for at, part in enumerate(parts)
        )
        + '"'
    )


def _double(number: float) -> str:
    """Return a number as the JVM writes it: 100000.0, 1.0E-7."""
    exact = Decimal(repr(number))
    if exact == 0 or _PLAIN[0] <= abs(exact) < _PLAIN[1]:
        text = f"{exact:f}"
        return text if "." in text else f"{text}.0"
    digits = "".join(map(str, exact.as_tuple().digits)).rstrip("0")
    return f"{'-' if number < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{exact.adjusted()}"


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _refuse(constant: str) -> None:
    raise ValueError(constant)
