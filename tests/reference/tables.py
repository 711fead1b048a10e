"""The tables of PIPES' physical algebra (chapter 11): streams with validities in, rows out.

The printed rows are one possible output; every output with the same snapshots is right.
"""

from __future__ import annotations

from collections.abc import Callable

from reference.errata_tables import ERRATA
from reference.letters import E, equal, is_letter, lasting, letters, renamed, replaced, weight, weights
from reference.table import INPUTS, S1, S2, S3, Table, elements, rows
from reference.window_tables import WINDOW_TABLES
from tidegate.algebra.plan import (
    Aggregate,
    AggregateCall,
    Distinct,
    Filter,
    Join,
    Map,
    Output,
    SetOperation,
    SetRule,
    Union,
    Validity,
    Window,
)
from tidegate.expressions.nodes import TRUE, Column
from tidegate.schema import Type
from tidegate.time import FOREVER


def filter_11_2() -> Table:
    return Table(Filter(lasting("s1"), is_letter("a")), INPUTS, rows(("a", 5, 11), ("a", 9, 10)))


def map_11_3() -> Table:
    plan = Map(lasting("s1"), (Output("f", replaced(a="x", b="y")),))
    return Table(plan, INPUTS, rows(("c", 1, 8), ("x", 5, 11), ("d", 6, 14), ("x", 9, 10), ("y", 12, 17)))


def union_11_4() -> Table:
    merged = sorted(S1 + S2, key=lambda element: element[1])
    return Table(Union((lasting("s1"), lasting("s2"))), INPUTS, rows(*merged))


def join_11_6() -> Table:
    """An equi-join, of which only the first argument is kept."""
    plan = Join(lasting("s1"), renamed(lasting("s2"), "r"), equal(E, Column("r", Type.STRING)))
    return Table(Map(plan, (Output("e", E),)), INPUTS, rows(("d", 6, 9), ("b", 12, 15)))


def product_of_11_1() -> Table:
    """Not printed: the product by formula (8.4), worked out by hand."""
    plan = Join(lasting("s1"), renamed(lasting("s2"), "r"), TRUE)
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
    return Table(Distinct(lasting("s1")), INPUTS, expected)


def difference_11_8() -> Table:
    plan = SetOperation(lasting("s1"), lasting("s2"), SetRule.EXCEPT_ALL)
    expected = rows(("c", 1, 8), ("a", 5, 11), ("d", 9, 14), ("a", 9, 10), ("b", 15, 17))
    return Table(plan, INPUTS, expected)


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
    plan = Aggregate(weights("s1", Validity.INTERVAL), (), (AggregateCall("sum", "v", "total", Type.BIGINT),))
    return Table(plan, INPUTS, [(start, end, (weight(sum_),)) for sum_, start, end in printed])


def grouping_11_10() -> Table:
    plan = Aggregate(lasting("s1"), ("e",), (AggregateCall("count", None, "n", Type.BIGINT),))
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
    difference_11_8,
    sum_11_9,
    grouping_11_10,
    window_11_11,
    now_window,
    unbounded_window,
    sliding_window_17_1,
    window_that_leaves_gaps,
    window_before_zero,
)

TABLES: list[tuple[str, Callable[[], Table]]] = [
    (builder.__name__, builder) for builder in (*BUILDERS, *WINDOW_TABLES, *ERRATA)
]
"""Names and builders, ready for `pytest.mark.parametrize`."""
