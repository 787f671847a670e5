"""One page about a table: whole, alone, and safe whatever the log holds."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from engine import open_log
from engine.cli import main
from engine.report.growth import growth, recent_commits
from engine.sample import make_sample
from tests.logs import LogBuilder, Shape, add, metadata, protocol, remove

if TYPE_CHECKING:
    from pathlib import Path

NASTY = "<script>alert(1)</script>'\"&"


class Page(HTMLParser):
    """Every tag must be closed in order; tags, attributes and texts are kept."""

    VOID = frozenset({"meta", "link", "img", "br", "hr", "input"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def written(root: Path, *options: str) -> str:
    output = root.parent / "page.html"
    assert main(["report", str(root), "--output", str(output), *options]) == 0
    return output.read_text()


@pytest.mark.parametrize("log_format", ["delta", "indextables"])
def test_the_page_says_what_the_table_is(tmp_path: Path, log_format: str) -> None:
    root = tmp_path / "events"
    make_sample(str(root), commits=30, adds=4, removes=1, log_format=log_format, seed=3)
    page = Page(written(root))
    text = " ".join(page.texts)
    for word in ("State", "Growth", "File sizes", "Partitions", "What was read", "History"):
        assert word in page.texts
    live = open_log(str(root)).snapshot().totals().num_files
    assert f"{live:,}" in page.texts
    assert "versions 0 to 29: 120 adds" in text
    assert page.tags.count("svg") == 3


def test_the_page_loads_nothing_and_runs_nothing(tmp_path: Path) -> None:
    root = tmp_path / "events"
    make_sample(str(root), commits=5, seed=1)
    text = written(root)
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    assert not {"src", "href", "onload", "style"} & {name for name, _ in page.attributes}
    assert not re.search(r"url\(|@import|https?:", text)
    assert "default-src 'none'" in text


def test_what_the_log_holds_is_text(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path / "t")
    info = {"commitInfo": {"operation": NASTY, "operationMetrics": {NASTY: NASTY}}}
    values = {"p": NASTY}
    log.commit(
        protocol(),
        metadata("p", name=NASTY),
        {"txn": {"appId": NASTY, "version": 1}},
        {"domainMetadata": {"domain": NASTY, "configuration": NASTY, "removed": False}},
        add(NASTY, partitionValues=values),
        info,
    )
    page = Page(written(log.root))
    assert "script" not in page.tags
    assert page.texts.count(NASTY) >= 3  # the name, the operation, the partition


@pytest.mark.parametrize("limit", [1, 3, 6, 100])
def test_growth_is_the_state_of_every_version(tmp_path: Path, limit: int) -> None:
    log = LogBuilder(tmp_path).start(*(add(f"f{i}", size=2**40 + i) for i in range(9)))
    log.commit(remove("f1"), add("f1", size=7))
    log.commit(add("g", size=3), remove("g"))
    log.checkpoint(2, Shape.CLASSIC)
    log.commit(remove("never"), remove("f2"))
    log.commit(add("f2", size=9), add(f"{log.root}/f3", size=1))
    log.commit(add("f4", size=5, deletionVector={"storageType": "u", "pathOrInlineDv": "x"}))
    opened = open_log(str(tmp_path))
    latest = opened.snapshot()
    found = growth(*_arguments(opened, latest, limit))
    assert found.versions.tolist() == list(range(max(0, 6 - limit), 6))
    for version, files, size in zip(
        found.versions.tolist(), found.files.tolist(), found.size_bytes.tolist(), strict=True
    ):
        totals = opened.snapshot(version).totals()
        assert (files, size) == (totals.num_files, totals.size_bytes), version


def test_growth_begins_at_the_checkpoint_where_the_commits_before_are_gone(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).start(add("a")).filler(3)
    log.checkpoint(2)
    log.clean_up(3)
    opened = open_log(str(tmp_path))
    latest = opened.snapshot()
    found = growth(*_arguments(opened, latest, 100))
    assert found.versions.tolist() == [3]
    assert found.files.tolist() == [latest.totals().num_files]


def _arguments(log, latest, limit):
    commits, before = recent_commits(log, latest, limit)
    return commits, latest, before


def test_a_page_that_is_there_is_left_alone(tmp_path: Path, capsys) -> None:
    root = tmp_path / "events"
    make_sample(str(root), commits=3, seed=1)
    text = written(root)
    output = tmp_path / "page.html"
    output.write_text("mine")
    command = ["report", str(root), "--output", str(output)]
    assert main(command) == 1
    assert output.read_text() == "mine"
    assert "page.html: exists already; --overwrite replaces it" in capsys.readouterr().err
    assert main([*command, "--overwrite", "--dry-run"]) == 0
    assert output.read_text() == "mine"
    assert main([*command, "--overwrite", "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["version"] == 2
    assert told["bytes"] == len(output.read_bytes())
    assert len(output.read_text()) == pytest.approx(len(text), abs=50)


@pytest.mark.parametrize("options", [(), ("--overwrite",)])
def test_no_directory_is_made_for_a_page(tmp_path: Path, capsys, options) -> None:
    log = LogBuilder(tmp_path / "t").start()
    output = tmp_path / "pgaes" / "t.html"
    assert main(["report", str(log.root), "--output", str(output), *options]) == 1
    assert "its directory is not there; make it first" in capsys.readouterr().err
    assert not output.parent.exists()


def test_an_empty_table_has_a_page(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path / "t").start()
    text = " ".join(Page(written(log.root)).texts)
    assert "There are no files." in text
    assert "The table is not partitioned." in text


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["report", "{root}"], 2, "Missing option '--output'"),
        (["report", "{root}/none", "--output", "{root}/x.html"], 1, "there is no such path"),
        (["report", "{root}", "--output", "{root}/_delta_log/a/b\0.html"], 1, ""),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    tmp_path: Path, capsys, arguments: list[str], status: int, said: str
) -> None:
    make_sample(str(tmp_path / "t"), commits=2, seed=1)
    given = [text.replace("{root}", str(tmp_path / "t")) for text in arguments]
    assert main(given) == status
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
