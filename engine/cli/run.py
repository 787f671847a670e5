"""What do all commands share? The options that say how to run, and what they come to."""

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import typer

from engine.cli.options import AsJson, ConfFile, Debug, Options, Quiet, StorageOptions, parse_pairs
from engine.config import Config
from engine.errors import DistributedError, StorageError
from engine.report.outcome import say, warnings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from engine.report.progress import Bars
    from engine.table import TableLog

Command = Callable[..., None]

_logger: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class Run:
    """One run of a command: the settings it was given, and how its answer is to look."""

    config: Config = field(default_factory=Config)
    storage_options: Mapping[str, Any] = field(default_factory=dict)
    as_json: bool = False
    quiet: bool = False

    def open(self, table: str, engine: str | None = None) -> "TableLog":
        """Open a table; with the engine `spark`, where there is a log, with a session for it."""
        from engine.table import open_log

        log = open_log(table, self.config, storage_options=self.storage_options)
        if engine == "spark" and log.exists:
            log.spark = spark_session()
        return log

    def answer(self, objects: Iterable[object], lines: Iterable[str]) -> None:
        """Answer programs with an object a line, and people with lines."""
        from engine.report.lines import json_line

        say(map(json_line, objects) if self.as_json else lines)

    @property
    def bars(self) -> "Bars":
        """What a person who waits is shown."""
        from engine.report.progress import Bars

        return Bars(shown=not self.quiet)

    def warn(self, messages: Iterable[object]) -> None:
        """Tell what is no part of the answer; what the engine said itself is not said again."""
        for message in messages:
            _logger.warning("%s", message)


def asked(
    *,
    conf_file: ConfFile = None,
    option: Options = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> Run:
    """Return the Run of the options that commands share; `main` itself looks for --debug."""
    given = parse_pairs("--option", option)
    config = Config.from_toml(conf_file, options=given) if conf_file else Config(options=given)
    stores = parse_pairs("--storage-option", storage_option)
    return Run(config, stores, as_json=as_json, quiet=quiet)


def command(
    app: typer.Typer, *examples: str, has_settings: bool = True
) -> Callable[[Command], Command]:
    """Register a function as a command of `app`: its Run comes first, then its own options.

    Users see its own options, those that make the Run, and examples. A command that opens no table
    has no settings.
    """
    shared = dict(inspect.signature(asked).parameters)
    if not has_settings:
        shared = {name: shared[name] for name in ("as_json", "quiet", "debug")}

    def registered(function: Command) -> Command:
        @wraps(function)
        def ran(**given: Any) -> None:
            run = asked(**{name: given.pop(name) for name in shared})
            try:
                with warnings(shown=not run.quiet):
                    function(run, **given)
            except BrokenPipeError as error:
                # Not the reader of the answer. Typer would leave without a word.
                raise StorageError("storage", "the connection broke; try again") from error

        _, *own = inspect.signature(function, eval_str=True).parameters.values()
        # Typer reads the options of a command from its signature.
        ran.__signature__ = inspect.Signature([*own, *shared.values()])  # type: ignore[attr-defined]
        epilog = "\n\n".join(["Examples:", *(f"$ {example}" for example in examples)])
        return app.command(epilog=epilog)(ran)

    return registered


def spark_session() -> "SparkSession":
    """Return the session of this program, starting one where none runs.

    Raises DistributedError where there is no pyspark, or no Java for it.
    """
    try:
        from engine.replay.spark_errors import told
        from engine.replay.spark_session import start_session
    except ImportError:
        reason = "there is no pyspark: pip install 'txlog-engine[spark]'"
        raise DistributedError(reason, is_setup=True) from None
    try:
        with told():
            return start_session()
    except DistributedError as error:
        reason = f"no Spark session: {error.reason} Is there a Java, and does JAVA_HOME name it?"
        raise DistributedError(reason, is_setup=True) from error
