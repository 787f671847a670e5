"""Do checkpoints, compactions and checksums say what the commits say, beside the files?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from engine.actions import kinds
from engine.formats import DELTA
from engine.replay.lines import LineAction, action_value, to_batch
from engine.upkeep.verify.findings import some
from engine.upkeep.verify.ledger import content_sum
from engine.upkeep.verify.surviving import entries
from engine.upkeep.verify.table import same_metadata, same_protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from engine.formats import LogFormat
    from engine.replay.state import Singles
    from engine.upkeep.verify.ledger import Sums
    from engine.upkeep.verify.surviving import Entries

Problem = tuple[str, str]

_TXN_RETENTION: Final = "delta.setTransactionRetentionDuration"


@dataclass(frozen=True)
class Truth:
    """What the commits say of a version, beside its files."""

    log_format: LogFormat
    singles: Singles
    txn_retention: bool

    @classmethod
    def of(cls, log_format: LogFormat, singles: Singles) -> Truth:
        """Return what these actions, the winners of all commits, say."""
        configuration = (singles.winner("metaData") or {}).get("configuration") or {}
        return cls(log_format, singles, _TXN_RETENTION in configuration)


def head_problems(counts: Mapping[str, int], log_format: LogFormat) -> Iterator[Problem]:
    """Yield what is wrong with a checkpoint by the kinds of actions it has."""
    is_needed = log_format.default_protocol is None
    for kind in ("protocol", "metaData"):
        if counts[kind] > 1 or (not counts[kind] and (is_needed or kind == "metaData")):
            yield "CHECKPOINT_HEADLESS", f"it has {counts[kind] or 'no'} {kind}"
    for kind in ("commitInfo", "cdc"):
        if counts.get(kind):
            yield "ILLEGAL_ACTION", f"a checkpoint with {counts[kind]:,} {kind}"


def wrong_sums(
    found: Mapping[str, Any],
    sums: Sums,
    log_format: LogFormat,
    root: str,
) -> Iterator[str]:
    """Yield in what the numbers and the files of a checksum file differ from the replay."""
    for name, wanted in (
        ("numFiles", sums.files),
        ("tableSizeBytes", sums.size_bytes),
        ("numDeletionVectorsOpt", sums.vectors),
    ):
        if found.get(name) is not None and found[name] != wanted:
            yield f"{name} is {found[name]}; the commits make it {wanted}"
    listed = found.get("allFiles")
    if isinstance(listed, list):
        rows = _listed(listed, log_format, root)
        if rows is None or len(rows) != sums.files or content_sum(rows) != sums.content:
            yield "allFiles are not the live files"


def wrong_singles(found: Mapping[str, Any], truth: Truth) -> Iterator[str]:
    """Yield in what the other actions of a checksum file differ from the replay."""
    singles, log_format = truth.singles, truth.log_format
    protocol, metadata = found.get("protocol"), found.get("metadata")
    if protocol and (why := same_protocol(singles.winner("protocol"), protocol, log_format)):
        yield f"protocol: {why}"
    if metadata and (why := same_metadata(singles.winner("metaData"), metadata)):
        yield f"metadata: {why}"
    txns = found.get("setTransactions")
    if isinstance(txns, list):
        mine = {app: txn.get("version") for app, txn in singles.winners("txn").items()}
        theirs = {txn.get("appId"): txn.get("version") for txn in txns}
        # Where txns expire, one of the two may have dropped what the other still had.
        apps = mine.keys() & theirs if truth.txn_retention else {*mine, *theirs}
        wrong = sorted(str(app) for app in apps if mine.get(app) != theirs.get(app))
        if wrong:
            yield f"setTransactions differ for {some(wrong)}"
    domains = found.get("domainMetadata")
    if isinstance(domains, list):
        mine = _live_domains(singles)
        theirs = {d.get("domain"): d.get("configuration") for d in domains if not d.get("removed")}
        wrong = sorted(str(name) for name in {*mine, *theirs} if mine.get(name) != theirs.get(name))
        if wrong:
            yield f"domainMetadata differs for {some(wrong)}"


def checkpoint_singles(found: Singles, truth: Truth) -> Iterator[Problem]:
    """Yield in what a checkpoint's other actions differ from those of the commits."""
    wanted = truth.singles
    why = same_protocol(wanted.winner("protocol"), found.winner("protocol"), truth.log_format)
    if why and found.winner("protocol") is not None:
        yield "CHECKPOINT_PROTOCOL", why
    why = same_metadata(wanted.winner("metaData"), found.winner("metaData"))
    if why and found.winner("metaData") is not None:
        yield "CHECKPOINT_METADATA", why
    theirs = found.winners("txn")
    for app, txn in wanted.winners("txn").items():
        if app not in theirs:
            if not (truth.txn_retention or truth.log_format is not DELTA):
                yield "CHECKPOINT_LOST_TXN", f"{app} at {txn.get('version')} is missing"
        elif theirs[app].get("version") != txn.get("version"):
            message = f"{app} is at {theirs[app].get('version')}, not {txn.get('version')}"
            yield "CHECKPOINT_LOST_TXN", message
    mine, live = _live_domains(wanted), _live_domains(found)
    for name in sorted({*mine, *live}):
        if mine.get(name) != live.get(name):
            what = "is missing" if name not in live else "is another"
            what = "was removed" if name not in mine else what
            yield "CHECKPOINT_LOST_DOMAIN", f"the domain {name} {what}"


def compaction_singles(found: Singles, truth: Truth, start_version: int) -> Iterator[Problem]:
    """Yield in what a compaction's other actions differ from those of its commits."""
    codes = {
        "protocol": "COMPACTION_METADATA",
        "metaData": "COMPACTION_METADATA",
        "txn": "COMPACTION_LOST_TXN",
        "domainMetadata": "COMPACTION_LOST_DOMAIN",
        "mergeskip": "COMPACTION_LOST_SKIP",
    }
    for kind, code in codes.items():
        theirs = {key: value for key, _, value in found.entries(kind)}
        mine = {
            key: value
            for key, (version, _), value in truth.singles.entries(kind)
            if version >= start_version
        }
        for key in sorted({*mine, *theirs}):
            name = f"{kind} {key}".rstrip()
            if key not in theirs:
                yield code, f"{name} is missing"
            elif key not in mine:
                yield code, f"{name} is not of these commits"
            elif not same_single(kind, mine[key], theirs[key], truth.log_format):
                yield code, f"{name} is another than committed"


def same_single(kind: str, mine: Any, theirs: Any, log_format: LogFormat) -> bool:
    """Tell whether two actions of a kind that is not a file's say the same."""
    if kind == "protocol":
        return not same_protocol(mine, theirs, log_format)
    if kind == "metaData":
        return not same_metadata(mine, theirs)
    return _plain(mine) == _plain(theirs)


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: item for name, item in value.items() if item not in (None, {}, False)}


def _live_domains(singles: Singles) -> dict[str, Any]:
    return {
        name: domain.get("configuration")
        for name, domain in singles.winners("domainMetadata").items()
        if not domain.get("removed")
    }


def _listed(files: list[Any], log_format: LogFormat, root: str) -> Entries | None:
    known = kinds(log_format)
    try:
        actions = [
            LineAction(0, at, "add", action_value(file, "add", known["add"]))
            for at, file in enumerate(files)
        ]
    except ValueError:
        return None
    return entries([to_batch(actions, known)], root)
