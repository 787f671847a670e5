"""`spark-submit jobs/checkpoint.py`, from a clean clone, with a wheel, on bare executors."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from engine import open_log
from tests.jobs.test_replay_job import CLUSTER, SUBMIT, bare, clone, own_lines, wheel
from tests.logs import LogBuilder
from tests.spark.fixtures import CHEAP

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

__all__ = ["bare", "clone", "wheel"]


def test_a_fleet_on_bare_executors(
    clone: Path,
    wheel: Path,
    bare: dict[str, str],
    tmp_path: Path,
) -> None:
    for name in ("a", "b", "gap", "large"):
        LogBuilder(tmp_path / "lake" / name).start().filler(30 if name == "large" else 11)
    LogBuilder(tmp_path / "lake" / "fresh").start()
    (tmp_path / "lake/gap/_delta_log/00000000000000000004.json").unlink()
    tables, conf = tmp_path / "tables.toml", tmp_path / "txlog.toml"
    tables.write_text(f'tables = ["{tmp_path}/lake/*"]')
    conf.write_text(
        '"spark.indextables.transaction.distributed.minFiles" = 20\n'
        '"spark.indextables.transaction.distributed.minBytes" = 1\n'
    )
    settings = ("spark.ui.enabled=false", "spark.driver.bindAddress=127.0.0.1")
    ran = subprocess.run(
        [
            *(str(SUBMIT), *(part for setting in settings for part in ("--conf", setting))),
            *(*CLUSTER, "--py-files", str(wheel), "jobs/checkpoint.py", "--tables", str(tables)),
            *("--conf-file", str(conf), "--json", "--metrics-file", str(tmp_path / "txlog.prom")),
        ],
        cwd=clone,
        env={**bare, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SUBMIT_OPTS": CHEAP},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1, ran.stderr[-3000:]
    assert own_lines(ran.stderr) == []
    answer = json.loads(ran.stdout)
    found = {table["table"].rpartition("/")[2]: table for table in answer["tables"]}
    assert {name: table["outcome"] for name, table in found.items()} == {
        "a": "done",
        "b": "done",
        "fresh": "nothing due",
        "gap": "failed",
        "large": "done",
    }
    assert found["gap"]["error"]["code"] == "GAP"
    assert found["a"]["done"][0]["engine"] == "local"
    assert found["large"]["done"][0]["engine"] == "spark"
    for name, files in (("a", 11), ("large", 30)):
        snapshot = open_log(str(tmp_path / "lake" / name)).snapshot()
        assert snapshot.segment.checkpoint is not None
        assert snapshot.totals().num_files == files
    assert 'txlog_maintain_tables{outcome="done"} 3\n' in (tmp_path / "txlog.prom").read_text()
