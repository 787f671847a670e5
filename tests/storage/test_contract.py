"""What every storage promises, run on each."""

from __future__ import annotations

import pickle
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.errors import AlreadyExistsError, StorageError
from engine.storage import join, open_storage


@pytest.fixture(params=["local", "memory", pytest.param("s3", marks=pytest.mark.s3)])
def place(request, tmp_path):
    """A storage and a directory in it that holds nothing yet."""
    if request.param == "local":
        return open_storage(str(tmp_path / "table"))
    if request.param == "memory":
        return open_storage(f"memory://{uuid.uuid4().hex}")
    return open_storage(request.getfixturevalue("s3").url)


def names(files):
    return [file.name for file in files]


def test_what_is_written_is_listed_sorted_with_its_size_and_read_back(place):
    storage, root = place
    for name in ["b", "a", "c"]:
        storage.write_new(join(root, name), name.encode() * 3)
    files = storage.list_from(root)
    assert names(files) == ["a", "b", "c"]
    assert [file.size for file in files] == [3, 3, 3]
    assert all(file.modification_time_ms > 1_600_000_000_000 for file in files)
    assert storage.read(files[1].path) == b"bbb"
    assert storage.size(files[1].path) == 3


def test_a_listing_starts_at_a_name_and_includes_it(place):
    storage, root = place
    for name in ["1", "10", "2", "20", "_x"]:
        storage.write_new(join(root, name), b"")
    assert names(storage.list_from(root, "10")) == ["10", "2", "20", "_x"]
    assert names(storage.list_from(root, "100")) == ["2", "20", "_x"]
    assert names(storage.list_from(root, "~")) == []


def test_a_listing_holds_files_only_and_directories_are_asked_for_apart(place):
    storage, root = place
    storage.write_new(join(root, "a"), b"")
    storage.write_new(join(root, "_sidecars/x"), b"")
    storage.write_new(join(root, "_sidecars/deep/y"), b"")
    storage.write_new(join(root, "state-v1/y"), b"")
    assert names(storage.list_from(root)) == ["a"]
    assert storage.list_directories(root) == ["_sidecars", "state-v1"]
    assert storage.list_directories(root, "state-v") == ["state-v1"]
    assert names(storage.list_from(join(root, "_sidecars"))) == ["x"]


def test_a_missing_directory_is_missing_or_where_the_store_has_none_empty(place):
    storage, root = place
    if storage.scheme == "s3":
        assert storage.list_from(join(root, "nothing")) == []
        assert storage.list_directories(join(root, "nothing")) == []
    else:
        with pytest.raises(FileNotFoundError):
            storage.list_from(join(root, "nothing"))
        with pytest.raises(FileNotFoundError):
            storage.list_directories(join(root, "nothing"))


def test_a_missing_file_is_file_not_found(place):
    storage, root = place
    path = join(root, "nothing")
    for ask in (storage.read, storage.size, lambda p: storage.read_range(p, 0, 5)):
        with pytest.raises(FileNotFoundError):
            ask(path)
    assert not storage.exists(path)
    with pytest.raises(FileNotFoundError):
        storage.open_input(path)


def test_many_are_read_in_the_order_asked_for(place):
    storage, root = place
    paths = [join(root, f"{n:03}") for n in range(60)]
    for path in paths:
        storage.write_new(path, path.encode())
    asked = paths[::-1] + paths[:5]
    assert list(storage.read_many(asked)) == [(path, path.encode()) for path in asked]
    assert list(storage.read_many([])) == []


def test_a_missing_file_among_many_is_reported_in_its_turn(place):
    storage, root = place
    storage.write_new(join(root, "a"), b"A")
    reading = storage.read_many([join(root, "a"), join(root, "b")])
    assert next(reading) == (join(root, "a"), b"A")
    with pytest.raises(FileNotFoundError):
        next(reading)


def test_a_range_is_read_and_ends_with_the_file(place):
    storage, root = place
    path = join(root, "a")
    storage.write_new(path, b"0123456789")
    assert storage.read_range(path, 2, 3) == b"234"
    assert storage.read_range(path, 8, 30) == b"89"
    assert storage.read_range(path, 4, 0) == b""


