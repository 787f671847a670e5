"""What makes two actions speak of the same file: canonical path and deletion-vector id.

Keys are compared by a 128-bit fingerprint, seeded anew in every process (on a cluster, in every
driver): 16 bytes a key instead of its text, and no loop over rows. Two different keys of a log of
ten million would share one with a probability of 10^-25; whoever wants to force it does not know
the seed.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import Final
from urllib.parse import quote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.actions import DELETION_VECTOR, conform
from engine.replay.hashing import hash_pairs

Seeds = tuple[int, ...]

SEEDS: Final[Seeds] = tuple((np.frombuffer(os.urandom(32), dtype=np.uint64) | 1).tolist())
_SHIFT: Final = np.uint64(32)

# s3a and s3n are other clients' names for the same objects.
_SAME_SCHEMES: Final = (("s3", "s3a", "s3n"),)
_FILE_SCHEME: Final = r"^file:/+"


def canonical_paths(paths: pa.Array, root: str) -> pa.Array:
    """Return `paths` with every spelling of a file under `root` made relative.

    `root` is the table's URL or absolute path. Percent escapes are left as they stand: they are
    part of the name (`a%20b` and `a b` are two keys in every engine).
    """
    if not (_have(paths, b":") or pc.any(pc.starts_with(paths, "/")).as_py()):
        return paths
    paths = pc.replace_substring_regex(paths, _FILE_SCHEME, "/")
    return pc.replace_substring_regex(paths, _under(root), "")


def _have(strings: pa.Array, byte: bytes) -> bool:
    """Tell whether a byte stands in any of some strings, looked for as in one text."""
    if not len(strings):
        return False
    _, offsets, data = strings.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int32)
    start, end = bounds[strings.offset], bounds[strings.offset + len(strings)]
    text = np.frombuffer(data or b"", dtype=np.uint8)[start:end]
    return bool((text == ord(byte)).any())


def may_be_absolute(paths: pa.ChunkedArray, root: str) -> pa.ChunkedArray:
    """Return which paths `canonical_paths` may change; cheaper than to find out."""
    found = pc.starts_with(paths, "/")
    scheme = urlsplit(root).scheme
    names = next((group for group in _SAME_SCHEMES if scheme in group), (scheme,))
    for name in {"file", *filter(None, names)}:
        found = pc.or_(found, pc.starts_with(paths, f"{name}:"))
    return found


def canonical_path(path: str, root: str) -> str:
    """Return what `canonical_paths` makes of one path."""
    return re.sub(_under(root), "", re.sub(_FILE_SCHEME, "/", path))


@lru_cache(maxsize=64)
def _under(root: str) -> str:
    """Return the pattern of every spelling of the root, as RE2 and Python read it."""
    base = re.sub(_FILE_SCHEME, "/", root).rstrip("/")
    scheme, rest = urlsplit(base).scheme, base
    names = next((group for group in _SAME_SCHEMES if scheme in group), (scheme,))
    if scheme:
        rest = base[len(scheme) :]
    # Log paths are URIs: where the root needs escapes, they are written with them.
    spellings = {f"{name}{text}/" for name in names for text in (rest, quote(rest, safe="/:"))}
    return f"^(?:{'|'.join(map(re.escape, sorted(spellings)))})"


def dv_ids(vectors: pa.StructArray) -> pa.Array:
    """Return each deletion vector's unique id, null where there is none.

    A vector without a storage type is no vector: some writers fill the struct with blanks.
    """
    vectors = conform(vectors, DELETION_VECTOR)
    storage = pc.struct_field(vectors, "storageType")
    absent = pc.or_kleene(pc.is_null(storage), pc.equal(storage, ""))
    offset = pc.struct_field(vectors, "offset").cast(pa.string())
    suffix = pc.fill_null(pc.binary_join_element_wise("@", offset, ""), "")
    where = pc.fill_null(pc.struct_field(vectors, "pathOrInlineDv"), "")
    ids = pc.binary_join_element_wise(storage, where, suffix, "")
    return pc.if_else(absent, pa.scalar(None, pa.string()), ids)


def dv_id(vector: dict[str, object] | None) -> str | None:
    """Return what `dv_ids` makes of one vector."""
    if not vector or not vector.get("storageType"):
        return None
    offset = vector.get("offset")
    tail = "" if offset is None else f"@{offset}"
    return f"{vector['storageType']}{vector.get('pathOrInlineDv') or ''}{tail}"


def fingerprints(
    paths: pa.Array, ids: pa.Array | None, seeds: Seeds = SEEDS
) -> tuple[np.ndarray, np.ndarray]:
    """Return two 64-bit hashes a key; under the same seeds, equal keys have equal pairs."""
    odd = np.array(seeds, dtype=np.uint64)
    first, second = hash_pairs(paths, odd)
    if ids is not None and ids.null_count < len(ids):
        has = ids.is_valid().to_numpy(zero_copy_only=False)
        id_first, id_second = hash_pairs(ids, odd)
        first = np.where(has, (first ^ id_first) * odd[2], first)
        second = np.where(has, (second ^ (id_second >> _SHIFT)) * odd[3] + id_first, second)
    return first, second
