"""Must every file bring its mapping along? No: the table keeps each once, and files name it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.commit.serialize import Body
from engine.commit.upgrades import allows
from engine.config import PROTOCOL_AUTO_UPGRADE
from engine.replay.docmapping import PREFIX, mapping_hash, mapping_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.commit.known import View
    from engine.commit.serialize import Action
    from engine.config import Config
    from engine.formats import LogFormat


def deduplicated(body: Body, view: View, log_format: LogFormat, config: Config) -> Body:
    """Return a commit whose files name their mappings, and whose metaData holds the new ones.

    Under a protocol that has no names for mappings, and may not be raised, all stays as it is.
    Raises ValueError where a file's name for its mapping is not that of the mapping.
    """
    version = log_format.needs("docMappingRef")
    inline = any((action.get("add") or {}).get("docMappingJson") for action in body.actions)
    if not version or not inline:
        return body
    if not allows(view.protocol, version) and not config[PROTOCOL_AUTO_UPGRADE]:
        return body
    metadata = next((a["metaData"] for a in body.actions if "metaData" in a), view.metadata)
    configuration = dict(metadata.get("configuration") or {})
    before = len(configuration)
    actions = [_named(action, configuration) for action in body.actions]
    if len(configuration) > before:
        rest = [action for action in actions if "metaData" not in action]
        actions = [{"metaData": {**metadata, "configuration": configuration}}, *rest]
    return Body(actions, body.removed)


def mappings_in(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return the mappings that a table holds, by their property."""
    configuration = metadata.get("configuration") or {}
    return {key: text for key, text in configuration.items() if key.startswith(PREFIX)}


def without_mappings(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata but for the mappings, which come with files and change nothing else."""
    configuration = metadata.get("configuration") or {}
    kept = {key: text for key, text in configuration.items() if not key.startswith(PREFIX)}
    return {**{k: v for k, v in metadata.items() if v is not None}, "configuration": kept}


def _named(action: Action, configuration: dict[str, str]) -> Action:
    add = action.get("add")
    text = None if add is None else add.get("docMappingJson")
    if add is None or not isinstance(text, str):
        return action
    name = mapping_hash(text)
    if add.get("docMappingRef") not in {None, name}:
        raise ValueError(
            f"{add.get('path')} names its mapping {add['docMappingRef']}; its name is {name}"
        )
    if mapping_of(name, configuration) is None:
        configuration[PREFIX + name] = text
    rest = {key: value for key, value in add.items() if key != "docMappingJson"}
    return {"add": {**rest, "docMappingRef": name}}
