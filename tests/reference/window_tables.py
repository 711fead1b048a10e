"""The tables of PIPES' windows by count, of split, coalesce, Istream, Dstream and granularity (chapters 11, 17, 20)."""

from __future__ import annotations

from collections.abc import Callable

from reference.letters import grouped, lasting, letters, ungrouped
from reference.table import INPUTS, S1, Table, elements, rows
from tidegate.algebra.plan import Change, Changes, Coalesce, CountWindow, Granularity, Split, Window
from tidegate.time import FOREVER


def count_window_11_12() -> Table:
    expected = rows(("b", 1, 3), ("a", 3, 4), ("c", 4, 7), ("a", 7, 10), ("b", 10, FOREVER))
    return Table(CountWindow(letters("s3"), 1), INPUTS, expected)


def sliding_count_window_17_2() -> Table:
    expected = rows(("b", 3, 7), ("a", 3, 7), ("c", 7, FOREVER), ("a", 7, FOREVER))
    return Table(CountWindow(letters("s3"), 2, 2), INPUTS, expected)


def count_window_of_all_elements() -> Table:
    """Not printed: every element stays, the fifth waits for a sixth."""
    expected = rows(("b", 3, FOREVER), ("a", 3, FOREVER), ("c", 7, FOREVER), ("a", 7, FOREVER))
    return Table(CountWindow(letters("s3"), None, 2), INPUTS, expected)


def count_window_that_skips() -> Table:
    """Not printed: one element of every two is ever in the window."""
    return Table(CountWindow(letters("s3"), 1, 2), INPUTS, rows(("a", 3, 7), ("a", 7, FOREVER)))


def partitioned_window_11_13() -> Table:
    expected = rows(("b", 1, 10), ("a", 3, 7), ("c", 4, FOREVER), ("a", 7, FOREVER), ("b", 10, FOREVER))
    return Table(CountWindow(letters("s3"), 1, keys=("e",)), INPUTS, expected)


def sliding_partitioned_window() -> Table:
    """Not printed: a and c are one group, b is another; each changes with every second element of its own."""
    plan = CountWindow(grouped(letters("s3"), c="a"), 2, 2, ("g",))
    expected = rows(("a", 4, FOREVER), ("c", 4, FOREVER), ("b", 10, FOREVER), ("b", 10, FOREVER))
    return Table(ungrouped(plan), INPUTS, expected)


def count_window_of_ties() -> Table:
    """Not printed: of one instant a counts before b, and b before c; the last one decides."""
    inputs = {"s": elements([("b", 1, 2), ("a", 1, 2), ("c", 1, 2), ("a", 5, 6)])}
    return Table(CountWindow(letters("s"), 2), inputs, rows(("b", 1, 5), ("c", 1, FOREVER), ("a", 5, FOREVER)))


def sliding_count_window_of_ties() -> Table:
    """Not printed: a, b | b, c at 1; at 5 come a | b, the second of which completes a slide."""
    inputs = {"s": elements([(e, 1, 2) for e in "cabb"] + [("b", 5, 6), ("a", 5, 6), ("a", 7, 8)])}
    expected = rows(("b", 1, 5), ("b", 1, 5), ("c", 1, FOREVER), ("a", 5, FOREVER), ("b", 5, FOREVER))
    return Table(CountWindow(letters("s"), 3, 2), inputs, expected)


def count_window_over_validities() -> Table:
    """Not printed: by (8.18) every instant of a validity counts; a at 1, 2 and 3, b at 3."""
    inputs = {"s": elements([("a", 1, 4), ("b", 3, 4)])}
    return Table(CountWindow(lasting("s"), 2), inputs, rows(("a", 1, FOREVER), ("a", 2, 3), ("b", 3, FOREVER)))


def time_window_over_validities() -> Table:
    """Not printed: by (8.17) every instant of a validity is extended."""
    inputs = {"s": elements([("a", 1, 4)])}
    return Table(Window(lasting("s"), 3), inputs, rows(("a", 1, 4), ("a", 2, 5), ("a", 3, 6)))


