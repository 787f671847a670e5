"""S3 over HTTP: what is asked of the server, and what happens when it, or the network, fails."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.config import MAX_CONCURRENT_READS, READ_TIMEOUT_SECONDS, STORAGE_MAX_ATTEMPTS, Config
from engine.errors import AlreadyExistsError, StorageError
from engine.storage import join, open_storage
from engine.storage.s3options import named_as_s3fs
from engine.upkeep.fleet.tables import read_tables

pytestmark = pytest.mark.s3


@pytest.fixture
def naps():
    """How long the storage slept, each time, instead of sleeping."""
    return []


@pytest.fixture
def place(s3, naps):
    config = Config(options={STORAGE_MAX_ATTEMPTS.key: 4, READ_TIMEOUT_SECONDS.key: 1})
    return open_storage(s3.url, config=config, sleep=naps.append)


def methods(s3):
    return [request.method for request in s3.requests()]


# --- what is asked -----------------------------------------------------------------------------


def test_more_than_a_page_of_keys_is_listed_whole_and_in_order(s3, place):
    storage, root = place
    s3.put_many({f"{n:020}.json": b"" for n in range(2100)})
    files = storage.list_from(root)
    assert [file.name for file in files] == [f"{n:020}.json" for n in range(2100)]
    assert [request.is_list for request in s3.requests()] == [True] * 3

    s3.clear()
    assert len(storage.list_from(root, f"{2050:020}")) == 50
    assert len(s3.requests()) == 1


def test_a_listing_that_starts_late_asks_the_server_for_the_rest_only(s3, place):
    storage, root = place
    for name in ["00", "09", "0A", "10", "10.x", "11", "_sidecars/a", "_sidecars/b"]:
        s3.put(name)
    assert [file.name for file in storage.list_from(root, "10")] == ["10", "10.x", "11"]
    (asked,) = s3.requests()
    assert asked.query["delimiter"] == ["/"]
    assert asked.query["prefix"] == ["table/"]
    assert "table/0A" < asked.query["start-after"][0] < "table/10"


def test_a_marker_object_of_the_directory_itself_is_not_a_file_in_it(s3, place):
    storage, root = place
    s3.put("")
    s3.put("sub/")
    s3.put("a")
    assert [file.name for file in storage.list_from(root)] == ["a"]
    assert storage.list_directories(root) == ["sub"]


def test_a_read_is_one_request(s3, place):
    storage, root = place
    s3.put("a", b"A" * 1000)
    assert storage.read(join(root, "a")) == b"A" * 1000
    assert methods(s3) == ["GET"]


def test_an_input_of_known_size_costs_no_extra_request(s3, place):
    storage, root = place
    s3.put("a", b"A" * 1000)
    assert storage.open_input(join(root, "a"), 1000).read() == b"A" * 1000
    assert methods(s3) == ["GET"]


def test_many_are_read_at_once_but_never_more_than_allowed(s3):
    config = Config(options={MAX_CONCURRENT_READS.key: 3})
    storage, root = open_storage(s3.url, config=config)
    paths = [join(root, str(n)) for n in range(10)]
    for n in range(10):
        s3.put(str(n), b"x")
    reading = storage.read_many(paths)
    assert next(reading) == (paths[0], b"x")
    assert len(s3.requests()) <= 3
    reading.close()
    assert len(s3.requests()) <= 6


def test_a_thousand_deletes_are_one_request(s3, place):
    storage, root = place
    for n in range(5):
        s3.put(str(n))
    assert storage.delete_many([join(root, str(n)) for n in range(1001)]) == {}
    assert methods(s3) == ["POST", "POST"]
    assert storage.list_from(root) == []


def test_a_large_new_file_is_sent_in_parts_and_written_only_once(s3, place, monkeypatch):
    monkeypatch.setattr("engine.storage.s3.PART_BYTES", 5 * 1024**2)
    storage, root = place
    data = bytes(range(256)) * (11 * 4096)
    s3.fail(method="PUT", query="partNumber=2", drop=True)
    storage.write_new(join(root, "large"), data)
    assert [request.method for request in s3.requests()] == ["POST", *["PUT"] * 4, "POST"]
    assert storage.read(join(root, "large")) == data
    with pytest.raises(AlreadyExistsError):
        storage.write_new(join(root, "large"), data)


@pytest.mark.parametrize("applied", [True, False], ids=["landed", "lost"])
def test_a_large_write_whose_answer_was_lost_is_looked_at(s3, place, monkeypatch, applied):
    monkeypatch.setattr("engine.storage.s3.PART_BYTES", 5 * 1024**2)
    storage, root = place
    data = bytes(6 * 1024**2)
    s3.fail(method="POST", query="^uploadId", drop=True, applied=applied)
    storage.write_new(join(root, "large"), data)
    assert storage.size(join(root, "large")) == len(data)


def test_deltalake_and_hadoop_names_of_options_work(s3, monkeypatch):
    for name in s3.environment:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    s3.put("a", b"A")
    hadoop = {
        "spark.hadoop.fs.s3a.access.key": "testing",
        "fs.s3a.secret.key": "testing-secret",
        "fs.s3a.endpoint": s3.endpoint,
        "fs.s3a.endpoint.region": "us-east-1",
    }
    for options in (hadoop, s3.options):
        storage, root = open_storage(s3.url.replace("s3://", "s3a://"), options)
        assert storage.read(join(root, "a")) == b"A"
        assert storage.url(root) == f"s3a://{s3.bucket}/table"


@pytest.mark.parametrize("name", ["region_name", "region", "aws_region", "AWS_DEFAULT_REGION"])
def test_every_name_of_a_region_works(s3, name):
    s3.put("a", b"A")
    storage, root = open_storage(s3.url, {**s3.options, name: "eu-west-1"})
    assert storage.read(join(root, "a")) == b"A"


def test_the_options_of_the_example_of_a_tables_file_work(s3):
    targets, _ = read_tables(str(Path(__file__).parents[2] / "conf" / "tables.toml"))
    (options,) = [t.storage_options for t in targets if t.storage_options]
    s3.put("a", b"A")
    storage, root = open_storage(s3.url, {**s3.options, **options})
    assert storage.read(join(root, "a")) == b"A"


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("regoin", "hush", "there is no storage option regoin (did you mean region?)"),
        ("use_ssl", "hush", "the storage option use_ssl must be true or false"),
        ("max_concurrency", "hush", "the storage option max_concurrency must be a whole number"),
        ("client_kwargs", "hush", "the storage option client_kwargs is a table of options"),
    ],
)
def test_an_option_that_there_is_not_is_named_and_its_value_is_not_told(s3, name, value, told):
    storage, root = open_storage(s3.url, {**s3.options, name: value})
    with pytest.raises(StorageError) as refused:
        storage.read(join(root, "a"))
    assert told in str(refused.value)
    assert "hush" not in str(refused.value)


def test_a_text_that_says_false_is_false(s3):
    assert named_as_s3fs({"use_ssl": "false", "max_concurrency": "3", "anon": "true"}) == {
        "use_ssl": False,
        "max_concurrency": 3,
        "anon": True,
    }


# --- what fails and passes ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 503, "code": "SlowDown"},
        {"status": 500},
        {"status": 429, "code": "TooManyRequests"},
        {"drop": True},
        {"seconds": 1.5, "applied": True},
    ],
    ids=["slow down", "internal error", "too many", "dropped", "timeout"],
)
def test_reads_and_lists_are_tried_again(s3, place, naps, fault):
    storage, root = place
    s3.put("a", b"A")
    s3.fail(times=2, **fault)
    assert storage.read(join(root, "a")) == b"A"
    s3.fail(times=1, **fault)
    assert [file.name for file in storage.list_from(root)] == ["a"]
    assert 1 <= len(naps) <= 3
    assert naps == sorted(naps[:2]) + naps[2:]


def test_a_server_that_stays_down_is_reported_after_the_allowed_tries(s3, place, naps):
    storage, root = place
    s3.fail(times=100, status=503, code="SlowDown")
    with pytest.raises(StorageError, match=r"no answer in 4 tries") as refused:
        storage.read(join(root, "a"))
    assert "\n" not in str(refused.value)
    assert len(naps) == 3
    assert all(0 < nap <= 5 for nap in naps)


def test_a_server_that_is_not_there_is_reported(s3, monkeypatch, naps):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    storage, root = open_storage(s3.url, sleep=naps.append)
    with pytest.raises(StorageError, match="Could not connect to the endpoint"):
        storage.list_from(root)


def test_a_reset_in_the_middle_of_many_reads_loses_nothing(s3, place):
    storage, root = place
    paths = [join(root, str(n)) for n in range(40)]
    for n in range(40):
        s3.put(str(n), str(n).encode())
    s3.fail(method="GET", drop=True, skip=5, times=3)
    s3.fail(method="GET", status=503, skip=15, times=3)
    assert [data for _, data in storage.read_many(paths)] == [str(n).encode() for n in range(40)]


# --- writes whose outcome is open --------------------------------------------------------------

LOST_ANSWERS = [
    {"drop": True, "applied": True},
    {"status": 500, "applied": True},
    {"seconds": 1.5, "applied": True},
]
NEVER_ARRIVED = [
    {"drop": True},
    {"status": 503, "code": "SlowDown"},
    {"status": 409, "code": "ConditionalRequestConflict"},
]


@pytest.mark.parametrize("fault", LOST_ANSWERS, ids=["dropped", "error", "timeout"])
def test_a_write_that_landed_though_its_answer_was_lost_is_a_success(s3, place, fault):
    storage, root = place
    s3.fail(method="PUT", **fault)
    storage.write_new(join(root, "0.json"), b"ours")
    assert storage.read(join(root, "0.json")) == b"ours"
    with pytest.raises(AlreadyExistsError):
        storage.write_new(join(root, "0.json"), b"ours")


@pytest.mark.parametrize("fault", NEVER_ARRIVED, ids=["dropped", "slow down", "conflict"])
def test_a_write_that_never_arrived_is_tried_again(s3, place, fault):
    storage, root = place
    s3.fail(method="PUT", times=2, **fault)
    storage.write_new(join(root, "0.json"), b"ours")
    assert storage.read(join(root, "0.json")) == b"ours"


@pytest.mark.parametrize("data", [b"theirs", b"ours"], ids=["other bytes", "the same bytes"])
def test_a_write_that_never_arrived_loses_to_who_came_meanwhile(s3, place, data):
    storage, root = place
    other, _ = open_storage(s3.url)

    def meanwhile(_seconds):
        other.write_new(join(root, "0.json"), data)

    storage.sleep = meanwhile
    s3.fail(method="PUT", status=503)
    with pytest.raises(AlreadyExistsError):
        storage.write_new(join(root, "0.json"), b"ours")
    assert storage.read(join(root, "0.json")) == data


def test_a_refused_write_is_another_s_when_a_reused_connection_was_not_lost(s3, place):
    # aiohttp itself repeats a PUT when a kept connection turns out dead: the repeat meets the
    # first, and S3 answers 412 to a writer who has won.
    storage, root = place
    storage.write_new(join(root, "0.json"), b"warms the connection")
    s3.fail(method="PUT", path="1.json", drop=True, applied=True)
    storage.write_new(join(root, "1.json"), b"ours")
    assert storage.read(join(root, "1.json")) == b"ours"


def test_a_write_in_doubt_that_cannot_be_looked_at_is_reported_not_guessed(s3, place):
    storage, root = place
    s3.fail(method="PUT", status=500, applied=True)
    s3.fail(method="HEAD", status=403, code="AccessDenied", times=9)
    with pytest.raises(StorageError, match="access denied"):
        storage.write_new(join(root, "0.json"), b"ours")


@pytest.mark.parametrize("fault", [*LOST_ANSWERS, *NEVER_ARRIVED])
@pytest.mark.parametrize("step", ["uploads", "partNumber", "^uploadId"])
def test_publishing_survives_a_failure_at_every_request(s3, place, fault, step):
    storage, root = place
    storage.write_new(join(root, "_staged/part"), b"ours")
    s3.fail(query=step, **fault)
    storage.publish(join(root, "_staged/part"), join(root, "final"))
    assert storage.read(join(root, "final")) == b"ours"
    assert not storage.exists(join(root, "_staged/part"))


def test_a_failed_publish_leaves_no_upload_behind(s3, place):
    storage, root = place
    storage.write_new(join(root, "_staged/part"), b"ours")
    storage.write_new(join(root, "final"), b"theirs")
    s3.clear()
    with pytest.raises(AlreadyExistsError):
        storage.publish(join(root, "_staged/part"), join(root, "final"))
    assert methods(s3) == ["POST", "PUT", "POST", "DELETE", "HEAD"]


def test_of_eight_writers_behind_a_bad_network_exactly_one_wins_each_name(s3):
    for skip in range(0, 40, 4):
        s3.fail(method="PUT", skip=skip, drop=True, applied=bool(skip % 8))
        s3.fail(method="PUT", skip=skip + 2, status=500, applied=not skip % 8)
    start = threading.Barrier(8)

    def write(writer):
        storage, root = open_storage(s3.url, sleep=lambda _: None)
        start.wait()
        won = []
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
    storage, root = open_storage(s3.url)
    for writer, wins in enumerate(won):
        for n in wins:
            assert storage.read(join(root, str(n))) == f"{writer}".encode()


# --- what is refused, in words -----------------------------------------------------------------


def test_without_credentials_the_message_says_what_to_set(s3, monkeypatch, tmp_path):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("HOME", str(tmp_path))
    storage, root = open_storage(s3.url)
    with pytest.raises(StorageError, match="no AWS credentials found; set AWS_ACCESS_KEY_ID"):
        storage.list_from(root)
    assert s3.requests() == []


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (403, "AccessDenied", "access denied; .* s3:ListBucket"),
        (403, "InvalidAccessKeyId", "credentials are not valid"),
        (400, "ExpiredToken", "have expired"),
        (404, "NoSuchBucket", "no such bucket"),
    ],
)
def test_a_refusal_is_one_line_with_what_to_do_and_is_not_retried(s3, place, status, code, words):
    storage, root = place
    s3.fail(status=status, code=code, times=9)
    for ask in (lambda: storage.list_from(root), lambda: storage.read(join(root, "a"))):
        s3_before = len(s3.requests())
        with pytest.raises(StorageError, match=words) as refused:
            ask()
        assert len(s3.requests()) == s3_before + 1
        assert "\n" not in str(refused.value)
        assert "testing" not in str(refused.value)


def test_a_missing_bucket_is_refused_by_the_server_itself(s3):
    storage, root = open_storage("s3://there-is-no-such-bucket/table")
    with pytest.raises(StorageError, match=r"s3://there-is-no-such-bucket/table: no such bucket"):
        storage.list_from(root)


def test_a_store_without_conditional_writes_is_refused(s3, place):
    storage, root = place
    s3.fail(method="PUT", status=501, code="NotImplemented")
    with pytest.raises(StorageError, match="no conditional writes"):
        storage.write_new(join(root, "a"), b"")


@pytest.mark.parametrize("url", ["s3://", "s3:///", "s3:///table"])
def test_a_url_without_a_bucket_is_refused(url):
    with pytest.raises(StorageError, match="no bucket"):
        open_storage(url)


def test_deletes_that_fail_are_reported_each_with_its_reason(s3, place):
    storage, root = place
    s3.put("a")
    s3.fail(method="POST", status=403, code="AccessDenied")
    failed = storage.delete_many([join(root, "a"), join(root, "b")])
    assert list(failed) == [join(root, "a"), join(root, "b")]
    assert "access denied" in failed[join(root, "a")]


def test_a_forked_worker_connects_anew(s3):
    s3.put("a", b"A")
    program = (
        "import os, sys\n"
        "from engine.storage import open_storage, join\n"
        f"storage, root = open_storage({s3.url!r})\n"
        "assert storage.read(join(root, 'a')) == b'A'\n"
        "if os.fork() == 0:\n"
        "    os._exit(0 if storage.read(join(root, 'a')) == b'A' else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))\n"
    )
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=False, timeout=60)
    assert run.returncode == 0
