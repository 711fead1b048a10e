from __future__ import annotations

import math
from datetime import UTC, datetime
from itertools import product

import pytest
from inline_snapshot import snapshot

from tidegate.errors import NOWHERE, QueryError, Span
from tidegate.expressions.coercion import can_cast, cast, cast_can_fail
from tidegate.expressions.evaluate import KERNELS
from tidegate.expressions.functions.aggregates import AGGREGATES, result_type
from tidegate.expressions.functions.resolve import can_fail, coerce, common_type, function_names, resolve, unify
from tidegate.expressions.functions.signatures import ALIASES, FUNCTIONS
from tidegate.expressions.nodes import Call, Case, Cast, Column, Literal
from tidegate.schema import Type

B, I, L, F, D, S, T, V = (  # noqa: E741 - the first letters of the types
    Column(t.name.lower(), t)
    for t in (Type.BOOLEAN, Type.INT, Type.BIGINT, Type.REAL, Type.DOUBLE, Type.STRING, Type.TIMESTAMP, Type.INTERVAL)
)
PLAIN = [t for t in Type if not t.parts]
NULL = Literal(None, Type.NULL)
ONE = Literal(1, Type.INT)


def text(value):
    return Literal(value, Type.STRING)


def error_of(name, *arguments):
    with pytest.raises(QueryError) as caught:
        resolve(name, arguments, Span(3, 7))
    assert caught.value.span == Span(3, 7)
    return caught.value.render()


@pytest.mark.parametrize(
    ("name", "arguments", "type_"),
    [
        ("+", (I, I), Type.INT),
        ("+", (I, L), Type.BIGINT),
        ("+", (I, F), Type.DOUBLE),
        ("*", (F, F), Type.REAL),
        ("-", (L, D), Type.DOUBLE),
        ("/", (I, I), Type.DOUBLE),
        ("/", (F, F), Type.DOUBLE),
        ("div", (I, L), Type.BIGINT),
        ("%", (I, D), Type.DOUBLE),
        ("mod", (I, I), Type.INT),
        ("-", (T, T), Type.INTERVAL),
        ("-", (T, V), Type.TIMESTAMP),
        ("+", (V, T), Type.TIMESTAMP),
        ("+", (V, V), Type.INTERVAL),
        ("*", (V, I), Type.INTERVAL),
        ("*", (I, V), Type.INTERVAL),
        ("negate", (V,), Type.INTERVAL),
        ("abs", (F,), Type.REAL),
        ("round", (D, ONE), Type.DOUBLE),
        ("ROUND", (I,), Type.INT),
        ("ceiling", (D,), Type.DOUBLE),
        ("sqrt", (I,), Type.DOUBLE),
        ("pow", (I, I), Type.DOUBLE),
        ("length", (S,), Type.INT),
        ("substr", (S, ONE), Type.STRING),
        ("concat", (S, I, D, T), Type.STRING),
        ("||", (S, B), Type.STRING),
        ("year", (T,), Type.INT),
        ("epoch_micros", (V,), Type.BIGINT),
        ("from_epoch_micros", (I,), Type.TIMESTAMP),
        ("greatest", (I, L, D), Type.DOUBLE),
        ("coalesce", (NULL, I), Type.INT),
        ("nullif", (I, NULL), Type.INT),
        ("if", (B, I, L), Type.BIGINT),
        ("=", (I, D), Type.BOOLEAN),
        ("is_null", (T,), Type.BOOLEAN),
        ("+", (NULL, NULL), Type.INT),
    ],
)
def test_a_call_has_the_type_of_its_overload(name, arguments, type_):
    assert resolve(name, arguments, NOWHERE).type is type_


def test_arguments_are_cast_to_what_the_overload_asks_for():
    assert resolve("+", (I, L), NOWHERE) == Call("+", (Cast(I, Type.BIGINT), L), Type.BIGINT)


def test_constants_are_converted_rather_than_cast():
    assert resolve("=", (D, ONE), NOWHERE).arguments == (D, Literal(1.0, Type.DOUBLE))
    assert resolve("=", (L, ONE), NOWHERE).arguments == (L, Literal(1, Type.BIGINT))
    assert resolve("=", (S, NULL), NOWHERE).arguments == (S, Literal(None, Type.STRING))


def test_a_text_beside_a_timestamp_is_read_as_one():
    found = resolve("<", (T, text("2024-02-29 12:00+01:00")), NOWHERE)
    assert found.arguments[1] == Literal(datetime(2024, 2, 29, 11, tzinfo=UTC), Type.TIMESTAMP)
    assert resolve("coalesce", (text("2024-01-01"), T), NOWHERE).type is Type.TIMESTAMP
    assert resolve("year", (text("2024-01-01"),), NOWHERE).type is Type.INT


def test_a_text_beside_a_timestamp_that_is_none_is_an_error():
    assert error_of("=", T, text("noon")) == snapshot("""\
error[Q121]: 'noon' is not a timestamp
   = hint: write for example '2026-08-22 14:30:00Z'\
""")
    assert "out of range" in error_of("=", T, text("-0001-01-01"))


