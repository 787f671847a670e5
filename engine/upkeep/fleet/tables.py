"""Which tables are kept up? Those that a file names, one by one or by patterns."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from engine.config import Config
from engine.errors import (
    ConfFileError,
    ConfigError,
    LogNotFoundError,
    ReplayError,
    UnknownKeyError,
)
from engine.formats import FORMATS
from engine.storage import join, open_storage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.storage import Storage

# Directories that are looked into at once while a pattern is followed.
_LOOKS: Final = 16
_WILD: Final = frozenset("*?[")
# A value that stands where it should not may be a secret.
_HIDDEN: Final = "…"
_KINDS: Final[Mapping[type, str]] = {
    dict: "a table",
    list: "a list",
    str: "text",
    bool: "true or false",
}
_ENTRY: Final = {"path": str, "options": dict, "storage": dict, "verify": bool}
_FILE: Final = {"tables": list, "exclude": list, "options": dict, "storage": dict, "table": list}


@dataclass(frozen=True, slots=True)
class Target:
    """A table, or a pattern that stands for tables, and what counts for it alone.

    With `verify`, it is verified in every run.
    """

    table: str
    options: Mapping[str, object] = field(default_factory=dict)
    storage_options: Mapping[str, Any] = field(default_factory=dict)
    verify: bool = False

    @property
    def is_pattern(self) -> bool:
        """Whether it stands for any number of tables."""
        return bool(_WILD.intersection(self.table))


@dataclass(frozen=True, slots=True)
class Fleet:
    """The tables to keep up, and what could not be made of the patterns, by pattern."""

    targets: tuple[Target, ...]
    problems: Mapping[str, ReplayError] = field(default_factory=dict)


def read_tables(path: str) -> tuple[list[Target], list[str]]:
    """Return the targets of a file such as conf/tables.toml, and the patterns it leaves out.

    Raises ConfigError where the file cannot be read, or holds what it cannot hold.
    """
    found = _toml(path)
    _refuse_unknown(found, _FILE, path)
    shared = found.get("options") or {}, found.get("storage") or {}
    entries: list[Any] = [*(found.get("tables") or ()), *(found.get("table") or ())]
    targets = [_target(entry, shared, path) for entry in entries]
    if not targets:
        raise ConfigError("tables", [], "the path of a table, or more", path)
    for target in targets:
        Config(file=target.options, file_path=path)
    return targets, [_text(pattern, "exclude", path) for pattern in found.get("exclude") or ()]


def find_tables(
    targets: Iterable[Target], exclude: Sequence[str] = (), config: Config | None = None
) -> Fleet:
    """Return every table once, in the order in which they are named; patterns are followed.

    Of a table that is named twice, the later entry's options count. A pattern that stands for
    nothing, or a storage that does not answer, is a problem, and no reason to stop.
    """
    found: dict[str, Target] = {}
    problems: dict[str, ReplayError] = {}
    for target in targets:
        try:
            tables = list(_tables(target, config or Config()))
            if not tables:
                raise LogNotFoundError(target.table, "the pattern matches no table")
        except ReplayError as error:
            problems[target.table] = error
            continue
        for table in tables:
            if not any(fnmatchcase(table, pattern) for pattern in exclude):
                found[table] = replace(target, table=table)
    return Fleet(tuple(found.values()), problems)


def _tables(target: Target, config: Config) -> Iterator[str]:
    storage, root = open_storage(target.table, target.storage_options, config)
    if not target.is_pattern:
        yield storage.url(root)
        return
    parts = root.split("/")
    wild = next(at for at, part in enumerate(parts) if _WILD.intersection(part))
    with ThreadPoolExecutor(_LOOKS, thread_name_prefix="txlog-tables") as pool:
        start = "/".join(parts[:wild]) or "/"
        yield from map(storage.url, _follow(storage, [start], parts[wild:], pool))


def _follow(
    storage: Storage, places: list[str], parts: Sequence[str], pool: ThreadPoolExecutor
) -> list[str]:
    """Return the tables below `places` that the parts of a pattern lead to, level by level."""
    for at, part in enumerate(parts):
        listed = list(pool.map(lambda place: _directories(storage, place), places))
        if part == "**":
            return _anywhere(storage, dict(zip(places, listed, strict=True)), parts[at + 1 :], pool)
        places = [
            join(place, name)
            for place, names in zip(places, listed, strict=True)
            for name in names
            if fnmatchcase(name, part) and (name[0] not in "._" or part[0] in "._")
        ]
    tables = pool.map(lambda place: _is_table(_directories(storage, place)), places)
    return [place for place, is_table in zip(places, tables, strict=True) if is_table]


def _anywhere(
    storage: Storage, listed: dict[str, list[str]], rest: Sequence[str], pool: ThreadPoolExecutor
) -> list[str]:
    """Return the tables at any depth, or what the rest of a pattern leads to from there."""
    found: list[str] = []
    while listed:
        found += [place for place, names in listed.items() if _is_table(names)]
        # What lies inside a table is its data.
        below = [
            join(place, name)
            for place, names in listed.items()
            if not _is_table(names)
            for name in names
            if name[0] not in "._"
        ]
        listed = dict(
            zip(below, pool.map(lambda place: _directories(storage, place), below), strict=True)
        )
    last = "/".join(rest)
    return [place for place in found if not last or fnmatchcase(place, f"*/{last}")]


def _directories(storage: Storage, place: str) -> list[str]:
    try:
        return storage.list_directories(place)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_table(names: Iterable[str]) -> bool:
    return any(log_format.directory in names for log_format in FORMATS)


# --- the file ----------------------------------------------------------------------------------


def _target(
    entry: Any, shared: tuple[Mapping[str, object], Mapping[str, Any]], path: str
) -> Target:
    if not isinstance(entry, Mapping):
        return Target(_text(entry, "tables", path), *shared)
    _refuse_unknown(entry, _ENTRY, path)
    options, storage = (
        {**common, **(entry.get(name) or {})}
        for name, common in zip(("options", "storage"), shared, strict=True)
    )
    table = _text(entry.get("path"), "path", path)
    return Target(table, options, storage, entry.get("verify", False))


def _text(value: Any, key: str, path: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(key, value, "the path or URL of a table", path)
    return value.strip()


def _refuse_unknown(found: Mapping[str, Any], known: Mapping[str, type], path: str) -> None:
    for key, value in found.items():
        if key not in known:
            raise UnknownKeyError(key, f"use one of {', '.join(known)}", path)
        if not isinstance(value, known[key]):
            raise ConfigError(key, _HIDDEN, _KINDS[known[key]], path)


def _toml(path: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfFileError(path, str(error.strerror), "a readable file") from None
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise ConfFileError(path, reason, "a TOML file") from None
