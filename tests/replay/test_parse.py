"""The fast reader and the exact one: the same answer to every line, or the same refusal."""

from __future__ import annotations

import json

import pytest

from engine.actions import kinds
from engine.errors import UnreadableLogFileError
from engine.formats import DELTA
from engine.log.paths import TransactionFileRef, parse_path
from engine.replay.lines import read_lines
from engine.replay.parse import Parser, chunks
from tests.logs import add, remove
from tests.model import normal


def ref(version: int = 7, size: int = 1) -> TransactionFileRef:
    found = parse_path(f"{version:020d}.json", size, 0, DELTA)
    assert found is not None
    return found


def fast(*files: bytes) -> list[tuple[int, int, str, object]]:
    """Return what the parser reads: version, ordinal, kind and value of each action, in order."""
    refs = [ref(version) for version in range(len(files))]
    found = []
    for batch in Parser(DELTA).parse(zip(refs, files, strict=True)):
        for kind, column in batch.columns.items():
            values = column.to_pylist(maps_as_pydicts="strict")
            for at, value in enumerate(values):
                if value is not None:
                    where = batch.version[at].as_py(), batch.ordinal[at].as_py()
                    found.append((*where, kind, comparable(kind, value)))
    return sorted(found, key=lambda entry: entry[:2])


def exact(*files: bytes) -> list[tuple[int, int, str, object]]:
    found = []
    for version, data in enumerate(files):
        for action in read_lines(data, ref(version), kinds(DELTA)):
            value = comparable(action.kind, action.value)
            found.append((action.version, action.ordinal, action.kind, value))
    return found


def comparable(kind: str, value):
    return json.loads(value) if kind == "commitInfo" else normal(value)


def line(**fields) -> bytes:
    return json.dumps({"add": {**add("x")["add"], **fields}}).encode()


def nested(opening: bytes, closing: bytes) -> bytes:
    return b'{"add":{"path":"p","u":' + opening + b"1" + closing + b"}}"


A, B, C, D = (json.dumps(add(name)).encode() for name in "abcd")
R = json.dumps(remove("a")).encode()
INFO = b'{"commitInfo":{"operation":"WRITE","n":1}}'
TXN = b'{"txn":{"appId":"t","version":1}}'
VECTOR = {"storageType": "i", "pathOrInlineDv": "abc"}

