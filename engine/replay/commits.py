"""What do single commits say of themselves? Their commitInfo, their time, their raw actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson
import pyarrow as pa

from engine.actions import kinds
from engine.config import MAX_DECOMPRESSED_BYTES, Config
from engine.replay.compression import decode
from engine.replay.lines import LineAction, read_line, read_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from engine.log.listing import LogDirectory
    from engine.log.paths import TransactionFileRef

_ONLY_INFO: Final = {"commitInfo": pa.string()}


def commit_actions(
    directory: LogDirectory, ref: TransactionFileRef, data: bytes, config: Config
) -> list[LineAction]:
    """Return the actions in the bytes of one commit, in the order of its lines."""
    plain = plain_bytes(directory, data, ref, config)
    return list(read_lines(plain, ref, kinds(directory.log_format)))


def commit_infos(
    directory: LogDirectory, refs: Iterable[TransactionFileRef], config: Config
) -> Iterator[tuple[TransactionFileRef, dict[str, Any]]]:
    """Yield each commit with its commitInfo, `{}` where it has none. Other lines are not read."""
    refs = list(refs)
    names = {directory.file(ref.path): ref for ref in refs}
    for path, data in directory.storage.read_many(list(names)):
        ref = names[path]
        yield ref, commit_info_of(plain_bytes(directory, data, ref, config), ref)


def in_commit_timestamp(
    directory: LogDirectory, ref: TransactionFileRef, config: Config
) -> int | None:
    """Return the in-commit timestamp of one commit, if it has one."""
    for _, info in commit_infos(directory, [ref], config):
        return own_time(info)
    return None


def own_time(info: Mapping[str, Any]) -> int | None:
    """Return the in-commit timestamp that a commitInfo has, if it has one."""
    stamp = info.get("inCommitTimestamp")
    return stamp if type(stamp) is int else None


def commit_info_of(data: bytes, ref: TransactionFileRef) -> dict[str, Any]:
    """Return the commitInfo in the plain bytes of a commit, `{}` where it has none."""
    at = data.find(b'"commitInfo"')
    while at >= 0:
        start = data.rfind(b"\n", 0, at) + 1
        end = data.find(b"\n", at)
        line = data[start : end if end >= 0 else len(data)]
        ordinal = data.count(b"\n", 0, start)
        action = read_line(line, ref, ordinal, _ONLY_INFO)
        if action is not None:
            info = orjson.loads(action.value)
            return info if isinstance(info, dict) else {}
        at = data.find(b'"commitInfo"', start + len(line))
    return {}


def plain_bytes(
    directory: LogDirectory, data: bytes, ref: TransactionFileRef, config: Config
) -> bytes:
    """Return the lines of a commit, whatever they were packed in."""
    if not directory.log_format.compressed_commits:
        return data
    return decode(data, ref.path, config[MAX_DECOMPRESSED_BYTES])
