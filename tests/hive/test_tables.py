"""Whole compactions of real tables: the document's cases, formats, codecs, readers."""

from __future__ import annotations

import shutil
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.errors import HiveRefusedError, HiveSchemaError, PredicateError
from engine.hive.compact import compact
from engine.hive.fingerprint import fingerprint
from engine.hive.model import Options, Stats, Swap
from engine.hive.plan import plan
from engine.hive.steps import Step
from engine.hive.swap import Doors
from engine.hive.upkeep import cleanup, history, recover, rollback

SERIAL = Options(parallelism=1)


def of(doors, name):
    return doors.catalog.table("lake", name)


def small_files(spark, lake, name, *, folders, files, rows, key=None):
    """The document's tables: `files` files of equal size in every folder, `rows` rows in all."""
    each = rows // len(folders) // files
    for number, folder in enumerate(folders):
        (lake.path(name) / folder).mkdir(parents=True)
        for part in range(files):
            ids = range((number * files + part) * each, (number * files + part + 1) * each)
            table = {"id": ids, "name": [f"event-{i % 97}" for i in ids]}
            table["amount"] = [i / 7 for i in ids]
            pq.write_table(pa.table(table), lake.path(name) / folder / f"part-{part:05d}.parquet")
    lake.declare(name, key or "", columns="id BIGINT, name STRING, amount DOUBLE")
    if key:
        lake.sql(f"MSCK REPAIR TABLE lake.{name}")