def test_an_unknown_function_hints_at_what_was_meant():
    assert error_of("uper", S) == snapshot("""\
error[Q120]: unknown function 'uper'
   = hint: did you mean 'upper'?\
""")
    assert "did you mean 'count'?" in error_of("coun", S)


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        (
            ("+", S, I),
            snapshot("""\
error[Q121]: '+' does not take (STRING, INT)
   = hint: it takes (INT, INT) or (BIGINT, BIGINT) or (REAL, REAL) or (DOUBLE, DOUBLE) or (TIMESTAMP, INTERVAL) or \
(INTERVAL, TIMESTAMP) or (INTERVAL, INTERVAL)\
"""),
        ),
        (
            ("substring", S),
            snapshot("""\
error[Q121]: substring does not take (STRING)
   = hint: it takes (STRING, INT) or (STRING, INT, INT)\
"""),
        ),
        (
            ("=", I, S),
            snapshot("""\
error[Q121]: '=' does not take (INT, STRING)
   = hint: it takes two values of a common type\
"""),
        ),
        (
            ("date_trunc", text("fortnight"), T),
            snapshot("""\
error[Q121]: 'fortnight' is not a unit of time
   = hint: available: day, hour, microsecond, millisecond, minute, month, quarter, second, week, year\
"""),
        ),
        (
            ("negate", S),
            snapshot("""\
error[Q121]: '-' does not take (STRING)
   = hint: it takes (INT) or (BIGINT) or (REAL) or (DOUBLE) or (INTERVAL)\
"""),
        ),
    ],
)
def test_a_call_with_the_wrong_arguments_says_what_the_function_takes(call, shown):
    assert error_of(*call) == shown


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("=", (I,)),
        ("is_null", ()),
        ("coalesce", ()),
        ("nullif", (I,)),
        ("if", (I, I, I)),
        ("if", (B, I, S)),
        ("concat", ()),
        ("||", (S,)),
        ("pi", (I,)),
        ("position", (S,)),
        ("like", (S, S)),
        ("like", (I, text("a"))),
        ("like", (S, text("a"), text("b"), text("c"))),
        ("date_part", (S, T)),
        ("date_part", (text("hour"), I)),
        ("date_trunc", (S, T)),
        ("div", (D, D)),
        ("and", (I, B)),
        ("greatest", (T, V)),
        ("year", (S,)),
    ],
)
def test_arguments_that_do_not_fit_are_an_error(name, arguments):
    assert "Q121" in error_of(name, *arguments)


@pytest.mark.parametrize(("pattern", "escape"), [("a\\b", "\\"), ("a\\", "\\"), ("a!b", "!"), ("a", "!!")])
def test_an_escape_in_a_pattern_must_escape_something(pattern, escape):
    assert "Q121" in error_of("like", S, text(pattern), text(escape))


def test_other_names_mean_the_same():
    assert resolve("char_length", (S,), NOWHERE) == resolve("length", (S,), NOWHERE)
    assert resolve("position", (text("a"), S), NOWHERE) == resolve("strpos", (S, text("a")), NOWHERE)
    assert resolve("date_part", (text("HOUR"), T), NOWHERE) == resolve("hour", (T,), NOWHERE)
    assert resolve("date_part", (text("epoch"), T), NOWHERE) == resolve("epoch_seconds", (T,), NOWHERE)
    assert resolve("if", (B, I, I), NOWHERE) == Case(((B, I),), I, Type.INT)
    assert resolve("pi", (), NOWHERE) == Literal(math.pi, Type.DOUBLE)
    assert resolve("coalesce", (I,), NOWHERE) == I


def test_every_function_has_a_kernel_or_is_rewritten():
    elsewhere = {"and", "or", "coalesce", "if", "pi", "position", "date_part"}
    assert set(FUNCTIONS) - elsewhere == set(KERNELS)
    assert set(ALIASES.values()) <= set(FUNCTIONS)
    assert "+" not in function_names()


@pytest.mark.parametrize(
    ("a", "b", "common"),
    [
        (Type.INT, Type.BIGINT, Type.BIGINT),
        (Type.INT, Type.REAL, Type.DOUBLE),
        (Type.BIGINT, Type.REAL, Type.DOUBLE),
        (Type.REAL, Type.DOUBLE, Type.DOUBLE),
        (Type.NULL, Type.STRING, Type.STRING),
        (Type.NULL, Type.NULL, Type.NULL),
        (Type.STRING, Type.INT, None),
        (Type.BOOLEAN, Type.INT, None),
        (Type.TIMESTAMP, Type.INTERVAL, None),
    ],
)
def test_common_types_do_not_depend_on_the_order(a, b, common):
    assert common_type(a, b) is common
    assert common_type(b, a) is common


