"""A sound log is proven; whatever is wrong with another is told by its code, where it is."""

from __future__ import annotations

import pytest
from hypothesis import given

from engine import ReplayError, open_log
from engine.upkeep.verify.catalogue import RULES
from engine.upkeep.verify.findings import Findings, some
from engine.upkeep.verify.vectors import vector_path
from engine.upkeep.verify.verify import verify
from tests.golden.cases import GOLDEN, MISSING, TABLES
from tests.logs import SHAPES, LogBuilder, Shape, add, remove
from tests.random_logs import RandomLog, random_logs
from tests.upkeep import document
from tests.upkeep.defects import (
    DEFECTS,
    NOW,
    SKIP,
    START,
    Defect,
    domain,
    gone,
    sound_log,
    sound_splits,
    vector,
)

# The golden tables that are not sound, and what is wrong with them.
NOT_SOUND = {
    "delta-golden-canonicalized-paths-normal-a": {"SCHEMA_INVALID"},
    "delta-golden-canonicalized-paths-special-b": {"SCHEMA_INVALID"},
    "delta-golden-deltalog-commit-info": {"SCHEMA_INVALID"},
    "delta-golden-deltalog-invalid-protocol-version": {"PROTOCOL_UNSUPPORTED"},
    "delta-golden-deltalog-state-reconstruction-from-checkpoint-missing-metadata": {
        "CHECKPOINT_HEADLESS",
        "SCHEMA_INVALID",
    },
    "delta-golden-deltalog-state-reconstruction-without-protocol": {"NO_PROTOCOL"},
    "delta-golden-update-deleted-directory": {"SCHEMA_INVALID"},
    "delta-kernel-catalog-owned-preview": {"PROTOCOL_UNSUPPORTED"},
    "derived-empty-last-commit": {"EMPTY_COMMIT"},
    "derived-gap-after-checkpoint": {"GAP"},
    "derived-last-checkpoint-dangling": {"HINT_DANGLING"},
    "derived-last-checkpoint-truncated": {"HINT_UNREADABLE"},
    "derived-metadata-replaced": {"TABLE_ID_CHANGED"},
    "derived-missing-sidecar": {"MISSING_SIDECAR"},
    "derived-multipart-incomplete": {"HINT_DANGLING", "INCOMPLETE_CHECKPOINT"},
    "derived-unknown-reader-feature": {"PROTOCOL_UNSUPPORTED"},
    "it-gap": {"GAP"},
    "it-hint-garbage": {"HINT_UNREADABLE"},
    "it-protocol-5": {"PROTOCOL_UNSUPPORTED"},
    "it-torn-commit": {"UNREADABLE_COMMIT"},
    "krs-crc-full": {"CHECKSUM_DIFFERS"},
    "rs-delta-live-table": {"SCHEMA_INVALID"},
    "rs-err-table_b": {"OLD_GAP"},
    "rs-err-table_e": {"PROTOCOL_UNSUPPORTED"},
    "rs-err-table_f": {"PROTOCOL_UNSUPPORTED"},
    "rs-err-table_h": {"OLD_GAP", "PROTOCOL_UNSUPPORTED"},
}
NO_LOG = {"delta-golden-no-delta-log-folder": "NO_LOG", "krs-crc-malformed": "EMPTY_LOG"}


def look(log: LogBuilder, *, deep: bool = False):
    opened = open_log(str(log.root))
    return verify(opened.directory, opened.config, now_ms=NOW, deep=deep)


def codes(log: LogBuilder, *, deep: bool = False) -> set[str]:
    return {finding.code for finding in look(log, deep=deep).findings}


def test_a_sound_log_has_no_findings_at_all(tmp_path):
    found = look(sound_log(tmp_path), deep=True)
    assert found.findings == ()
    assert found.sound
    assert found.version == 6
    assert found.checked == {
        "commits": 7,
        "actions": 25,
        "checkpoints": 2,
        "compactions": 2,
        "checksums": 7,
        "sidecars": 2,
        "dataFiles": 4,
        "deletionVectors": 1,
    }


