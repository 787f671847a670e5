"""The command `txlog`: argv in, one answer out. Nothing is decided here.

Heavy libraries are imported inside the commands: `txlog --help` loads none of them.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from engine.cli import checkpoint, compact, maintain, read, report, sample, verify, write
from engine.hive.cli import app as hive
from engine.report.outcome import ReaderGoneError, outcome, say

app = typer.Typer(
    name="txlog",
    help="Rebuild, keep and prove the transaction logs of lake tables.",
    epilog="Start with: txlog sample events, then txlog replay events",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# In the order of the help: those that look first. (`add_typer` would put them last.)
for room in (read, report, sample, write, checkpoint, compact, verify, maintain):
    app.registered_commands += room.app.registered_commands
app.add_typer(hive, name="hive")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return 0 when it is done, 1 when it is refused, 2 for wrong usage."""
    args = list(sys.argv[1:] if argv is None else argv)
    if sys.stdout is None:  # closed by who started us: they want no answer
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - open until the end
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):  # paths hold any character, whatever the locale is
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    return outcome(lambda: _invoked(args), as_json="--json" in args, debug="--debug" in args)


def _invoked(args: Sequence[str]) -> object:
    command = typer.main.get_command(app)
    try:
        return command.main(args=args, prog_name="txlog", standalone_mode=False)
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # the reader of a help has gone
            raise ReaderGoneError from None
        raise


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print txlog's version.")] = False,
) -> None:
    """Rebuild, keep and prove the transaction logs of lake tables."""
    if version:
        say([f"txlog {metadata.version('txlog-engine')}\n"])
    elif context.invoked_subcommand is None:
        say([context.get_help() + "\n"])
        raise typer.Exit(2)
