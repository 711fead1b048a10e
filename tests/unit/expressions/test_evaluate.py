from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from functools import partial

import pyarrow as pa
import pytest

from tidegate.errors import NOWHERE, InternalError
from tidegate.expressions.evaluate import ERRORS, Failure, evaluate
from tidegate.expressions.functions.resolve import resolve
from tidegate.expressions.nodes import Call, Case, Cast, Column, Expression, InList, Literal
from tidegate.expressions.parse.values import parse_column
from tidegate.physical.common.dead_letters import Reason
from tidegate.schema import Type

NAN, INF = math.nan, math.inf
KINDS = {bool: Type.BOOLEAN, int: Type.INT, float: Type.DOUBLE, str: Type.STRING, timedelta: Type.INTERVAL}
OVERFLOW, DOMAIN, ZERO, CAST = "overflow", "domain", "division_by_zero", "invalid_cast"


utc = partial(datetime, tzinfo=UTC)


def lit(value, type_=None):
    return Literal(value, type_ or KINDS.get(type(value), Type.TIMESTAMP))


def of(name, *arguments):
    nodes = [a if hasattr(a, "type") else Literal(None, Type.NULL) if a is None else lit(a) for a in arguments]
    return resolve(name, nodes, NOWHERE)


def run(expression, rows=None, **columns):
    """Values, with the code of the failure where a row failed."""
    batch = pa.RecordBatch.from_pydict(columns)
    result = evaluate(expression, batch, batch.num_rows if rows is None else rows)
    assert result.values.type == expression.type.arrow
    errors = [0] * len(result.values) if result.errors is None else result.errors
    return [ERRORS[e] if e else v for v, e in zip(result.values.to_pylist(), errors, strict=True)]


def apply(name, *columns, types):
    """A function of columns and of the same values as constants: both must agree."""
    arguments = [Column(f"c{i}", t) for i, t in enumerate(types)]
    arrays = {f"c{i}": pa.array(c, t.arrow) for i, (c, t) in enumerate(zip(columns, types, strict=True))}
    made = run(resolve(name, arguments, NOWHERE), **arrays)
    for row, value in enumerate(made):
        constants = [Literal(c[row], t) for c, t in zip(columns, types, strict=True)]
        assert repr(run(resolve(name, constants, NOWHERE), rows=2)) == repr([value, value])
        mixed: list[Expression] = [constants[0], *arguments[1:]]
        assert repr(run(resolve(name, mixed, NOWHERE), **arrays)[row]) == repr(value)
        mixed = [arguments[0], *constants[1:]]
        assert repr(run(resolve(name, mixed, NOWHERE), **arrays)[row]) == repr(value)
    return made


def test_failures_are_reasons_of_dead_letters():
    assert {f.name for f in Failure} - {"NONE"} <= {r.name for r in Reason}
    assert all(Reason(code).name.lower() == code for code in ERRORS[1:])


