"""Logs on S3: the same states, and no more requests than opening a table is worth."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from engine import ReplayError, open_log
from tests.golden.cases import GOLDEN, MISSING, TABLES, cases
from tests.logs import DIRECTORIES, LogBuilder, Shape, add, remove
from tests.observe import assert_same, observed

if TYPE_CHECKING:
    from tests.s3.fixtures import S3Server

pytestmark = pytest.mark.s3


@pytest.mark.golden
@pytest.mark.skipif(not TABLES, reason=MISSING)
@pytest.mark.parametrize("table", TABLES)
def test_a_golden_table_is_the_same_on_s3(s3: S3Server, table: str) -> None:
    s3.upload(GOLDEN / table)
    # Every version is asked for on the local disk; here the first three are.
    for case in list(cases(table))[:3]:
        try:
            snapshot = open_log(s3.url).snapshot(case.version)
            summary, files = snapshot.summary(), snapshot.files()
        except ReplayError as refusal:
            case.check_refusal(refusal.code, str(refusal))
        else:
            unique = files["dvId"].to_pylist()
            case.check_state(summary, zip(files["path"].to_pylist(), unique, strict=True))


def test_a_file_is_known_by_all_its_names_on_s3(s3: S3Server, tmp_path) -> None:
    bucket = s3.url.removeprefix("s3://")
    log = LogBuilder(tmp_path).start(add("a"), add("b"), add("c"))
    log.commit(remove(f"s3://{bucket}/a"), remove(f"s3a://{bucket}/b"), remove("s3://other/c"))
    s3.upload(tmp_path)
    snapshot = open_log(s3.url).snapshot()
    assert snapshot.files()["path"].to_pylist() == ["c"]


@pytest.mark.parametrize("log_format", ["delta", "indextables"])
def test_opening_a_long_log_lists_from_its_checkpoint_and_reads_nothing_before(
    s3: S3Server, tmp_path, log_format: str
) -> None:
    commits, checkpoint = 10_000, 9_990
    log = LogBuilder(tmp_path, log_format).start(add("kept"), add("removed later"))
    path = log.checkpoint(0)[0].relative_to(tmp_path)
    directory = DIRECTORIES[log_format]
    content = {f"{directory}/{v:020d}.json": b"never read" for v in range(checkpoint + 1)}
    content[str(path).replace(f"{0:020d}", f"{checkpoint:020d}")] = (tmp_path / path).read_bytes()
    for version in range(checkpoint + 1, commits):
        actions = [add(f"file-{version}")] + [remove("removed later")] * (version == commits - 1)
        log.commits.append(actions)
        content[f"{directory}/{version:020d}.json"] = "\n".join(map(json.dumps, actions)).encode()
    content[f"{directory}/_last_checkpoint"] = json.dumps({"version": checkpoint}).encode()
    s3.put_many(content)
    s3.clear()

    snapshot = open_log(s3.url).snapshot()

    assert snapshot.version == commits - 1
    truth = log.truth()
    assert {row["path"] for row in snapshot.files().to_pylist()} == {p for p, _ in truth.files}
    requests = s3.requests()
    assert sum(request.is_list for request in requests) <= 3
    assert len(requests) <= 25
    read = {m[0] for request in requests if (m := re.search(r"\d{20}", request.key))}
    assert min(map(int, read)) == checkpoint
    assert f"{directory}/{checkpoint:020d}.json" not in {r.key for r in requests}
    assert all(request.status in {200, 206, 404} for request in requests)


@pytest.mark.parametrize("log_format", ["delta", "indextables"])
def test_a_log_without_a_hint_is_listed_page_by_page(s3: S3Server, tmp_path, log_format) -> None:
    log = LogBuilder(tmp_path, log_format).start(add("kept"))
    path = log.checkpoint(0)[0].relative_to(tmp_path)
    name = str(path).replace(f"{0:020d}", f"{2400:020d}")
    directory = DIRECTORIES[log_format]
    content = {f"{directory}/{v:020d}.json": b"never read" for v in range(2400)}
    content |= {f"{directory}/{v:020d}.json": json.dumps(add("a")).encode() for v in (2400, 2401)}
    s3.put_many(content | {name: (tmp_path / path).read_bytes()})
    s3.clear()
    snapshot = open_log(s3.url).snapshot()
    assert snapshot.version == 2401
    assert sorted(snapshot.files()["path"].to_pylist()) == ["a", "kept"]
    assert 3 <= sum(request.is_list for request in s3.requests()) <= 8


@pytest.mark.parametrize(
    ("log_format", "shape"),
    [
        ("delta", Shape.V2_PARQUET_SIDECARS),
        ("delta", Shape.MULTI_PART),
        ("indextables", Shape.CLASSIC),
    ],
)
def test_checkpoints_of_several_files_are_read_from_s3(
    s3: S3Server, tmp_path, log_format: str, shape: Shape
) -> None:
    log = LogBuilder(tmp_path, log_format).start(add("a")).filler(5)
    log.checkpoint(4, shape)
    log.hint(4)
    log.clean_up(4)
    s3.upload(tmp_path)
    for engine in ("local", "reference"):
        assert_same(observed(open_log(s3.url).snapshot(engine=engine)), log.truth())
