"""What docs/commits.md shows is what happens."""

from __future__ import annotations

import re
from pathlib import Path

from engine import errors
from engine.config import SETTINGS

PAGE = (Path(__file__).parents[2] / "docs" / "commits.md").read_text()


def test_the_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(example, "docs/commits.md", "exec"), {})
    assert len(list((tmp_path / "orders" / "_delta_log").glob("*.json"))) == 4


def test_every_setting_and_code_it_names_exists():
    named = re.findall(r"`(spark\.[\w.]+\w)(\.\*)?`", PAGE)
    assert len(named) > 8
    for key, rest in named:
        assert any(k.startswith(f"{key}.") for k in SETTINGS) if rest else key in SETTINGS, key
    codes = {e.code for e in vars(errors).values() if isinstance(e, type) and hasattr(e, "code")}
    assert set(re.findall(r"`([A-Z]+_[A-Z_]+)`", PAGE)) <= codes
