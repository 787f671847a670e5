"""What went wrong, in one line that a person can act on?"""

from __future__ import annotations

import re
from typing import Any, Final

from py4j.protocol import Py4JJavaError

_PACKAGE: Final = re.compile(r"^(?:[a-z]\w*\.){2,}(?=[A-Z]\w*: )")  # of a Java exception's class


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text; of the JVM's, that of its first cause."""
    text = _java_cause(error) if isinstance(error, Py4JJavaError) else str(error)
    lines = text.strip().splitlines()
    return _PACKAGE.sub("", lines[0]) if lines else type(error).__name__


def _java_cause(error: Py4JJavaError) -> str:
    cause: Any = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    name = str(cause.getClass().getSimpleName())
    return f"{name}: {cause.getMessage() or ''}".rstrip(": ")
