"""What does a failed Spark job mean? The error an executor raised, or one line of Spark's own."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from engine.errors import DistributedError, ReplayError
from engine.replay.travel import revived

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def told() -> Iterator[None]:
    """Turn what Spark makes of an executor's error back into that error, or into one line."""
    try:
        yield
    except ReplayError:
        raise
    except (PySparkException, Py4JError) as error:
        raise explained(error) from error


def explained(error: BaseException) -> ReplayError:
    """Return the ReplayError that a failed Spark job stands for."""
    text = str(error)
    if (own := revived(text)) is not None:
        return own
    if "No module named 'engine'" in text:
        return DistributedError(
            "the executors cannot import txlog: ship it with --py-files (make dist builds the "
            "wheel), or install txlog-engine where they run",
            is_setup=True,
        )
    return DistributedError(_first_reason(text) or type(error).__name__)


def _first_reason(text: str) -> str:
    # What Python raised says more than what Spark made of it.
    raised = text[max(text.find("Traceback"), 0) :]
    reasons = re.findall(r"^(?:: )?(?:\w+\.)*(\w*(?:Error|Exception): .+)$", raised, re.MULTILINE)
    line = reasons[0] if reasons else next(iter(text.strip().splitlines()), "")
    return line[:300]