@pytest.mark.parametrize(
    ("name", "type_", "left", "right", "expected"),
    [
        ("+", Type.INT, [1, 2**31 - 1, None, -(2**31)], [2, 1, 1, -1], [3, OVERFLOW, None, OVERFLOW]),
        ("-", Type.BIGINT, [1, -(2**63), 0], [2, 1, -(2**63)], [-1, OVERFLOW, OVERFLOW]),
        ("*", Type.BIGINT, [3, 2**62, -(2**63), -1, 0], [4, 2, -1, -(2**63), 5], [12, OVERFLOW, OVERFLOW, OVERFLOW, 0]),
        ("*", Type.INT, [2**16, 2**16, -(2**16)], [2**15, 2**14, 2**15], [OVERFLOW, 2**30, -(2**31)]),
        ("/", Type.DOUBLE, [1.0, 0.0, NAN, None, 1e300], [4.0, 0.0, -0.0, 0.0, 1e-300], [0.25, ZERO, ZERO, None, INF]),
        ("div", Type.INT, [-7, 7, 1, -(2**31), None], [2, -2, 0, -1, 0], [-3, -3, ZERO, OVERFLOW, None]),
        ("%", Type.INT, [-7, 7, 1, -(2**31)], [2, -2, 0, -1], [-1, 1, ZERO, 0]),
        ("%", Type.DOUBLE, [-7.5, 5.0, 1.0], [2.0, INF, 0.0], [-1.5, 5.0, ZERO]),
        ("+", Type.REAL, [1.0, 3e38], [0.5, 3e38], [1.5, INF]),
        ("+", Type.DOUBLE, [INF, 1.0], [-INF, NAN], [NAN, NAN]),
        (
            "power",
            Type.DOUBLE,
            [2.0, 0.0, -8.0, -8.0, NAN, 10.0],
            [3.0, -1.0, 1 / 3, 2.0, 1.0, 400.0],
            [8.0, DOMAIN, DOMAIN, 64.0, NAN, INF],
        ),
        ("log", Type.DOUBLE, [2.0, 1.0, 0.0, 10.0], [8.0, 5.0, 5.0, 0.0], [3.0, DOMAIN, DOMAIN, DOMAIN]),
        ("atan2", Type.DOUBLE, [0.0, 1.0], [1.0, 0.0], [0.0, math.pi / 2]),
    ],
)
def test_arithmetic_computes_the_rows_that_it_can(name, type_, left, right, expected):
    assert repr(apply(name, left, right, types=(type_, type_))) == repr(expected)


@pytest.mark.parametrize(
    ("name", "type_", "values", "expected"),
    [
        ("negate", Type.INT, [1, -(2**31), None], [-1, OVERFLOW, None]),
        ("abs", Type.BIGINT, [-1, -(2**63)], [1, OVERFLOW]),
        ("sign", Type.BIGINT, [-5, 0, 7], [-1, 0, 1]),
        ("sign", Type.DOUBLE, [-5.0, NAN], [-1.0, NAN]),
        ("round", Type.DOUBLE, [0.5, -0.5, 2.5, -2.5, 0.49999999999999994], [1.0, -1.0, 3.0, -3.0, 0.0]),
        ("round", Type.INT, [7, None], [7, None]),
        ("floor", Type.DOUBLE, [-1.5], [-2.0]),
        ("ceil", Type.REAL, [-1.5], [-1.0]),
        ("trunc", Type.DOUBLE, [-1.5, 1.5], [-1.0, 1.0]),
        ("sqrt", Type.DOUBLE, [4.0, -1.0, NAN, None, -0.0], [2.0, DOMAIN, NAN, None, -0.0]),
        ("ln", Type.DOUBLE, [1.0, 0.0, -1.0, INF], [0.0, DOMAIN, DOMAIN, INF]),
        ("log10", Type.DOUBLE, [1000.0, 0.0], [3.0, DOMAIN]),
        ("log2", Type.DOUBLE, [8.0, -1.0], [3.0, DOMAIN]),
        ("exp", Type.DOUBLE, [0.0, 1000.0], [1.0, INF]),
        ("sin", Type.DOUBLE, [0.0, INF], [0.0, DOMAIN]),
        ("cos", Type.DOUBLE, [0.0, -INF, NAN], [1.0, DOMAIN, NAN]),
        ("tan", Type.DOUBLE, [0.0], [0.0]),
        ("atan", Type.DOUBLE, [INF], [math.pi / 2]),
        ("length", Type.STRING, ["", "é😀", None], [0, 2, None]),
        ("upper", Type.STRING, ["aé"], ["AÉ"]),
        ("trim", Type.STRING, ["  a b\t "], ["a b\t"]),
        ("reverse", Type.STRING, ["é😀"], ["😀é"]),
    ],
)
def test_functions_of_one_value(name, type_, values, expected):
    assert repr(apply(name, values, types=(type_,))) == repr(expected)