def test_a_sound_log_of_indextables_has_no_findings_at_all(tmp_path):
    assert look(sound_splits(tmp_path)).findings == ()


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_each_defect_is_told(tmp_path, defect: Defect):
    log = sound_log(tmp_path)
    defect.plant(log)
    found = look(log, deep=defect.deep)
    mine = [finding for finding in found.findings if finding.code == defect.code]
    assert mine, [(finding.code, finding.message) for finding in found.findings]
    assert mine[0].severity == RULES[defect.code].severity
    assert mine[0].message
    assert "\n" not in mine[0].message
    assert found.sound == all(finding.severity != "error" for finding in found.findings)
    # docs/verify.md has what it says: python -m tests.upkeep.document writes it anew.
    assert document.told_of(defect, mine[0]) in document.documented()


def test_every_code_has_a_defect_that_shows_it():
    other = {"COMPACTION_LOST_SKIP"}  # of IndexTables, below
    assert {defect.code for defect in DEFECTS} == set(RULES) - other


def test_a_compaction_that_lost_a_skip_is_told(tmp_path):
    log = sound_splits(tmp_path)
    log.commit({"mergeskip": {**SKIP, "path": "c.split"}})
    log.commit(add("d.split"))
    log.compaction(5, 6)
    assert codes(log) == set()
    path = log.file(f"{5:020d}.{6:020d}.compacted.json")
    kept = [line for line in path.read_text().splitlines() if "mergeskip" not in line]
    path.write_text("\n".join(kept))
    assert codes(log) == {"COMPACTION_LOST_SKIP"}


def test_a_few_of_the_lost_files_are_named(tmp_path):
    log = LogBuilder(tmp_path / "table").start()
    log.commit(*(add(f"f{number}") for number in range(9)))
    log.checkpoint(1)
    log.commits[1] = log.commits[1][4:]
    log.checkpoint(1)
    (finding,) = [f for f in look(log).findings if f.code == "CHECKPOINT_LOST_FILES"]
    assert finding.message == "4 live files are missing: f0, f1, f2 and 1 more"


def test_lost_files_are_named_from_the_checkpoint_the_walk_began_with(tmp_path):
    log = LogBuilder(tmp_path / "table").start(add("old")).filler(3)
    log.checkpoint(1)
    log.clean_up(1)
    actions = [a for a in log.commits[0] if "add" not in a]
    log.commits[0] = actions
    log.checkpoint(3)
    (finding,) = [f for f in look(log).findings if f.code == "CHECKPOINTS_DISAGREE"]
    assert "missing: old)" in finding.message


@pytest.mark.parametrize("log_format", ["delta", "indextables"])
def test_checkpoints_of_every_shape_agree_with_their_commits(tmp_path, log_format):
    log = LogBuilder(tmp_path / "table", log_format).start(add("a"), add("b"))
    log.commit(remove("a", deletionTimestamp=NOW), add("c"))
    for shape in SHAPES[log_format]:
        if shape not in {Shape.V2_PARQUET, Shape.V2_PARQUET_SIDECARS}:
            log.checkpoint(1, shape)
    about_features = {"FEATURE_NOT_DECLARED"}
    assert codes(log) <= about_features


def test_what_another_engine_may_write_otherwise_is_no_finding(tmp_path):
    log = LogBuilder(tmp_path / "table").start()
    log.commit(add("a", stats='{"numRecords":1}', tags={"k": "v"}, dataChange=True))
    log.commit(remove("b", deletionTimestamp=1), add("c", partitionValues={}))
    actions = [
        {"add": {**log.truth().files[key], "dataChange": False, "stats": None, "tags": {}}}
        for key in log.truth().files
    ]
    log._write_parquet(f"{2:020d}.checkpoint.parquet", log.commits[0] + actions)
    assert codes(log) <= {"UNKNOWN_REMOVE"}


def test_a_walk_goes_on_from_the_next_checkpoint_after_a_gap(tmp_path):
    log = LogBuilder(tmp_path / "table").start().filler(8)
    log.checkpoint(5)
    log.checkpoint(7)
    log.commit_path(3).unlink()
    assert codes(log) == {"OLD_GAP", "CHECKPOINT_UNPROVEN"}
    log.commits[6].clear()
    log.checkpoint(7)
    assert codes(log) == {"OLD_GAP", "CHECKPOINT_UNPROVEN", "CHECKPOINTS_DISAGREE"}


def test_of_many_findings_alike_the_rest_are_counted():
    found = Findings()
    for version in range(30):
        found.add("GAP", f"commit {version} is missing", version=version)
    told = found.all()
    assert len(told) == 21
    assert told[-1].message == "10 more of this kind"
    assert some(["a", "b", "c", "d"]) == "a, b, c and 1 more"


