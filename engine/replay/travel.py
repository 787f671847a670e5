"""Errors travel from an executor as text, and become errors again on the driver."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Final

import orjson

from engine import errors
from engine.errors import ReplayError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK: Final = "txlog-error: "


class ExecutorError(Exception):
    """Carries a ReplayError through Spark, which keeps only an exception's text."""


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turn a ReplayError into one that survives the way to the driver."""
    try:
        yield
    except FileNotFoundError as error:
        told = "a log file went away while it was read; try again"
        raise _travelling(StorageError(error.filename or str(error), told)) from None
    except ReplayError as error:
        raise _travelling(error) from None


def _travelling(error: ReplayError) -> ExecutorError:
    fields = {k: v for k, v in vars(error).items() if isinstance(v, (str, int, type(None)))}
    told = {"type": type(error).__name__, "message": str(error), "fields": fields}
    return ExecutorError(MARK + orjson.dumps(told).decode())


def revived(text: str) -> ReplayError | None:
    """Return the ReplayError that a text carries, if it carries one."""
    at = text.find(MARK)
    if at < 0:
        return None
    told_of, _ = json.JSONDecoder().raw_decode(text[at + len(MARK) :])
    kind = getattr(errors, told_of["type"], ReplayError)
    error: ReplayError = kind.__new__(kind)
    Exception.__init__(error, told_of["message"])
    for name, value in told_of["fields"].items():
        setattr(error, name, value)
    return error