@pytest.mark.parametrize(
    ("type_", "values", "digits", "expected"),
    [
        (
            Type.DOUBLE,
            [2.345, -2.5, 1e308, 5e307, 1.5, INF, 15.0],
            [2, 0, 5, -308, 400, 2, -1],
            [2.35, -3.0, 1e308, 1e308, 1.5, INF, 20.0],
        ),
        (Type.DOUBLE, [12.0, NAN, None], [-400, 1, 1], [0.0, NAN, None]),
        (
            Type.INT,
            [15, -15, 14, 2**31 - 1, 2**31 - 1, 7],
            [-1, -1, -1, -1, 3, -20],
            [20, -20, 10, OVERFLOW, 2**31 - 1, 0],
        ),
        (
            Type.BIGINT,
            [2**63 - 1, -(2**63), 5 * 10**18, 5 * 10**18 - 1, 4 * 10**18],
            [-18, -19, -19, -19, -1],
            [9 * 10**18, OVERFLOW, OVERFLOW, 0, 4 * 10**18],
        ),
    ],
)
def test_rounding_is_half_away_from_zero(type_, values, digits, expected):
    assert repr(apply("round", values, digits, types=(type_, Type.INT))) == repr(expected)


def test_nan_equals_nan_and_is_greater_than_every_number():
    left, right = [NAN, NAN, 1.0, INF, -0.0, None], [NAN, 1.0, NAN, NAN, 0.0, NAN]
    expected = {
        "=": [True, False, False, False, True, None],
        "<>": [False, True, True, True, False, None],
        "<": [False, False, True, True, False, None],
        "<=": [True, False, True, True, True, None],
        ">": [False, True, False, False, False, None],
        ">=": [True, True, False, False, True, None],
    }
    for type_ in (Type.DOUBLE, Type.REAL):
        for name, values in expected.items():
            assert apply(name, left, right, types=(type_, type_)) == values


@pytest.mark.parametrize(
    ("type_", "ordered"),
    [
        (Type.BOOLEAN, [False, True]),
        (Type.STRING, ["", "B", "a", "é", "😀"]),
        (Type.TIMESTAMP, [datetime(1969, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)]),
        (Type.INTERVAL, [timedelta(-1), timedelta(0), timedelta(microseconds=1)]),
    ],
)
def test_values_of_every_type_are_ordered(type_, ordered):
    for name, expected in (("<", True), (">=", False), ("=", False), ("<>", True)):
        assert set(apply(name, ordered[:-1], ordered[1:], types=(type_, type_))) == {expected}


def test_in_has_three_values_and_knows_nan_and_both_zeros():
    x = Column("x", Type.DOUBLE)
    values = pa.array([NAN, 0.0, -0.0, 1.0, None])
    assert run(InList(x, (lit(NAN), lit(-0.0))), x=values) == [True, True, True, False, None]
    assert run(InList(x, (lit(1.0), lit(None, Type.DOUBLE))), x=values) == [None, None, None, True, None]


def test_logic_forgets_a_failure_where_the_other_side_decides():
    p, d = Column("p", Type.BOOLEAN), Column("d", Type.INT)
    fails = of("=", of("%", 1, d), 0)
    p_values, zero = pa.array([True, False, None]), pa.array([0, 0, 0], pa.int32())
    assert run(of("and", p, fails), p=p_values, d=zero) == [ZERO, False, ZERO]
    assert run(of("and", fails, p), p=p_values, d=zero) == [ZERO, False, ZERO]
    assert run(of("or", p, fails), p=p_values, d=zero) == [True, ZERO, ZERO]
    assert run(of("or", fails, p), p=p_values, d=zero) == [True, ZERO, ZERO]
    assert run(of("not", of("and", fails, p)), p=p_values, d=zero) == [ZERO, True, ZERO]
    assert run(of("and", of("=", of("/", 1, 0), 1.0), p), p=p_values) == [ZERO, False, ZERO]
    assert run(of("and", of("=", of("/", 1, 0), 1.0), False), rows=2) == [False, False]


def test_of_two_failures_the_same_one_is_reported_in_any_order():
    zero, wide = of("/", 1, 0), of("+", 2**31 - 1, 1)
    assert run(of("+", zero, wide), rows=1) == run(of("+", wide, zero), rows=1) == [ZERO]


