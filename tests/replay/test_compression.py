"""From packed bytes to plain ones: every form, every damage, and never too many."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import textwrap
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config import SETTINGS
from engine.errors import UnreadableLogFileError
from engine.replay.compression import decode, is_compressed
from tests.logs import PACKINGS, LogBuilder, add, metadata, protocol

PACKED = [name for name in PACKINGS if name != "plain"]


@given(data=st.binary(min_size=1, max_size=5000), packing=st.sampled_from(PACKED))
def test_what_was_packed_comes_back(data: bytes, packing: str) -> None:
    packed = PACKINGS[packing](data)
    assert is_compressed(packed)
    assert decode(packed, "f") == data


@pytest.mark.parametrize("packing", PACKED)
def test_large_files_come_back(packing: str) -> None:
    data = b"".join(b"%d\n" % i for i in range(700_000))
    assert decode(PACKINGS[packing](data), "f") == data
    assert decode(PACKINGS[packing](bytes(5_000_000)), "f") == bytes(5_000_000)


def test_plain_bytes_are_left_as_they_are() -> None:
    for data in (b"{}", b"\n", b"\x02\x01", b"\x1f", b"\x00"):
        assert not is_compressed(data)
        assert decode(data, "f") == data


def test_gzip_may_come_in_several_members() -> None:
    data = b"one\n" * 400_000, b"", b"two\n"
    assert decode(b"".join(map(gzip.compress, data)), "f") == b"".join(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the transaction file is empty"),
        (b"\x01", "too short"),
        (b"\x01\x00abc", "unknown compression codec 0x00; known codecs: 0x01 gzip"),
        (b"\x01\xff", "unknown compression codec 0xff"),
        (b"\x01\x01", "too short"),
        (b"\x01\x01notgzip", "damaged gzip"),
        (b"\x01\x02notzstd", "damaged zstd"),
        (b"\x01\x03notlz4", "damaged lz4"),
        (b"\x01\x04\xff\xff\xff\xff\xff\xff", ""),
        (b"\x01\x04\x80\x80\x80\x01x", "cannot be as long as it says"),
        (b"\x1f\x8b", "damaged gzip"),
        (gzip.compress(b"x", mtime=0) + b"garbage", "damaged gzip"),
    ],
)
def test_damage_is_named(data: bytes, reason: str) -> None:
    with pytest.raises(UnreadableLogFileError) as refusal:
        decode(data, "f")
    assert reason in str(refusal.value)
    assert str(refusal.value).startswith("f: ")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("packing", PACKED)
def test_a_torn_file_is_never_taken_for_a_whole_one(packing: str) -> None:
    data = b"".join(b'{"add":{"path":"%d"}}\n' % i for i in range(2000))
    packed = PACKINGS[packing](data)
    for cut in [*range(2, 40), *range(40, len(packed), 97), *range(len(packed) - 12, len(packed))]:
        with pytest.raises(UnreadableLogFileError):
            decode(packed[:cut] or b"", "f")


@given(
    packing=st.sampled_from(["gzip", "raw gzip"]), at=st.integers(0, 10**6), bit=st.integers(0, 7)
)
def test_a_flipped_bit_of_gzip_is_noticed_or_harmless(packing: str, at: int, bit: int) -> None:
    data = b"".join(b'{"add":{"path":"%d"}}\n' % i for i in range(50))
    packed = bytearray(PACKINGS[packing](data))
    packed[at % len(packed)] ^= 1 << bit
    try:
        found = decode(bytes(packed), "f")
    except UnreadableLogFileError:
        return
    assert found == data or not is_compressed(bytes(packed))


@pytest.mark.parametrize("packing", PACKED)
@pytest.mark.parametrize(("size", "is_allowed"), [(1000, True), (1001, False), (3_000_000, False)])
def test_the_limit_is_exact(packing: str, size: int, is_allowed: bool) -> None:
    packed = PACKINGS[packing](bytes(size))
    if is_allowed:
        assert decode(packed, "f", limit_bytes=1000) == bytes(size)
        return
    with pytest.raises(UnreadableLogFileError, match="more than 1000 bytes") as refusal:
        decode(packed, "f", limit_bytes=1000)
    key = refusal.value.reason.rsplit(" ", 1)[1]
    assert key in SETTINGS, "the message must name a setting that exists"


# --- bombs -------------------------------------------------------------------------------------

BOMB_BYTES = 10 * 1024**3


def gzip_bomb() -> bytes:
    """Return 10 GB of zeros in 10 MB: one deflated block again and again."""
    block = 64 * 1024**2
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    # A full flush forgets what came before, so the pieces can follow each other in any number.
    piece = packer.compress(bytes(block)) + packer.flush(zlib.Z_FULL_FLUSH)
    return b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + piece * (BOMB_BYTES // block)


def frames(packing: str) -> bytes:
    """Return 10 GB of zeros as frames, one after the other."""
    block = 512 * 1024**2
    packed = PACKINGS[packing](bytes(block))
    return packed[:2] + packed[2:] * (BOMB_BYTES // block)


def snappy_bomb() -> bytes:
    """Return a size of 4 GB and little else."""
    return b"\x01\x04\xff\xff\xff\xff\x0f" + b"\xfe\x01\x00" * 1_000_000


BOMBS = {
    "gzip": lambda: b"\x01\x01" + gzip_bomb(),
    "raw gzip": gzip_bomb,
    "zstd": lambda: frames("zstd"),
    "lz4": lambda: frames("lz4"),
    "snappy": snappy_bomb,
}


@pytest.mark.parametrize(
    ("packing", "engine"), [*((name, "local") for name in BOMBS), ("gzip", "reference")]
)
def test_a_bomb_is_refused_in_bounded_memory(tmp_path, packing: str, engine: str) -> None:
    log = LogBuilder(tmp_path, "indextables")
    log.commit(protocol(), metadata(), add("x"))
    bomb = BOMBS[packing]()
    assert len(bomb) < 60_000_000
    log.write(f"{1:020d}.json", bomb)
    answer = replay_apart(log.root, engine, "64m")
    assert answer["code"] == "CORRUPT_JSON"
    assert "unpacks to more than 67108864 bytes" in answer["message"]
    assert answer["grown"] < len(bomb) // 2**20 * 2 + 64 * 4


def replay_apart(root: Path, engine: str, limit: str) -> dict:
    """Replay in a process of its own; return the refusal and by how many MB the process grew."""
    program = textwrap.dedent(
        """
        import json, resource, sys
        from engine import Config, ReplayError, open_log
        import pyarrow.json, pyarrow.parquet, pyarrow.compute, engine.snapshot
        peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        before = peak()
        config = Config(options={"spark.txlog.read.maxDecompressedBytes": sys.argv[3]})
        try:
            open_log(sys.argv[1], config).snapshot(engine=sys.argv[2])
            print(json.dumps({"code": None}))
        except ReplayError as error:
            answer = {"code": error.code, "message": str(error), "grown": peak() - before}
            print(json.dumps(answer))
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(root), engine, limit],
        capture_output=True,
        check=True,
        timeout=120,
        cwd=Path(__file__).parents[2],
    )
    return json.loads(done.stdout)
