"""Which conjuncts of a join's predicate are tested while searching."""

from __future__ import annotations

import math
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest

from tidegate.errors import NOWHERE
from tidegate.expressions.functions.resolve import resolve
from tidegate.expressions.nodes import TRUE, Cast, Column, Expression, Literal, conjunction
from tidegate.physical.join.kernels.terms import MOST_TERMS, Combine, Compare, Term, ranges_of
from tidegate.physical.join.residual import Operand, compute_operand, split_residual
from tidegate.schema import Schema, Type

TYPES = {
    "v": Type.DOUBLE,
    "f": Type.REAL,
    "n": Type.INT,
    "b": Type.BIGINT,
    "t": Type.TIMESTAMP,
    "i": Type.INTERVAL,
    "s": Type.STRING,
}
LEFT = Schema.of(**{f"l.{name}": type_ for name, type_ in TYPES.items()})
RIGHT = Schema.of(**{f"r.{name}": type_ for name, type_ in TYPES.items()})


def left(name: str) -> Column:
    return Column(f"l.{name}", TYPES[name])


def right(name: str) -> Column:
    return Column(f"r.{name}", TYPES[name])


def call(function: str, *arguments: Expression) -> Expression:
    return resolve(function, arguments, NOWHERE)


ONE = Literal(1.0, Type.DOUBLE)
SECOND = Literal(timedelta(seconds=1), Type.INTERVAL)


@pytest.mark.parametrize(
    "predicate",
    [
        call("<", left("v"), right("v")),
        call("<", right("v"), left("v")),
        call("<", left("f"), right("f")),
        call("<>", left("n"), right("n")),
        call(">=", left("b"), right("b")),
        call(">=", left("b"), right("n")),
        call("<", left("t"), right("t")),
        call(">", call("+", left("v"), right("v")), ONE),
        call(">", ONE, call("-", right("v"), left("v"))),
        call("=", call("*", left("n"), right("n")), Literal(6, Type.INT)),
        call(">", call("+", left("v"), right("v")), Literal(1, Type.INT)),
        call("<", call("abs", call("-", left("v"), right("v"))), ONE),
        call("<", call("abs", call("-", left("t"), right("t"))), SECOND),
        call("<", call("-", left("t"), right("t")), SECOND),
        call(">", call("+", Cast(left("n"), Type.DOUBLE), call("sqrt", right("v"))), ONE),
        call("<", left("v"), ONE),
    ],
)
def test_terms(predicate: Expression) -> None:
    residual = split_residual(predicate, LEFT, RIGHT)
    assert len(residual.terms) == 1
    assert residual.rest == TRUE


@pytest.mark.parametrize(
    "predicate",
    [
        call("=", left("s"), right("s")),
        call("<", left("v"), left("v")),
        call(">", call("+", left("f"), right("f")), Literal(1.0, Type.REAL)),
        call("=", call("abs", call("-", left("v"), right("v"))), ONE),
        call(">", call("/", left("v"), right("v")), ONE),
        call(">", call("+", call("+", left("v"), right("v")), ONE), ONE),
        call(">", call("+", left("b"), right("b")), Literal(2**53 + 1, Type.BIGINT)),
        call(">", call("+", left("v"), right("v")), left("v")),
        call(">", call("*", left("i"), right("b")), SECOND),
        call("or", call("<", left("v"), right("v")), call("<", left("n"), right("n"))),
    ],
)
def test_no_terms(predicate: Expression) -> None:
    residual = split_residual(predicate, LEFT, RIGHT)
    assert not residual.terms
    assert residual.rest == predicate


def test_what_is_too_much_is_left_to_the_rest() -> None:
    terms = tuple(
        call(">", call("+", left("v"), right("v")), Literal(float(i), Type.DOUBLE)) for i in range(MOST_TERMS + 2)
    )
    residual = split_residual(conjunction(terms), LEFT, RIGHT)
    assert len(residual.terms) == MOST_TERMS
    assert residual.rest == conjunction(terms[MOST_TERMS:])


def test_operands_that_fail_or_do_not_fit_are_not_tested() -> None:
    columns = pa.RecordBatch.from_pydict({"l.n": pa.array([1, 0, None, 2**31 - 1], pa.int32())})
    divided = Operand(call("/", ONE, left("n")), 1.0, math.inf)
    computed = compute_operand(divided, columns, 4)
    assert computed.values.to_pylist() == [1.0, None, None, 1 / (2**31 - 1)]
    assert computed.nulls is not None
    assert computed.nulls.tolist() == [False, False, True, False]
    assert compute_operand(Operand(left("n"), 1.0, 2.0**30 - 1), columns, 4).values.to_pylist() == [
        1.0,
        0.0,
        None,
        None,
    ]


NUMBERS = [-math.inf, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, 1.0000000000000002, 1e308, math.inf, math.nan]


def key(value: float) -> tuple[bool, float]:
    return (math.isnan(value), 0.0 if math.isnan(value) else value)


COMPARED = {
    Compare.EQUAL: lambda a, b: key(a) == key(b),
    Compare.UNEQUAL: lambda a, b: key(a) != key(b),
    Compare.LESS: lambda a, b: key(a) < key(b),
    Compare.AT_MOST: lambda a, b: key(a) <= key(b),
    Compare.GREATER: lambda a, b: key(a) > key(b),
    Compare.AT_LEAST: lambda a, b: key(a) >= key(b),
}

COMBINED = {
    Combine.NOTHING: lambda probe, run: run,
    Combine.SUM: lambda probe, run: probe - run,
    Combine.PRODUCT: lambda probe, run: probe * run,
    Combine.MAGNITUDE: lambda probe, run: abs(probe - run),
}


@pytest.mark.parametrize("compare", Compare)
@pytest.mark.parametrize("combine", Combine)
def test_a_range_says_the_same_as_the_comparison(combine: Combine, compare: Compare) -> None:
    """Over all pairs of numbers and all constants among those that matter."""
    if combine is Combine.MAGNITUDE and compare in (Compare.EQUAL, Compare.UNEQUAL):
        pytest.skip("not an interval")
    for constant in NUMBERS:
        term = Term(int(combine), int(compare), 1.0, -1.0, constant)
        ranges = ranges_of([pa.array(NUMBERS)], [term], len(NUMBERS))[:, 0].tolist()
        for value, (shift, factor, low, high, outside) in zip(NUMBERS, ranges, strict=True):
            for run in NUMBERS:
                with np.errstate(all="ignore"):
                    x = float(np.float64(shift) + np.float64(factor) * np.float64(run))
                    combined = float(COMBINED[combine](np.float64(value), np.float64(run)))
                expected = COMPARED[compare](combined, value if combine is Combine.NOTHING else constant)
                assert ((low <= x <= high) != bool(outside)) is expected, (value, run, constant)
