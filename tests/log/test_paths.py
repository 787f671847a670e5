"""Names of log files: each is understood once, and everything else is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formats import DELTA, INDEXTABLES
from engine.log import paths
from engine.log.paths import FileKind, parse_path

V = "00000000000000000010"
versions = st.integers(0, 2**63 - 1)


def kind(name: str, log_format=DELTA) -> FileKind | None:
    ref = parse_path(name, 1, 1, log_format)
    return ref and ref.kind


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (f"{V}.json", FileKind.COMMIT),
        (f"{V}.crc", FileKind.CHECKSUM),
        (f"{V}.checkpoint.parquet", FileKind.CHECKPOINT),
        (f"{V}.checkpoint.0000000001.0000000002.parquet", FileKind.CHECKPOINT_PART),
        (f"{V}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json", FileKind.CHECKPOINT_V2),
        (f"{V}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet", FileKind.CHECKPOINT_V2),
        (f"{V}.00000000000000000012.compacted.json", FileKind.COMPACTION),
    ],
)
def test_every_kind_of_delta_file_is_known_by_its_name(name: str, wanted: FileKind) -> None:
    assert kind(name) is wanted


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (f"{V}.json", FileKind.COMMIT),
        (f"{V}.checkpoint.json", FileKind.CHECKPOINT_JSON),
        (f"{V}.checkpoint.09861b346695.00002.json", FileKind.CHECKPOINT_JSON_PART),
        (f"_checkpoints/{V}.checkpoint.parquet", FileKind.CHECKPOINT),
        (f"_checkpoints/{V}.checkpoint.0000000002.0000000003.parquet", FileKind.CHECKPOINT_PART),
        (f"_checkpoints/{V}.checkpoint.json", FileKind.CHECKPOINT_METADATA),
        (f"{V}.00000000000000000012.compacted.json", FileKind.COMPACTION),
        (f"{V}.00000000000000000012.compacted.parquet", FileKind.COMPACTION),
    ],
)
def test_every_kind_of_indextables_file_is_known_by_its_name(name: str, wanted: FileKind) -> None:
    assert kind(name, INDEXTABLES) is wanted


@pytest.mark.parametrize("log_format", [DELTA, INDEXTABLES])
@pytest.mark.parametrize(
    "name",
    [
        "_last_checkpoint",
        f".{V}.json.crc",
        f"._{V}.json",
        f".{V}.json.80a083e8.tmp",
        f"{V}.json.tmp",
        f"{V}.json\n",
        f" {V}.json",
        f"{V}.JSON",
        "10.json",
        "0000000000000000010.json",
        "000000000000000000010.json",
        "\u0660" * 20 + ".json",
        "-0000000000000000010.json",
        "99999999999999999999.json",  # no version has more than 63 bits
        f"_staged_commits/{V}.80a083e8.json",
        f"{V}.80a083e8.json",
        f"{V}.{V}.compacted.json",  # a compaction is of two versions at least
        f"00000000000000000012.{V}.compacted.json",
        f"{V}.checkpoint.0000000000.0000000002.parquet",
        f"{V}.checkpoint.0000000003.0000000002.parquet",
        f"{V}.checkpoint.parquet.crc",
        "",
        "\0",
        "a" * 5000,
    ],
)
def test_everything_else_is_not_part_of_the_log(name: str, log_format) -> None:
    assert kind(name, log_format) is None


@given(version=versions, start=versions, parts=st.integers(2, 10**9), data=st.data())
def test_a_name_that_is_made_is_read_back(version: int, start: int, parts: int, data) -> None:
    part = data.draw(st.integers(1, parts))
    start, version = min(start, version), max(start, version)
    for name, log_format in [
        (paths.commit_name(version), DELTA),
        (paths.commit_name(version), INDEXTABLES),
        (paths.checkpoint_name(version), DELTA),
        (paths.checkpoint_part_name(version, part, parts), DELTA),
        (paths.checkpoint_v2_name(version, "some-uuid"), DELTA),
        (paths.checkpoint_json_name(version), INDEXTABLES),
        (paths.checkpoint_json_part_name(version, "0a1b", part % 99999 + 1), INDEXTABLES),
        (paths.checksum_name(version), DELTA),
    ]:
        ref = parse_path(name, 5, 6, log_format)
        assert ref is not None, name
        assert (ref.version, ref.path, ref.size, ref.modification_time) == (version, name, 5, 6)
        assert name >= paths.first_name(version)
    if start < version:
        ref = parse_path(paths.compaction_name(start, version), 5, 6, DELTA)
        assert ref is not None
        assert (ref.start_version, ref.version) == (start, version)


@given(name=st.text(max_size=60))
def test_no_name_is_too_odd_to_be_looked_at(name: str) -> None:
    for log_format in (DELTA, INDEXTABLES):
        parse_path(name, 1, 1, log_format)