def sliding_window_over_validities() -> Table:
    """Not printed: size 3 and slide 2; the window is [1, 3] at 3 and 4, [3, 5] at 5 and 6, [5, 7] at 7 and 8."""
    inputs = {"s": elements([("a", 2, 6)])}
    return Table(Window(lasting("s"), 3, 2), inputs, rows(("a", 3, 5), ("a", 3, 7), ("a", 5, 7), ("a", 5, 9)))


def window_over_window() -> Table:
    """Not printed: what a window made longer is made longer at each of its instants."""
    inputs = {"s": elements([("a", 1, 2)])}
    return Table(Window(Window(letters("s"), 2), 2), inputs, rows(("a", 1, 3), ("a", 2, 4)))


def split_11_14() -> Table:
    chronons = sorted(((e, t, t + 1) for e, start, end in S1 for t in range(start, end)), key=lambda each: each[1])
    return Table(Split(lasting("s1"), 1), INPUTS, rows(*chronons))


def split_in_three() -> Table:
    """Not printed: any pieces of at most three chronons."""
    return Table(Split(lasting("s1"), 3), INPUTS, rows(*S1))


def coalesce_11_15() -> Table:
    expected = rows(("b", 1, 15), ("d", 3, 9), ("a", 4, 5), ("e", 10, 18))
    return Table(Coalesce(lasting("s2"), 20), INPUTS, expected)


def istream_17_3() -> Table:
    expected = rows(("b", 1, 2), ("d", 3, 4), ("a", 4, 5), ("e", 10, 11))
    return Table(Changes(lasting("s2"), Change.INSERTED), INPUTS, expected)


def dstream_17_4() -> Table:
    """As printed, at the last instant at which an element is valid."""
    expected = rows(("a", 4, 5), ("d", 8, 9), ("b", 14, 15), ("e", 17, 18))
    return Table(Changes(lasting("s2"), Change.DELETED_LAST), INPUTS, expected)


def dstream_of_cql() -> Table:
    """By formula (17.4) and CQL, at the first instant at which it is no more."""
    expected = rows(("a", 5, 6), ("d", 9, 10), ("b", 15, 16), ("e", 18, 19))
    return Table(Changes(lasting("s2"), Change.DELETED), INPUTS, expected)


def granularity_20_2() -> Table:
    expected = rows(("c", 2, 8), ("a", 6, 12), ("d", 6, 14), ("b", 12, 18))
    return Table(Granularity(lasting("s1"), 2), INPUTS, expected)


def granularity_before_zero() -> Table:
    """Not printed: multiples of three below zero, too."""
    inputs = {"s": elements([("a", -4, -2), ("b", -2, 1), ("c", -2, 0)])}
    return Table(Granularity(lasting("s"), 3), inputs, rows(("a", -3, 0), ("b", 0, 3)))


def granularity_above_a_window() -> Table:
    """Not printed: section 9.1 puts the conversion on the window."""
    inputs = {"s": elements([("a", 1, 2), ("b", 4, 5), ("c", 5, 6)])}
    return Table(Granularity(Window(letters("s"), 2), 3), inputs, rows(("c", 6, 9)))


WINDOW_TABLES: tuple[Callable[[], Table], ...] = (
    count_window_11_12,
    sliding_count_window_17_2,
    count_window_of_all_elements,
    count_window_that_skips,
    partitioned_window_11_13,
    sliding_partitioned_window,
    count_window_of_ties,
    sliding_count_window_of_ties,
    count_window_over_validities,
    time_window_over_validities,
    sliding_window_over_validities,
    window_over_window,
    split_11_14,
    split_in_three,
    coalesce_11_15,
    istream_17_3,
    dstream_17_4,
    dstream_of_cql,
    granularity_20_2,
    granularity_before_zero,
    granularity_above_a_window,
)
