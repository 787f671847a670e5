"""A file names the tables that are kept up, one by one or by patterns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.errors import ConfigError
from engine.upkeep.fleet.tables import Target, find_tables, read_tables
from tests.logs import LogBuilder

if TYPE_CHECKING:
    from tests.s3.fixtures import S3Server

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    for name in ("a/events", "a/orders", "b/events", "b/deep/er/events"):
        LogBuilder(tmp_path / "lake" / name).start()
    LogBuilder(tmp_path / "lake" / "c", "indextables").start()
    (tmp_path / "lake" / "a" / "not-a-table").mkdir()
    (tmp_path / "lake" / "a" / "events" / "date=2024-01-01").mkdir()
    (tmp_path / "lake" / "_hidden").mkdir()
    LogBuilder(tmp_path / "lake" / "_hidden" / "events").start()
    return tmp_path / "lake"


def found(lake: Path, *patterns: str, exclude: tuple[str, ...] = ()) -> list[str]:
    fleet = find_tables([Target(f"{lake}/{pattern}") for pattern in patterns], exclude)
    assert not fleet.problems
    return [str(Path(target.table).relative_to(lake)) for target in fleet.targets]


def test_a_star_stands_for_one_name(lake: Path) -> None:
    assert found(lake, "*") == ["c"]
    assert found(lake, "*/events") == ["a/events", "b/events"]
    assert found(lake, "a/*") == ["a/events", "a/orders"]
    assert found(lake, "[ab]/e?ents") == ["a/events", "b/events"]


def test_two_stars_stand_for_any_depth_and_end_at_a_table(lake: Path) -> None:
    everything = ["a/events", "a/orders", "b/deep/er/events", "b/events", "c"]
    assert sorted(found(lake, "**")) == everything
    assert sorted(found(lake, "b/**")) == ["b/deep/er/events", "b/events"]
    assert sorted(found(lake, "**/orders")) == ["a/orders"]


def test_hidden_directories_are_found_by_name_only(lake: Path) -> None:
    assert found(lake, "_hidden/*") == ["_hidden/events"]


def test_a_table_is_kept_once_and_one_that_is_excluded_not_at_all(lake: Path) -> None:
    assert found(lake, "a/*", "*/events", "a/events") == ["a/events", "a/orders", "b/events"]
    assert found(lake, "a/*", exclude=("*/orders",)) == ["a/events"]


def test_the_later_entry_has_the_say_over_a_table(lake: Path) -> None:
    name = "spark.indextables.checkpoint.interval"
    targets = [Target(f"{lake}/a/*", {name: 1}), Target(f"{lake}/a/events", {name: 2})]
    fleet = find_tables(targets)
    assert [target.options for target in fleet.targets] == [{name: 2}, {name: 1}]


def test_a_pattern_that_leads_nowhere_is_a_problem_and_stops_nothing(lake: Path) -> None:
    fleet = find_tables([Target(f"{lake}/nowhere/*"), Target(f"{lake}/c"), Target("no://x/*")])
    assert [Path(target.table).name for target in fleet.targets] == ["c"]
    codes = {Path(pattern).parent.name: error.code for pattern, error in fleet.problems.items()}
    assert codes == {"nowhere": "NO_LOG", "x": "STORAGE"}


def test_patterns_are_followed_on_s3(lake: Path, s3: S3Server) -> None:
    s3.upload(lake)
    fleet = find_tables([Target(f"{s3.url}/*/events"), Target(f"{s3.url}/**/er/*")])
    assert not fleet.problems
    names = ["a/events", "b/events", "b/deep/er/events"]
    assert [target.table for target in fleet.targets] == [f"{s3.url}/{name}" for name in names]


def test_the_file_that_comes_with_txlog_can_be_read() -> None:
    targets, exclude = read_tables(str(REPOSITORY / "conf" / "tables.toml"))
    assert [target.table for target in targets] == [
        "/data/events",
        "/data/lake/*",
        "s3://lake/**",
        "s3://lake/orders",
    ]
    assert exclude == ["*/scratch/*"]
    assert targets[0].options == {"spark.indextables.checkpoint.interval": 10}
    assert targets[-1].options == {
        "spark.indextables.checkpoint.interval": 10,
        "spark.indextables.transaction.maxConcurrentReads": 64,
    }
    assert targets[-1].storage_options == {"region_name": "eu-west-1"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tables = []", "tables"),
        ("tables = [1]", "tables=1"),
        ('tables = "/data"', "a list"),
        ('tabels = ["/data"]', "one of tables, exclude"),
        ('tables = ["/data"]\n[[table]]\npaht = "/x"', "one of path, options"),
        ('tables = ["/data"]\n[options]\n"spark.no.such.key" = 1', "there is no such key"),
        ("tables = [", "a TOML file"),
    ],
)
def test_a_file_with_a_mistake_is_refused_with_the_mistake(
    tmp_path: Path, text: str, told: str
) -> None:
    file = tmp_path / "tables.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_tables(str(file))
    assert told in str(refused.value)
    assert str(file) in str(refused.value)


def test_a_value_in_the_wrong_place_is_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / "tables.toml"
    file.write_text('tables = ["/data"]\nsecret_access_key = "hunter2"')
    with pytest.raises(ConfigError) as refused:
        read_tables(str(file))
    assert "hunter2" not in str(refused.value)