def test_a_branch_fails_only_where_it_is_taken():
    d = Column("d", Type.INT)
    guarded = of("if", of("<>", d, 0), of("div", 10, d), -1)
    values = pa.array([0, 5, None], pa.int32())
    assert run(guarded, d=values) == [-1, 2, -1]
    assert run(of("coalesce", d, of("div", 1, 0)), d=values) == [0, 5, ZERO]
    assert run(of("coalesce", of("div", 10, d), 7), d=values) == [ZERO, 2, 7]
    failing_condition = Case(((of("=", of("div", 1, d), 0), lit(1)),), lit(2), Type.INT)
    assert run(failing_condition, d=values) == [ZERO, 1, 2]


def test_a_failed_argument_fails_the_call_even_where_null_would_have_a_value():
    assert run(of("is_null", of("/", 1, 0)), rows=2) == [ZERO, ZERO]
    assert run(of("greatest", of("/", 1, 0), 1.0), rows=1) == [ZERO]
    assert run(of("+", None, of("div", 1, 0)), rows=1) == [ZERO]


def test_choices_skip_nulls():
    assert apply("greatest", [1.0, None, NAN], [2.0, 3.0, INF], types=(Type.DOUBLE, Type.DOUBLE))[:2] == [2.0, 3.0]
    assert math.isnan(run(of("greatest", NAN, INF), rows=1)[0])
    assert run(of("least", NAN, INF, None), rows=1) == [INF]
    assert apply("least", ["b", None], ["a", None], types=(Type.STRING, Type.STRING)) == ["a", None]
    assert apply("nullif", [1, 1, None], [1, 2, None], types=(Type.INT, Type.INT)) == [None, 1, None]
    assert run(of("nullif", NAN, NAN), rows=1) == [None]
    assert run(of("coalesce", None, None), rows=2) == [None, None]


def test_tests_of_truth_see_null():
    values = pa.array([True, False, None])
    p = Column("p", Type.BOOLEAN)
    assert run(of("is_true", p), p=values) == [True, False, False]
    assert run(of("is_false", p), p=values) == [False, True, False]
    assert run(of("is_null", p), p=values) == [False, False, True]


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("", ""),
        ("%", "all"),
        ("a%", ["a", "ab", "a%b", "a_b", "a\nb", "a\\b"]),
        ("%b", ["ab", "a%b", "a_b", "a\nb", "a\\b"]),
        ("%a%", ["a", "ab", "a%b", "a_b", "a\nb", "a\\b"]),
        ("a_b", ["a%b", "a_b", "a\nb", "a\\b"]),
        ("a\\%b", ["a%b"]),
        ("a\\_b", ["a_b"]),
        ("a\\\\b", ["a\\b"]),
        ("_", ["a", "é", "😀", "."]),
        ("%.%", ["."]),
        ("A%", []),
    ],
)
def test_like_matches_whole_texts(pattern, matches):
    texts = ["", "a", "ab", "a%b", "a_b", "a\nb", "a\\b", "é", "😀", ".", None]
    wanted = texts[:-1] if matches == "all" else [""] if matches == "" else matches
    found = run(of("like", Column("s", Type.STRING), pattern), s=pa.array(texts))
    assert [t for t, f in zip(texts, found, strict=True) if f] == wanted
    assert found[-1] is None


def test_like_takes_another_escape_and_null():
    assert run(of("like", "50%", "50!%", "!"), rows=1) == [True]
    assert run(of("like", "a\\b", "a\\b", "!"), rows=1) == [True]
    assert run(of("like", "a", None), rows=1) == [None]


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [
        (1, 2, "hé"),
        (2, 3, "éll"),
        (0, 3, "hé"),
        (-2, 4, "h"),
        (-9, 2, ""),
        (4, 99, "lo"),
        (9, 1, ""),
        (1, 0, ""),
        (2, -1, DOMAIN),
    ],
)
def test_substrings_count_characters_from_one(start, length, expected):
    assert apply("substring", ["héllo"], [start], [length], types=(Type.STRING, Type.INT, Type.INT)) == [expected]


