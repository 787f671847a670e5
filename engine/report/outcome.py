"""How does a command end? 0 done, 1 refused, 2 wrong usage; never a traceback unless asked for."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import traceback
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, cast

import typer

from engine.errors import ReplayError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

DONE, REFUSED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130

# The root of what the parser of arguments raises; typer does not export it by name.
_WrongUsage: Final = cast("type[Exception]", typer.BadParameter.__mro__[2])


# How typer tells of a number that is none.
_PARSING: Final = re.compile(r"a valid (integer|number), unable to parse string as an? \1")
_KINDS: Final = {"integer": "whole number", "number": "number"}

# What these warn of is in the answer as well.
_ANSWERED: Final = frozenset({"engine.commit.hooks", "engine.upkeep.fleet.maintain"})


class ReaderGoneError(Exception):
    """Whoever read our output has closed it, as `head` does."""


class StdoutError(StorageError):
    """Our output goes where there is no room for it."""


def say(lines: Iterable[str]) -> None:
    """Write an answer to stdout, as it comes.

    Raises ReaderGoneError, and StdoutError where stdout takes no more.
    """
    for line in lines:
        _to_stdout(sys.stdout.write, line)
    _to_stdout(sys.stdout.flush)


@contextmanager
def warnings(*, shown: bool) -> Iterator[None]:
    """Tell on stderr what the engine warns of meanwhile, unless that is not wanted."""
    logger, handler = logging.getLogger("engine"), _Warnings()
    handler.addFilter(lambda record: shown and record.name not in _ANSWERED)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def tell(code: str, message: str, *, as_json: bool) -> None:
    """Tell what was refused: as JSON to stdout, or in one line to stderr."""
    if as_json:
        try:
            say([json.dumps({"error": {"code": code, "message": message}}) + "\n"])
        except ReaderGoneError:
            return
        except StdoutError as full:
            _aside(f"txlog: {message}; {full}")
    else:
        _aside(f"txlog: {message}")


def outcome(command: Callable[[], object], *, as_json: bool, debug: bool) -> int:
    """Run a command and return its exit status; what stopped it is told in one line."""
    try:
        status = command()
    except ReaderGoneError:
        return DONE  # it has what it wanted
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except Exception as error:
        if debug:
            traceback.print_exc()
        status, code, message = _explained(error)
        tell(code, message, as_json=as_json and not isinstance(error, StdoutError))
        return status
    return status if isinstance(status, int) else DONE


def _to_stdout(write: Callable[..., object], *text: str) -> None:
    try:
        write(*text)
    except OSError as error:
        # Python would flush what is left to it once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise ReaderGoneError from None
        raise StdoutError("stdout", (error.strerror or str(error)).lower()) from None


def _aside(line: str) -> None:
    with suppress(OSError):  # where nobody can be told, the status must do
        typer.echo(line, err=True)


def _explained(error: Exception) -> tuple[int, str, str]:
    """Return the exit status, the code and the one line of what went wrong."""
    if isinstance(error, _WrongUsage):
        return WRONG_USAGE, "USAGE", _usage(error)
    if isinstance(error, ReplayError):
        return REFUSED, error.code, str(error)
    if isinstance(error, OSError):
        reason = " ".join((error.strerror or str(error)).lower().split())
        return REFUSED, StorageError.code, f"{error.filename or 'storage'}: {reason}"
    kind, text = type(error).__name__, " ".join(str(error).split())
    report = "please report it, --debug shows the trace"
    return REFUSED, "INTERNAL", f"internal error: {kind}: {text}; {report}"


class _Warnings(logging.Handler):
    """Tells each warning in one line, once."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._told: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Tell a warning."""
        message = " ".join(record.getMessage().split())
        if message not in self._told:
            self._told.add(message)
            _aside(f"warning: {message}")


def _usage(error: Exception) -> str:
    message = " ".join(str(getattr(error, "format_message", error.__str__)()).split())
    # What a parameter has to do with it, where it has; and not who found it out.
    message = message.removeprefix("Invalid value: ").replace(": Value error, ", ": ")
    message = _PARSING.sub(lambda found: f"a {_KINDS[found[1]]}", message)
    message = message.replace("Input should be", "it must be")
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "txlog"
    return f"{message.rstrip('.')}; see {command} --help"
