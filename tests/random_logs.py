"""Random logs for hypothesis: what is said, and, apart from it, how it is written down."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from tests.logs import PACKINGS, SHAPES, Action, Layout, LogBuilder, Shape, metadata

if TYPE_CHECKING:
    from pathlib import Path

FORMATS = ("delta", "indextables")

# Few paths, so that they meet; $ROOT becomes the table's root, whose files have two more spellings.
PATHS = (
    "a",
    "b=1/part-0.parquet",
    "b=x%20y/c d.parquet",
    "ü/日本.parquet",
    "$ROOT/a",
    "file://$ROOT/a",
    "file:$ROOT/b=1/part-0.parquet",
    "/elsewhere/a",
    "s3://bucket/t/a",
    'quote"back\\slash\ttab',
    "x" * 70,
)

# Drawing every field of every line from hypothesis is slow. It draws whole lines instead, from a
# few hundred that are made once, the same in every run.
Maker = Callable[[Random], Any]


def one_of(*values: Any) -> Maker:
    return lambda rng: rng.choice(values)


def number(rng: Random) -> int:
    return rng.choice([0, 1, rng.randrange(10**6), rng.randrange(-(2**63), 2**63), 2**63 - 1])


flag = one_of(True, False)
text = one_of(
    "", "x", "2024-01-01", "2024-01-01T00:00:00Z", "1", "null", "ü\u2028\U0001f600", '"\\\n\0'
)


def tags(rng: Random) -> dict[str, Any]:
    keys = rng.sample(["k", "l", "m.n", "", "ü"], rng.randrange(4))
    return {key: rng.choice([None, text(rng)]) for key in keys}


def partition_values(rng: Random) -> dict[str, Any]:
    shape = rng.randrange(4)
    if shape == 0:
        return {}
    if shape == 1:
        return {"b": text(rng)}
    return {key: rng.choice([None, text(rng)]) for key in rng.sample(["b", "c"], shape - 1)}


stats = one_of(
    '{"numRecords":3}', '{"minValues":{"a":"\\""},"numRecords":4}', '{"numRecords":null}', "", "{"
)
unknown = one_of(1, "x", 1.5, None, True, [1, "a"], [], {"path": "p"}, {"deep": [{}]}, 2**70)


def vector(rng: Random) -> dict[str, Any]:
    found = {"storageType": rng.choice("uip"), "pathOrInlineDv": rng.choice(["dv1", "dv2"])}
    optional = {"offset": one_of(None, 0, 1), "sizeInBytes": one_of(36), "cardinality": one_of(2)}
    return found | {name: make(rng) for name, make in optional.items() if rng.random() < 0.6}


def texts(rng: Random) -> list[str]:
    return [text(rng) for _ in range(rng.randrange(3))]


small = one_of(0, 1, 9)
path = one_of(*PATHS)
ADD = {
    "partitionValues": partition_values,
    "size": number,
    "modificationTime": number,
    "dataChange": flag,
    "stats": stats,
    "tags": tags,
}
REMOVE = {
    "deletionTimestamp": number,
    "dataChange": flag,
    "extendedFileMetadata": flag,
    "partitionValues": partition_values,
    "size": number,
    "tags": tags,
}
ROW_TRACKING = {"baseRowId": number, "defaultRowCommitVersion": number}
INDEXTABLES_ADD = {
    "minValues": tags,
    "maxValues": tags,
    "numRecords": number,
    "footerStartOffset": number,
    "footerEndOffset": number,
    "hotcacheStartOffset": number,
    "hotcacheLength": number,
    "hasFooterOffsets": flag,
    "timeRangeStart": text,
    "timeRangeEnd": text,
    "splitTags": texts,
    "deleteOpstamp": number,
    "numMergeOps": small,
    "docMappingJson": text,
    "docMappingRef": text,
    "uncompressedSizeBytes": number,
    "companionSourceFiles": texts,
    "companionDeltaVersion": number,
    "companionFastFieldMode": text,
}


def action(kind: str, key: dict[str, Maker], fields: dict[str, Maker]) -> Maker:
    """Make an action: with the same few fields, as lines usually are, or with any at all."""

    def make(rng: Random) -> Action:
        value = {name: field(rng) for name, field in key.items()}
        if rng.random() < 0.5:
            chosen = list(fields)[:4]
        else:
            chosen = [name for name in fields if rng.random() < 0.5]
            if rng.random() < 0.3:
                value["unknownField"] = unknown(rng)
        for name in chosen:
            value[name] = None if rng.random() < 0.1 else fields[name](rng)
        return {kind: value}

    return make


def some_protocol(rng: Random) -> Action:
    reader = rng.choice([1, 2])
    features: dict[str, Any] = rng.choice([{}, {"readerFeatures": None}])
    return {"protocol": {"minReaderVersion": reader, "minWriterVersion": 4, **features}}


def some_metadata(rng: Random) -> Action:
    columns = rng.choice([(), ("b",), ("b", "c")])
    name = rng.choice([None, "t"])
    return metadata(*columns, configuration=tags(rng), name=name, unknownField=unknown(rng))


common: list[Maker] = [
    action("txn", {"appId": one_of("app", "ü", "z")}, {"version": number, "lastUpdated": number}),
    some_protocol,
    some_metadata,
    one_of(
        {"commitInfo": {"operation": "WRITE", "operationParameters": {"mode": 1, "x": [{}]}}},
        {"commitInfo": {"timestamp": "text here, a number there", "inCommitTimestamp": 5}},
        {"unknownAction": {"path": "a"}},
        {"unknownAction": None},
        {},
    ),
]
key = {"path": path}
file_makers: dict[str, list[Maker]] = {
    "delta": [
        action(
            "add", key, ADD | {"deletionVector": vector, "clusteringProvider": text} | ROW_TRACKING
        ),
        action("remove", key, REMOVE | {"stats": stats, "deletionVector": vector} | ROW_TRACKING),
    ],
    "indextables": [action("add", key, ADD | INDEXTABLES_ADD), action("remove", key, REMOVE)],
}
other_makers: dict[str, list[Maker]] = {
    "delta": [
        action(
            "domainMetadata",
            {"domain": one_of("d1", "d2"), "removed": flag},
            {"configuration": text},
        ),
        one_of({"cdc": {"path": "a", "partitionValues": {}, "size": 1, "dataChange": False}}),
        *common,
    ],
    "indextables": [
        action(
            "mergeskip",
            key,
            {
                "skipTimestamp": number,
                "reason": text,
                "operation": text,
                "partitionValues": partition_values,
                "size": number,
                "retryAfter": number,
                "skipCount": small,
            },
        ),
        *common,
    ],
}


def pool(makers: Sequence[Maker], count: int) -> st.SearchStrategy[Action]:
    rng = Random(7)
    return st.sampled_from([make(rng) for make in makers for _ in range(count)])


files = {log_format: pool(file_makers[log_format], 300) for log_format in FORMATS}
lines = {
    log_format: st.one_of(files[log_format], pool(other_makers[log_format], 30))
    for log_format in FORMATS
}
heads = st.tuples(pool([some_protocol], 4), pool([some_metadata], 20))
layouts = {
    log_format: pool(
        [
            lambda rng, log_format=log_format: Layout(
                separators=rng.choice([(",", ":"), (",", ":"), (", ", ": ")]),
                indent=rng.choice(["", "", "", " \t"]),
                newline=rng.choice(["\n", "\n", "\r\n"]),
                blank_after=frozenset(rng.sample(range(9), rng.choice([0, 0, 1, 2]))),
                ends_with_newline=flag(rng),
                packing=rng.choice(list(PACKINGS)) if log_format == "indextables" else "plain",
                ascii_only=flag(rng),
            )
        ],
        60,
    )
    for log_format in FORMATS
}


@dataclass(frozen=True)
class RandomLog:
    """Everything about a log but where it is."""

    log_format: str
    commits: list[list[Action]]
    layouts: list[Layout]
    compactions: list[tuple[int, int, str]]
    checkpoints: list[tuple[int, Shape, int]]
    hint: int | None
    is_cleaned: bool

    def write(self, root: Path) -> LogBuilder:
        """Write the log into a fresh directory."""
        shutil.rmtree(root, ignore_errors=True)
        log = LogBuilder(root, self.log_format)
        for actions, layout in zip(self.commits, self.layouts, strict=True):
            log.commit(*_at(actions, str(root)), layout=layout)
        for start, end, suffix in self.compactions:
            log.compaction(start, end, suffix=suffix, layout=self.layouts[start])
        for version, shape, parts in self.checkpoints:
            log.checkpoint(version, shape, parts=parts, layout=self.layouts[version])
        if self.hint is not None:
            log.hint(self.hint)
        if self.is_cleaned and self.checkpoints:
            log.clean_up(self.first)
        return log

    @property
    def first(self) -> int:
        """The oldest version that can be read."""
        newest = max((version for version, _, _ in self.checkpoints), default=0)
        return newest if self.is_cleaned else 0

    @property
    def latest(self) -> int:
        return len(self.commits) - 1


@st.composite
def random_logs(draw: st.DrawFn) -> RandomLog:
    log_format = draw(st.sampled_from(FORMATS))
    # Many lines now and then: the fast reader keeps aside the first and the last of a file.
    content = st.one_of(
        st.lists(files[log_format], max_size=6),
        st.lists(lines[log_format], max_size=8),
        st.lists(lines[log_format], min_size=18, max_size=25),
    )
    commits = draw(st.lists(content, min_size=1, max_size=6))
    first = [*draw(heads), *commits[0][:6]]
    commits[0] = first[::-1] if draw(st.booleans()) else first
    versions = st.integers(0, len(commits) - 1)
    spans = st.tuples(versions, versions).filter(lambda span: span[0] < span[1])
    suffixes = ["json", "json", "parquet"] if log_format == "indextables" else ["json"]
    compactions = (
        draw(
            st.lists(st.builds(lambda s, x: (*s, x), spans, st.sampled_from(suffixes)), max_size=3)
        )
        if len(commits) > 1
        else []
    )
    checkpoints = draw(
        st.lists(
            st.tuples(versions, st.sampled_from(SHAPES[log_format]), st.integers(2, 3)), max_size=2
        )
    )
    return RandomLog(
        log_format,
        commits,
        draw(st.lists(layouts[log_format], min_size=len(commits), max_size=len(commits))),
        compactions,
        checkpoints,
        draw(st.none() | st.integers(0, 12)),
        draw(st.booleans()),
    )


def _at(value: Any, root: str) -> Any:
    """Put the table's root into paths."""
    if isinstance(value, list):
        return [_at(item, root) for item in value]
    if isinstance(value, dict):
        return {key: _at(item, root) for key, item in value.items()}
    return value.replace("$ROOT", root) if isinstance(value, str) else value
