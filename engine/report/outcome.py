"""How does a command end? 0 done, 1 refused, 2 wrong usage; never a traceback unless asked for."""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import TYPE_CHECKING, Final, cast

import typer

from engine.errors import ReplayError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

DONE, REFUSED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130

# The root of what the parser of arguments raises; typer does not export it by name.
_WrongUsage: Final = cast("type[Exception]", typer.BadParameter.__mro__[2])


class ReaderGoneError(Exception):
    """Whoever read our output has closed it, as `head` does."""


def say(lines: Iterable[str]) -> None:
    """Write an answer to stdout, as it comes."""
    try:
        for line in lines:
            sys.stdout.write(line)
        sys.stdout.flush()
    except BrokenPipeError:
        raise ReaderGoneError from None


def warn(message: str) -> None:
    """Write one line to stderr that is no part of the answer."""
    typer.echo(f"warning: {message}", err=True)


def outcome(command: Callable[[], object], *, as_json: bool, debug: bool) -> int:
    """Run a command and return its exit status; what stopped it is told in one line."""
    try:
        status = command()
    except ReaderGoneError:
        # It has what it wanted. Python would flush to the closed pipe once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except Exception as error:
        if debug:
            traceback.print_exc()
        status, code, message = _explained(error)
        _tell(code, message, as_json=as_json)
        return status
    return status if isinstance(status, int) else DONE


def _explained(error: Exception) -> tuple[int, str, str]:
    """Return the exit status, the code and the one line of what went wrong."""
    if isinstance(error, _WrongUsage):
        return WRONG_USAGE, "USAGE", _usage(error)
    if isinstance(error, ReplayError):
        return REFUSED, error.code, str(error)
    if isinstance(error, OSError):
        reason = (error.strerror or str(error)).lower()
        return REFUSED, StorageError.code, f"{error.filename or 'storage'}: {reason}"
    kind, text = type(error).__name__, " ".join(str(error).split())
    report = "please report it, --debug shows the trace"
    return REFUSED, "INTERNAL", f"internal error: {kind}: {text}; {report}"


def _usage(error: Exception) -> str:
    message = " ".join(str(getattr(error, "format_message", error.__str__)()).split())
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "txlog"
    return f"{message.rstrip('.')}; see {command} --help"


def _tell(code: str, message: str, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"error": {"code": code, "message": message}}))  # noqa: T201
    else:
        typer.echo(f"txlog: {message}", err=True)
