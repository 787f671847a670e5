"""Requests that fail before or after they took effect: no commit twice, none lost."""

from __future__ import annotations

import pytest

from engine import Config, open_log
from tests.commit.conftest import file, new_table

pytestmark = pytest.mark.s3

COMMIT = r"_delta_log/0{19}1\.json$"
TIMEOUT = Config(options={"spark.indextables.checkpoint.read.timeoutSeconds": 1})
FAULTS = {
    "500": {"status": 500},
    "503": {"status": 503, "code": "SlowDown"},
    "reset": {"drop": True},
    "timeout": {"seconds": 1.4},
}


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("method", ["PUT"])
def test_a_write_whose_answer_fails_is_committed_once(s3, fault, applied, method):
    new_table(s3.url)
    log = open_log(s3.url, TIMEOUT)
    log.snapshot()
    late = {"drop": True} if fault == "timeout" and not applied else {}
    s3.fail(method=method, path=COMMIT, applied=applied, **FAULTS[fault], **late)
    done = log.add_files([file("a")])
    assert (done.version, done.is_new) == (1, True)
    assert_once(s3, log, ["a"])


@pytest.mark.parametrize("fault", [name for name in FAULTS if name != "timeout"])
def test_reads_and_lists_that_fail_are_asked_again(s3, fault):
    new_table(s3.url)
    log = open_log(s3.url)
    s3.fail(method="GET", times=2, **FAULTS[fault])
    log.add_files([file("a")])
    assert_once(s3, log, ["a"])


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
def test_a_failed_answer_while_another_writes_is_settled_by_who_wrote(s3, applied):
    new_table(s3.url)
    log, other = open_log(s3.url), open_log(s3.url)
    log.snapshot()
    s3.fail(method="PUT", path=COMMIT, status=500, applied=applied)
    # Before we look what became of it, the other commits.
    storage = log.directory.storage
    head, waiting = storage._head, [True]

    def meddled(path: str):
        if waiting:
            waiting.pop()
            other.add_files([file("other")])
        return head(path)

    storage._head = meddled
    done = log.add_files([file("mine")])
    assert done.version == (1 if applied else 2)
    assert done.attempts == (1 if applied else 2)
    assert_once(s3, log, ["mine", "other"])


def assert_once(s3, log, wanted: list[str]) -> None:
    fresh = open_log(s3.url)
    added = [
        action.value["path"]
        for ref in fresh.commits()
        for action in fresh.commit_actions(ref.version)
        if action.kind == "add"
    ]
    assert sorted(added) == wanted
    assert sorted(log.snapshot().files()["path"].to_pylist()) == wanted
    assert log.add_files([file("next")]).version == len(wanted) + 1
