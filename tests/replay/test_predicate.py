"""Conditions on partition columns: every type, every refusal, and random ones against Python."""

from __future__ import annotations

import json
import operator
import pickle
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import PredicateError
from engine.replay.condition import Joined, Not, parse_condition
from engine.replay.partitions import partition_keys
from engine.replay.predicate import parse_predicate

MAP = pa.map_(pa.string(), pa.string())
TYPES = {
    "region": "string",
    "blob": "binary",
    "code": "varchar(4)",
    "tiny": "byte",
    "hour": "integer",
    "big": "long",
    "ratio": "float",
    "score": "double",
    "price": "decimal(10,2)",
    "open": "boolean",
    "date": "date",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "shape": {"type": "array"},
}


def schema(types=None, physical=None):
    fields = []
    for name, kind in (types or TYPES).items():
        key = (physical or {}).get(name)
        metadata = {"delta.columnMapping.physicalName": key} if key else {}
        fields.append({"name": name, "type": kind, "nullable": True, "metadata": metadata})
    return json.dumps({"type": "struct", "fields": fields})


def maps(rows):
    return pa.array([None if row is None else list(row.items()) for row in rows], MAP)


def kept(where, values, column):
    """Which of the partition values of one column a condition keeps."""
    predicate = parse_predicate(where, schema(), list(TYPES))
    mask = predicate.mask(maps([{column: value} for value in values]))
    assert mask.null_count == 0
    return [value for value, keep in zip(values, mask.to_pylist(), strict=True) if keep]


def refusal(where):
    with pytest.raises(PredicateError) as caught:
        parse_predicate(where, schema(), list(TYPES))
    return str(caught.value)


