"""How does an action read? Each as one JSON line, made in bulk from templates."""

from __future__ import annotations

import base64
import hashlib
import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from engine.formats import DELTA, INDEXTABLES
from engine.sample.files import Files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from engine.sample.history import Actions, FileKeys, Skip
    from engine.sample.spec import SampleSpec

_STATS: Final = (
    '{"numRecords":%d,"minValues":{"id":%d,"ts":"%sZ","name":"user-%03d","value":%.2f},'
    '"maxValues":{"id":%d,"ts":"%sZ","name":"user-%03d","value":%.2f},'
    '"nullCount":{"id":0,"ts":0,"name":%d,"value":%d}}'
)
_ESCAPED_STATS: Final = _STATS.replace('"', '\\"')
_LOOSE: Final = ',\\"tightBounds\\":false}'
_VECTOR: Final = (
    ',"deletionVector":{"storageType":"u","pathOrInlineDv":"%s","offset":%d,'
    '"sizeInBytes":%d,"cardinality":%d}'
)
_SPLIT_VALUES: Final = (
    ',"minValues":{"id":"%d","ts":"%sZ","name":"user-%03d","value":"%.2f"},'
    '"maxValues":{"id":"%d","ts":"%sZ","name":"user-%03d","value":"%.2f"}'
)
_DOC_MAPPING: Final = (
    '[{"fast":true,"name":"id","type":"i64"},{"fast":true,"name":"ts","type":"datetime"},'
    '{"name":"name","type":"text"},{"fast":true,"name":"value","type":"f64"}]'
)
_DOC_MAPPING_REF: Final = base64.urlsafe_b64encode(
    hashlib.sha256(_DOC_MAPPING.encode()).digest()
).decode()[:16]
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


class DeltaLines(Lines):
    """The actions of a Delta log."""

    suffix = ".c000.snappy.parquet"
    provider = "parquet"

    def adds(self, keys: FileKeys) -> list[str]:
        """Return the add of each file, with the deletion vector it then had."""
        columns = self.files.columns(keys.ids)
        vectors = self._vectors(keys)
        return [
            f'{{"add":{{"path":"{path}","partitionValues":{partition.values_json},"size":{size},'
            f'"modificationTime":{time},"dataChange":true{stats}{vector}}}}}'
            for path, partition, size, time, stats, vector in zip(
                columns.paths,
                columns.partitions,
                columns.sizes,
                columns.times_ms,
                self._stats(keys, vectors),
                vectors,
                strict=True,
            )
        ]

    def protocol(self) -> dict[str, Any]:
        """Return 1/2, or the table features that the sample uses."""
        spec = self._spec
        both = ["deletionVectors"] if spec.deletion_vectors else []
        if spec.checkpoint_kind.startswith("v2") and spec.checkpoint_versions:
            both.append("v2Checkpoint")
        writer = ["domainMetadata"] if spec.domains else []
        if not both and not writer:
            return {"minReaderVersion": 1, "minWriterVersion": 2}
        writer = ["appendOnly", "invariants", *both, *writer]
        if not both:
            return {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": writer}
        return {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": both,
            "writerFeatures": writer,
        }

    def configuration(self) -> Mapping[str, str]:
        """Return the properties that turn the features on."""
        spec = self._spec
        found = {}
        if spec.deletion_vectors:
            found["delta.enableDeletionVectors"] = "true"
        if spec.checkpoint_kind.startswith("v2") and spec.checkpoint_versions:
            found["delta.checkpointPolicy"] = "v2"
        if spec.checkpoint_every:
            found["delta.checkpointInterval"] = str(spec.checkpoint_every)
        return found

    def _stats(self, keys: FileKeys, vectors: list[str]) -> list[str]:
        if not self._spec.stats:
            return [""] * len(keys)
        texts = [_ESCAPED_STATS % row for row in self.files.statistics(keys.ids)]
        return [
            f',"stats":"{text[:-1]}{_LOOSE}"' if vector else f',"stats":"{text}"'
            for text, vector in zip(texts, vectors, strict=True)
        ]


class IndexTablesLines(Lines):
    """The actions of an IndexTables log."""

    suffix = ".split"
    provider = "indextables"

    def adds(self, keys: FileKeys) -> list[str]:
        """Return the add of each split."""
        columns = self.files.columns(keys.ids)
        return [
            f'{{"add":{{"path":"{path}","partitionValues":{partition.values_json},"size":{size},'
            f'"modificationTime":{time},"dataChange":true{values},"numRecords":{records},'
            f'"footerStartOffset":{size - 4096},"footerEndOffset":{size},"hasFooterOffsets":true,'
            f'"splitTags":["sample"],"numMergeOps":{records % 3},'
            f'"docMappingRef":"{_DOC_MAPPING_REF}","uncompressedSizeBytes":{size * 3}}}}}'
            for path, partition, size, time, records, values in zip(
                columns.paths,
                columns.partitions,
                columns.sizes,
                columns.times_ms,
                columns.records,
                self._values(keys),
                strict=True,
            )
        ]

    def protocol(self) -> dict[str, Any]:
        """Return 3/3: footers, skips, parts of checkpoints and shared schemas."""
        return {"minReaderVersion": 3, "minWriterVersion": 3}

    def configuration(self) -> Mapping[str, str]:
        """Return the schema that the splits share."""
        return {f"docMappingSchema.{_DOC_MAPPING_REF}": _DOC_MAPPING}

    def _values(self, keys: FileKeys) -> list[str]:
        if not self._spec.stats:
            return [""] * len(keys)
        return [_SPLIT_VALUES % row[1:9] for row in self.files.statistics(keys.ids)]


LINES: Final[Mapping[str, type[Lines]]] = {
    DELTA.name: DeltaLines,
    INDEXTABLES.name: IndexTablesLines,
}


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