SOUND = {
    "one line": A,
    "newline at the end": A + b"\n",
    "blank lines": b"\n" + A + b"\n\n \t\n" + B + b"\n\n\n\n\n\n",
    "carriage returns": A + b"\r\n" + B + b"\r\n",
    "carriage returns in some lines": A + b"\r\n" + B + b"\n" + C,
    "spaces around": b"  " + A + b"  \n\t" + B,
    "info first": INFO + b"\n" + A + b"\n" + B,
    "info last": A + b"\n" + B + b"\n" + INFO,
    "info in the middle": A + b"\n" + INFO + b"\n" + B,
    "others in the middle": A + b"\n" + TXN + b"\n" + R + b"\n" + TXN + b"\n" + A,
    "many others first": b"\n".join([TXN] * 40) + b"\n" + A,
    "many others last": A + b"\n" + b"\n".join([TXN] * 40),
    "nothing": b"",
    "only white space": b" \n\t\n\r\n",
    "only a vertical tab": A + b"\n\x0b\n" + B,
    "unknown actions": A + b'\n{"zzz":{"path":1}}\n{}\n' + B,
    "null actions": b'{"add":null}\n' + A + b'\n{"remove":null}',
    "a null action beside another": b'{"remove":null,"add":{"path":"x","size":1}}\n' + A,
    "only null actions": b'{"add":null}\n{"add":null}\n',
    "one key twice": b'{"add":{"path":"p","path":"q","size":1}}',
    "no fields but the path": b'{"add":{"path":"p"}}',
    "a vector without an offset": line(deletionVector=VECTOR),
    "a vector with offset null": line(deletionVector={**VECTOR, "offset": None}),
    "an empty vector": line(deletionVector={}),
    "no vector": line(deletionVector=None),
    "differing tags": line(tags={"a": "1"}) + b"\n" + line(tags={"b": "2", "": "3"}) + b"\n" + A,
    "null tags": line(tags={"a": None, "b": "x"}) + b"\n" + line(tags=None),
    "numbers in maps": line(tags={"a": 1, "b": True, "c": 1.5, "d": None}),
    "null partition values": line(partitionValues={"p": None, "q": "1"}) + b"\n" + A,
    "missing partition values": line(partitionValues={"p": "1"}) + b"\n" + A,
    "texts that look like something": line(tags={"a": "2024-01-01", "b": "12", "c": "null"}),
    "unknown fields": line(zzz=1) + b"\n" + line(zzz="x") + b"\n" + line(zzz={"a": [{}]}),
    "long numbers in unknown fields": line(zzz=10**30),
    "whole numbers written otherwise": line(size=1.0) + b"\n" + line(size=1e2),
    "the largest numbers": line(size=2**63 - 1) + b"\n" + line(size=-(2**63)),
    "minus zero": b'{"add":{"path":"p","size":-0}}',
    "escapes": json.dumps(add('"\\\n\0ü日\U0001f600')).encode(),
    "any script": json.dumps(add("ü日\U0001f600"), ensure_ascii=False).encode(),
    "braces in texts": line(stats='{"a":"}{"}') + b"\n" + line(tags={"}\n{": "}\r\n{"}),
    "odd keys": b'{"add":{"path":"p","a.b":1,"":2,"tags":{".x":"1","[0]":"2","":"3"}}}',
    "deep, but not too deep": line(zzz=json.loads("[" * 500 + "]" * 500)),
    "a long line": line(tags={"t": "x" * 10_000}) + b"\n" + A,
    "info of any JSON": b'{"commitInfo":"x"}\n' + A + b'\n{"commitInfo":[1]}\n' + B,
    "an application without a name": A + b'\n{"txn":{"appId":"","version":1}}\n' + B,
    "a domain without a name": A + b'\n{"domainMetadata":{"domain":""}}\n' + B,
    "statistics as an object": line(stats_parsed={"numRecords": 2}) + b"\n" + A,
    "no statistics as an object": line(stats_parsed=None) + b"\n" + A,
    "many brackets side by side": line(zzz=[[]] * 3000) + b"\n" + A,
}  # fmt: skip

UNSOUND = {
    "not JSON": A + b"\n{\n" + B,
    "torn": A + b"\n" + B[:-5],
    "two in a line": A + B,
    "two in a line and a blank one": A + B + b"\n\n" + C,
    "two in a line after a return": A + b"\r" + B + b"\n\n" + C,
    "one over two lines": b'{"add":\n{"path":"p"}}\n' + A,
    "one over two lines and two in one": b'{"add":\n{"path":"p"}}\n' + A + B + b"\n" + C,
    "the same, later": D + b'\n{"add":\n{"path":"p"}}\n' + A + B + b"\n" + C,
    "two actions in an object": b'{"add":{"path":"p"},"remove":{"path":"q"}}',
    "info beside an action": b'{"add":{"path":"p"},"commitInfo":{}}',
    "a zero byte": A + b"\n\0\n" + B,
    "a zero byte after two": A + B + b"\0\n" + C,
    "not UTF-8": b'{"add":{"path":"p\xff"}}',
    "overlong UTF-8": b'{"add":{"path":"p\xc0\x80"}}',
    "half a surrogate": b'{"add":{"path":"p\\ud800"}}',
    "the other half": b'{"add":{"path":"p\\udc00"}}',
    "a byte order mark": b"\xef\xbb\xbf" + A,
    "a byte order mark inside": A + b"\n\xef\xbb\xbf" + B + b"\n" + C,
    "a comment": A + b" // x",
    "a comma too many": b'{"add":{"path":"p",}}',
    "not a number": b'{"add":{"path":"p","size":NaN}}',
    "not a number in an unknown field": A + b'\n{"add":{"path":"p","u":[{"a":NaN}]}}\n' + B,
    "not a number in an unknown action": A + b'\n{"u":-Infinity}\n' + B,
    "more than a number holds": A + b'\n{"add":{"path":"p","u":1' + b"0" * 400 + b"}}\n" + B,
    "a column without a name": A + b'\n{"metaData":{"partitionColumns":["p",null]}}\n' + B,
    "a feature without a name": A + b'\n{"protocol":{"readerFeatures":[null]}}\n' + B,
    "a list": b'{"add":[]}',
    "a text": A + b'\n{"add":"x"}\n' + B,
    "no path": b'{"add":{"size":1}}',
    "an empty path": line(path=""),
    "a null path": line(path=None),
    "a path that is an object": line(path={"b": 1}),
    "a path that is a number": line(path=5),
    "a size that is a text": line(size="5"),
    "a size that is an object": line(size={"b": 1}),
    "a size that is a fraction": line(size=1.5),
    "a size that is true": line(size=True),
    "a size of 64 bits": line(size=2**63),
    "a flag that is a number": line(dataChange=1),
    "statistics that are an object": line(stats={"numRecords": 1}),
    "a partition value that is an object": line(partitionValues={"a": {"b": 1}}),
    "a tag that is an object": line(tags={"a": {"b": 1}, "c": "d"}),
    "a tag that is a list": line(tags={"a": ["b"]}),
    "tags that are a list": line(tags=["b"]),
    "a vector that is a text": line(deletionVector="x"),
    **{f"{n} nested lists": nested(b"[" * n, b"]" * n) for n in (1100, 3000, 200_000)},
    **{f"{n} nested objects": nested(b'{"a":' * n, b"}" * n) for n in (1100, 100_000)},
}  # fmt: skip


