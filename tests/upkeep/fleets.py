"""A fleet of small tables, some of them broken, each in a way of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.logs import LogBuilder, add, protocol, remove

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def gap(log: LogBuilder) -> None:
    log.commit_path(4).unlink()


def cut_short(log: LogBuilder) -> None:
    log.commit_path(4).write_bytes(b'{"add":{"path":"x')


def headless(log: LogBuilder) -> None:
    log.commit_path(0).write_bytes(b'{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}\n')


def newer_reader(log: LogBuilder) -> None:
    log.commit(protocol(99, 99))


def emptied(log: LogBuilder) -> None:
    for path in log.directory.iterdir():
        path.unlink()


# What each way to break a table is refused with.
WAYS: dict[Callable[[LogBuilder], None], str] = {
    gap: "GAP",
    cut_short: "CORRUPT_JSON",
    headless: "MISSING_METADATA",
    newer_reader: "UNSUPPORTED_READER_VERSION",
    emptied: "EMPTY_LOG",
}


def fleet(root: Path, count: int) -> dict[str, str]:
    """Make tables in which a checkpoint is due; return what the broken ones are refused with."""
    broken = {}
    for number in range(count):
        name = f"table-{number:03d}"
        log = LogBuilder(root / name, "indextables" if number % 3 == 0 else "delta")
        log.start(*(add(f"f{at}") for at in range(3))).filler(10)
        log.commit(remove("f1"), add("f3"))
        way = number // (count // len(WAYS))
        if number % (count // len(WAYS)) == 1:
            break_it = list(WAYS)[way]
            break_it(log)
            broken[str(root / name)] = WAYS[break_it]
    return broken