def test_functions_of_texts():
    two, three = (Type.STRING, Type.STRING), (Type.STRING, Type.STRING, Type.STRING)
    assert apply("substring", ["héllo", None], [3, 1], types=(Type.STRING, Type.INT)) == ["llo", None]
    assert apply("replace", ["aXaX", "abc"], ["X", ""], ["-", "z"], types=three) == ["a-a-", "abc"]
    assert apply("starts_with", ["abc", "abc"], ["ab", "b"], types=two) == [True, False]
    assert apply("ends_with", ["abc", None], ["bc", "b"], types=two) == [True, None]
    assert apply("contains", ["a.c", "abc"], [".", "."], types=two) == [True, False]
    assert apply("strpos", ["héllo", "abc", "abc"], ["l", "", "z"], types=two) == [3, 1, 0]
    assert apply("left", ["héllo", "a", "a"], [2, 5, -1], types=(Type.STRING, Type.INT)) == ["hé", "a", ""]
    assert apply("right", ["héllo", "a", "a"], [2, 5, -1], types=(Type.STRING, Type.INT)) == ["lo", "a", ""]
    assert apply("concat", ["a", None], ["b", "c"], types=two) == ["ab", None]
    assert run(of("||", "n=", 7), rows=1) == ["n=7"]


def test_parts_of_times_before_and_after_1970_and_far_away():
    parts = ("year", "quarter", "month", "day", "dayofyear", "dayofweek", "hour", "minute", "second")
    instants = pa.array([951_868_799_999_999, -1, -(2**63), 2**63 - 1]).cast(Type.TIMESTAMP.arrow)
    found = [run(of(p, Column("t", Type.TIMESTAMP)), t=instants) for p in parts]
    assert list(zip(*found, strict=True)) == [
        (2000, 1, 2, 29, 60, 3, 23, 59, 59),
        (1969, 4, 12, 31, 365, 4, 23, 59, 59),
        (-290308, 4, 12, 21, 356, 1, 19, 59, 5),
        (294247, 1, 1, 10, 10, 1, 4, 0, 54),
    ]


@pytest.mark.parametrize(
    ("unit", "begin"),
    [
        ("microsecond", utc(2024, 8, 22, 14, 35, 56, 123456)),
        ("millisecond", utc(2024, 8, 22, 14, 35, 56, 123000)),
        ("second", utc(2024, 8, 22, 14, 35, 56)),
        ("minute", utc(2024, 8, 22, 14, 35)),
        ("hour", utc(2024, 8, 22, 14)),
        ("DAY", utc(2024, 8, 22)),
        ("week", utc(2024, 8, 19)),
        ("month", utc(2024, 8, 1)),
        ("quarter", utc(2024, 7, 1)),
        ("year", utc(2024, 1, 1)),
    ],
)
def test_times_are_truncated_to_units(unit, begin):
    time = lit(datetime(2024, 8, 22, 14, 35, 56, 123456, tzinfo=UTC))
    assert run(of("date_trunc", unit, time), rows=1) == [begin]


def test_truncating_before_all_time_overflows():
    first = pa.array([-(2**63), 0]).cast(Type.TIMESTAMP.arrow)
    t = Column("t", Type.TIMESTAMP)
    assert run(of("date_trunc", "year", t), t=first) == [OVERFLOW, datetime(1970, 1, 1, tzinfo=UTC)]


def test_times_and_intervals_are_added_and_subtracted():
    noon, hour = datetime(2024, 1, 1, 12, tzinfo=UTC), timedelta(hours=1)
    assert run(of("+", lit(noon), hour), rows=1) == [noon + hour]
    assert run(of("+", hour, lit(noon)), rows=1) == [noon + hour]
    assert run(of("-", lit(noon), lit(noon - hour)), rows=1) == [hour]
    assert run(of("*", hour, 3), rows=1) == run(of("*", 3, hour), rows=1) == [3 * hour]
    assert run(of("negate", hour), rows=1) == [-hour]
    limits = pa.array([2**63 - 1, -(2**63)]).cast(Type.INTERVAL.arrow)
    v = Column("v", Type.INTERVAL)
    assert run(of("+", v, timedelta(microseconds=1)), v=limits)[0] == OVERFLOW
    assert run(of("negate", v), v=limits)[1] == OVERFLOW
    assert run(of("*", v, 2), v=limits) == [OVERFLOW, OVERFLOW]
    assert run(of("epoch_micros", lit(noon)), rows=1) == [1_704_110_400_000_000]
    assert run(of("epoch_seconds", hour), rows=1) == [3600.0]
    assert run(of("from_epoch_micros", 1), rows=1) == [datetime(1970, 1, 1, microsecond=1, tzinfo=UTC)]


