r"""Where does everything lie? Pure functions from a location and a run to the run's paths.

Work directories carry the document's names behind a dot, so that MSCK, partition discovery and
`spark.read(root)` pass them by. The data sits one level deeper, under its own name, because
Hive's own input formats refuse a directory whose *last* name begins with a dot:

    <base>/.dt=a__compact_tmp_<run>/dt=a     rewritten, not yet in place      (rename)
    <base>/.dt=a__old_<run>/dt=a             the originals, after the swap    (rename)
    <base>/.dt=a__compact_<run>/dt=a         rewritten, the new LOCATION      (location)
    <root>/.compact/                         journal and lock of a partitioned table
    <parent>/.<table>.compact/               journal and lock of a flat one: its root is renamed
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from engine.hive.model import NULL_PARTITION, Swap

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# What Hive escapes in the name of a partition directory (org.apache.hadoop.hive.common.FileUtils).
_ESCAPED: Final = frozenset("\"#%'*/:=?\\\x7f{[]^") | {chr(code) for code in range(1, 32)}


@dataclass(frozen=True, slots=True)
class Places:
    """The three directories of one unit in one run.

    `live` is what readers see before the run. `staged` is where the rewritten files are made;
    under the location swap it stays and becomes the LOCATION. `kept` is where the originals are
    once the swap is done; under the location swap that is `live` itself.
    """

    live: str
    staged: str
    kept: str

    @property
    def after(self) -> str:
        """Where readers find the unit once the swap is done."""
        return self.live if self.kept != self.live else self.staged

    @property
    def staged_shell(self) -> str:
        """The hidden directory around `staged`."""
        return parent(self.staged)

    @property
    def kept_shell(self) -> str:
        """The hidden directory around `kept`; under the location swap there is none."""
        return parent(self.kept) if self.kept != self.live else ""


def places(location: str, run: str, swap: Swap) -> Places:
    """Return where `run` keeps the files of the unit that lives at `location`."""
    name, base = last(location), base_of(location)
    if swap is Swap.RENAME:
        return Places(
            live=location,
            staged=f"{base}/.{name}__compact_tmp_{run}/{name}",
            kept=f"{base}/.{name}__old_{run}/{name}",
        )
    return Places(live=location, staged=f"{base}/.{name}__compact_{run}/{name}", kept=location)


def home(location: str, *, partitioned: bool) -> str:
    """Return the directory of a table's journal and lock, the same before and after any swap."""
    if partitioned:
        return f"{location.rstrip('/')}/.compact"
    return f"{base_of(location)}/.{last(location)}.compact"


def is_root(location: str) -> bool:
    """Say whether a location names no directory: it is empty, or the top of a file system."""
    scheme, slashes, rest = location.partition("://")
    path = rest.partition("/")[2] if slashes else scheme.rpartition(":")[2]
    return not path.strip("/")


def origin(location: str) -> str:
    """Return where a unit lay before any location swap."""
    return f"{base_of(location)}/{last(location)}"


def base_of(location: str) -> str:
    """Return the directory beside which work is done, so that repeated swaps do not nest."""
    above, name = parent(location), last(location)
    return parent(above) if last(above).startswith(f".{name}__compact_") else above


def backup_name(table: str, run: str) -> str:
    """Return the name of the zero-copy backup table of a run, as the metastore spells it."""
    return f"__bkp_{table.lower()}_{run}"


def partition_name(spec: Sequence[tuple[str, str | None]]) -> str:
    """Return a partition's path as Hive writes it."""
    return "/".join(
        f"{escape(key)}={NULL_PARTITION if value is None else escape(value)}" for key, value in spec
    )


def escape(text: str) -> str:
    """Return `text` as Hive escapes it in a directory name."""
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


def overlapping(locations: Iterable[str]) -> frozenset[str]:
    """Return the locations that are shared, or lie inside another one of `locations`."""
    seen = sorted(f"{location.rstrip('/')}/" for location in locations)
    clashing: set[str] = set()
    stack: list[str] = []
    for location in seen:
        while stack and not location.startswith(stack[-1]):
            stack.pop()
        if stack:
            clashing.update((stack[-1].rstrip("/"), location.rstrip("/")))
        stack.append(location)
    return frozenset(clashing)


def holds(directory: str, path: str) -> bool:
    """Say whether `path` is `directory` or lies in it."""
    return f"{path.rstrip('/')}/".startswith(f"{directory.rstrip('/')}/")


def parent(path: str) -> str:
    """Return the directory above `path`."""
    return path.rstrip("/").rpartition("/")[0]


def last(path: str) -> str:
    """Return the last name of `path`."""
    return path.rstrip("/").rpartition("/")[2]
