"""Between the bytes of a log file and its plain JSON bytes, never more of them than allowed.

A file is plain, or `0x01` + codec + payload, or (later native writers) raw gzip. We write the
first two: the raw form is unreadable to the engines that came before it.
"""

from __future__ import annotations

import gzip
import time
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from engine.errors import UnreadableLogFileError

if TYPE_CHECKING:
    from collections.abc import Callable

MAGIC: Final = b"\x01"
GZIP_MAGIC: Final = b"\x1f\x8b"
DEFAULT_LIMIT_BYTES: Final = 512 * 1024 * 1024
DEFAULT_LEVEL: Final = 6
PLAIN_BELOW_BYTES: Final = 1024

_STEP: Final = 1 << 20
_MORE: Final = 0x80  # the bit of a varint byte that says another follows
_SNAPPY_MOST: Final = 32  # three bytes stand for at most 64


class _TooLargeError(Exception):
    """The payload unpacks to more than the limit."""


def decode(data: bytes, path: str, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> bytes:
    """Return the plain bytes of a log file, compressed or not.

    Raises UnreadableLogFileError for an empty file, a missing or unknown codec byte, a damaged
    payload, and a payload that would unpack to more than `limit_bytes`.
    """
    if not data:
        raise UnreadableLogFileError(path, "the transaction file is empty")
    if data[:1] == MAGIC:
        if len(data) < len(MAGIC) + 1:
            raise UnreadableLogFileError(
                path, "compressed file too short: the codec byte is missing"
            )
        name, unpack = _CODECS.get(data[1], ("", None))
        if unpack is None:
            known = ", ".join(f"0x{byte:02x} {name}" for byte, (name, _) in _CODECS.items())
            raise UnreadableLogFileError(
                path, f"unknown compression codec 0x{data[1]:02x}; known codecs: {known}"
            )
        payload = data[2:]
        if not payload:
            raise UnreadableLogFileError(path, "compressed file too short: nothing is packed")
    elif data[:2] == GZIP_MAGIC:
        name, unpack, payload = "gzip", _gunzip, data
    else:
        return data
    try:
        return unpack(payload, limit_bytes)
    except _TooLargeError:
        raise UnreadableLogFileError(
            path,
            f"unpacks to more than {limit_bytes} bytes; if that is right, raise "
            "spark.txlog.read.maxDecompressedBytes",
        ) from None
    except (zlib.error, pa.ArrowException, OSError, EOFError, ValueError) as error:
        raise UnreadableLogFileError(path, f"damaged {name} data: {error}") from None


@dataclass(frozen=True, slots=True)
class Encoded:
    """The bytes to write for a log file, and what it took to make them.

    `codec` is what the bytes are in: `none` where they stayed plain.
    """

    data: bytes
    codec: str
    original_bytes: int
    seconds: float

    @property
    def ratio(self) -> float:
        """How many times smaller than plain; 1 for a file that stayed plain."""
        return self.original_bytes / len(self.data) if self.data else 1.0

    def metrics(self) -> dict[str, Any]:
        """Return codec, sizes, ratio and seconds under the names reports use."""
        return {
            "codec": self.codec,
            "originalBytes": self.original_bytes,
            "compressedBytes": len(self.data),
            "ratio": round(self.ratio, 3),
            "seconds": round(self.seconds, 6),
        }


def encode(
    data: bytes,
    codec: str = "gzip",
    level: int = DEFAULT_LEVEL,
    plain_below_bytes: int = PLAIN_BELOW_BYTES,
) -> Encoded:
    """Return the bytes to write: header and payload, or `data` itself where that is no larger.

    Files under `plain_below_bytes` stay plain, whatever the codec: there is nothing to win. The
    level is gzip's, 0 to 9. Raises ValueError for another level or an unknown codec.
    """
    if codec not in {"none", *_PACKERS}:
        raise ValueError(f"unknown codec {codec!r}; use none or {', '.join(_PACKERS)}")
    if not 0 <= level <= _GZIP_BEST:
        raise ValueError(f"gzip level {level}; use 0 to {_GZIP_BEST}")
    if codec == "none" or len(data) < plain_below_bytes:
        return Encoded(data, "none", len(data), 0.0)
    started = time.perf_counter()
    byte, pack = _PACKERS[codec]
    packed = MAGIC + bytes([byte]) + pack(data, level)
    seconds = time.perf_counter() - started
    if len(packed) >= len(data):
        return Encoded(data, "none", len(data), seconds)
    return Encoded(packed, codec, len(data), seconds)


def is_compressed(data: bytes) -> bool:
    """Tell whether `decode` would have anything to unpack."""
    return data[:1] == MAGIC or data[:2] == GZIP_MAGIC


def _gunzip(payload: bytes, limit_bytes: int) -> bytes:
    out: list[bytes] = []
    room = limit_bytes
    at = 0
    while at < len(payload):
        member = zlib.decompressobj(wbits=31)
        rest = b""
        while not member.eof:
            # In steps both ways: what is not yet unpacked is copied at every step.
            step = rest or payload[at : at + _STEP]
            at += 0 if rest else len(step)
            piece = member.decompress(step, min(_STEP, room + 1))
            rest = member.unconsumed_tail
            room -= len(piece)
            if room < 0:
                raise _TooLargeError
            out.append(piece)
            if not step and not piece:
                raise EOFError("the data ends in the middle of a stream")
        at -= len(member.unused_data)
    return b"".join(out)


def _stream(codec: str) -> Callable[[bytes, int], bytes]:
    def unpack(payload: bytes, limit_bytes: int) -> bytes:
        out: list[bytes] = []
        room = limit_bytes
        with pa.CompressedInputStream(pa.BufferReader(payload), codec) as stream:
            while piece := stream.read(_STEP):
                room -= len(piece)
                if room < 0:
                    raise _TooLargeError
                out.append(piece)
        return b"".join(out)

    return unpack


def _unsnap(payload: bytes, limit_bytes: int) -> bytes:
    size = shift = 0
    for byte in payload[:5]:  # the plain size stands in front, as a varint
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < _MORE:
            break
    if size > limit_bytes:
        raise _TooLargeError
    if size > len(payload) * _SNAPPY_MOST:
        raise ValueError("it cannot be as long as it says")
    return bytes(pa.decompress(payload, decompressed_size=size, codec="snappy", asbytes=True))


_CODECS: Final[dict[int, tuple[str, Callable[[bytes, int], bytes]]]] = {
    0x01: ("gzip", _gunzip),
    0x02: ("zstd", _stream("zstd")),
    0x03: ("lz4", _stream("lz4")),
    0x04: ("snappy", _unsnap),
}


def _gzip(data: bytes, level: int) -> bytes:
    return gzip.compress(data, level, mtime=0)  # the same actions make the same bytes


def _framed(codec: str) -> Callable[[bytes, int], bytes]:
    def pack(data: bytes, _: int) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as stream:
            stream.write(data)
        return bytes(sink.getvalue().to_pybytes())

    return pack


def _snap(data: bytes, _: int) -> bytes:
    return bytes(pa.compress(data, codec="snappy", asbytes=True))


_GZIP_BEST: Final = 9
_PACKERS: Final[dict[str, tuple[int, Callable[[bytes, int], bytes]]]] = {
    "gzip": (0x01, _gzip),
    "zstd": (0x02, _framed("zstd")),
    "lz4": (0x03, _framed("lz4")),
    "snappy": (0x04, _snap),
}