@pytest.mark.parametrize(
    ("source", "target", "values", "expected"),
    [
        (Type.DOUBLE, Type.INT, [1.9, -1.9, 2.0**31, NAN, INF, None], [1, -1, OVERFLOW, CAST, CAST, None]),
        (Type.DOUBLE, Type.BIGINT, [2.0**63, -(2.0**63), 1e18], [OVERFLOW, -(2**63), 10**18]),
        (Type.REAL, Type.INT, [2.0**31, 1.5], [OVERFLOW, 1]),
        (Type.BIGINT, Type.INT, [2**31, -(2**31), None], [OVERFLOW, -(2**31), None]),
        (Type.BIGINT, Type.DOUBLE, [2**53 + 1], [2.0**53]),
        (Type.DOUBLE, Type.REAL, [0.5, 1e300], [0.5, INF]),
        (Type.DOUBLE, Type.BOOLEAN, [0.0, -0.0, NAN, 0.5], [False, False, True, True]),
        (Type.BOOLEAN, Type.INT, [True, False, None], [1, 0, None]),
        (Type.BOOLEAN, Type.STRING, [True, False], ["true", "false"]),
        (Type.BIGINT, Type.STRING, [-5, 2**63 - 1], ["-5", "9223372036854775807"]),
        (Type.DOUBLE, Type.STRING, [1.0, 0.1, 1e20, NAN, -INF, 1e-7], ["1", "0.1", "1e+20", "nan", "-inf", "1e-7"]),
        (
            Type.STRING,
            Type.INT,
            ["5", " +5\n", "5.0", "abc", "", "0x10", "2147483648", None],
            [5, 5, CAST, CAST, CAST, CAST, CAST, None],
        ),
        (
            Type.STRING,
            Type.DOUBLE,
            ["1e3", " .5", "-Infinity", "NaN", "1_0", "0x1"],
            [1000.0, 0.5, -INF, NAN, CAST, CAST],
        ),
        (Type.STRING, Type.BOOLEAN, ["TRUE", "f", "1", " 0 ", "yes"], [True, False, True, False, CAST]),
        (
            Type.STRING,
            Type.INTERVAL,
            ["5 seconds", "-1h", "7", "1 month"],
            [timedelta(seconds=5), timedelta(hours=-1), CAST, CAST],
        ),
        (
            Type.INTERVAL,
            Type.STRING,
            [timedelta(0), timedelta(seconds=90), timedelta(days=-7)],
            ["0 seconds", "90 seconds", "-1 week"],
        ),
    ],
)
def test_casts(source, target, values, expected):
    assert repr(run(Cast(Column("x", source), target), x=pa.array(values, source.arrow))) == repr(expected)


def test_texts_of_times_go_both_ways():
    x = Column("x", Type.TIMESTAMP)
    micros = [0, -1, 1_500_000, 253_402_300_800_000_000, -62_167_219_200_000_001, -62_167_219_200_000_000, None]
    instants = pa.array(micros).cast(Type.TIMESTAMP.arrow)
    texts = run(Cast(x, Type.STRING), x=instants)
    assert texts == [
        "1970-01-01T00:00:00Z",
        "1969-12-31T23:59:59.999999Z",
        "1970-01-01T00:00:01.500000Z",
        "+10000-01-01T00:00:00Z",
        "-0001-12-31T23:59:59.999999Z",
        "0000-01-01T00:00:00Z",
        None,
    ]
    assert parse_column(pa.array(texts), Type.TIMESTAMP)[0].equals(instants)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2024-02-29", utc(2024, 2, 29)),
        ("2024-02-29T12:34", utc(2024, 2, 29, 12, 34)),
        ("2024-02-29 12:34:56.789", utc(2024, 2, 29, 12, 34, 56, 789000)),
        ("2024-02-29 12:34:56.123456789Z", utc(2024, 2, 29, 12, 34, 56, 123456)),
        (" 2024-02-29T00:30:00+01:00 ", utc(2024, 2, 28, 23, 30)),
        ("2024-02-29T00:30:00-0130", utc(2024, 2, 29, 2)),
        ("2023-02-29", None),
        ("2024-02-29T24:00:00", None),
        ("2024-02-29T12:34:56.1234567890", None),
        ("29.2.2024", None),
    ],
)
def test_times_are_read_in_the_forms_of_iso_8601(text, time):
    for others in ([], ["2024-01-01T00:00:00Z"], ["2024-01-01"], ["nonsense"]):
        values, bad = parse_column(pa.array([text, *others]), Type.TIMESTAMP)
        assert bad[0] == (time is None)
        assert values[0].as_py() == time


