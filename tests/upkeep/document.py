"""Writes the catalogue of docs/verify.md from real runs: python -m tests.upkeep.document."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from engine import open_log
from engine.upkeep.verify.catalogue import RULES
from engine.upkeep.verify.verify import verify
from tests.upkeep.defects import DEFECTS, NOW, Defect, sound_log

if TYPE_CHECKING:
    from engine.upkeep.verify.findings import Finding

DOCS = Path(__file__).parents[2] / "docs" / "verify.md"
BEGIN, END = "<!-- catalogue -->\n", "<!-- end of catalogue -->\n"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ZEROS = re.compile(r"0{17}(?=\d{3})")


def catalogue() -> str:
    """Return a section for each code: how bad, what it means, and each planted defect's finding."""
    lines = []
    for code, rule in RULES.items():
        lines += [f"### `{code}`", "", f"**{rule.severity}**: {rule.says}.", ""]
        if told := [told_of(defect, example(defect)) for defect in DEFECTS if defect.code == code]:
            lines += ["```text", *told, "```", ""]
    return "\n".join(lines)


def example(defect: Defect) -> Finding:
    """Return what verify says of a planted defect."""
    with tempfile.TemporaryDirectory() as folder:
        log = sound_log(Path(folder))
        defect.plant(log)
        opened = open_log(str(log.root))
        found = verify(opened.directory, opened.config, now_ms=NOW, deep=defect.deep)
    return next(finding for finding in found.findings if finding.code == defect.code)


def told_of(defect: Defect, finding: Finding) -> str:
    """Return what the catalogue has of a defect."""
    where = f"{finding.path}: " if finding.path else ""
    said = _ZEROS.sub("…", _UUID.sub("…", f"{where}{finding.message}"))
    return f"{defect.says}:\n    {said}"


def documented() -> str:
    """Return the catalogue as it stands in the document."""
    return DOCS.read_text().partition(BEGIN)[2].partition(END)[0]


if __name__ == "__main__":
    before, _, rest = DOCS.read_text().partition(BEGIN)
    DOCS.write_text(before + BEGIN + catalogue() + END + rest.partition(END)[2])
