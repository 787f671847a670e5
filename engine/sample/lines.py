"""How does an action read? Each as one JSON line, made in bulk; what both formats share."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from engine.sample.files import Files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from engine.sample.history import Actions, FileKeys, Skip
    from engine.sample.spec import SampleSpec

_VECTOR: Final = (
    ',"deletionVector":{"storageType":"u","pathOrInlineDv":"%s","offset":%d,'
    '"sizeInBytes":%d,"cardinality":%d}'
)
_COOLDOWN_MS: Final = 24 * 60 * 60 * 1000


class Lines(ABC):
    """Writes the actions of one sample, one text a line, no newline at its end."""

    suffix: str
    provider: str

    def __init__(self, spec: SampleSpec) -> None:
        self._spec = spec
        self.files = Files(spec, self.suffix)

    @abstractmethod
    def adds(self, keys: FileKeys) -> list[str]:
        """Return the add of each file."""

    def removes(self, keys: FileKeys) -> list[str]:
        """Return the remove of each file, by the version that removed it."""
        columns = self.files.columns(keys.ids)
        times = self.files.times_ms[keys.versions].tolist()
        return [
            f'{{"remove":{{"path":"{path}","deletionTimestamp":{time},"dataChange":true,'
            f'"extendedFileMetadata":true,"partitionValues":{partition.values_json},'
            f'"size":{size}{vector}}}}}'
            for path, time, partition, size, vector in zip(
                columns.paths,
                times,
                columns.partitions,
                columns.sizes,
                self._vectors(keys),
                strict=True,
            )
        ]

    def table(self) -> list[str]:
        """Return the protocol and the metaData."""
        spec = self._spec
        columns = ["date", "hour"] if spec.partitions else []
        types = {"id": "long", "ts": "timestamp", "name": "string", "value": "double"}
        types |= dict(zip(columns, ("date", "integer"), strict=False))
        fields = [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in types.items()
        ]
        metadata = {
            "id": self.files.uuid("table"),
            "name": "sample",
            "format": {"provider": self.provider, "options": {}},
            "schemaString": _json({"type": "struct", "fields": fields}),
            "partitionColumns": columns,
            "configuration": self.configuration(),
            "createdTime": spec.start_ms,
        }
        return [_json({"protocol": self.protocol()}), _json({"metaData": metadata})]

    @abstractmethod
    def protocol(self) -> dict[str, Any]:
        """Return the protocol that what the sample uses asks for."""

    @abstractmethod
    def configuration(self) -> Mapping[str, str]:
        """Return the table's properties."""

    def commit_infos(self, commits: Sequence[Actions]) -> list[str]:
        """Return what each commit says of itself."""
        names = self.files.uuids("txn", np.array([c.version for c in commits], np.int64))
        return [self._commit_info(c, name) for c, name in zip(commits, names, strict=True)]

    def others(self, actions: Actions) -> list[str]:
        """Return the txns, the domains and the skips."""
        return [
            *(
                f'{{"txn":{{"appId":"stream-{app}","version":{progress},'
                f'"lastUpdated":{self.time_ms(version)}}}}}'
                for app, (progress, version) in sorted(actions.txns.items())
            ),
            *(
                _json({"domainMetadata": self._domain(domain, version, is_set=is_set)})
                for domain, (is_set, version) in sorted(actions.domains.items())
            ),
            *self._skips(actions.skips.values()),
        ]

    def time_ms(self, version: int) -> int:
        """Return when a version was committed."""
        return int(self.files.times_ms[version])

    def _commit_info(self, commit: Actions, name: str) -> str:
        version, removed = commit.version, len(commit.removed)
        parameters = {"matchedPredicates": "[]"} if removed else {"mode": "Append"}
        operation = "MERGE" if removed else "WRITE"
        entry = {
            "timestamp": self.time_ms(version),
            "operation": operation if version else "CREATE TABLE AS SELECT",
            "operationParameters": parameters,
            **({"readVersion": version - 1} if version else {}),
            "isolationLevel": "Serializable",
            "isBlindAppend": not removed,
            "operationMetrics": {
                "numTargetFilesAdded": str(len(commit.added)),
                "numTargetFilesRemoved": str(removed),
                "executionTimeMs": str(500 + version % 1000),
            },
            "engineInfo": "txlog-sample",
            "txnId": name,
        }
        return _json({"commitInfo": entry})

    def _vectors(self, keys: FileKeys) -> list[str]:
        if not keys.vectors.any():
            return [""] * len(keys)
        found = self.files.vectors(keys.ids, keys.vectors)
        return [_VECTOR % vector if vector else "" for vector in found]

    def _domain(self, domain: int, version: int, *, is_set: bool) -> dict[str, Any]:
        return {
            "domain": f"sample.domain-{domain}",
            "configuration": _json({"setBy": version}) if is_set else "",
            "removed": not is_set,
        }

    def _skips(self, skips: Iterable[Skip]) -> list[str]:
        skips = list(skips)
        if not skips:
            return []
        columns = self.files.columns(np.array([skip.file for skip in skips], np.int64))
        return [
            f'{{"mergeskip":{{"path":"{path}","skipTimestamp":{time},"reason":"split is corrupt",'
            f'"operation":"merge","partitionValues":{partition.values_json},"size":{size},'
            f'"retryAfter":{time + _COOLDOWN_MS},"skipCount":{skip.count}}}}}'
            for skip, path, partition, size, time in zip(
                skips,
                columns.paths,
                columns.partitions,
                columns.sizes,
                [self.time_ms(skip.version) for skip in skips],
                strict=True,
            )
        ]


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
