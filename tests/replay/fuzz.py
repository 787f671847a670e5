"""Damages one file of a log, byte by byte, and looks at what the engines make of it.

Runs as a program, so that whatever takes the interpreter down takes down only this:

    python -m tests.replay.fuzz TARGET[,TARGET…] FIRST_SEED COUNT

Prints one line a finding, and the seed it is working on to stderr; exits 1 when it found any.
"""

from __future__ import annotations

import faulthandler
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from engine import ReplayError, open_log
from tests.logs import Layout, LogBuilder, Shape, add, metadata, protocol, remove, vector
from tests.observe import observed

if TYPE_CHECKING:
    from tests.model import Model

MEMORY_BYTES = 6 * 1024**3
PIECES = [
    b"\0",
    b"\xff",
    b"\n",
    b"\r\n",
    b"{",
    b"}",
    b'"',
    b"null",
    b"\\u0000",
    b"\\ud800",
    b"-1",
    b"1e400",
    b"9" * 30,
    b"[" * 5000,
    b'{"a":' * 3000,
    b'{"add":{"path":"injected"}}\n',
    b"\x01\x01",
    b"\x1f\x8b",
    b"PAR1",
]


def flip(data: bytearray, rng: Random) -> None:
    for _ in range(rng.choice([1, 1, 1, 2, 8])):
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def overwrite(data: bytearray, rng: Random) -> None:
    at = rng.randrange(len(data) + 1)
    piece = rng.randbytes(rng.choice([1, 2, 4, 16]))
    data[at : at + len(piece)] = piece


def truncate(data: bytearray, rng: Random) -> None:
    del data[rng.randrange(len(data) + 1) :]


def cut(data: bytearray, rng: Random) -> None:
    at = rng.randrange(len(data) + 1)
    del data[at : at + rng.choice([1, 1, 2, 10, 100, 1000])]


def insert(data: bytearray, rng: Random) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.choice(PIECES)


def repeat(data: bytearray, rng: Random) -> None:
    start = rng.randrange(len(data) + 1)
    end = min(len(data), start + rng.choice([1, 2, 10, 100, 1000]))
    data[end:end] = data[start:end] * rng.choice([1, 1, 2])


MUTATIONS = [flip, flip, overwrite, truncate, cut, insert, repeat]

Target = Callable[[Path], tuple[LogBuilder, Path, bool]]


def base(root: Path, log_format: str, packing: str = "plain") -> LogBuilder:
    log = LogBuilder(root, log_format)
    layout = Layout(packing=packing)
    log.commit(
        protocol(3, 7, readerFeatures=["deletionVectors"], writerFeatures=["deletionVectors"])
        if log_format == "delta"
        else protocol(2, 2),
        metadata("p", configuration={"k": "v"}),
        *(add(f"a{i}", partitionValues={"p": str(i)}, stats='{"numRecords":1}') for i in range(8)),
        layout=layout,
    )
    for version in range(1, 6):
        log.commit(
            {"commitInfo": {"operation": "WRITE", "operationParameters": {"mode": "x"}}},
            *(
                add(f"v{version}-{i}", tags={"t": "ü"}, partitionValues={"p": None})
                for i in range(3)
            ),
            remove(f"a{version}", partitionValues={"p": "1"}, size=100),
            add("dv", deletionVector=vector(f"d{version}")) if log_format == "delta" else add("dv"),
            {"txn": {"appId": "app", "version": version}},
            layout=layout,
        )
    return log


def commit(log_format: str, packing: str = "plain") -> Target:
    def build(root: Path) -> tuple[LogBuilder, Path, bool]:
        log = base(root, log_format, packing)
        return log, log.commit_path(3), False

    return build


def hint(log_format: str) -> Target:
    def build(root: Path) -> tuple[LogBuilder, Path, bool]:
        log = base(root, log_format)
        log.checkpoint(3)
        return log, log.hint(3), True

    return build


def checkpoint(log_format: str, shape: Shape, at: int, packing: str = "plain") -> Target:
    def build(root: Path) -> tuple[LogBuilder, Path, bool]:
        log = base(root, log_format)
        files = log.checkpoint(3, shape, layout=Layout(packing=packing))
        log.hint(3)
        return log, files[at], False

    return build


