"""What one listing of a log directory finds, from a hint on or whole."""

from __future__ import annotations

import pytest

from engine.errors import LogNotFoundError, UnsupportedLogFormatError
from engine.formats import DELTA, INDEXTABLES
from engine.log.listing import LogDirectory, find_log, list_latest, list_log
from engine.storage import open_storage
from tests.logs import LogBuilder, Shape


def directory(log: LogBuilder) -> LogDirectory:
    storage, root = open_storage(str(log.root))
    return LogDirectory(storage, root, DELTA if log.log_format == "delta" else INDEXTABLES)


def names(listing) -> list[str]:
    return sorted(ref.path for ref in listing.refs)


def test_only_log_files_are_listed(tmp_path) -> None:
    log = LogBuilder(tmp_path).start().filler(2)
    for name in (".x.crc", "_last_checkpoint", "README", f"{9:020d}.json.tmp"):
        log.write(name, b"x")
    (log.directory / "_staged_commits").mkdir()
    (log.directory / f"{7:020d}.json").mkdir()
    found = list_log(directory(log))
    assert names(found) == [f"{v:020d}.json" for v in range(3)]
    assert found.other_files == 4
    assert found.is_whole


@pytest.mark.parametrize("log_format", ["delta", "indextables"])
def test_a_good_hint_leaves_out_what_came_before(tmp_path, log_format: str) -> None:
    log = LogBuilder(tmp_path, log_format).start().filler(9)
    path = log.checkpoint(5)[0]
    log.hint(5)
    found = list_latest(directory(log))
    relative = str(path.relative_to(log.directory))
    assert names(found) == sorted([relative, *(f"{v:020d}.json" for v in range(5, 10))])
    assert not found.is_whole
    assert found.fallbacks == ()


@pytest.mark.parametrize("hint", [b"garbage", b"", b'{"version":7}', b'{"version":99}'])
def test_a_hint_of_no_use_is_reported_and_the_whole_log_listed(tmp_path, hint: bytes) -> None:
    log = LogBuilder(tmp_path).start().filler(6)
    log.checkpoint(5)
    log.hint(hint)
    found = list_latest(directory(log))
    assert found.is_whole
    assert len(found.refs) == 8
    assert [f.what for f in found.fallbacks] == ["hint"]
    assert "whole log is listed" in str(found.fallbacks[0])


def test_a_stale_hint_still_finds_a_newer_checkpoint(tmp_path) -> None:
    log = LogBuilder(tmp_path).start().filler(9)
    log.checkpoint(8)
    log.hint(3)
    found = list_latest(directory(log))
    assert found.start_version == 3
    assert found.fallbacks == ()


def test_a_hint_that_cannot_be_read_is_reported(tmp_path) -> None:
    log = LogBuilder(tmp_path).start()
    (log.directory / "_last_checkpoint").mkdir()
    found = list_latest(directory(log))
    assert len(found.refs) == 1
    assert [f.what for f in found.fallbacks] == ["hint"]


def test_the_format_is_found_by_its_directory(tmp_path) -> None:
    for log_format in (DELTA, INDEXTABLES):
        log = LogBuilder(tmp_path / log_format.name, log_format.name).start()
        storage, root = open_storage(str(log.root))
        assert find_log(storage, root)[0].log_format is log_format


def test_no_directory_no_log(tmp_path) -> None:
    for root in (tmp_path, tmp_path / "nothing", tmp_path / "nothing" / "deeper"):
        storage, path = open_storage(str(root))
        with pytest.raises(LogNotFoundError) as refusal:
            find_log(storage, path)
        assert refusal.value.code == "NO_LOG"


def test_a_file_is_no_table(tmp_path) -> None:
    (tmp_path / "file").write_text("x")
    storage, path = open_storage(str(tmp_path / "file"))
    with pytest.raises(LogNotFoundError):
        find_log(storage, path)


# --- logs kept as Avro state -------------------------------------------------------------------


def test_a_state_directory_is_refused_by_name(tmp_path) -> None:
    log = LogBuilder(tmp_path, "indextables").start()
    (log.directory / f"state-v{4:020d}").mkdir()
    with pytest.raises(UnsupportedLogFormatError, match="Avro") as refusal:
        list_latest(directory(log))
    assert refusal.value.code == "UNSUPPORTED_LOG_FORMAT"


@pytest.mark.parametrize("shape", [None, Shape.JSON_LINES])
def test_a_hint_that_names_avro_state_is_refused_even_alone(tmp_path, shape) -> None:
    log = LogBuilder(tmp_path, "indextables").start().filler(3)
    if shape:
        log.checkpoint(2, shape)
    log.hint(2, format="avro-state", stateDir=f"state-v{2:020d}", parts=None)
    with pytest.raises(UnsupportedLogFormatError, match="avro-state"):
        list_latest(directory(log))


@pytest.mark.parametrize("layout", ["json", "json-multipart", None])
def test_a_hint_that_names_a_json_checkpoint_is_followed(tmp_path, layout) -> None:
    log = LogBuilder(tmp_path, "indextables").start().filler(3)
    log.checkpoint(2, Shape.JSON_LINES)
    log.hint(2, format=layout)
    assert list_latest(directory(log)).start_version == 2


def test_delta_knows_no_layouts(tmp_path) -> None:
    log = LogBuilder(tmp_path).start().filler(3)
    log.checkpoint(2)
    log.hint(2, format="avro-state")
    (log.directory / "state-v1").mkdir()
    assert list_latest(directory(log)).start_version == 2
