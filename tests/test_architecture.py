"""Imports point down the data flow; Spark and storage stay in their rooms; starting is light."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent
MODULES = sorted(str(path.relative_to(PROJECT)) for path in PROJECT.glob("engine/**/*.py"))

# A room may import the rooms before it, and itself.
ROOMS = [
    "errors",
    "config",
    "formats",
    "actions",
    "storage",
    "log",
    "replay",
    "snapshot",
    "telling",
    "commit",
    "upkeep",
    "report",
]
HIVE_MAY_IMPORT = {"errors", "config", "storage", "hive"}
# The doors may import everything, and no room imports them.
DOORS = {"engine", "table", "datasource", "datasource_parts", "sample", "cli", "job"}

SPARK_ROOMS = (
    "engine/replay/spark",
    "engine/replay/watch.py",
    "engine/datasource",
    "engine/job.py",
    *(f"engine/upkeep/{room}/spark.py" for room in ("checkpoint", "compaction", "verify", "fleet")),
    "engine/upkeep/verify/data_spark.py",
    "engine/hive/",
)
STORAGE_ROOM = "engine/storage"


def imports(module: str) -> set[str]:
    """Every module that `module` imports, anywhere in its text but under TYPE_CHECKING."""
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse((PROJECT / module).read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            if node.module == "engine":
                found |= {f"engine.{alias.name}" for alias in node.names}
            else:
                found.add(node.module or "")
        waiting += ast.iter_child_nodes(node)
    return found


def room(module: str) -> str:
    """`engine/log/paths.py` and `engine.log.paths` are in the room `log`."""
    parts = module.removesuffix(".py").replace("/", ".").split(".")
    return "engine" if len(parts) == 1 or parts[1] == "__init__" else parts[1]


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_down_the_data_flow(module: str):
    here = room(module)
    rooms = {room(name) for name in imports(module) if name.split(".", 1)[0] == "engine"}
    if here in DOORS:
        return
    assert not rooms & DOORS, "import the module, not the public facade"
    if here == "hive":
        assert rooms <= HIVE_MAY_IMPORT
    else:
        assert here in ROOMS, f"{here} is a new room: say in ROOMS what it may import"
        assert rooms <= set(ROOMS[: ROOMS.index(here) + 1])


@pytest.mark.parametrize("module", MODULES)
def test_spark_stays_in_its_rooms(module: str):
    if not module.startswith(SPARK_ROOMS):
        assert "pyspark" not in {name.split(".", 1)[0] for name in imports(module)}


@pytest.mark.parametrize("module", MODULES)
def test_storage_libraries_stay_behind_one_door(module: str):
    if not module.startswith(STORAGE_ROOM):
        libraries = {name.split(".", 1)[0] for name in imports(module)}
        assert not libraries & {"fsspec", "s3fs", "botocore", "boto3", "aiohttp"}


def loaded_by(program: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after `program`."""
    text = (
        f"import json, sys\ntry:\n    {program}\nexcept SystemExit:\n    pass\n"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})), file=sys.stderr)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, cwd=PROJECT
    )
    return set(json.loads(ran.stderr.strip().splitlines()[-1]))


def test_importing_the_library_starts_no_spark():
    assert not loaded_by("import engine") & {"pyspark", "py4j", "s3fs"}


def test_asking_for_help_loads_no_arrow():
    loaded = loaded_by("sys.argv = ['txlog', '--help']; from engine.cli import main; main()")
    assert not loaded & {"pyarrow", "numpy", "pandas", "pyspark", "fsspec", "s3fs"}
