"""A sound log, and what may be wrong with one: each defect planted, with the code that tells it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.logs import LogBuilder, Shape, add, metadata, protocol, remove, state_actions, vector

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Actions = list[dict[str, Any]]

START = 1_700_000_000_000
NOW = START + 86_400_000
DAY = 86_400_000
FEATURES = ["deletionVectors", "v2Checkpoint"]
WRITERS = [*FEATURES, "appendOnly", "domainMetadata", "inCommitTimestamp", "invariants"]
DV = "ab^-aqEH.-t@S}K{vb[*k^"
DV_FILE = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


def values(part: str | None, number: str | None) -> dict[str, Any]:
    return {"partitionValues": {"part": part, "number": number}}


def file(path: str, part: str = "x", number: str = "1", size: int = 100, **fields: Any) -> Any:
    return add(path, size=size, **values(part, number), **fields)


def gone(path: str, **fields: Any) -> Any:
    return remove(path, **{"deletionTimestamp": NOW - 1_000, **fields})


def info(version: int, **fields: Any) -> Any:
    return {"commitInfo": {"inCommitTimestamp": START + version, "operation": "WRITE", **fields}}


def domain(name: str, *, removed: bool = False) -> Any:
    return {"domainMetadata": {"domain": name, "configuration": "{}", "removed": removed}}


def txn(app: str, version: int) -> Any:
    return {"txn": {"appId": app, "version": version, "lastUpdated": START}}


def sound_log(root: Path) -> LogBuilder:
    """Write a log with everything a log may have, and its data, all of it sound."""
    log = LogBuilder(root / "table")
    schema = json.loads(metadata("part", "number")["metaData"]["schemaString"])
    schema["fields"][2]["type"] = "integer"
    about = metadata("part", "number", schemaString=json.dumps(schema))
    about["metaData"]["configuration"] = {"delta.enableInCommitTimestamps": "true"}
    b = vector(DV)
    log.commit(info(0), protocol(3, 7, readerFeatures=FEATURES, writerFeatures=WRITERS), about)
    log.commit(info(1), file("a"), file("b"), txn("app", 1), domain("kept"), domain("dropped"))
    log.commit(info(2), file("part=x/c", baseRowId=7), gone("a"), txn("app", 2))
    log.commit(info(3), gone("b"), file("b", deletionVector=b))
    log.commit(info(4), domain("dropped", removed=True), gone("part=x/c"), file("d", "y", "2"))
    log.commit(info(5), file("e", "", "-3"), txn("other", 1))
    log.commit(info(6), file("f", size=7))
    log.checkpoint(3)
    log.checkpoint(5, Shape.V2_JSON_SIDECARS)
    log.compaction(1, 2)
    log.compaction(4, 6)
    for version in range(7):
        checksum(log, version)
    log.hint(5)
    for name, size in {"b": 100, "d": 100, "e": 100, "f": 7}.items():
        (log.root / name).write_bytes(b"." * size)
    folder = log.root / "ab"
    folder.mkdir()
    (folder / DV_FILE).write_bytes(b"." * 45)
    return log


def sound_splits(root: Path) -> LogBuilder:
    """Write a sound log of IndexTables."""
    log = LogBuilder(root / "splits", "indextables")
    log.commit(protocol(2, 2), metadata())
    log.commit(add("a.split", numRecords=1), add("b.split"))
    log.commit(remove("a.split"), {"mergeskip": {**SKIP, "path": "b.split"}})
    log.commit(add("c.split"), txn("app", 1))
    log.checkpoint(3, Shape.JSON_LINES)
    log.compaction(1, 2, suffix="parquet")
    log.commit(remove("b.split"), add("b.split"))
    log.hint(3)
    return log


SKIP = {"skipTimestamp": START, "reason": "r", "operation": "merge", "skipCount": 1}


def checksum(log: LogBuilder, version: int, **fields: Any) -> None:
    """Write the checksum file of a version, true but for `fields`."""
    won = log.truth(version)
    live = list(won.files.values())
    content = {
        "txnId": "t",
        "tableSizeBytes": sum(file["size"] for file in live),
        "numFiles": len(live),
        "numMetadata": 1,
        "numProtocol": 1,
        "inCommitTimestampOpt": START + version,
        "numDeletionVectorsOpt": sum("deletionVector" in file for file in live),
        "protocol": won.singles["protocol"],
        "metadata": won.singles["metaData"],
        "setTransactions": list(won.keyed["txn"].values()),
        "domainMetadata": [d for d in won.keyed["domainMetadata"].values() if not d["removed"]],
        "allFiles": live,
        **fields,
    }
    log.write(f"{version:020d}.crc", json.dumps(content).encode())


@dataclass(frozen=True)
class Defect:
    """What is planted, how, and the code that must tell it."""

    says: str
    code: str
    plant: Callable[[LogBuilder], object]
    deep: bool = False

    @property
    def name(self) -> str:
        return self.says.replace(" ", "-")


DEFECTS: list[Defect] = []


def defect(code: str, says: str, *, deep: bool = False) -> Any:
    def register(plant: Callable[[LogBuilder], object]) -> Any:
        DEFECTS.append(Defect(says, code, plant, deep))
        return plant

    return register


def lines(log: LogBuilder, version: int) -> Actions:
    return [json.loads(line) for line in log.commit_path(version).read_text().splitlines()]


def rewrite(log: LogBuilder, version: int, actions: Actions) -> None:
    log.commit_path(version).write_text("".join(json.dumps(action) + "\n" for action in actions))


def append(log: LogBuilder, *actions: Any) -> None:
    """Commit one more version."""
    log.commit(info(log.version + 1), *actions)


def one(log: LogBuilder, pattern: str) -> Path:
    (found,) = log.directory.glob(pattern)
    return found


def checkpoint(log: LogBuilder, edit: Callable[[Actions], Actions]) -> None:
    """Write the checkpoint of version 3 as `edit` makes it."""
    actions = edit(state_actions(log.truth(3)))
    log._write_parquet(f"{3:020d}.checkpoint.parquet", actions)


def contradict(log: LogBuilder) -> None:
    """Let the checkpoint of version 3 have lost a file, and nothing older be there to tell."""
    checkpoint(log, without("add", path="b"))
    log.clean_up(3)


def compaction(log: LogBuilder, start: int, end: int, edit: Callable[[Actions], Actions]) -> None:
    """Write a compaction as `edit` makes it."""
    path = log.compaction(start, end)
    actions = edit([json.loads(line) for line in path.read_text().splitlines()])
    path.write_text("".join(json.dumps(action) + "\n" for action in actions))


def without(kind: str, **fields: Any) -> Callable[[Actions], Actions]:
    """Return an edit that drops the actions of a kind with these fields."""

    def edit(actions: Actions) -> Actions:
        kept = [
            action
            for action in actions
            if kind not in action or any(action[kind].get(k) != v for k, v in fields.items())
        ]
        assert len(kept) < len(actions)
        return kept

    return edit


def changed(kind: str, key: dict[str, Any], **fields: Any) -> Callable[[Actions], Actions]:
    """Return an edit that gives the action of a key other fields."""

    def edit(actions: Actions) -> Actions:
        return [
            {kind: {**action[kind], **fields}}
            if kind in action and all(action[kind].get(k) == v for k, v in key.items())
            else action
            for action in actions
        ]

    return edit


# --- the files of the log ------------------------------------------------------------------------


@defect("GAP", "a commit is missing")
def _(log: LogBuilder) -> None:
    append(log, file("g"))
    append(log, file("h"))
    log.commit_path(7).unlink()


@defect("OLD_GAP", "a commit below the checkpoint is missing")
def _(log: LogBuilder) -> None:
    log.commit_path(2).unlink()


@defect("NO_START", "the first commits are gone and there is no checkpoint")
def _(log: LogBuilder) -> None:
    for path in log.directory.glob("*.checkpoint*"):
        path.unlink()
    log.clean_up(2)


@defect("UNREADABLE_COMMIT", "the last commit is torn")
def _(log: LogBuilder) -> None:
    path = log.commit_path(6)
    path.write_bytes(path.read_bytes()[:-20])


@defect("UNREADABLE_COMMIT", "an old commit is garbage")
def _(log: LogBuilder) -> None:
    log.commit_path(2).write_bytes(b"\x00\xff\x00")


@defect("EMPTY_COMMIT", "a commit of 0 bytes")
def _(log: LogBuilder) -> None:
    log.write(f"{7:020d}.json", b"")


@defect("UNREADABLE_CHECKPOINT", "a checkpoint is cut off")
def _(log: LogBuilder) -> None:
    path = log.file(f"{3:020d}.checkpoint.parquet")
    path.write_bytes(path.read_bytes()[:-9])


@defect("EMPTY_CHECKPOINT", "a checkpoint of 0 bytes")
def _(log: LogBuilder) -> None:
    log.write(f"{4:020d}.checkpoint.parquet", b"")


@defect("INCOMPLETE_CHECKPOINT", "one part of a multi-part checkpoint is missing")
def _(log: LogBuilder) -> None:
    log.checkpoint(4, Shape.MULTI_PART, parts=3)[1].unlink()


@defect("MISSING_SIDECAR", "a sidecar is lost")
def _(log: LogBuilder) -> None:
    next((log.directory / "_sidecars").iterdir()).unlink()


@defect("SIDECAR_SIZE", "a sidecar is not of the size its checkpoint says")
def _(log: LogBuilder) -> None:
    path = one(log, f"{5:020d}.checkpoint.*.json")
    path.write_text(path.read_text().replace('"sizeInBytes":', '"sizeInBytes":1'))


@defect("ORPHAN_SIDECAR", "a sidecar that no checkpoint names")
def _(log: LogBuilder) -> None:
    log.write("_sidecars/orphan.parquet", b"x")


@defect("UNREADABLE_COMPACTION", "a compaction is torn")
def _(log: LogBuilder) -> None:
    path = one(log, "*1.*2.compacted.json")
    path.write_bytes(path.read_bytes()[:-20])


@defect("UNREADABLE_COMPACTION", "a compaction of 0 bytes")
def _(log: LogBuilder) -> None:
    one(log, "*1.*2.compacted.json").write_bytes(b"")


@defect("UNREADABLE_CHECKSUM", "a checksum file is garbage")
def _(log: LogBuilder) -> None:
    log.write(f"{4:020d}.crc", b"{")


@defect("HINT_UNREADABLE", "the hint is garbage")
def _(log: LogBuilder) -> None:
    log.hint(b"{'version'")


@defect("HINT_DANGLING", "the hint names a checkpoint that is not there")
def _(log: LogBuilder) -> None:
    log.hint(4)


@defect("HINT_WRONG", "the hint says parts where there is one file")
def _(log: LogBuilder) -> None:
    log.hint(5, parts=3)


@defect("HINT_STALE", "the hint is older than the newest checkpoint")
def _(log: LogBuilder) -> None:
    log.hint(3)


@defect("UNKNOWN_FILE", "a file that is no part of a log")
def _(log: LogBuilder) -> None:
    log.write("00000000000000000004.json.bak", b"x")


@defect("STAGING_LEFTOVER", "a run that died left its staged files")
def _(log: LogBuilder) -> None:
    (log.directory / ".txlog-staging" / "1700000000000-abc").mkdir(parents=True)


@defect("ORPHAN_CHECKSUM", "a checksum of a version that never was")
def _(log: LogBuilder) -> None:
    log.write(f"{9:020d}.crc", b"{}")


@defect("OVERLAPPING_COMPACTIONS", "two compactions overlap")
def _(log: LogBuilder) -> None:
    log.compaction(2, 5)


# --- time ----------------------------------------------------------------------------------------


@defect("TIME_BACKWARDS", "a commit is older than the one before it")
def _(log: LogBuilder) -> None:
    log.modified(4, START - DAY)


@defect("COMMIT_TIME_BACKWARDS", "an in-commit timestamp does not grow")
def _(log: LogBuilder) -> None:
    log.commit(info(6), file("g"))


@defect("COMMIT_TIME_MISSING", "a commit has no in-commit timestamp")
def _(log: LogBuilder) -> None:
    log.commit({"commitInfo": {"operation": "WRITE"}}, file("g"))


@defect("COMMIT_INFO_NOT_FIRST", "commitInfo comes after the files")
def _(log: LogBuilder) -> None:
    log.commit(file("g"), info(7))


# --- what a table is -----------------------------------------------------------------------------


@defect("NO_PROTOCOL", "nothing tells the protocol")
def _(log: LogBuilder) -> None:
    drop_derived(log)
    rewrite(log, 0, [action for action in lines(log, 0) if "protocol" not in action])


@defect("NO_METADATA", "nothing tells the metaData")
def _(log: LogBuilder) -> None:
    drop_derived(log)
    rewrite(log, 0, [action for action in lines(log, 0) if "metaData" not in action])


@defect("PROTOCOL_UNSUPPORTED", "the table needs an unknown reader feature")
def _(log: LogBuilder) -> None:
    unknown = [*FEATURES, "teleportation"]
    append(log, protocol(3, 7, readerFeatures=unknown, writerFeatures=[*WRITERS, "teleportation"]))


@defect("PROTOCOL_ILLEGAL", "a reader feature that writers are not told of")
def _(log: LogBuilder) -> None:
    append(log, protocol(3, 7, readerFeatures=[*FEATURES, "timestampNtz"], writerFeatures=WRITERS))


@defect("PROTOCOL_ILLEGAL", "a deletion vector feature that readers are not told of")
def _(log: LogBuilder) -> None:
    append(log, protocol(3, 7, readerFeatures=["v2Checkpoint"], writerFeatures=WRITERS))


@defect("PROTOCOL_EMPTY_FEATURES", "an empty feature list instead of none")
def _(log: LogBuilder) -> None:
    append(log, protocol(1, 7, readerFeatures=[], writerFeatures=["appendOnly", "domainMetadata"]))


@defect("PROTOCOL_EMPTY_FEATURES", "a checkpoint with empty feature lists, and its commits without")
def _(log: LogBuilder) -> None:
    drop_derived(log)
    bare = changed("protocol", {}, minReaderVersion=1, minWriterVersion=2)
    none = changed("protocol", {}, readerFeatures=None, writerFeatures=None)
    rewrite(log, 0, none(bare(lines(log, 0))))
    empty = changed("protocol", {}, readerFeatures=[], writerFeatures=[])
    checkpoint(log, lambda actions: empty(bare(actions)))


@defect("FEATURE_NOT_DECLARED", "deletion vectors that no feature announces")
def _(log: LogBuilder) -> None:
    drop_derived(log)
    named = ["domainMetadata", "inCommitTimestamp"]
    edited = changed("protocol", {}, minReaderVersion=1, readerFeatures=None, writerFeatures=named)
    rewrite(log, 0, edited(lines(log, 0)))


@defect("SCHEMA_INVALID", "a schema that is not JSON")
def _(log: LogBuilder) -> None:
    append(log, *changed("metaData", {}, schemaString="{")(lines(log, 0))[2:])


@defect("PARTITION_COLUMN_UNKNOWN", "a partition column that the schema does not have")
def _(log: LogBuilder) -> None:
    append(log, *changed("metaData", {}, partitionColumns=["part", "nope"])(lines(log, 0))[2:])


@defect("TABLE_ID_CHANGED", "the log of another table goes on here")
def _(log: LogBuilder) -> None:
    append(log, *changed("metaData", {}, id="another")(lines(log, 0))[2:])


# --- actions -------------------------------------------------------------------------------------


@defect("CONFLICTING_ACTIONS", "one commit adds and removes a file")
def _(log: LogBuilder) -> None:
    append(log, file("g"), gone("g"))


@defect("CONFLICTING_ACTIONS", "one commit has two protocols")
def _(log: LogBuilder) -> None:
    both = lines(log, 0)[1]
    append(log, both, both)


@defect("DUPLICATE_ACTION", "one commit adds a file twice")
def _(log: LogBuilder) -> None:
    append(log, file("g"), file("g"))


@defect("DUPLICATE_ACTION", "one commit has two versions of one application")
def _(log: LogBuilder) -> None:
    append(log, txn("app", 3), txn("app", 4))


@defect("FILE_LIVE_TWICE", "a new deletion vector whose old file was not removed")
def _(log: LogBuilder) -> None:
    append(log, file("d", "y", "2", deletionVector=vector(DV, 50)))


@defect("UNKNOWN_REMOVE", "a remove of what never was")
def _(log: LogBuilder) -> None:
    append(log, gone("never"))


@defect("PARTITION_VALUES", "a file without a value for a partition column")
def _(log: LogBuilder) -> None:
    append(log, add("g", partitionValues={"part": "x"}))


@defect("PARTITION_VALUES", "a file with a value for a column that is none")
def _(log: LogBuilder) -> None:
    append(log, add("g", partitionValues={"part": "x", "number": "1", "hour": "2"}))


@defect("PARTITION_VALUE_TYPE", "a partition value that is not of its type")
def _(log: LogBuilder) -> None:
    append(log, file("g", number="many"))


@defect("PATH_OUTSIDE", "a path that climbs out of the table")
def _(log: LogBuilder) -> None:
    append(log, file("../other/g"))


@defect("PATH_OUTSIDE", "an escaped path that climbs out of the table")
def _(log: LogBuilder) -> None:
    append(log, file("x/%2e%2e/%2e%2e/g"))


@defect("PATH_OUTSIDE", "a data file inside the log")
def _(log: LogBuilder) -> None:
    append(log, file("_delta_log/00000000000000000000.json"))


@defect("PATH_ABSOLUTE", "a data file of another table")
def _(log: LogBuilder) -> None:
    append(log, file("s3://elsewhere/g"))


@defect("MISSING_FIELD", "an add without its modification time")
def _(log: LogBuilder) -> None:
    append(log, file("g", modificationTime=None))


@defect("BAD_SIZE", "a file of a negative size")
def _(log: LogBuilder) -> None:
    append(log, file("g", size=-1))


@defect("BAD_STATS", "statistics that are not JSON", deep=True)
def _(log: LogBuilder) -> None:
    append(log, file("g", stats="{numRecords"))


@defect("APPEND_ONLY", "data removed from an append-only table")
def _(log: LogBuilder) -> None:
    on = {"delta.appendOnly": "true", "delta.enableInCommitTimestamps": "true"}
    append(log, *changed("metaData", {}, configuration=on)(lines(log, 0))[2:])
    append(log, gone("f"))


@defect("ILLEGAL_ACTION", "a commit with a sidecar")
def _(log: LogBuilder) -> None:
    append(log, {"sidecar": {"path": "s", "sizeInBytes": 1, "modificationTime": 1}})


@defect("ILLEGAL_ACTION", "a compaction that kept commitInfo")
def _(log: LogBuilder) -> None:
    compaction(log, 1, 2, lambda actions: [info(2), *actions])


# --- checkpoints ---------------------------------------------------------------------------------


@defect("CHECKPOINT_LOST_FILES", "a checkpoint lost a file")
def _(log: LogBuilder) -> None:
    checkpoint(log, without("add", path="part=x/c"))


@defect("CHECKPOINT_EXTRA_FILES", "a checkpoint kept a file that was removed")
def _(log: LogBuilder) -> None:
    checkpoint(log, lambda actions: [*without("remove", path="a")(actions), file("a")])


@defect("CHECKPOINT_LOST_FILES", "a checkpoint took a file for another by its path alone")
def _(log: LogBuilder) -> None:
    checkpoint(log, changed("add", {"path": "b"}, deletionVector=None))


@defect("CHECKPOINT_DIFFERS", "a checkpoint with another size of a file")
def _(log: LogBuilder) -> None:
    checkpoint(log, changed("add", {"path": "b"}, size=99))


@defect("CHECKPOINT_DIFFERS", "a checkpoint with another partition of a file")
def _(log: LogBuilder) -> None:
    checkpoint(log, changed("add", {"path": "b"}, **values("z", "1")))


@defect("CHECKPOINT_DIFFERS", "a checkpoint that dropped row ids")
def _(log: LogBuilder) -> None:
    checkpoint(log, changed("add", {"path": "part=x/c"}, baseRowId=None))


@defect("CHECKPOINT_DUPLICATE", "a checkpoint has a file twice")
def _(log: LogBuilder) -> None:
    checkpoint(log, lambda actions: [*actions, file("part=x/c", baseRowId=7)])


@defect("CHECKPOINT_ADD_AND_REMOVE", "a checkpoint has an add and a remove of one file")
def _(log: LogBuilder) -> None:
    checkpoint(log, lambda actions: [*actions, gone("part=x/c")])


@defect("CHECKPOINT_LOST_TOMBSTONES", "a checkpoint lost a fresh tombstone")
def _(log: LogBuilder) -> None:
    checkpoint(log, without("remove", path="a"))


@defect("CHECKPOINT_LOST_TXN", "a checkpoint lost an application's version")
def _(log: LogBuilder) -> None:
    checkpoint(log, without("txn", appId="app"))


@defect("CHECKPOINT_LOST_TXN", "a checkpoint has an older version of an application")
def _(log: LogBuilder) -> None:
    checkpoint(log, changed("txn", {"appId": "app"}, version=1))


@defect("CHECKPOINT_LOST_DOMAIN", "a checkpoint lost a domain")
def _(log: LogBuilder) -> None:
    checkpoint(log, without("domainMetadata", domain="kept"))


@defect("CHECKPOINT_PROTOCOL", "a checkpoint with another protocol")
def _(log: LogBuilder) -> None:
    checkpoint(log, changed("protocol", {}, writerFeatures=FEATURES))


@defect("CHECKPOINT_METADATA", "a checkpoint with other table properties")
def _(log: LogBuilder) -> None:
    checkpoint(log, changed("metaData", {}, configuration={}))


@defect("CHECKPOINTS_DISAGREE", "two checkpoints, and the commits before them are gone")
def _(log: LogBuilder) -> None:
    contradict(log)


@defect("CHECKPOINT_HEADLESS", "a checkpoint without metaData")
def _(log: LogBuilder) -> None:
    checkpoint(log, without("metaData"))


@defect("CHECKPOINTS_DISAGREE", "a checksum contradicts the checkpoint that the log begins with")
def _(log: LogBuilder) -> None:
    log.clean_up(3)
    checksum(log, 4, numFiles=9)


@defect("CHECKPOINT_V2_METADATA", "a V2 checkpoint that says it is of another version")
def _(log: LogBuilder) -> None:
    path = one(log, f"{5:020d}.checkpoint.*.json")
    path.write_text(path.read_text().replace('{"version":5}', '{"version":4}'))


@defect("CHECKPOINT_V2_METADATA", "a V2 checkpoint without its checkpointMetadata")
def _(log: LogBuilder) -> None:
    path = one(log, f"{5:020d}.checkpoint.*.json")
    path.write_text(path.read_text().partition("\n")[2])


@defect("CHECKPOINT_UNPROVEN", "a checkpoint whose commits are gone")
def _(log: LogBuilder) -> None:
    log.clean_up(3)
    for path in [*log.directory.glob("*0.crc"), *log.directory.glob("*[12].crc")]:
        path.unlink()
    one(log, "*1.*2.compacted.json").unlink()


@defect("TOMBSTONES_EXPIRED", "a checkpoint with tombstones past retention")
def _(log: LogBuilder) -> None:
    append(log, gone("f", deletionTimestamp=NOW - 8 * DAY))
    log.checkpoint(7)
    log.hint(7)


# --- compactions ---------------------------------------------------------------------------------


@defect("COMPACTION_LOST_TOMBSTONES", "a compaction lost a remove")
def _(log: LogBuilder) -> None:
    compaction(log, 4, 6, without("remove", path="part=x/c"))


@defect("COMPACTION_LOST_FILES", "a compaction lost a file")
def _(log: LogBuilder) -> None:
    compaction(log, 4, 6, without("add", path="e"))


@defect("COMPACTION_EXTRA_FILES", "a compaction has a file of no commit")
def _(log: LogBuilder) -> None:
    compaction(log, 4, 6, lambda actions: [*actions, file("ghost")])


@defect("COMPACTION_EXTRA_FILES", "a compaction brings a removed file back")
def _(log: LogBuilder) -> None:
    back = file("part=x/c")
    compaction(log, 4, 6, lambda actions: [*without("remove", path="part=x/c")(actions), back])


@defect("COMPACTION_DIFFERS", "a compaction with another size of a file")
def _(log: LogBuilder) -> None:
    compaction(log, 4, 6, changed("add", {"path": "e"}, size=1))


@defect("COMPACTION_LOST_DOMAIN", "a compaction lost the removal of a domain")
def _(log: LogBuilder) -> None:
    compaction(log, 4, 6, without("domainMetadata", domain="dropped"))


@defect("COMPACTION_LOST_TXN", "a compaction lost an application's version")
def _(log: LogBuilder) -> None:
    compaction(log, 4, 6, without("txn", appId="other"))


@defect("COMPACTION_METADATA", "a compaction lost a new protocol")
def _(log: LogBuilder) -> None:
    append(log, protocol(3, 7, readerFeatures=FEATURES, writerFeatures=[*WRITERS, "rowTracking"]))
    append(log, file("g"))
    compaction(log, 7, 8, without("protocol"))


@defect("COMPACTION_UNPROVEN", "a compaction whose commits are not all there")
def _(log: LogBuilder) -> None:
    log.commit_path(1).unlink()


# --- checksums -----------------------------------------------------------------------------------


@defect("CHECKSUM_DIFFERS", "a checksum with another number of files")
def _(log: LogBuilder) -> None:
    checksum(log, 4, numFiles=9)


@defect("CHECKSUM_DIFFERS", "a checksum with another number of bytes")
def _(log: LogBuilder) -> None:
    checksum(log, 5, tableSizeBytes=9)


@defect("CHECKSUM_DIFFERS", "a checksum that lists other files")
def _(log: LogBuilder) -> None:
    checksum(log, 5, allFiles=[file("ghost")["add"]])


@defect("CHECKSUM_DIFFERS", "a checksum that lost an application's version")
def _(log: LogBuilder) -> None:
    checksum(log, 5, setTransactions=[])


# --- data files ----------------------------------------------------------------------------------


@defect("DATA_FILE_MISSING", "a live file is gone", deep=True)
def _(log: LogBuilder) -> None:
    (log.root / "e").unlink()


@defect("DATA_FILE_SIZE", "a live file is cut off", deep=True)
def _(log: LogBuilder) -> None:
    (log.root / "e").write_bytes(b"short")


@defect("DELETION_VECTOR_MISSING", "a deletion vector is gone", deep=True)
def _(log: LogBuilder) -> None:
    (log.root / "ab" / DV_FILE).unlink()


@defect("DELETION_VECTOR_SIZE", "a deletion vector is cut off", deep=True)
def _(log: LogBuilder) -> None:
    (log.root / "ab" / DV_FILE).write_bytes(b"short")


@defect("DATA_FILE_ELSEWHERE", "a live file outside of the table", deep=True)
def _(log: LogBuilder) -> None:
    append(log, file("s3://elsewhere/g"))


def drop_derived(log: LogBuilder) -> None:
    """Leave nothing but the commits."""
    for path in log.directory.iterdir():
        if path.is_file() and path.stem.isdigit() and path.suffix == ".json":
            continue
        if path.is_dir():
            for inside in path.iterdir():
                inside.unlink()
            path.rmdir()
        else:
            path.unlink()
