"""Settings: the nearest place wins, and a wrong value is refused in words."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine import config
from engine.config import Config, Setting
from engine.errors import ConfigError

MIN_FILES = config.DISTRIBUTED_MIN_FILES
CONF = Path(__file__).parent.parent / "conf" / "txlog.toml"


def test_without_any_layer_every_setting_has_its_default():
    assert {key: Config()[setting] for key, setting in config.SETTINGS.items()} == {
        key: setting.default for key, setting in config.SETTINGS.items()
    }
    assert Config().source(MIN_FILES) == "default"


def test_the_nearest_layer_wins_and_is_remembered():
    layers = {
        "file": ({MIN_FILES.key: 2}, 2, "a.toml"),
        "table": ({MIN_FILES.key: "3"}, 3, "table property"),
        "session": ({MIN_FILES.key: "4"}, 4, "Spark session"),
        "options": ({MIN_FILES.key: 5}, 5, "call option"),
    }
    asked = Config(file_path="a.toml")
    for name, (layer, value, source) in layers.items():
        asked = replace(asked, **{name: layer})
        assert (asked[MIN_FILES], asked.source(MIN_FILES)) == (value, source)


@pytest.mark.parametrize("setting", config.SETTINGS.values(), ids=lambda s: s.key)
def test_every_default_is_an_allowed_value_and_has_words(setting: Setting):
    default: Any = setting.default
    if setting.kind is config.INTERVAL:
        default = f"{default} milliseconds"
    assert setting.parse(default, "default") == setting.default
    assert setting.parse(str(default), "as Spark writes it") == setting.default
    assert setting.doc and setting.kind.allowed
    assert type(setting.parse(str(default), "")) is type(setting.default)


def test_a_wrong_value_is_refused_with_key_value_allowed_and_source():
    with pytest.raises(ConfigError) as refused:
        Config(options={MIN_FILES.key: "many"})
    assert str(refused.value) == (
        "spark.indextables.transaction.distributed.minFiles='many' (from call option) "
        "is not allowed; use a whole number, 1 or more"
    )


def test_a_wrong_table_property_is_refused_when_it_is_asked_for_and_only_then():
    table = Config(table={MIN_FILES.key: "0", "delta.appendOnly": "perhaps"})
    assert table[config.DISTRIBUTED_MIN_BYTES] == 256 * 1024**2
    with pytest.raises(ConfigError, match="table property"):
        table[MIN_FILES]


def test_a_wrong_value_in_a_farther_layer_does_not_matter():
    assert Config(options={MIN_FILES.key: 7}, table={MIN_FILES.key: "x"})[MIN_FILES] == 7


def test_an_unknown_key_is_refused_with_the_nearest_known_one():
    with pytest.raises(ConfigError, match=f"no such key .* did you mean {MIN_FILES.key}\\?"):
        Config(options={"spark.indextables.transaction.distributed.minfile": 3})
    with pytest.raises(ConfigError, match=r"zzz: there is no such key .*txlog.toml has all"):
        Config(options={"zzz": 3})


def test_keys_of_others_in_the_session_and_the_table_are_ignored():
    Config(session={"spark.indextables.indexing.fields": "x"}, table={"delta.columnMapping": "y"})


def test_the_conf_file_in_the_repository_is_the_table_of_defaults():
    assert CONF.read_text() == config.default_toml()
    asked = Config.from_toml(CONF)
    for setting in config.SETTINGS.values():
        assert asked[setting] == setting.default
    assert asked.source(MIN_FILES) == str(CONF)


def test_a_conf_file_may_write_keys_quoted_dotted_or_in_sections(tmp_path: Path):
    conf = tmp_path / "txlog.toml"
    conf.write_text(
        "spark.txlog.engine = 'local'\n"
        '"spark.indextables.transaction.distributed.minFiles" = 3\n'
        "[spark.indextables.checkpoint]\nparallelism = 2\n"
    )
    asked = Config.from_toml(conf, options={MIN_FILES.key: 9})
    assert asked[config.ENGINE] == "local"
    assert asked[config.CHECKPOINT_PARALLELISM] == 2
    assert asked[MIN_FILES] == 9


@pytest.mark.parametrize(
    ("text", "words"),
    [("spark.txlog.engine = 'fast'", "one of auto"), ("a = ", "a TOML file"), ("b = 1", "no such")],
)
def test_a_bad_conf_file_is_refused_with_its_path(tmp_path: Path, text: str, words: str):
    conf = tmp_path / "txlog.toml"
    conf.write_text(text)
    with pytest.raises(ConfigError, match=words) as refused:
        Config.from_toml(conf)
    assert str(conf) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_conf_file_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="No such file"):
        Config.from_toml(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("interval 30 days", 30 * 86_400_000),
        ("INTERVAL 1 WEEK", 604_800_000),
        ("1 week 12 hours", 648_000_000),
        ("interval 1  day 2 minutes", 86_520_000),
        ("0 hours", 0),
        ("1500 microseconds", 1),
        ("250 milliseconds", 250),
    ],
)
def test_intervals_are_read_as_delta_reads_them(text: str, milliseconds: int):
    assert config.parse_interval(text) == milliseconds


def test_a_duration_of_delta_has_a_unit_and_ours_may_be_milliseconds():
    for key in config.SETTINGS:
        if key.startswith("delta.") and key.endswith("Duration"):
            with pytest.raises(ConfigError, match="with its unit"):
                Config(options={key: 30})
    assert config.LOG_RETENTION_MS.parse("30", "") == 30


@pytest.mark.parametrize(
    "text", ["", "interval", "30", "30 day s", "-1 days", "1 month", "2 years", "1 day,", "x 1 day"]
)
def test_what_is_not_an_interval_is_refused(text: str):
    with pytest.raises(ValueError):
        config.parse_interval(text)


def test_milliseconds_may_be_a_bare_number_or_an_interval():
    assert config.parse_milliseconds("2592000000") == config.parse_milliseconds("30 days")


@pytest.mark.parametrize(
    ("text", "size"),
    [(12, 12), ("64m", 64 * 1024**2), ("1 GiB", 1024**3), ("2kb", 2048), ("7b", 7)],
)
def test_sizes_are_read_as_spark_reads_them(text: object, size: int):
    assert config.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "-1", "1.5g", "m", True, "9" * 30])
def test_what_is_not_a_size_is_refused(text: object):
    with pytest.raises(ValueError):
        config.parse_size(text)


def test_settings_travel_to_executors():
    asked = Config(options={MIN_FILES.key: 5}, table={"a": "b"})
    assert pickle.loads(pickle.dumps(asked)) == asked
