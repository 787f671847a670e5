"""The notebook runs from top to bottom, on its own sample and on any table, and is kept bare."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.logs import LogBuilder, Shape, add, metadata, protocol

REPOSITORY = Path(__file__).parents[2]
NOTEBOOK = REPOSITORY / "notebooks" / "explore.ipynb"

# What jupyter's own packages say about themselves and about the event loop.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def run(monkeypatch: pytest.MonkeyPatch, table: Path | None) -> nbformat.NotebookNode:
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    monkeypatch.delenv("TXLOG_TABLE", raising=False)
    if table is not None:
        monkeypatch.setenv("TXLOG_TABLE", str(table))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    return notebook


def test_it_runs_on_its_own_sample_and_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = run(monkeypatch, None)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 3
    assert not [output for output in outputs if output.get("name") == "stderr"]


def test_it_runs_on_a_cleaned_table_without_partitions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = LogBuilder(tmp_path)
    log.commit(protocol(), metadata(), add("f"))
    log.filler(5)
    log.checkpoint(3, Shape.V2_PARQUET_SIDECARS)
    log.clean_up(3)
    run(monkeypatch, tmp_path)


def test_it_is_kept_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None