@pytest.mark.parametrize("size", [0, 10, 9 * 1024**2])
def test_an_input_is_seekable_for_arrow(place, size):
    storage, root = place
    data = (b"0123456789" * (size // 10 + 1))[:size]
    storage.write_new(join(root, "a"), data)
    for known in (None, size):
        with storage.open_input(join(root, "a"), known) as file:
            assert file.size() == size
            file.seek(size // 2)
            assert file.read() == data[size // 2 :]
            file.seek(0)
            assert file.read(7) == data[:7]


def test_a_second_write_is_refused_and_changes_nothing(place):
    storage, root = place
    path = join(root, "a")
    storage.write_new(path, b"first")
    for data in (b"second", b"first"):
        with pytest.raises(AlreadyExistsError, match="exists already"):
            storage.write_new(path, data)
    assert storage.read(path) == b"first"
    assert names(storage.list_from(root)) == ["a"]


def test_of_eight_writers_at_once_exactly_one_wins_each_name(place):
    storage, root = place
    start = threading.Barrier(8)

    def write(writer):
        won = []
        start.wait()
        for n in range(6):
            try:
                storage.write_new(join(root, str(n)), f"{writer}".encode())
                won.append(n)
            except AlreadyExistsError:
                pass
        return won

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(write, range(8)))
    assert sorted(n for wins in won for n in wins) == list(range(6))
    for writer, wins in enumerate(won):
        for n in wins:
            assert storage.read(join(root, str(n))) == f"{writer}".encode()


def test_publishing_moves_a_staged_file_to_its_name(place):
    storage, root = place
    staged, final = join(root, "_staged/part"), join(root, "final")
    storage.write_new(staged, b"data")
    storage.publish(staged, final)
    assert storage.read(final) == b"data"
    assert not storage.exists(staged)


def test_publishing_never_overwrites(place):
    storage, root = place
    staged, final = join(root, "_staged/part"), join(root, "final")
    storage.write_new(staged, b"ours")
    storage.write_new(final, b"theirs")
    with pytest.raises(AlreadyExistsError):
        storage.publish(staged, final)
    assert storage.read(final) == b"theirs"
    assert storage.read(staged) == b"ours"


def test_publishing_what_is_not_there_is_file_not_found(place):
    storage, root = place
    with pytest.raises(FileNotFoundError):
        storage.publish(join(root, "nothing"), join(root, "final"))
    assert not storage.exists(join(root, "final"))


def test_a_hint_is_replaced(place):
    storage, root = place
    path = join(root, "_last_checkpoint")
    storage.replace(path, b"1")
    storage.replace(path, b"22")
    assert storage.read(path) == b"22"
    assert names(storage.list_from(root)) == ["_last_checkpoint"]


def test_deleting_many_leaves_the_others_and_forgives_the_missing(place):
    storage, root = place
    for name in ["a", "b", "c"]:
        storage.write_new(join(root, name), b"")
    assert storage.delete_many(join(root, name) for name in ["a", "nothing", "c"]) == {}
    assert names(storage.list_from(root)) == ["b"]
    assert storage.delete_many([]) == {}


def test_names_with_spaces_percents_and_letters_of_all_kinds_are_kept(place):
    storage, root = place
    odd = ["a b", "a%20b", "a+b", "grün=1", "x#y?z"]
    for name in odd:
        storage.write_new(join(root, name), name.encode())
    storage.publish(join(root, "a b"), join(root, "ä b+c%20"))
    odd[0] = "ä b+c%20"
    assert sorted(names(storage.list_from(root))) == sorted(odd)
    assert [storage.read(join(root, name)) for name in odd[1:]] == [n.encode() for n in odd[1:]]


def test_a_storage_travels_to_executors(place):
    storage, root = place
    storage.write_new(join(root, "a"), b"A")
    there = pickle.loads(pickle.dumps(storage))
    assert there.url(root) == storage.url(root)
    if storage.scheme != "memory":
        assert there.read(join(root, "a")) == b"A"


def test_a_url_leads_back_to_the_same_place(place):
    storage, root = place
    again, path = open_storage(storage.url(root))
    assert (again.scheme, path) == (storage.scheme, root)


@pytest.mark.parametrize("name", ["", ".", "..", "../a", "a/../b", "/a", "a//b", "a/", "a\0b"])
def test_a_join_never_leaves_its_directory(name):
    with pytest.raises(StorageError, match="not the name of a file inside"):
        join("/table/_delta_log", name)


def test_a_join_takes_names_in_folders_and_the_root():
    assert join("/table", "_sidecars/a.parquet") == "/table/_sidecars/a.parquet"
    assert join("/", "a") == "/a"
    assert join("bucket", "a") == "bucket/a"
