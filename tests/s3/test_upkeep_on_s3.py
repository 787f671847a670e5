"""Logs on S3 are kept as on a disk: nothing is lost, killed or not, and requests are few."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engine import Config, open_log
from engine.errors import CleanupError
from engine.upkeep.cleanup import clean
from engine.upkeep.cleanup.verdicts import DAY_MS
from engine.upkeep.publish import STAGING
from tests.logs import LogBuilder, Shape, add, metadata, protocol, remove
from tests.observe import assert_same, observed
from tests.s3.upkeep_victim import OPTIONS, Clock, work
from tests.upkeep.defects import NOW, sound_log
from tests.upkeep.derived_victim import damaged

if TYPE_CHECKING:
    from tests.s3.fixtures import S3Server

pytestmark = pytest.mark.s3

VICTIM = Path(__file__).with_name("upkeep_victim.py")
# Before any object is put here, so that what we write is young.
LATER = int(time.time() * 1000) - 1000
OLD = LATER - 40 * DAY_MS
ANCHOR, LATEST = 5, 7
MOST_STEPS = 60


def opened(url: str, **options: Any) -> Any:
    log = open_log(url, Config(options=OPTIONS | options))
    log.clock = Clock(LATER)  # type: ignore[assignment]
    return log


def upload(s3: S3Server, log: LogBuilder, name: str = "") -> str:
    """Put a log into the bucket as if a commit had been made every minute; return its URL."""
    files = {
        f"{name}{path.relative_to(log.root).as_posix()}": path.read_bytes()
        for path in log.root.rglob("*")
        if path.is_file()
    }
    s3.put_many(files, {name: (OLD + at(name)) / 1000 for name in files})
    return f"{s3.url}/{name}".rstrip("/")


def at(name: str) -> int:
    digits = name.rpartition("/")[2][:20]
    return 60_000 * int(digits) if digits.isdecimal() else 0


def objects(url: str) -> set[str]:
    """Return the names of everything in a table's log."""
    directory = open_log(url).directory
    found: set[str] = set()

    def look(folder: str) -> None:
        files, folders = directory.storage.list_both(directory.path + folder)
        found.update(f"{folder}/{file.name}".lstrip("/") for file in files)
        for name in folders:
            look(f"{folder}/{name}")

    look("")
    return found


def readable(url: str, log: LogBuilder, versions: Any) -> None:
    """See that versions say what they did; the root of the table is another, and no path has it."""
    for version in versions:
        assert_same(observed(open_log(url).snapshot(version)), log.truth(version))


def history(root: Path, log_format: str = "delta") -> LogBuilder:
    log = LogBuilder(root, log_format)
    log.commit(protocol(), metadata(), add("first"), add("gone"))
    for version in range(1, LATEST + 1):
        log.commit(add(f"f{version}"), remove("gone" if version == 3 else f"f{version - 2}"))
    return log


@pytest.mark.parametrize("log_format", ["delta", "indextables"])
def test_a_log_on_s3_is_compacted_and_reads_the_same(s3: S3Server, tmp_path, log_format) -> None:
    log = history(tmp_path, log_format)
    upload(s3, log)
    s3.clear()
    done = opened(s3.url).compact(1, LATEST)
    assert len(s3.requests()) <= 30
    assert [one.status for one in done] == ["completed"]
    assert opened(s3.url).compact(1, LATEST)[0].skip_reason == "alreadyExists"
    assert open_log(s3.url).snapshot().segment.compactions
    readable(s3.url, log, range(LATEST + 1))
    assert not {name for name in objects(s3.url) if STAGING in name}


def test_a_cleanup_on_s3_deletes_many_a_request_and_what_is_retained_reads(s3, tmp_path) -> None:
    log = LogBuilder(tmp_path).start().filler(60)
    log.checkpoint(50)
    log.checkpoint(20, Shape.V2_JSON_SIDECARS)
    for version in range(60):
        log.write(f"{version:020d}.crc", b"{}")
    upload(s3, log)
    s3.clear()
    done = opened(s3.url).cleanup()
    assert (done.anchor, done.deleted) == (50, 100 + 1 + 2)
    assert sum(request.method == "POST" for request in s3.requests()) == 3
    left = objects(s3.url)
    assert {name[:20] for name in left} == {f"{v:020d}" for v in range(50, 61)}
    readable(s3.url, log, (50, 55, 60))


@pytest.mark.parametrize("policy", ["continue", "fail"])
def test_a_deletion_that_s3_refuses_is_told_and_ends_the_run(s3, tmp_path, policy) -> None:
    log = history(tmp_path)
    log.checkpoint(2)
    log.checkpoint(ANCHOR)
    upload(s3, log)
    s3.fail(method="POST", query="delete", status=403, code="AccessDenied", times=9)
    table = opened(s3.url, **{"spark.indextables.cleanup.failurePolicy": policy})
    if policy == "fail":
        with pytest.raises(CleanupError, match=r"s3://.*access denied"):
            table.cleanup()
    else:
        done = table.cleanup()
        assert (done.deleted, len(done.failures)) == (0, ANCHOR)
    readable(s3.url, log, range(LATEST + 1))
    s3.clear()
    assert opened(s3.url).cleanup().deleted == ANCHOR + 1


