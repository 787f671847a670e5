"""`spark-submit jobs/replay.py`, as its users run it: a clean clone, a wheel, bare executors."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from tests.logs import LogBuilder, add, remove
from tests.spark.fixtures import CHEAP

if TYPE_CHECKING:
    from tests.s3.fixtures import S3Server

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

REPOSITORY = Path(__file__).parents[2]
SUBMIT = Path(sys.executable).parent / "spark-submit"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What git has of this repository, with the changes of the working tree, and nothing else."""
    directory = tmp_path_factory.mktemp("clone")
    listed = subprocess.run(
        ["git", "ls-files", "engine", "jobs", "pyproject.toml", "README.md", "LICENSE"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        if (REPOSITORY / name).exists():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, directory / name)
    return directory


@pytest.fixture(scope="module")
def wheel(clone: Path) -> Path:
    """The wheel, as `make dist` builds it."""
    command = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", "dist", "."]
    subprocess.run([sys.executable, *command], cwd=clone, check=True, capture_output=True)
    (found,) = (clone / "dist").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment that has the dependencies, and neither txlog nor this repository."""
    directory = tmp_path_factory.mktemp("bare")
    (packages,) = {path for path in sys.path if path.endswith("site-packages")}
    for path in Path(packages).iterdir():
        # The editable install of txlog is a .pth file and its metadata.
        if "txlog" not in path.name and path.suffix != ".pth":
            (directory / path.name).symlink_to(path)
    python = directory / "python"
    # Isolated from the venv, whose .pth files bring the repository in.
    python.write_text(f'#!/bin/sh\nexec "{Path(sys.base_prefix) / "bin" / "python3"}" "$@"\n')
    python.chmod(0o755)
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME") if name in os.environ}
    return {**kept, "PYTHONPATH": str(directory), "PYSPARK_PYTHON": str(python)}


@pytest.fixture
def table(tmp_path: Path) -> LogBuilder:
    log = LogBuilder(tmp_path / "table").start(*(add(f"f{i}") for i in range(10)))
    log.checkpoint(0)
    log.commit(remove("f1"), add("g", size=5))
    return log


def submit(
    clone: Path, environment: dict[str, str], *arguments: str, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    settings = ("spark.ui.enabled=false", "spark.driver.bindAddress=127.0.0.1")
    confs = [part for setting in settings for part in ("--conf", setting)]
    return subprocess.run(
        [str(SUBMIT), *confs, *options, "jobs/replay.py", *arguments],
        cwd=clone,
        env={**environment, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SUBMIT_OPTS": CHEAP},
        capture_output=True,
        text=True,
        check=False,
    )


def own_lines(stderr: str) -> list[str]:
    """Return what is not Spark's own: its log lines, and what its launcher says."""
    spark = ("WARNING: ", "Using Spark's", "Setting default log level", "To adjust logging level")
    its_own = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d [A-Z]+ ")
    lines = [line for line in stderr.splitlines() if line and not its_own.match(line)]
    return [line for line in lines if not line.startswith(spark)]


CLUSTER = (
    *("--master", "local-cluster[2,1,1024]", "--executor-memory", "512m"),
    *("--conf", f"spark.executor.extraJavaOptions={CHEAP}"),
)


def test_a_clean_clone_and_its_wheel_on_bare_executors(
    clone: Path, wheel: Path, bare: dict[str, str], table: LogBuilder, tmp_path: Path
) -> None:
    output = tmp_path / "output"
    arguments = ("--table", str(table.root), "--json", "--output", str(output))
    ran = submit(clone, bare, *arguments, options=(*CLUSTER, "--py-files", str(wheel)))
    assert ran.returncode == 0, ran.stderr[-3000:]
    answer = json.loads(ran.stdout)
    assert answer["engine"] == "spark"
    assert answer["fallbacks"] == []
    assert answer["numFiles"] == 10
    assert answer["metrics"]["actions"] == 12
    assert own_lines(ran.stderr) == []
    assert pq.read_table(output).num_rows == 10


def test_executors_without_the_wheel_are_told_in_one_line(
    clone: Path, bare: dict[str, str], table: LogBuilder
) -> None:
    # The driver finds txlog beside the job; its executors do not.
    driver = {**bare, "PYTHONPATH": f"{clone}:{bare['PYTHONPATH']}"}
    executors = ("--conf", f"spark.executorEnv.PYTHONPATH={bare['PYTHONPATH']}")
    arguments = ("--table", str(table.root))
    ran = submit(clone, driver, *arguments, options=(*CLUSTER, *executors))
    assert ran.returncode == 1
    # spark-submit sends the program's stderr to stdout.
    (line,) = ran.stdout.splitlines()
    assert line.startswith(
        "txlog: the distributed replay failed: the executors cannot import txlog"
    )
    assert "--py-files" in line
    assert own_lines(ran.stderr) == []


def test_executors_without_credentials_are_told_in_one_line(
    clone: Path, wheel: Path, bare: dict[str, str], table: LogBuilder, s3: S3Server
) -> None:
    s3.upload(table.root)
    (Path(bare["PYTHONPATH"]) / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if 'pyspark.daemon' in ' '.join(sys.orig_argv):\n"
        "    for name in ('AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'):\n"
        "        os.environ.pop(name, None)\n"
    )
    try:
        environment = {**bare, **s3.environment}
        options = (*CLUSTER, "--py-files", str(wheel))
        ran = submit(clone, environment, "--table", s3.url, "--json", options=options)
    finally:
        (Path(bare["PYTHONPATH"]) / "sitecustomize.py").unlink()
    assert ran.returncode == 1, ran.stdout
    error = json.loads(ran.stdout)["error"]
    assert error["code"] == "STORAGE"
    assert "redentials" in error["message"]
    assert own_lines(ran.stderr) == []


def test_a_refusal_is_one_line_and_its_trace_is_for_debug(
    clone: Path, bare: dict[str, str], tmp_path: Path
) -> None:
    log = LogBuilder(tmp_path).start().filler(3)
    log.commit_path(2).write_bytes(b'{"add":{"path":')
    driver = {**bare, "PYTHONPATH": f"{clone}:{bare['PYTHONPATH']}"}
    local = ("--master", "local[1]")
    ran = submit(clone, driver, "--table", str(tmp_path), options=local)
    assert ran.returncode == 1
    (line,) = ran.stdout.splitlines()
    assert own_lines(ran.stderr) == []
    assert line.startswith("txlog: ")
    assert "00000000000000000002.json" in line
    debugged = submit(clone, driver, "--table", str(tmp_path), "--debug", options=local)
    assert debugged.returncode == 1
    assert "Traceback" in debugged.stdout
    assert "\tat org.apache.spark" in debugged.stderr