@pytest.mark.parametrize(
    ("where", "values", "expected"),
    [
        ("region = 'eu'", ["eu", "us", None], ["eu"]),
        ("region >= 'b'", ["a", "b", "é", ""], ["b", "é"]),
        ("region = 'it''s'", ["it's", "its"], ["it's"]),
        ("region in ('eu', 'us')", ["eu", "us", "uk", None], ["eu", "us"]),
        ("region not in ('eu')", ["eu", "us", None, ""], ["us"]),
        ("region not in ('eu', null)", ["eu", "us"], []),
        ("region in ('eu', null)", ["eu", "us"], ["eu"]),
        ("region = null", ["eu", None], []),
        ("region is null", ["eu", None, ""], [None, ""]),
        ("region is not null", ["eu", None, ""], ["eu"]),
        ("not region = 'eu'", ["eu", "us", None], ["us"]),
        ("blob = '\\u0001'", ["\\u0001", "a"], ["\\u0001"]),
        ("code <> 'abc'", ["abc", "abd"], ["abd"]),
        ("tiny < 0", ["-128", "0", "127"], ["-128"]),
        ("hour > 9", ["9", "10", "-11", None], ["10"]),
        ("hour == 9", ["9", "09", "10"], ["9", "09"]),
        ("hour < 9.5", ["9", "10"], ["9"]),
        ("hour = '9'", ["9", "10"], ["9"]),
        ("9 < hour", ["9", "10"], ["10"]),
        ("hour between 3 and 5", ["2", "3", "5", "6", None], ["3", "5"]),
        ("hour not between 3 and 5", ["2", "3", "5", "6", None], ["2", "6"]),
        ("big = 9223372036854775807", ["9223372036854775807", "9223372036854775806"],
         ["9223372036854775807"]),
        ("ratio = 0.1", ["0.1", "0.2"], ["0.1"]),
        ("score = 0", ["-0.0", "0", "1"], ["-0.0", "0"]),
        ("score > 1e300", ["NaN", "Infinity", "1.0", None], ["NaN", "Infinity"]),
        ("score = 'NaN'", ["NaN", "1.0"], ["NaN"]),
        ("score < 0", ["-1.5", "-Infinity", "0.5"], ["-1.5", "-Infinity"]),
        ("price = 1.5", ["1.50", "15", "1.51"], ["1.50"]),
        ("price > 1.499", ["1.49", "1.50", "10.00", "9.00"], ["1.50", "10.00", "9.00"]),
        ("price in (1.5, 2)", ["1.50", "2.00", "3.00"], ["1.50", "2.00"]),
        ("open", ["true", "false", None], ["true"]),
        ("not open", ["true", "false", None], ["false"]),
        ("open = false", ["true", "false", "FALSE"], ["false", "FALSE"]),
        ("date >= '2024-01-02'", ["2024-01-01", "2024-01-02"], ["2024-01-02"]),
        ("date < date '2024-01-02'", ["2024-01-01", "2024-01-02"], ["2024-01-01"]),
        ("date between '2023-12-31' and '2024-01-01'", ["2024-01-01", "2024-01-02"],
         ["2024-01-01"]),
        ("at = timestamp '2024-01-01 00:00:00'",
         ["2024-01-01 00:00:00", "2024-01-01T00:00:00.000000Z", "2024-01-01 00:00:00.0"],
         ["2024-01-01 00:00:00", "2024-01-01T00:00:00.000000Z", "2024-01-01 00:00:00.0"]),
        ("at < '2024-01-01'", ["2024-01-01T01:00:00+02:00", "2024-01-01T00:00:00Z"],
         ["2024-01-01T01:00:00+02:00"]),
        ("at >= date '2024-01-01'", ["2023-12-31 23:59:59.999999", "2024-01-01 00:00:00"],
         ["2024-01-01 00:00:00"]),
        ("local > '2024-01-01 12:00:00'", ["2024-01-01 12:00:00", "2024-01-01 12:00:00.000001"],
         ["2024-01-01 12:00:00.000001"]),
    ],
)  # fmt: skip
def test_values_are_compared_as_the_schemas_type(where, values, expected):
    column = next(n for n in TYPES if n in where.replace("not ", "").replace("9 < ", "").split()[0])
    assert kept(where, values, column) == expected


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("region = 'a' or region = 'b' and hour = 1", [True, True, False, False]),
        ("(region = 'a' or region = 'b') and hour = 1", [False, True, False, False]),
        ("not (region = 'a' and hour = 1)", [True, True, True, False]),
        ("not not hour = 1", [False, True, True, False]),
        ("REGION = 'a' AND Hour = 2", [True, False, False, False]),
        ("`region` = 'a' and \"hour\" = 2", [True, False, False, False]),
        ("true", [True, True, True, True]),
        ("false or hour is null", [False, False, False, True]),
        ("hour = 1 or hour is null", [False, True, True, True]),
    ],
)
def test_words_bind_as_in_sql(where, expected):
    rows = [{"region": "a", "hour": "2"}, {"region": "b", "hour": "1"},
            {"region": "c", "hour": "1"}, {}]  # fmt: skip
    assert parse_predicate(where, schema(), list(TYPES)).mask(maps(rows)).to_pylist() == expected


def test_a_missing_key_and_a_missing_map_are_null():
    predicate = parse_predicate("hour is null", schema(), list(TYPES))
    assert predicate.mask(maps([{}, None, {"hour": "1"}])).to_pylist() == [True, True, False]


def test_column_mapping_looks_under_the_physical_name():
    text = schema({"a": "integer", "b": "integer"}, {"a": "col-1", "b": "a"})
    predicate = parse_predicate("a = 1 and b = 2", text, ["a", "b"])
    assert predicate.mask(maps([{"col-1": "1", "a": "2"}, {"a": "1", "b": "2"}])).to_pylist() == [
        True,
        False,
    ]


def test_an_exact_name_wins_over_another_case():
    text = schema({"a": "string", "A": "string"})
    predicate = parse_predicate("A = 'x'", text, ["a", "A"])
    assert predicate.mask(maps([{"A": "x"}, {"a": "x"}])).to_pylist() == [True, False]


