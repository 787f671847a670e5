"""Are the commits of a log legal, one after the other, and the checksums beside them right?"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import orjson

from engine.formats import DELTA
from engine.log.timestamps import in_commit_start
from engine.upkeep.verify.actions import names_of
from engine.upkeep.verify.findings import some
from engine.upkeep.verify.table import declares, metadata_complaints, protocol_complaints

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine.actions import ActionBatch
    from engine.formats import LogFormat
    from engine.log.paths import TransactionFileRef
    from engine.upkeep.verify.actions import Use
    from engine.upkeep.verify.ledger import Applied, Sums
    from engine.upkeep.verify.reading import Commits, Single
    from engine.upkeep.verify.surviving import Entries
    from engine.upkeep.verify.walk import Walk

ODD_ROWS: Final = {
    "DUPLICATE_ACTION": "twice in one commit",
    "CONFLICTING_ACTIONS": "added and removed in one commit",
    "UNKNOWN_REMOVE": "removed, and not live before",
}


def take_commits(walk: Walk, read: Commits) -> None:
    """Enter commits that follow what was walked; what is wrong with them is told to the walk."""
    walk.counts["commits"] += len(read.refs)
    walk.counts["actions"] += read.num_actions
    refs = {ref.version: ref for ref in read.refs}
    for ref in read.refs:
        if ref.version in read.damage:
            reason = read.damage[ref.version]
            walk.found.add("UNREADABLE_COMMIT", reason, path=ref.path, version=ref.version)
            walk.unusable[ref.path] = reason
        elif not ref.size:
            walk.found.add("EMPTY_COMMIT", "it has 0 bytes", path=ref.path, version=ref.version)
    for complaint in read.complaints:
        walk.complain(complaint.code, complaint.message, refs[complaint.version])
    if read.refs[0].version != walk.version + 1 or not walk.is_known:
        walk.lose()
    for single in read.singles:
        walk.remember(single.kind, single.value)
    broken = min(read.damage, default=None)
    rows = read.rows
    if broken is not None:
        rows = rows.select(rows.versions < broken)
    before = walk.ledger.sums
    last = read.refs[-1].version if broken is None else broken - 1
    applied = walk.enter(rows, (read.refs[0].version, last))
    _check_rows(walk, rows, read.batches, applied, refs)
    _check_versions(walk, read, {read.refs[0].version - 1: before, **applied.after}, refs)
    walk.version = read.refs[-1].version
    if broken is not None:
        walk.lose()


def _check_rows(
    walk: Walk,
    rows: Entries,
    batches: list[ActionBatch],
    applied: Applied,
    refs: Mapping[int, TransactionFileRef],
) -> None:
    odd = odd_rows(rows, applied, walk.directory.log_format)
    if not (walk.is_known and walk.base < 0):
        odd = {key: found for key, found in odd.items() if key[0] != "UNKNOWN_REMOVE"}
    if not odd:
        return

    def place(row: int) -> tuple[int, int]:
        return int(rows.versions[row]), int(rows.ordinals[row])

    names = names_of(batches, [place(row) for found in odd.values() for row in found[:3]])
    for (code, version), found in odd.items():
        told = some([names.get(place(row), "?") for row in found[:3]], len(found))
        walk.complain(code, f"{ODD_ROWS[code]}: {told}", refs[version])


def odd_rows(
    rows: Entries, applied: Applied, log_format: LogFormat
) -> dict[tuple[str, int], list[int]]:
    """Return the rows that contradict others, by code and version."""
    found: dict[tuple[str, int], list[int]] = defaultdict(list)
    for one, other in applied.twice:
        version = int(rows.versions[one])
        if rows.is_add[one] == rows.is_add[other]:
            found["DUPLICATE_ACTION", version].append(other)
        elif log_format is DELTA:  # lines of an IndexTables commit apply in their order
            found["CONFLICTING_ACTIONS", version].append(other)
    for row in applied.unknown.tolist():
        found["UNKNOWN_REMOVE", int(rows.versions[row])].append(row)
    return found


def _check_versions(
    walk: Walk, read: Commits, after: Mapping[int, Sums], refs: Mapping[int, TransactionFileRef]
) -> None:
    """Go through the versions of some commits, `after` each of which sums are known."""
    broken = min(read.damage, default=None)
    singles: dict[int, list[Single]] = defaultdict(list)
    for single in read.singles:
        singles[single.version].append(single)
    sums = after[read.refs[0].version - 1]
    metadata, since = walk.singles.winner("metaData"), read.refs[0].version
    for ref in read.refs:
        version = ref.version
        if broken is not None and version >= broken:
            break
        _enter_singles(walk, singles[version], ref)
        if (now := walk.singles.winner("metaData")) is not metadata:
            walk.check_values(read.batches, metadata, (since, version - 1))
            metadata, since = now, version
        sums = after.get(version, sums)
        stamp = _check_time(walk, singles[version], ref)
        if version in read.checksums:
            beside, content = read.checksums[version]
            walk.compare_checksum(beside, content, sums, stamp)
    last = read.refs[-1].version if broken is None else broken - 1
    walk.check_values(read.batches, metadata, (since, last))
    _check_uses(walk, read.uses, refs)


def _enter_singles(walk: Walk, singles: Iterable[Single], ref: TransactionFileRef) -> None:
    seen: set[tuple[str, str]] = set()
    for single in singles:
        if single.kind == "commitInfo":
            continue
        value = single.value
        if single.kind == "protocol":
            for code, message in protocol_complaints(
                value, walk.directory.log_format, walk.directory.url
            ):
                walk.complain(code, message, ref)
        elif single.kind == "metaData":
            for code, message in metadata_complaints(value):
                walk.complain(code, message, ref)
            before = walk.singles.winner("metaData")
            if before is not None and before.get("id") != value.get("id"):
                message = f"{before.get('id')} becomes {value.get('id')}"
                walk.complain("TABLE_ID_CHANGED", message, ref)
        key = (single.kind, _key(single))
        if key in seen:
            is_one = single.kind in {"protocol", "metaData"}
            code = "CONFLICTING_ACTIONS" if is_one else "DUPLICATE_ACTION"
            walk.complain(code, f"two {single.kind} {key[1]}".rstrip(), ref)
        seen.add(key)
        walk.singles.enter(single.kind, (single.version, single.ordinal), value)


def _check_uses(walk: Walk, uses: Iterable[Use], refs: Mapping[int, TransactionFileRef]) -> None:
    """Judge by the protocol at the end of some commits: features come, and seldom go."""
    protocol = walk.singles.winner("protocol")
    if protocol is None or walk.directory.log_format is not DELTA:
        return
    configuration = (walk.singles.winner("metaData") or {}).get("configuration") or {}
    append_only = str(configuration.get("delta.appendOnly")).lower() == "true"
    for use in uses:
        if use.what == "removes":
            if append_only:
                walk.complain("APPEND_ONLY", f"removed: {use.told}", refs[use.version])
        elif not declares(protocol, use.what):
            message = f"actions need the feature {use.what}, which it does not name"
            walk.complain("FEATURE_NOT_DECLARED", message, refs[use.version])


def _check_time(walk: Walk, singles: Iterable[Single], ref: TransactionFileRef) -> int | None:
    configuration = (walk.singles.winner("metaData") or {}).get("configuration") or {}
    infos = [single for single in singles if single.kind == "commitInfo"]
    info = orjson.loads(infos[0].value) if infos else {}
    stamp = info.get("inCommitTimestamp")
    stamp = stamp if isinstance(stamp, int) else None
    start = in_commit_start(configuration)
    if start is None or ref.version < start:
        walk.last_time = None
        return stamp
    if stamp is None:
        walk.complain("COMMIT_TIME_MISSING", "commitInfo.inCommitTimestamp is missing", ref)
        return None
    if infos[0].ordinal != 0:
        message = f"commitInfo is action {infos[0].ordinal + 1}"
        walk.complain("COMMIT_INFO_NOT_FIRST", message, ref)
    if walk.last_time is not None and stamp <= walk.last_time:
        message = f"{stamp} after {walk.last_time}"
        walk.complain("COMMIT_TIME_BACKWARDS", message, ref)
    walk.last_time = stamp
    return stamp


def _key(single: Single) -> str:
    value = single.value
    return str(value.get("appId") or value.get("domain") or value.get("path") or "")
