"""How does an action of an IndexTables log read?"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any, Final

from engine.sample.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.sample.history import FileKeys

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