def test_a_name_that_fits_two_columns_is_refused():
    with pytest.raises(PredicateError, match="may mean ab or AB"):
        parse_predicate("Ab = 'x'", schema({"ab": "string", "AB": "string"}), ["ab", "AB"])


def test_a_partition_column_that_the_schema_lacks_is_text():
    predicate = parse_predicate("p = '1'", schema({}), ["p"])
    assert predicate.mask(maps([{"p": "1"}])).to_pylist() == [True]


def test_it_filters_tables_in_chunks_and_slices_and_survives_pickling():
    column = pa.chunked_array([maps([{"hour": str(n % 5)} for n in range(10)]) for _ in range(3)])
    files = pa.table({"path": [str(n) for n in range(30)], "partitionValues": column})
    predicate = pickle.loads(pickle.dumps(parse_predicate("hour = 3", schema(), list(TYPES))))
    assert predicate.filter(files)["path"].to_pylist() == ["3", "8", "13", "18", "23", "28"]
    assert predicate.filter(files.slice(4, 12))["path"].to_pylist() == ["8", "13"]
    assert len(predicate.filter(files.slice(0, 0))) == 0


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("", "nothing follows"),
        ("hour", "stands alone"),
        ("hour =", "expected a value after ="),
        ("hour = x", "found x; text and dates are written in single quotes"),
        ('region = "eu"', "single quotes"),
        ("id = 1", "id is not a partition column"),
        ("hour = 'abc'", "hour is of type integer"),
        ("region = 5", "text in single quotes"),
        ("open = 1", "true or false"),
        ("date >= 2024-01-01", "found -01"),
        ("date = '2024-13-01'", "a date, such as"),
        ("date = timestamp '2024-01-01 00:00:00'", "a date, such as"),
        ("at = 'noon'", "a timestamp, such as"),
        ("local = '2024-01-01T00:00:00Z'", "without a zone"),
        ("price = 1e99", "a number"),
        ("hour in ()", "expected a value after ("),
        ("hour in (1", "expected )"),
        ("hour like '1'", "found like"),
        ("hour between 1 or 2", "expected and"),
        ("hour is 3", "expected null"),
        ("(hour = 1", "expected )"),
        ("hour = 1)", "found )"),
        ("hour = 1 hour = 2", "expected and, or, or the end"),
        ("1 = 1", "expected a column"),
        ("null", "comparison with a column"),
        ("region = 'eu", "a quote is not closed"),
        ("hour % 2 = 0", "'%' is not known"),
        ("not", "expected a column after not"),
        ("and", "expected a column"),
        ("shape = 'x'", "not compared"),
        ("(" * 60 + "hour = 1" + ")" * 60, "nested more than"),
    ],
)
def test_a_wrong_condition_is_refused_with_the_columns_there_are(where, reason):
    message = refusal(where)
    assert reason in message
    assert "partition columns: region (string), blob (binary)" in message
    assert "\n" not in message


def test_a_table_without_partitions_says_so():
    with pytest.raises(PredicateError, match="has no partition columns"):
        parse_predicate("hour = 1", schema(), [])


@pytest.mark.parametrize("broken", ["{", "null", "[]", '{"fields":5}'])
def test_a_broken_schema_is_refused(broken):
    with pytest.raises(PredicateError, match="schemaString cannot be read"):
        parse_predicate("hour = 1", broken, ["hour"])
    assert partition_keys(broken, ["hour"]) == ["hour"]


def test_fields_of_no_sound_shape_are_columns_of_text():
    odd = '{"fields":[5,{"name":[1]},{"name":"a","metadata":7},{"name":"b","type":{}}]}'
    assert partition_keys(odd, ["a", "b", "c"]) == ["a", "b", "c"]
    parse_predicate("a = 'x' and c = 'y'", odd, ["a", "c"])