def test_a_table_made_anew_on_s3_meanwhile_is_told_by_its_tags(s3, tmp_path, monkeypatch) -> None:
    log = history(tmp_path)
    log.checkpoint(ANCHOR)
    upload(s3, log)
    prove = clean.doubt

    def proven(*args: Any) -> str:
        why = prove(*args)
        text = log.commit_path(2).read_bytes()
        s3.put(f"_delta_log/{2:020d}.json", text.replace(b"f2", b"g2"))
        return why

    monkeypatch.setattr(clean, "doubt", proven)
    done = opened(s3.url).cleanup()
    assert done.deleted == 0
    assert f"{2:020d}.json was changed meanwhile" in done.reason


def test_data_files_on_s3_are_looked_for(s3, tmp_path) -> None:
    log = sound_log(tmp_path)
    (log.root / "e").unlink()
    upload(s3, log)
    table = opened(s3.url)
    table.clock = Clock(NOW)  # type: ignore[assignment]
    told = {f.code: f.message for f in table.verify(deep=True).findings if f.severity == "error"}
    assert told == {"DATA_FILE_MISSING": "1 are not there: e"}


def test_a_damaged_log_on_s3_is_written_anew_elsewhere(s3, tmp_path) -> None:
    log = sound_log(tmp_path)
    log.commit_path(6).write_bytes(b'{"add":{"pa')
    log.file(f"{4:020d}.{6:020d}.compacted.json").unlink()
    upload(s3, log)
    before = objects(s3.url)
    done = opened(s3.url).repair(f"{s3.url}-anew", deep=True)
    assert (done.source_version, done.sound) == (5, True)
    assert dict(done.missing) == {}
    found = open_log(f"{s3.url}-anew").snapshot().files()["path"].to_pylist()
    assert sorted(found) == sorted(path for path, _ in log.truth(5).files)
    assert objects(s3.url) == before
    here = opened(s3.url).repair(str(tmp_path / "here"))
    assert (here.source_version, here.num_files) == (5, done.num_files)


# --- killed -------------------------------------------------------------------------------------


def template(root: Path, operation: str) -> LogBuilder:
    if operation == "derived":
        table = LogBuilder(Path(damaged(root)))
        table.commits = sound_log(root / "sound").commits
        return table
    log = history(root)
    if operation in {"cleanup", "truncate"}:
        log.checkpoint(2, Shape.V2_JSON_SIDECARS)
        log.checkpoint(ANCHOR, Shape.MULTI_PART)
        log.hint(2)
        log.compaction(1, 2)
        log.write(f"{1:020d}.crc", b"{}")
    elif operation == "mend":
        log.write(f"{1:020d}.{4:020d}.compacted.json", b'{"add":{"path":"ghost","size":1}')
    return log


@pytest.mark.parametrize("operation", ["compact", "mend", "cleanup", "truncate", "derived", "anew"])
def test_killed_before_any_request_every_retained_version_reads(s3, tmp_path, operation) -> None:
    log = template(tmp_path, operation)
    now = NOW if operation == "derived" else LATER
    tables = [upload(s3, log, f"{step}/") for step in range(1, MOST_STEPS)]
    jobs = [
        {"table": table, "operation": operation, "step": step, "now": now}
        for step, table in enumerate(tables, 1)
    ]
    outcomes = killed(jobs, s3.environment)
    assert outcomes.count("finished") == 1, "there are more steps than were tried"
    assert len(outcomes) > 3
    first = {"cleanup": ANCHOR, "truncate": log.version}.get(operation, 0)
    for step, (table, outcome) in enumerate(zip(tables, outcomes, strict=False)):
        for version in {first, log.version}:
            found = observed(open_log(table).snapshot(version))
            if operation == "truncate":  # its checkpoint leaves old tombstones out
                assert set(found.files) == set(log.truth(version).files)
            else:
                assert_same(found, log.truth(version))
        if outcome == "finished":
            return
        if operation == "derived" and step % 4:
            continue
        work(table, operation, now + 2 * DAY_MS)
        assert set(observed(open_log(table).snapshot()).files) == set(log.truth().files)
        if operation in {"cleanup", "truncate"}:
            assert not {name for name in objects(table) if STAGING in name}
        if operation == "anew":
            anew = open_log(f"{table}-anew").snapshot()
            assert set(observed(anew).files) == set(log.truth().files)


def killed(jobs: list[dict[str, Any]], environment: dict[str, str]) -> list[str]:
    """Do jobs one after the other, up to the first that is not killed."""
    root = VICTIM.parents[2]
    ran = subprocess.run(
        [sys.executable, str(VICTIM)],
        input=json.dumps(jobs),
        env={**os.environ, **environment, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    assert "failed" not in ran.stdout, ran.stderr
    return ran.stdout.split()
