"""What may be asked? The arguments that commands share, and how they are written."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import Annotated, Any

import typer


class Engine(str, Enum):
    """Who replays."""

    AUTO = "auto"
    LOCAL = "local"
    REFERENCE = "reference"
    SPARK = "spark"


def parse_moment(text: str) -> datetime:
    """Return a moment from ISO 8601 (UTC where it names no zone) or milliseconds since 1970."""
    try:
        if text.lstrip("-").isdecimal():
            return datetime.fromtimestamp(0, timezone.utc) + timedelta(milliseconds=int(text))
        moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except (ValueError, OverflowError):
        example = "2024-01-31T12:00:00Z or 1706702400000"
        raise typer.BadParameter(f"{text!r} is not a time such as {example}") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def parse_pairs(name: str, texts: list[str] | None) -> dict[str, Any]:
    """Return the settings of a repeated `KEY=VALUE` option."""
    pairs = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"{name} {text!r} is not KEY=VALUE")
        pairs[key.strip()] = value
    return pairs


READ, WRITE, RUN = "What to read", "What to write", "How to run"

Table = Annotated[
    str,
    typer.Argument(
        metavar="TABLE", help="The table's root: a path, or a URL such as s3://bucket/events."
    ),
]
Version = Annotated[
    int | None,
    typer.Option("--version", "-v", min=0, metavar="N", help="This version, not the latest.",
                 rich_help_panel=READ),
]  # fmt: skip
Timestamp = Annotated[
    datetime | None,
    typer.Option("--timestamp", "-t", parser=parse_moment, metavar="TIME", rich_help_panel=READ,
                 help="The version at this time: ISO 8601 (UTC unless it names a zone), or "
                 "milliseconds since 1970."),
]  # fmt: skip
Limit = Annotated[
    int | None,
    typer.Option("--limit", "-n", min=0, metavar="N", help="At most so many.",
                 rich_help_panel=READ),
]  # fmt: skip
EngineName = Annotated[
    Engine | None,
    typer.Option("--engine", case_sensitive=False, rich_help_panel=RUN, show_default=False,
                 metavar="NAME", help="Who replays: local, spark, or auto, which decides by size "
                 "and is the default; reference is slow and plain, for checking."),
]  # fmt: skip
ConfFile = Annotated[
    str | None,
    typer.Option("--conf-file", metavar="FILE", envvar="TXLOG_CONF_FILE", rich_help_panel=RUN,
                 help="Settings, as in conf/txlog.toml."),
]  # fmt: skip
Options = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", metavar="KEY=VALUE", rich_help_panel=RUN,
                 help="One setting; may be repeated, and wins over --conf-file."),
]  # fmt: skip
StorageOptions = Annotated[
    list[str] | None,
    typer.Option("--storage-option", metavar="KEY=VALUE", rich_help_panel=RUN,
                 help="One option of the storage, such as endpoint_url; may be repeated."),
]  # fmt: skip
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Answer in JSON, errors too.", rich_help_panel=RUN),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress, no warnings.", rich_help_panel=RUN)
]
Debug = Annotated[
    bool, typer.Option("--debug", help="Show the trace of an error.", rich_help_panel=RUN)
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Write nothing; say what would be written.")
]
DryDelete = Annotated[
    bool, typer.Option("--dry-run", help="Change nothing; say what would be deleted, and why.")
]