DATES = ("2026-02-23", "2026-02-24", "2026-02-25")
CASES = {
    "flat": ([""], 500, 30_000, None, 1),
    "events": ([f"date={d}" for d in DATES], 200, 30_000, "date STRING", 3),
    "events_2p": (
        [f"date={d}/ref={r}" for d in DATES for r in "ABC"],
        100,
        45_000,
        "date STRING, ref STRING",
        9,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_documents_cases_end_as_it_says(spark, lake, doors, name):
    folders, files, rows, key, after = CASES[name]
    small_files(spark, lake, name, folders=folders, files=files, rows=rows, key=key)
    locations = [(unit.name, unit.location) for unit in doors.catalog.units(of(doors, name))]
    before = lake.content(name)
    assert (len(lake.files(name)), before.rows) == (files * len(folders), rows)

    planned = plan(doors, of(doors, name), Options())
    assert [verdict.target_files for _, verdict in planned.taken] == [1] * after
    report = compact(doors, of(doors, name), Options()).as_json()

    assert (report["files_before"], report["files_after"]) == (files * len(folders), after)
    assert report["rows"] == rows
    assert len(lake.files(name)) == after
    assert lake.content(name) == before
    assert [(u.name, u.location) for u in doors.catalog.units(of(doors, name))] == locations
    assert lake.content(report["backup"]) == before
    assert not plan(doors, of(doors, name), Options()).taken
    cleanup(doors, of(doors, name))
    assert (lake.content(name), lake.debris()) == (before, [])
    assert history(doors, of(doors, name))[-1]["outcome"] == "cleaned up"


@pytest.mark.parametrize("codec", ["gzip", "zstd", "uncompressed"])
@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_the_codec_of_the_files_is_kept(spark, lake, doors, kind, codec):
    codec = {"gzip": "zlib", "uncompressed": "none"}.get(codec, codec) if kind == "orc" else codec
    spark.range(200).repartition(4).write.option("compression", codec).format(kind).save(
        str(lake.path("t"))
    )
    lake.declare("t", stored=kind, columns="id BIGINT")
    compact(doors, of(doors, "t"), SERIAL)
    (file,) = lake.files("t")
    suffix = {"uncompressed": "c000.parquet", "none": "c000.orc", "gzip": "gz.parquet"}
    assert file.endswith(suffix.get(codec, f"{codec}.{kind}"))
    assert lake.count("t") == 200


def test_a_declared_codec_wins_over_that_of_the_files(lake, doors):
    lake.make("t", properties="'parquet.compression' = 'GZIP'")
    compact(doors, of(doors, "t"), SERIAL)
    assert lake.files("t")[0].endswith(".gz.parquet")


@pytest.mark.parametrize("swap", Swap)
def test_orc_is_rolled_back_and_cleaned_up_like_parquet(lake, doors, swap):
    lake.make("t", "one_key", stored="ORC")
    before = lake.rows("t")
    for _ in range(2):
        report = compact(doors, of(doors, "t"), Options(parallelism=1, swap=swap))
        assert [unit.files_after for unit in report.units] == [1, 1]
        assert lake.rows("t") == before
        rollback(doors, of(doors, "t"))
    compact(doors, of(doors, "t"), Options(parallelism=1, swap=swap))
    cleanup(doors, of(doors, "t"))
    assert (lake.rows("t"), lake.debris()) == (before, [])


@pytest.mark.parametrize("compressed", [False, True])
def test_text_keeps_every_line_as_its_serde_reads_it(spark, lake, doors, compressed):
    lake.sql(
        f"CREATE EXTERNAL TABLE lake.t (id INT, tags ARRAY<STRING>, m MAP<STRING, INT>, v STRING) "
        f"ROW FORMAT DELIMITED FIELDS TERMINATED BY '|' COLLECTION ITEMS TERMINATED BY ',' "
        f"MAP KEYS TERMINATED BY ':' STORED AS TEXTFILE LOCATION '{lake.path('t')}'"
    )
    lines = ["1|a,b|k:1,l:2|x y", "2||\\N|\\N", "not a number|q||", "3|é|z:9|tail|surplus", ""]
    for _ in range(4):
        spark.createDataFrame([(line,) for line in lines], "value string").coalesce(1).write.mode(
            "append"
        ).option("compression", "gzip" if compressed else "none").text(str(lake.path("t")))
    before = lake.rows("t")
    report = compact(doors, of(doors, "t"), SERIAL)
    (file,) = lake.files("t")
    assert file.endswith(".gz") == compressed
    assert (lake.rows("t"), lake.rows(f"`{report.backup}`")) == (before, before)
    rollback(doors, of(doors, "t"))
    assert (lake.rows("t"), len(lake.files("t"))) == (before, 4)


def test_sort_columns_order_rows_over_all_files(spark, lake, doors):
    spark.range(4000).selectExpr("id * 7919 % 4000 AS id", "uuid() AS v").repartition(
        16
    ).write.parquet(str(lake.path("t")))
    lake.declare("t", columns="id BIGINT, v STRING")
    options = Options(parallelism=1, sort_columns=("id",), block_bytes=60_000, ratio=1.0)
    compact(doors, of(doors, "t"), options)
    ranges = []
    for file in lake.files("t"):
        ids = [row.id for row in spark.read.parquet(file).collect()]
        assert ids == sorted(ids)
        ranges.append((ids[0], ids[-1]))
    assert len(ranges) > 1
    assert all(
        one[1] < two[0] for one, two in zip(sorted(ranges), sorted(ranges)[1:], strict=False)
    )
    with pytest.raises(HiveRefusedError, match="no data column"):
        plan(doors, of(doors, "t"), Options(sort_columns=("nope",)))


def test_custom_partition_locations_are_compacted_where_they_are(lake, doors, tmp_path):
    lake.declare("t", "dt STRING")
    for value in ("a", "b%20", "[c]"):
        shutil.copytree(lake._part("PARQUET", 3), tmp_path / f"else where {value}")
        lake.add("t", {"dt": value}, tmp_path / f"else where {value}")
    before = lake.rows("t")
    report = compact(doors, of(doors, "t"), SERIAL)
    assert [item["reason"] for item in report.left] == [
        "its path holds a character that Spark would read as a pattern"
    ]
    assert lake.rows("t") == before
    places = sorted(unit.location for unit in doors.catalog.units(of(doors, "t")))
    assert places == [f"file:{tmp_path}/else where {value}" for value in ("[c]", "a", "b%20")]
    counts = [len(list((tmp_path / f"else where {v}").glob("*.parquet"))) for v in ("a", "b%20")]
    assert counts == [1, 1]
    cleanup(doors, of(doors, "t"))
    assert (lake.rows("t"), len(list(tmp_path.iterdir()))) == (before, 3)


def test_partitions_that_share_a_directory_are_left_alone(lake, doors):
    lake.make("t", "one_key")
    lake.add("t", {"dt": "twin"}, lake.path("t") / "dt=a")
    planned = plan(doors, of(doors, "t"), SERIAL)
    assert [unit.name for unit, _ in planned.taken] == ["dt=b"]
    assert {why for _, _, why in planned.left} == {
        "its directory is shared with, or inside, another partition's"
    }


def test_where_takes_only_the_partitions_for_which_it_holds(lake, doors):
    lake.make("t", "two_keys")
    shutil.copytree(lake._part("PARQUET", 3), lake.path("t") / "dt=a" / "n=12")
    lake.add("t", {"dt": "a", "n": "12"}, lake.path("t") / "dt=a" / "n=12")
    found = plan(doors, of(doors, "t"), Options(where="n > 2 AND dt = 'a'")).taken
    assert [unit.name for unit, _ in found] == ["dt=a/n=12"]
    for wrong in ("id = 3", "n >"):
        with pytest.raises(PredicateError, match="--where"):
            plan(doors, of(doors, "t"), Options(where=wrong))


def test_views_managed_tables_and_strange_formats_are_refused(lake, doors):
    lake.sql("CREATE VIEW lake.v AS SELECT 1 AS one")
    lake.sql("CREATE TABLE lake.m (id INT) STORED AS PARQUET")
    lake.declare("s", stored="SEQUENCEFILE")
    for name, reason in (("v", "a view"), ("m", "--managed"), ("s", "SequenceFile")):
        with pytest.raises(HiveRefusedError, match=reason):
            plan(doors, of(doors, name), SERIAL)
    lake.sql("DROP VIEW lake.v")
    for number in range(3):
        lake.sql(f"INSERT INTO lake.m VALUES ({number})").collect()
    compact(doors, of(doors, "m"), Options(managed=True, parallelism=1))
    assert lake.count("m") == 3
    cleanup(doors, of(doors, "m"))
    assert lake.count("m") == 3


def test_files_of_two_integer_types_become_the_tables_type(spark, lake, doors):
    for kind, start in (("int", 0), ("bigint", 10)):
        spark.range(start, start + 3).selectExpr(f"cast(id AS {kind}) AS id").coalesce(
            1
        ).write.mode("append").parquet(str(lake.path("t")))
    lake.declare("t", columns="id BIGINT")
    before = lake.rows("t")
    compact(doors, of(doors, "t"), SERIAL)
    assert (lake.rows("t"), len(lake.files("t"))) == (before, 1)


def test_a_column_that_no_type_fits_stops_the_run_before_anything_changed(spark, lake, doors):
    for kind in ("string", "double"):
        spark.range(3).selectExpr("id", f"cast(id AS {kind}) AS odd").coalesce(1).write.mode(
            "append"
        ).parquet(str(lake.path("t")))
    lake.declare("t", columns="id BIGINT")
    with pytest.raises(HiveSchemaError, match="odd"):
        compact(doors, of(doors, "t"), SERIAL)
    assert (lake.count("t"), len(lake.files("t")), lake.debris()) == (6, 2, [])


def test_the_fingerprint_sees_nulls_maps_and_one_changed_value(spark):
    def of_rows(*rows):
        kind = (
            "a string, b string, m map<string,int>, s struct<x: string, y: string>, l array<string>"
        )
        return fingerprint(spark.createDataFrame(list(rows), kind))

    one = (None, "a", {"x": 1, "y": None}, (None, "q"), [None, "r"])
    assert of_rows(one, one) == of_rows(one, one)
    assert of_rows(one) != of_rows(one, one, one)
    assert of_rows(one) == of_rows((None, "a", {"y": None, "x": 1}, (None, "q"), [None, "r"]))
    for other in (
        ("a", None, *one[2:]),
        (*one[:2], {"x": None, "y": 1}, *one[3:]),
        (*one[:3], ("q", None), one[4]),
        (*one[:4], ["r", None]),
        (*one[:2], None, *one[3:]),
    ):
        assert of_rows(one) != of_rows(other)


def test_a_reader_in_another_session_sees_a_whole_table_throughout_a_location_swap(
    spark, lake, doors
):
    lake.make("t", "one_key")
    seen, problems = [], []

    def read(ended):
        while not ended.is_set():
            try:
                seen.append(spark.newSession().table("lake.t").count())
            except Exception as error:
                problems.append(error)

    for _ in range(3):
        ended = threading.Event()
        reader = threading.Thread(target=read, args=(ended,))
        reader.start()
        try:
            compact(doors, of(doors, "t"), Options(swap=Swap.LOCATION))
        finally:
            ended.set()
            reader.join()
        # Not while it is read: a rollback deletes what a query may have begun to read.
        rollback(doors, of(doors, "t"))
    assert problems == []
    assert len(seen) > 3
    assert set(seen) == {12}


def test_the_gap_of_a_rename_swap_is_measured_and_is_the_only_time_rows_are_missing(lake, doors):
    lake.make("t", "one_key")
    seen, now = {}, [doors.clock()]

    def look(step, unit):
        seen.setdefault(step, lake.count("t"))
        now[0] += 40 if (step, unit) == (Step.SET_ASIDE, "dt=a") else 3

    looking = Doors(doors.files, doors.catalog, lambda: now[0], look)
    report = compact(looking, of(doors, "t"), SERIAL)
    assert {step for step, rows in seen.items() if rows != 12} == {Step.SET_ASIDE}
    # From right before the first rename to right after the second, and nothing else.
    assert [unit.gap_ms for unit in report.units] == [40 + 3, 3 + 3]
    assert report.as_json()["gap_ms_max"] == 43


def test_a_second_run_on_top_of_the_first_is_undone_and_cleaned_up_in_order(lake, doors):
    lake.make("t")
    first = compact(doors, of(doors, "t"), SERIAL)
    for number in range(2):
        lake.sql(f"INSERT INTO lake.t VALUES ({number}, 'new')").collect()
    second = compact(doors, of(doors, "t"), SERIAL)
    before = lake.rows("t")
    assert (first.run < second.run, len(before)) == (True, 8)
    rollback(doors, of(doors, "t"))
    assert lake.rows("t") == before
    compact(doors, of(doors, "t"), SERIAL)
    assert [done["outcome"] for done in cleanup(doors, of(doors, "t"))] == ["cleaned up"] * 2
    assert (lake.rows("t"), lake.debris()) == (before, [])


def test_chosen_partitions_are_rolled_back_alone(lake, doors):
    lake.make("t", "one_key")
    compact(doors, of(doors, "t"), Options(parallelism=1, stats=Stats.SCAN))
    done = rollback(doors, of(doors, "t"), partitions=["dt=a"])
    assert done["outcome"] == "partly rolled back"
    assert (len(lake.files("t")), lake.count("t")) == (4, 12)
    assert rollback(doors, of(doors, "t"))["units"] == ["dt=b"]
    assert (len(lake.files("t")), lake.count("t"), lake.debris()) == (6, 12, [])


def test_a_table_of_three_keys_is_compacted_key_by_key(lake, doors):
    lake.declare("t", "y INT, m INT, d STRING")
    for value in ("1", "2"):
        place = lake.path("t") / "y=2026" / "m=2" / f"d={value}"
        shutil.copytree(lake._part("PARQUET", 3), place)
        lake.add("t", {"y": "2026", "m": "2", "d": value}, place)
    report = compact(doors, of(doors, "t"), SERIAL)
    assert [unit.unit for unit in report.units] == ["y=2026/m=2/d=1", "y=2026/m=2/d=2"]
    assert (len(lake.files("t")), lake.count("t")) == (2, 12)
    rollback(doors, of(doors, "t"))
    assert (len(lake.files("t")), lake.count("t"), lake.debris()) == (6, 12, [])


def test_young_partitions_and_young_runs_are_left_alone(lake, doors):
    lake.make("t")
    hot = Options(parallelism=1, min_age_ms=3_600_000)
    assert not compact(doors, of(doors, "t"), hot).run
    compact(doors, of(doors, "t"), SERIAL)
    assert cleanup(doors, of(doors, "t"), older_than_ms=3_600_000) == []
    assert recover(doors, of(doors, "t")) == []
    assert len(history(doors, of(doors, "t"))) == 1


def test_the_success_marker_is_kept(lake, doors):
    lake.make("t")
    (lake.path("t") / "_SUCCESS").touch()
    compact(doors, of(doors, "t"), SERIAL)
    assert (lake.path("t") / "_SUCCESS").exists()