def test_coercion_widens_and_refuses_to_narrow():
    assert coerce(I, Type.DOUBLE, NOWHERE) == Cast(I, Type.DOUBLE)
    assert coerce(I, Type.INT, NOWHERE) is I
    with pytest.raises(QueryError, match=r"BIGINT is needed here, but this is DOUBLE[^$]*CAST"):
        coerce(D, Type.BIGINT, NOWHERE)
    with pytest.raises(QueryError, match="epoch_micros"):
        coerce(T, Type.BIGINT, NOWHERE)
    assert unify((I, D), NOWHERE) == (Cast(I, Type.DOUBLE), D)
    assert unify((I, S), NOWHERE) is None


def test_casts_that_make_no_sense_are_refused_with_a_way_out():
    assert cast(NULL, Type.TIMESTAMP, NOWHERE) == Literal(None, Type.TIMESTAMP)
    assert cast(I, Type.INT, NOWHERE) is I
    for argument, target, hint in [
        (T, Type.BIGINT, "epoch_micros"),
        (L, Type.TIMESTAMP, "from_epoch"),
        (I, Type.INTERVAL, "multiply"),
    ]:
        with pytest.raises(QueryError, match=hint):
            cast(argument, target, NOWHERE)
    with pytest.raises(QueryError, match="BOOLEAN cannot be cast to TIMESTAMP"):
        cast(B, Type.TIMESTAMP, NOWHERE)


def test_nothing_is_cast_to_null():
    assert [t for t in Type if can_cast(t, Type.NULL)] == [Type.NULL]


def test_which_casts_can_fail():
    plain = {(s.name, t.name) for s in PLAIN for t in PLAIN if can_cast(s, t) and cast_can_fail(s, t)}
    assert plain == {
        *(("STRING", t.name) for t in PLAIN if t not in (Type.STRING, Type.NULL)),
        ("BIGINT", "INT"),
        *((s, t) for s in ("REAL", "DOUBLE") for t in ("INT", "BIGINT")),
    }


def test_casts_of_arrays_and_maps_can_fail_as_those_of_what_they_hold():
    for source, target in product((t for t in Type if t.is_array), repeat=2):
        (one,), (other,) = source.parts, target.parts
        assert can_cast(source, target) is can_cast(one, other)
        assert not can_cast(source, target) or cast_can_fail(source, target) is cast_can_fail(one, other)
    assert can_cast(Type.MAP_INT_DOUBLE, Type.MAP_BIGINT_INT)
    assert cast_can_fail(Type.MAP_INT_DOUBLE, Type.MAP_BIGINT_INT)
    assert not cast_can_fail(Type.MAP_INT_INT, Type.MAP_BIGINT_DOUBLE)
    # Two keys could become one.
    assert not can_cast(Type.MAP_STRING_INT, Type.MAP_INT_INT)
    assert not can_cast(Type.ARRAY_INT, Type.INT)
    assert not can_cast(Type.ARRAY_INT, Type.MAP_INT_INT)


@pytest.mark.parametrize(
    ("expression", "fails"),
    [
        (resolve("+", (I, ONE), NOWHERE), True),
        (resolve("+", (D, D), NOWHERE), False),
        (resolve("/", (D, D), NOWHERE), True),
        (resolve("+", (T, V), NOWHERE), True),
        (resolve("=", (I, D), NOWHERE), False),
        (resolve("and", (B, resolve("=", (resolve("%", (I, I), NOWHERE), ONE), NOWHERE)), NOWHERE), True),
        (resolve("abs", (D,), NOWHERE), False),
        (resolve("round", (I, ONE), NOWHERE), True),
        (resolve("date_trunc", (text("day"), T), NOWHERE), True),
        (resolve("concat", (S, I), NOWHERE), False),
        (Cast(S, Type.INT), True),
    ],
)
def test_whether_an_expression_can_fail_is_known_beforehand(expression, fails):
    assert can_fail(expression) is fails


@pytest.mark.parametrize(
    ("function", "argument", "type_"),
    [
        ("count", None, Type.BIGINT),
        ("count", Type.STRING, Type.BIGINT),
        ("sum", Type.INT, Type.BIGINT),
        ("sum", Type.REAL, Type.DOUBLE),
        ("avg", Type.BIGINT, Type.DOUBLE),
        ("min", Type.STRING, Type.STRING),
        ("max", Type.INTERVAL, Type.INTERVAL),
    ],
)
def test_aggregates_have_types(function, argument, type_):
    assert function in AGGREGATES
    assert result_type(AGGREGATES[function], () if argument is None else (argument,), NOWHERE) is type_


@pytest.mark.parametrize(
    ("function", "argument"), [("sum", None), ("sum", Type.STRING), ("avg", Type.TIMESTAMP), ("min", Type.NULL)]
)
def test_aggregates_refuse_what_they_cannot_aggregate(function, argument):
    with pytest.raises(QueryError, match="Q121"):
        result_type(AGGREGATES[function], () if argument is None else (argument,), Span(0, 3))
