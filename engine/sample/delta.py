"""How does an action of a Delta log read?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from engine.sample.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.sample.history import FileKeys

_STATS: Final = (
    '{"numRecords":%d,"minValues":{"id":%d,"ts":"%sZ","name":"user-%03d","value":%.2f},'
    '"maxValues":{"id":%d,"ts":"%sZ","name":"user-%03d","value":%.2f},'
    '"nullCount":{"id":0,"ts":0,"name":%d,"value":%d}}'
)
_ESCAPED_STATS: Final = _STATS.replace('"', '\\"')
_LOOSE: Final = ',\\"tightBounds\\":false}'


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
