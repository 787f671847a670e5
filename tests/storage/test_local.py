"""The local disk: what a crash leaves, who wins between processes, and what is refused in words."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import StorageError
from engine.storage import join, open_storage

ROOT_USER, NOBODY = 0, 65534


@pytest.fixture
def place(tmp_path):
    storage, root = open_storage(str(tmp_path / "log"))
    Path(root).mkdir()
    return storage, root


@pytest.fixture
def as_nobody():
    if os.geteuid() != ROOT_USER:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(ROOT_USER)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("/a/b", "/a/b"),
        ("/a/b/", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b", "/a/b"),
        ("file://localhost/a/b", "/a/b"),
        ("/a/../b", "/b"),
        ("a:b/c", str(Path.cwd() / "a:b/c")),
        ("b", str(Path.cwd() / "b")),
        ("~/b", str(Path.home() / "b")),
    ],
)
def test_a_local_path_may_be_written_in_many_ways(url, path):
    storage, root = open_storage(url)
    assert (storage.scheme, root) == ("file", path)


def test_opening_a_local_path_loads_no_file_system_library():
    program = (
        "import sys; from engine.storage import open_storage; open_storage('/tmp');"
        "print({'fsspec', 's3fs', 'botocore', 'aiohttp', 'pyarrow'} & set(sys.modules))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "set()"


def test_a_writer_killed_before_its_file_has_a_name_leaves_only_what_readers_ignore(place):
    storage, root = place
    program = (
        "import os, time\n"
        "from engine.storage import join, open_storage\n"
        "os.link = lambda *_: (print('written', flush=True), time.sleep(60))\n"
        f"storage, root = open_storage({root!r})\n"
        "storage.write_new(join(root, '00000000000000000000.json'), b'ours')\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"written\n"
        writer.kill()
    (left,) = storage.list_from(root)
    assert left.name.startswith(".")
    assert left.name.endswith(".tmp")
    storage.write_new(join(root, "00000000000000000000.json"), b"theirs")
    assert storage.read(join(root, "00000000000000000000.json")) == b"theirs"


def test_a_publisher_killed_before_it_drops_the_staged_name_can_publish_again(place):
    storage, root = place
    storage.write_new(join(root, "staged"), b"data")
    os.link(join(root, "staged"), join(root, "final"))
    storage.publish(join(root, "staged"), join(root, "final"))
    assert [file.name for file in storage.list_from(root)] == ["final"]


def test_of_eight_processes_exactly_one_wins_each_name(place):
    storage, root = place
    program = (
        "import sys\n"
        "from engine.storage import join, open_storage\n"
        "from engine.errors import AlreadyExistsError\n"
        f"storage, root = open_storage({root!r})\n"
        "sys.stdin.readline()\n"
        "for n in range(25):\n"
        "    try:\n"
        "        storage.write_new(join(root, str(n)), sys.argv[1].encode())\n"
        "        print(n)\n"
        "    except AlreadyExistsError:\n"
        "        pass\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    writers = [subprocess.Popen([sys.executable, "-c", program, str(n)], **pipes) for n in range(8)]
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    won = {str(n): writer.communicate()[0].split() for n, writer in enumerate(writers)}
    assert sorted(int(n) for wins in won.values() for n in wins) == list(range(25))
    for writer, wins in won.items():
        assert all(storage.read(join(root, n)) == writer.encode() for n in wins)
    assert len(storage.list_from(root)) == 25


def test_a_failed_replace_leaves_the_old_hint_and_nothing_else(place, monkeypatch):
    storage, root = place
    storage.replace(join(root, "_last_checkpoint"), b"old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(StorageError, match="no space left"):
        storage.replace(join(root, "_last_checkpoint"), b"new")
    assert storage.read(join(root, "_last_checkpoint")) == b"old"
    assert [file.name for file in storage.list_from(root)] == ["_last_checkpoint"]


def test_a_disk_without_hard_links_is_refused_and_left_clean(place, monkeypatch):
    storage, root = place

    def fail(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(StorageError, match="no hard links"):
        storage.write_new(join(root, "a"), b"data")
    assert storage.list_from(root) == []


def test_what_may_not_be_read_or_written_is_refused_in_words(place, as_nobody):
    storage, root = place
    for ask in (
        lambda: storage.list_from(root),
        lambda: storage.list_directories(root),
        lambda: storage.read(join(root, "a")),
        lambda: storage.size(join(root, "a")),
        lambda: storage.write_new(join(root, "a"), b""),
        lambda: storage.replace(join(root, "a"), b""),
    ):
        with pytest.raises(StorageError, match="permission denied; ask for access"):
            ask()
    assert "permission denied" in storage.delete_many([join(root, "a")])[join(root, "a")]


def test_a_file_where_a_directory_should_be_is_a_missing_directory(place):
    storage, root = place
    storage.write_new(join(root, "a"), b"")
    for ask in (storage.list_from, storage.list_directories):
        with pytest.raises(FileNotFoundError):
            ask(join(root, "a"))
        with pytest.raises(FileNotFoundError):
            ask(join(root, "a/_delta_log"))


def test_reading_a_directory_is_refused_in_words(place):
    storage, root = place
    with pytest.raises(StorageError, match="is a directory"):
        storage.read(root)


def test_twenty_thousand_files_are_listed_from_a_name_on(place):
    storage, root = place
    for n in range(20_000):
        Path(root, f"{n:020}.json").touch()
    assert len(storage.list_from(root)) == 20_000
    assert [file.name for file in storage.list_from(root, f"{19_998:020}")] == [
        f"{19_998:020}.json",
        f"{19_999:020}.json",
    ]


def test_links_are_followed_and_broken_ones_ignored(place, tmp_path):
    storage, root = place
    (tmp_path / "elsewhere").write_bytes(b"data")
    Path(root, "good").symlink_to(tmp_path / "elsewhere")
    Path(root, "broken").symlink_to(tmp_path / "nothing")
    assert [(file.name, file.size) for file in storage.list_from(root)] == [("good", 4)]


def failing(monkeypatch, name, fails):
    """Let a call of `os` do what it does, and then fail where `fails` says so of its arguments."""
    real = getattr(os, name)

    def call(*args, **named):
        answer = real(*args, **named)
        if fails(*args):
            raise OSError(5, "Input/output error")
        return answer

    monkeypatch.setattr(os, name, call)


def is_directory(descriptor):
    return Path(f"/proc/self/fd/{descriptor}").resolve().is_dir()


@pytest.mark.parametrize(
    ("name", "fails"),
    [
        ("unlink", lambda path: path.endswith((".tmp", "staged"))),
        ("fsync", is_directory),
        ("link", lambda *_: True),
    ],
)
def test_a_file_that_has_its_name_is_written_whatever_fails_after(place, monkeypatch, name, fails):
    storage, root = place
    storage.write_new(join(root, "staged"), b"two")
    failing(monkeypatch, name, fails)
    storage.write_new(join(root, "a"), b"one")
    storage.publish(join(root, "staged"), join(root, "b"))
    assert (storage.read(join(root, "a")), storage.read(join(root, "b"))) == (b"one", b"two")


def test_a_file_may_ask_for_its_directory_to_be_there(place):
    storage, root = place
    with pytest.raises(FileNotFoundError):
        storage.write_new(join(root, "gone/a"), b"data", makes_parent=False)
    assert not Path(root, "gone").exists()
    storage.write_new(join(root, "a"), b"data", makes_parent=False)
    assert storage.read(join(root, "a")) == b"data"
