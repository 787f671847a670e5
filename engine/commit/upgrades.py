"""Which protocol does a commit need? Where the table's is lower, the same commit raises it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.commit.features import with_implied
from engine.commit.serialize import Body
from engine.config import PROTOCOL_AUTO_UPGRADE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.commit.known import View
    from engine.commit.serialize import Action
    from engine.config import Config
    from engine.formats import LogFormat


def raised(
    protocol: Mapping[str, Any],
    reader: int,
    writer: int,
    log_format: LogFormat,
    reader_features: Sequence[str] = (),
    writer_features: Sequence[str] = (),
) -> dict[str, Any]:
    """Return a protocol that asks for at least this; what it asks for already, it keeps."""
    new: dict[str, Any] = {
        "minReaderVersion": max(protocol.get("minReaderVersion") or 1, reader),
        "minWriterVersion": max(protocol.get("minWriterVersion") or 1, writer),
    }
    both = (("readerFeatures", reader_features), ("writerFeatures", writer_features))
    for name, more in both:
        if listed := sorted({*(protocol.get(name) or ()), *more}):
            new[name] = listed
    return with_implied(protocol, new, log_format)


def allows(protocol: Mapping[str, Any], version: int) -> bool:
    """Tell whether what `version` of a protocol brought may be used under this one."""
    versions = (protocol.get("minReaderVersion") or 1, protocol.get("minWriterVersion") or 1)
    return min(versions) >= version


def upgraded(body: Body, view: View, log_format: LogFormat, config: Config) -> Body:
    """Return a commit that raises the table's protocol, where what it says needs that.

    Raises ValueError where it needs it and tables are not to be upgraded on the way.
    """
    given = next((a["protocol"] for a in body.actions if "protocol" in a), view.protocol)
    said = ((v, name) for name, v in log_format.needed_versions if _says(body.actions, name))
    wanted, name = max(said, default=(0, ""))
    if allows(given, wanted):
        return body
    if not config[PROTOCOL_AUTO_UPGRADE]:
        raise ValueError(
            f"{name} needs protocol version {wanted}, and the table's is lower; raise it with "
            f"upgrade_protocol({wanted}, {wanted}), or let {PROTOCOL_AUTO_UPGRADE.key} be true"
        )
    protocol = {"protocol": raised(given, wanted, wanted, log_format)}
    rest = [action for action in body.actions if "protocol" not in action]
    return Body([protocol, *rest], body.removed)


def _says(actions: Sequence[Action], name: str) -> bool:
    """Tell whether there is an action of this name, or an add with a field of this name."""
    return any(
        name in action or (action.get("add") or {}).get(name) is not None for action in actions
    )