def compaction(log_format: str, suffix: str) -> Target:
    def build(root: Path) -> tuple[LogBuilder, Path, bool]:
        log = base(root, log_format)
        return log, log.compaction(1, 4, suffix=suffix), False

    return build


# What is damaged, in which log. The last part of a target's answer: whether nothing may change.
TARGETS: dict[str, Target] = {
    "delta-commit": commit("delta"),
    "indextables-commit": commit("indextables"),
    "indextables-commit-gzip": commit("indextables", "gzip"),
    "indextables-commit-zstd": commit("indextables", "zstd"),
    "indextables-commit-lz4": commit("indextables", "lz4"),
    "indextables-commit-snappy": commit("indextables", "snappy"),
    "delta-hint": hint("delta"),
    "indextables-hint": hint("indextables"),
    "delta-classic": checkpoint("delta", Shape.CLASSIC, 0),
    "delta-part": checkpoint("delta", Shape.MULTI_PART, 1),
    "delta-v2-json": checkpoint("delta", Shape.V2_JSON_SIDECARS, 0),
    "delta-v2-parquet": checkpoint("delta", Shape.V2_PARQUET, 0),
    "delta-sidecar": checkpoint("delta", Shape.V2_JSON_SIDECARS, -1),
    "indextables-lines": checkpoint("indextables", Shape.JSON_LINES, 0),
    "indextables-lines-gzip": checkpoint("indextables", Shape.JSON_LINES, 0, "gzip"),
    "indextables-object": checkpoint("indextables", Shape.JSON_OBJECT, 0),
    "indextables-manifest": checkpoint("indextables", Shape.JSON_PARTS, 0),
    "indextables-json-part": checkpoint("indextables", Shape.JSON_PARTS, 1),
    "indextables-classic": checkpoint("indextables", Shape.CLASSIC, 0),
    "delta-compaction": compaction("delta", "json"),
    "indextables-compaction": compaction("indextables", "json"),
    "indextables-compaction-parquet": compaction("indextables", "parquet"),
}


def main(argv: list[str]) -> int:
    targets, first, count = argv[0].split(","), int(argv[1]), int(argv[2])
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    with tempfile.TemporaryDirectory() as directory:
        findings = [
            finding
            for target in targets
            for finding in damage(Path(directory) / target, target, range(first, first + count))
        ]
    for line in findings:
        sys.stdout.write(f"{line}\n")
    return 1 if findings else 0


def damage(root: Path, target: str, seeds: range) -> Iterator[str]:
    log, path, is_harmless = TARGETS[target](root)
    truth, whole = log.truth(), path.read_bytes()
    for seed in seeds:
        sys.stderr.write(f"{target} {seed}\n")
        sys.stderr.flush()
        rng = Random(seed)
        data = bytearray(whole)
        mutation = rng.choice(MUTATIONS)
        mutation(data, rng)
        path.write_bytes(data)
        answers = [answer(root, engine) for engine in ("local", "reference")]
        where = f"{target} seed {seed} ({mutation.__name__})"
        for found in answers:
            if isinstance(found, str) and found.startswith("BROKEN"):
                yield f"{where}: {found}"
        if answers[0] != answers[1]:
            yield f"{where}: the engines differ: {short(answers[0])} | {short(answers[1])}"
        if is_harmless and answers[0] != comparable(truth):
            yield f"{where}: a third answer: {short(answers[0])}"
    shutil.rmtree(root)


def answer(root: Path, engine: str) -> object:
    """Return the state as plain values, the code of the refusal, or what is BROKEN."""
    try:
        snapshot = open_log(str(root)).snapshot(engine=engine)
        snapshot.summary()
        return comparable(observed(snapshot))
    except ReplayError as refusal:
        message = str(refusal)
        if "\n" in message or not 0 < len(message) < 1000:
            return f"BROKEN message {message!r}"
        return refusal.code
    except Exception as error:
        return f"BROKEN {type(error).__name__}: {error!s:.200}"


def comparable(model: Model) -> object:
    return (
        model.files,
        model.tombstones,
        model.singles,
        model.keyed["txn"],
        model.domains,
        model.keyed["mergeskip"],
    )


def short(value: object) -> str:
    return value if isinstance(value, str) else f"a state of {len(value[0])} files"  # type: ignore[index]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
