"""What stands in for a damaged checkpoint of the same version? One that every reader prefers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine.errors import ConfigError
from engine.log.paths import FileKind
from engine.upkeep.checkpoint.shape import SIDECAR_ROWS, CheckpointPlan, Shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.log.segment import Checkpoint


def outranking(
    plan: CheckpointPlan, damaged: Sequence[Checkpoint], *, has_v2: bool
) -> CheckpointPlan:
    """Return a plan whose checkpoint every reader prefers to these of the same version.

    What is damaged stays where it is: nothing in a log is overwritten, and a reader that takes
    the highest rank never looks at it again. Raises ConfigError where the shape that was asked
    for has no higher rank.
    """
    for found in damaged:
        if has_v2:
            shape = plan.shape if plan.shape.is_v2 else Shape.V2_PARQUET
            last = found.files[0].unique if found.kind is FileKind.CHECKPOINT_V2 else None
            plan = replace(plan, shape=shape, outranks=max(plan.outranks or "", last or "") or None)
        elif found.kind is FileKind.CHECKPOINT_JSON:
            plan = replace(plan, shape=Shape.CLASSIC)
        elif plan.shape.is_json:
            raise ConfigError(
                "shape", plan.shape.value, "a Parquet one: it must outrank a damaged one", "repair"
            )
        else:
            least = max(plan.least_parts, len(found.files) + 1)
            plan = replace(plan, shape=Shape.MULTI_PART, least_parts=least)
    return replace(plan, max_rows=plan.max_rows or SIDECAR_ROWS) if plan.shape.is_v2 else plan
