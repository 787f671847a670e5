"""What is written can be read, is never larger than plain, and says what it cost."""

from __future__ import annotations

import gzip

import pytest

from engine.config import COMPRESSION_CODEC, GZIP_LEVEL, Config
from engine.errors import ConfigError
from engine.replay.compression import decode, encode, is_compressed

TEXT = b"".join(b'{"add":{"path":"f%d","size":%d}}\n' % (n, n * 7) for n in range(400))
CODECS = {"gzip": 1, "zstd": 2, "lz4": 3, "snappy": 4}


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_headed_and_read_back(codec):
    packed = encode(TEXT, codec)
    assert packed.data[:2] == bytes([1, CODECS[codec]])
    assert decode(packed.data, "x") == TEXT
    assert packed.codec == codec
    assert packed.metrics()["originalBytes"] == len(TEXT)
    assert packed.metrics()["compressedBytes"] == len(packed.data) < len(TEXT)
    assert packed.ratio == pytest.approx(len(TEXT) / len(packed.data))
    assert packed.seconds > 0


@pytest.mark.parametrize("level", range(10))
def test_every_gzip_level_is_read_back_by_any_gzip(level):
    packed = encode(TEXT, "gzip", level, plain_below_bytes=0)
    assert decode(packed.data, "x") == TEXT
    if is_compressed(packed.data):  # level 0 only wraps, and so stays plain
        assert gzip.decompress(packed.data[2:]) == TEXT
    assert is_compressed(packed.data) == (level > 0)


def test_a_higher_level_is_smaller():
    assert len(encode(TEXT, "gzip", 9).data) < len(encode(TEXT, "gzip", 1).data)


def test_the_same_bytes_are_packed_alike():
    assert encode(TEXT).data == encode(TEXT).data


@pytest.mark.parametrize(("size", "codec"), [(1023, "none"), (1024, "gzip")])
def test_tiny_files_stay_plain(size, codec):
    packed = encode(b"a" * size)
    assert (packed.codec, is_compressed(packed.data)) == (codec, codec == "gzip")


def test_none_stays_plain():
    assert encode(TEXT, "none").data is TEXT


def test_what_does_not_shrink_stays_plain():
    noise = gzip.compress(TEXT * 3, 9)[20:] * 2
    packed = encode(noise[:1100], "snappy")
    assert (packed.data, packed.codec, packed.ratio) == (noise[:1100], "none", 1.0)


@pytest.mark.parametrize(("codec", "level"), [("brotli", 6), ("gzip", 10), ("gzip", -1)])
def test_an_unknown_codec_or_level_is_refused(codec, level):
    with pytest.raises(ValueError, match="use"):
        encode(TEXT, codec, level)


@pytest.mark.parametrize(
    ("setting", "value", "allowed"),
    [(COMPRESSION_CODEC, "brotli", "gzip, zstd, lz4, snappy, none"), (GZIP_LEVEL, 10, "0 to 9")],
)
def test_a_wrong_setting_is_refused_with_what_is_allowed(setting, value, allowed):
    with pytest.raises(ConfigError, match=allowed):
        Config(options={setting.key: value})