def test_deletion_vectors_are_found_where_the_protocol_says():
    # The example of PROTOCOL.md#derived-fields.
    assert vector_path(vector("ab^-aqEH.-t@S}K{vb[*k^")) == (
        "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    )
    assert vector_path({"storageType": "i", "pathOrInlineDv": "wi5b="}) is None
    assert vector_path({"storageType": "p", "pathOrInlineDv": "s3://t/x.bin"}) == "s3://t/x.bin"


def test_files_of_partition_directories_and_escaped_names_are_found(tmp_path):
    log = LogBuilder(tmp_path / "table").start()
    log.commit(add("p=1/a%20b", size=3), add("p=2/c", size=3))
    for name in ("p=1/a b", "p=2/c"):
        (log.root / name).parent.mkdir()
        (log.root / name).write_bytes(b"...")
    assert codes(log, deep=True) == set()


def test_verify_writes_nothing(tmp_path, monkeypatch):
    from engine.storage.local import LocalStorage

    log = sound_log(tmp_path)
    for name in ("write_new", "publish", "replace", "delete_many", "open_output"):
        monkeypatch.setattr(LocalStorage, name, lambda *_: pytest.fail("verify reads only"))
    before = {p: p.stat().st_mtime_ns for p in log.root.rglob("*")}
    for defect in DEFECTS[:3]:
        defect.plant(log)
        before |= {p: p.stat().st_mtime_ns for p in log.root.rglob("*")}
        look(log, deep=True)
    after = {p: p.stat().st_mtime_ns for p in log.root.rglob("*")}
    assert after == {path: time for path, time in before.items() if path.exists()}


@pytest.mark.skipif(not TABLES, reason=MISSING)
@pytest.mark.parametrize("table", TABLES)
def test_golden_tables_are_sound_but_for_those_known_not_to_be(table):
    path = str(GOLDEN / table)
    if table in NO_LOG:
        with pytest.raises(ReplayError) as refused:
            open_log(path).verify()
        assert refused.value.code == NO_LOG[table]
        return
    found = open_log(path).verify()
    wrong = {finding.code for finding in found.findings if finding.severity != "info"}
    assert wrong == NOT_SOUND.get(table, set())


@given(random_logs())
def test_random_logs_are_never_damaged(tmp_path_factory, log: RandomLog):
    root = tmp_path_factory.mktemp("random")
    built = log.write(root)
    opened = open_log(str(built.root))
    found = verify(opened.directory, opened.config, now_ms=START)
    told = {
        f.code
        for f in found.findings
        if f.code.startswith(("CHECKPOINT_LOST", "CHECKPOINT_EXTRA", "COMPACTION_", "UNREADABLE"))
    }
    assert told <= {"COMPACTION_UNPROVEN"}, found.findings


def test_a_log_compacted_by_deltalake_without_its_tombstones_is_caught(tmp_path):
    from deltalake import DeltaTable

    log = LogBuilder(tmp_path / "table")
    features = {"readerFeatures": None, "writerFeatures": ["domainMetadata"]}
    from tests.logs import metadata, protocol

    log.commit(protocol(1, 7, **features), metadata(), add("f1"), domain("d1"))
    log.commit(add("f2"))
    log.commit(gone("f1", deletionTimestamp=1), domain("d1", removed=True))
    log.commit(add("f3"))
    DeltaTable(str(log.root)).compact_logs(1, 3)
    told = [(f.code, f.message) for f in look(log).findings if f.severity == "error"]
    assert told == [
        ("COMPACTION_LOST_TOMBSTONES", "1 removes are missing: f1"),
        ("COMPACTION_LOST_DOMAIN", "domainMetadata d1 is missing"),
    ]


def test_every_code_and_every_defect_is_documented_and_no_other():
    text = document.documented()
    sections = [
        f"### `{code}`\n\n**{rule.severity}**: {rule.says}." for code, rule in RULES.items()
    ]
    places = [text.index(section) for section in sections]
    assert places == sorted(places)
    assert text.count("### ") == len(RULES)
    assert text.count(":\n    ") == len(DEFECTS) >= 25


def test_the_golden_tables_that_are_not_sound_are_documented():
    text = document.DOCS.read_text()
    for table, wrong in NOT_SOUND.items():
        assert f"| {table} | {', '.join(f'`{code}`' for code in sorted(wrong))} |" in text