@pytest.mark.parametrize("data", SOUND.values(), ids=SOUND)
def test_both_readers_read_alike(data: bytes) -> None:
    assert fast(data) == exact(data)


@pytest.mark.parametrize("data", UNSOUND.values(), ids=UNSOUND)
@pytest.mark.parametrize("around", [b"", b"\n".join([D] * 20)], ids=["alone", "among others"])
def test_both_readers_refuse_alike(data: bytes, around: bytes) -> None:
    whole = b"\n".join(filter(None, [around, data, around]))
    messages = []
    for read in (fast, exact):
        with pytest.raises(UnreadableLogFileError) as refusal:
            read(b"", whole)
        assert refusal.value.line
        messages.append(str(refusal.value))
    assert messages[0] == messages[1]
    assert "\n" not in messages[0]
    assert len(messages[0]) < 300


def test_all_sound_files_are_read_at_once_as_they_are_one_by_one() -> None:
    files = list(SOUND.values())
    assert fast(*files) == exact(*files)


def test_a_file_of_another_shape_does_not_spoil_its_neighbours() -> None:
    good = b"\n".join([A, B, C])
    assert fast(good, b"  " + A + b"\n\n" + B, good) == exact(good, b"  " + A + b"\n\n" + B, good)


def test_a_bad_line_is_named_by_file_line_and_column() -> None:
    with pytest.raises(UnreadableLogFileError, match=r"0{19}1\.json:3:1[0-9]: not a JSON object"):
        fast(A, B + b"\n\n" + A[:15])


def test_a_field_learned_late_is_read_for_all() -> None:
    parser = Parser(DELTA)
    parser.parse([(ref(0), A)])
    batch = parser.parse([(ref(1), line(tags={"new": "1"}, baseRowId=5, clusteringProvider="z"))])[
        0
    ]
    found = batch.columns["add"][0].as_py(maps_as_pydicts="strict")
    assert (found["tags"], found["baseRowId"]) == ({"new": "1"}, 5)


def test_more_kinds_of_tags_than_the_fast_reader_learns_are_read_exactly() -> None:
    data = b"\n".join(line(tags={f"k{i}": "x"}) for i in range(2100))
    assert fast(data) == exact(data)


@pytest.mark.parametrize("read", [fast, exact])
def test_statistics_as_an_object_count_where_there_is_no_text(read) -> None:
    parsed = {"numRecords": 2, "minValues": {"numRecords": 5}}
    data = line(stats_parsed=parsed) + b"\n" + line(stats="{}", stats_parsed=parsed)
    first, second = (value for _, _, _, value in read(data))
    assert json.loads(first["stats"]) == parsed
    assert second["stats"] == "{}"


def test_files_are_read_in_runs_of_about_one_size() -> None:
    refs = [ref(v, size) for v, size in enumerate([5, 5, 20, 1, 1])]
    assert [[r.version for r in run] for run in chunks(refs, 10)] == [[0, 1], [2], [3, 4]]
    assert list(chunks([], 10)) == []
