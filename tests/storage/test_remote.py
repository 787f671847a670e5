"""Schemes other than S3: what fsspec knows can be read; only what is safe can be written."""

from __future__ import annotations

import subprocess
import sys
from typing import ClassVar

import fsspec
import pytest

from engine.errors import StorageError
from engine.storage import join, open_storage


def test_an_unknown_scheme_is_refused_in_words():
    with pytest.raises(StorageError, match=r"cannot open nosuch://: Protocol not known: nosuch"):
        open_storage("nosuch://host/table")


def test_a_scheme_whose_package_is_missing_is_refused_with_its_name():
    with pytest.raises(StorageError, match="gcsfs"):
        open_storage("gs://bucket/table")


def test_s3_without_its_extra_says_what_to_install():
    program = (
        "import sys; sys.modules['s3fs'] = None\n"
        "from engine.storage import open_storage\n"
        "try:\n    open_storage('s3://bucket/table')\n"
        "except Exception as error:\n    print(error)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    expected = "s3://bucket/table: s3:// needs s3fs; pip install 'txlog-engine[s3]'"
    assert ran.stdout.strip() == expected


def test_a_scheme_without_a_safe_write_can_be_read_but_not_written(tmp_path):
    (tmp_path / "a").write_bytes(b"A")
    storage, root = open_storage(f"local://{tmp_path}")
    assert storage.read(join(root, "a")) == b"A"
    assert [file.name for file in storage.list_from(root)] == ["a"]
    assert storage.list_from(root)[0].modification_time_ms > 1_600_000_000_000
    with pytest.raises(StorageError, match="no atomic way to add a file over local://"):
        storage.write_new(join(root, "b"), b"B")


def test_a_password_in_a_url_is_never_shown():
    storage, _ = open_storage("memory://x")
    storage.scheme = "ftp"
    assert storage.url("user:secret@host/table") == "ftp://host/table"


class Flaky(fsspec.get_filesystem_class("memory")):
    """A file system that loses its next answers, before or after the work."""

    protocol = "flaky"
    failures: ClassVar[list[str]] = []

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        failure = self.failures.pop(0) if self.failures else None
        if failure != "before":
            super().pipe_file(path, value, mode=mode, **kwargs)
        if failure:
            raise ConnectionResetError("reset")


@pytest.fixture
def flaky(monkeypatch, tmp_path):
    fsspec.register_implementation("flaky", Flaky, clobber=True)
    monkeypatch.setattr("engine.storage.remote._ATOMIC_CREATE", {"flaky"})
    storage, root = open_storage(f"flaky://{tmp_path}", sleep=lambda _: None)
    return storage, root


@pytest.mark.parametrize("failures", [["before"], ["after"], ["before", "before", "after"]])
def test_a_write_in_doubt_is_settled_by_reading_it_back(flaky, monkeypatch, failures):
    storage, root = flaky
    monkeypatch.setattr(Flaky, "failures", list(failures))
    storage.write_new(join(root, "a"), b"ours")
    assert storage.read(join(root, "a")) == b"ours"


def test_a_write_that_never_gets_through_is_reported(flaky, monkeypatch):
    storage, root = flaky
    monkeypatch.setattr(Flaky, "failures", ["before"] * 20)
    with pytest.raises(StorageError, match="no answer in 6 tries: reset"):
        storage.write_new(join(root, "a"), b"ours")
