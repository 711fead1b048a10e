"""The tables of PIPES' physical algebra (chapters 11 and 17): streams with validities in, rows out.

The printed rows are one possible output; every output with the same snapshots is right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reference.instants import FOREVER
from reference.letters import E, equal, is_letter, letters, renamed, replaced, row, weight, weights
from reference.semantics import Elements
from tidegate.algebra.plan import Aggregate, AggregateCall, Distinct, Filter, Join, Map, Output, Plan, Union, Window
from tidegate.expressions.nodes import TRUE, Column
from tidegate.schema import Type

Printed = list[tuple[str, int, int]]
Expected = list[tuple[int, int, tuple[object, ...]]]

S1: Printed = [("c", 1, 8), ("a", 5, 11), ("d", 6, 14), ("a", 9, 10), ("b", 12, 17)]  # Table 11.1 (a)
S2: Printed = [("b", 1, 7), ("d", 3, 9), ("a", 4, 5), ("b", 7, 15), ("e", 10, 18)]  # Table 11.1 (b)
S3: Printed = [("b", 1, 2), ("a", 3, 4), ("c", 4, 5), ("a", 7, 8), ("b", 10, 11)]  # Table 11.11 (a)


@dataclass(frozen=True, slots=True)
class Table:
    """A plan over scans, the elements of the scanned streams by (start, end, row), and what must come out."""

    plan: Plan
    inputs: Elements
    expected: Expected


def elements(printed: Printed) -> list[tuple[int, int, dict[str, object]]]:
    return [(start, end, row(letter)) for letter, start, end in printed]


INPUTS: Elements = {"s1": elements(S1), "s2": elements(S2), "s3": elements(S3)}


def rows(*printed: tuple[str, int, int]) -> Expected:
    """Rows of one column of letters."""
    return [(start, end, (letter,)) for letter, start, end in printed]


def filter_11_2() -> Table:
    return Table(Filter(letters("s1"), is_letter("a")), INPUTS, rows(("a", 5, 11), ("a", 9, 10)))


def map_11_3() -> Table:
    plan = Map(letters("s1"), (Output("f", replaced(a="x", b="y")),))
    return Table(plan, INPUTS, rows(("c", 1, 8), ("x", 5, 11), ("d", 6, 14), ("x", 9, 10), ("y", 12, 17)))


def union_11_4() -> Table:
    merged = sorted(S1 + S2, key=lambda element: element[1])
    return Table(Union((letters("s1"), letters("s2"))), INPUTS, rows(*merged))


def join_11_6() -> Table:
    """An equi-join, of which only the first argument is kept."""
    plan = Join(letters("s1"), renamed(letters("s2"), "r"), equal(E, Column("r", Type.STRING)))
    return Table(Map(plan, (Output("e", E),)), INPUTS, rows(("d", 6, 9), ("b", 12, 15)))


def product_of_11_1() -> Table:
    """Not printed: the product by formula (8.4), worked out by hand."""
    plan = Join(letters("s1"), renamed(letters("s2"), "r"), TRUE)
    pairs = {
        "cb": [(1, 7), (7, 8)],
        "cd": [(3, 8)],
        "ca": [(4, 5)],
        "ab": [(5, 7), (7, 11), (9, 10)],
        "ad": [(5, 9)],
        "ae": [(10, 11)],
        "db": [(6, 7), (7, 14)],
        "dd": [(6, 9)],
        "de": [(10, 14)],
        "bb": [(12, 15)],
        "be": [(12, 17)],
    }
    return Table(plan, INPUTS, [(s, e, tuple(pair)) for pair, validities in pairs.items() for s, e in validities])


def distinct_11_7() -> Table:
    expected = rows(("c", 1, 8), ("a", 5, 11), ("d", 6, 14), ("b", 12, 17))
    return Table(Distinct(letters("s1")), INPUTS, expected)


def distinct_with_early_end() -> Table:
    """Erratum E-03: the printed algorithm emits c twice at instant 7."""
    inputs = {"s1": elements([("c", 1, 8), ("c", 4, 12), ("c", 7, 8)])}
    return Table(Distinct(letters("s1")), inputs, rows(("c", 1, 8), ("c", 8, 12)))


def sum_11_9() -> Table:
    printed = [
        ("c", 1, 5),
        ("ca", 5, 6),
        ("cad", 6, 8),
        ("ad", 8, 9),
        ("ada", 9, 10),
        ("ad", 10, 11),
        ("d", 11, 12),
        ("db", 12, 14),
        ("b", 14, 17),
    ]
    plan = Aggregate(weights("s1"), (), (AggregateCall("sum", "v", "total", Type.BIGINT),))
    return Table(plan, INPUTS, [(start, end, (weight(sum_),)) for sum_, start, end in printed])


def grouping_11_10() -> Table:
    plan = Aggregate(letters("s1"), ("e",), (AggregateCall("count", None, "n", Type.BIGINT),))
    printed = [("c", 1, 1, 8), ("a", 1, 5, 9), ("d", 1, 6, 14), ("a", 2, 9, 10), ("a", 1, 10, 11), ("b", 1, 12, 17)]
    return Table(plan, INPUTS, [(start, end, (letter, n)) for letter, n, start, end in printed])


def window_11_11() -> Table:
    expected = rows(("b", 1, 51), ("a", 3, 53), ("c", 4, 54), ("a", 7, 57), ("b", 10, 60))
    return Table(Window(letters("s3"), 50), INPUTS, expected)


def now_window() -> Table:
    """Property 11.4: a window of one chronon changes nothing."""
    return Table(Window(letters("s3"), 1), INPUTS, rows(*S3))


def unbounded_window() -> Table:
    return Table(Window(letters("s3"), None), INPUTS, rows(*((letter, start, FOREVER) for letter, start, _ in S3)))


def sliding_window_17_1() -> Table:
    expected = rows(("b", 9, 59), ("a", 9, 59), ("c", 9, 59), ("a", 9, 59), ("b", 19, 69))
    return Table(Window(letters("s3"), 50, 10), INPUTS, expected)


def window_that_leaves_gaps() -> Table:
    """Not printed: with slide 5 and size 2, only the elements at 3 and 4 are ever in the window."""
    return Table(Window(letters("s3"), 2, 5), INPUTS, rows(("a", 4, 9), ("c", 4, 9)))


def window_before_zero() -> Table:
    """Not printed: (17.1) without its bound of 0, worked out by hand for size 3, slide 2."""
    inputs = {"s1": elements([("a", -4, -3), ("b", -1, 0), ("c", 0, 1)])}
    return Table(Window(letters("s1"), 3, 2), inputs, rows(("a", -3, -1), ("b", -1, 3), ("c", 1, 3)))


BUILDERS: tuple[Callable[[], Table], ...] = (
    filter_11_2,
    map_11_3,
    union_11_4,
    join_11_6,
    product_of_11_1,
    distinct_11_7,
    distinct_with_early_end,
    sum_11_9,
    grouping_11_10,
    window_11_11,
    now_window,
    unbounded_window,
    sliding_window_17_1,
    window_that_leaves_gaps,
    window_before_zero,
)

TABLES: list[tuple[str, Callable[[], Table]]] = [(builder.__name__, builder) for builder in BUILDERS]
"""Names and builders, ready for `pytest.mark.parametrize`."""
