"""What went wrong, in one line that a person can act on?"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text; of the JVM's, that of its first cause."""
    text = _java_cause(error) if isinstance(error, Py4JJavaError) else str(error)
    lines = text.strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _java_cause(error: Py4JJavaError) -> str:
    cause: Any = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    name = str(cause.getClass().getSimpleName())
    return f"{name}: {cause.getMessage() or ''}".rstrip(": ")