def test_a_partition_value_that_is_not_of_its_type_is_named():
    with pytest.raises(PredicateError, match="partition value of hour is 'abc'"):
        kept("hour = 1", ["1", "abc"], "hour")


def test_long_lists_do_not_nest():
    where = " or ".join(f"hour = {n}" for n in range(5000))
    assert kept(where, ["17", "5001"], "hour") == ["17"]


# --- random conditions against a tiny evaluator --------------------------------------------------

COMPARE = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
           ">": operator.gt, ">=": operator.ge}  # fmt: skip
PYTHON = {"region": str, "hour": int, "price": Decimal}
VALUES = {
    "region": st.sampled_from(["", "a", "B", "b", "é", "it's", "10", "9"]),
    "hour": st.integers(-12, 12).map(str),
    "price": st.decimals(-2, 12, places=2).map(str),
}


def literal(column, text):
    return "'" + text.replace("'", "''") + "'" if column == "region" else text


@st.composite
def leaves(draw):
    column = draw(st.sampled_from(sorted(PYTHON)))
    value = VALUES[column].filter(bool)
    form = draw(st.sampled_from(["compare", "in", "null", "between"]))
    if form == "null":
        negated = draw(st.booleans())
        return (
            f"{column} is {'not ' if negated else ''}null",
            lambda row: (row(column) is None) != negated,
        )
    make = PYTHON[column]
    if form == "compare":
        sign, text = draw(st.sampled_from(sorted(COMPARE))), draw(value)
        return (
            f"{column} {sign} {literal(column, text)}",
            lambda row: None if row(column) is None else COMPARE[sign](row(column), make(text)),
        )
    if form == "in":
        texts = draw(st.lists(value, min_size=1, max_size=3))
        has_null = draw(st.booleans())
        listed = ", ".join([literal(column, t) for t in texts] + ["null"] * has_null)

        def among(row):
            if row(column) is None:
                return None
            return True if row(column) in map(make, texts) else (None if has_null else False)

        return f"{column} in ({listed})", among
    low, high = draw(value), draw(value)
    return (
        f"{column} between {literal(column, low)} and {literal(column, high)}",
        lambda row: None if row(column) is None else make(low) <= row(column) <= make(high),
    )


def joined(children):
    def combine(parts, word):
        stop = word == "or"

        def truth(row):
            found = [part(row) for _, part in parts]
            return stop if stop in found else (None if None in found else not stop)

        return "(" + f" {word} ".join(text for text, _ in parts) + ")", truth

    several = st.lists(children, min_size=2, max_size=3)
    negated = children.map(
        lambda c: (f"not ({c[0]})", lambda row: None if c[1](row) is None else not c[1](row))
    )
    return st.one_of(several.map(lambda p: combine(p, "and")),
                     several.map(lambda p: combine(p, "or")), negated)  # fmt: skip


@given(
    st.recursive(leaves(), joined, max_leaves=8),
    st.lists(st.fixed_dictionaries({}, optional={c: st.none() | v for c, v in VALUES.items()})),
)
def test_random_conditions_keep_what_plain_python_keeps(condition, rows):
    where, truth = condition

    def value(row, column):
        text = row.get(column)
        return PYTHON[column](text) if text else None

    expected = [truth(lambda column, row=row: value(row, column)) is True for row in rows]
    mask = parse_predicate(where, schema(), list(TYPES)).mask(maps(rows))
    assert mask.to_pylist() == expected


@given(
    st.text(alphabet="ahour=<>!()',\"`0.-e né in and or not null is between true date", max_size=40)
)
def test_any_text_is_a_condition_or_a_clear_refusal(text):
    try:
        parse_predicate(text, schema(), list(TYPES))
    except PredicateError as error:
        assert "partition columns" in str(error)


def test_the_tree_keeps_chains_flat():
    tree = parse_condition("not a = 1 and b = 2 and c = 3")
    assert isinstance(tree, Joined)
    assert len(tree.parts) == 3
    assert isinstance(tree.parts[0], Not)