@pytest.mark.parametrize("spoiled", [[], [0], [7, 4999], range(0, 5000, 100), range(5000)])
@pytest.mark.parametrize(
    ("type_", "good", "odd"),
    [
        (Type.INT, ["1", "-2"], [" 3", "x", "0x1", "99999999999", None]),
        (Type.BIGINT, ["1", "9223372036854775807"], ["+3", "", "9223372036854775808"]),
        (Type.DOUBLE, ["1.5", "nan"], [" 1e3 ", "x"]),
        (
            Type.TIMESTAMP,
            ["2024-01-01T00:00:00Z", None],
            ["2024-01-01", "x", "2024-02-30", "2024-01-01 00:00:00.123456789Z"],
        ),
        (
            Type.TIMESTAMP,
            ["2024-01-01 00:00:00.123456789"],
            ["2500-01-01 00:00:00.123456789", " 1500-01-01", "+12345-01-01"],
        ),
        (Type.BOOLEAN, ["true"], ["T", "yes"]),
        (Type.INTERVAL, ["5 seconds"], ["1h", "1 moon"]),
    ],
)
def test_a_long_column_is_read_as_its_rows_are(type_, good, odd, spoiled):
    texts = [good[i % len(good)] for i in range(5000)]
    for n, row in enumerate(spoiled):
        texts[row] = odd[n % len(odd)]
    known = {t: parse_column(pa.array([t], pa.string()), type_) for t in {*good, *odd}}
    values, bad = parse_column(pa.array(texts, pa.string()), type_)
    plain = pa.int64() if pa.types.is_temporal(values.type) else values.type  # Python's years end with 9999
    assert repr(values.cast(plain).to_pylist()) == repr([known[t][0].cast(plain)[0].as_py() for t in texts])
    assert bad.tolist() == [known[t][1][0] for t in texts]


def test_constants_are_as_long_as_the_rows_and_no_rows_are_none():
    assert run(lit(7), rows=3) == [7, 7, 7]
    assert run(of("+", 1, 2), rows=0) == []
    assert run(of("/", 1, 0), rows=0) == []
    assert run(Case(((lit(None, Type.BOOLEAN), lit(1)),), Literal(None, Type.NULL), Type.INT), rows=2) == [None, None]
    assert run(Literal(None, Type.NULL), rows=2) == [None, None]
    assert run(of("=", None, None), rows=1) == [None]


def test_an_impossible_cast_is_our_mistake():
    with pytest.raises(InternalError):
        run(Cast(lit(1), Type.TIMESTAMP), rows=1)


def test_a_long_column_without_failures_has_no_errors():
    x = Column("x", Type.INT)
    values = pa.array(range(1000), pa.int32())
    result = evaluate(Call("+", (x, lit(1)), Type.INT), pa.RecordBatch.from_pydict({"x": values}), 1000)
    assert result.errors is None


def test_a_nan_is_in_a_list_with_nan_whatever_its_bits():
    product = of("*", lit(0.0), Column("x", Type.DOUBLE))  # of an infinity: NaN, with its sign bit on some machines
    assert run(InList(product, (lit(NAN), lit(1.0))), x=[INF, -INF, NAN, -NAN, 1.0]) == [True, True, True, True, False]
    assert run(InList(product, (lit(1.0),)), x=[INF, 1.0]) == [False, False]
