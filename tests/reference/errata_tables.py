"""Inputs for which a printed algorithm of PIPES is wrong or vague, and what comes out by definition."""

from __future__ import annotations

from collections.abc import Callable

from reference.letters import equal, lasting, letters, renamed, table
from reference.table import Table, elements, rows
from tidegate.algebra.plan import (
    Aggregate,
    AggregateCall,
    Change,
    Changes,
    Coalesce,
    CountWindow,
    Distinct,
    Granularity,
    Join,
    SemiJoin,
    SetOperation,
    SetRule,
    Split,
    Window,
)
from tidegate.expressions.nodes import Call, Column
from tidegate.schema import Type
from tidegate.time import BEGINNING, FOREVER

E, R = Column("e", Type.STRING), Column("r", Type.STRING)


def distinct_with_early_end_e03() -> Table:
    """The printed algorithm emits c twice at instant 7."""
    inputs = {"s1": elements([("c", 1, 8), ("c", 4, 12), ("c", 7, 8)])}
    return Table(Distinct(lasting("s1")), inputs, rows(("c", 1, 8), ("c", 8, 12)))


def coalesce_beyond_its_length_e04() -> Table:
    """The printed algorithm makes one element of eight chronons, though four are the most."""
    inputs = {"s": elements([("b", 0, 2), ("b", 2, 8)])}
    return Table(Coalesce(lasting("s"), 4), inputs, rows(("b", 0, 2), ("b", 2, 8)))


def split_without_order_of_ends_e05() -> Table:
    """Pieces of three chronons do not end in the order of their starts."""
    inputs = {"s": elements([("a", 3, 7), ("b", 5, 8)])}
    return Table(Split(lasting("s"), 3), inputs, rows(("a", 3, 6), ("b", 5, 8), ("a", 6, 7)))


def aggregate_above_split_e05() -> Table:
    """An operator that takes ends to be in order would count the second piece of a too long."""
    inputs = {"s": elements([("a", 3, 7), ("b", 5, 8)])}
    plan = Aggregate(Split(lasting("s"), 3), (), (AggregateCall("count", None, "n", Type.BIGINT),))
    return Table(plan, inputs, [(3, 5, (1,)), (5, 7, (2,)), (7, 8, (1,))])


def strict_difference_keeps_duplicates_e10() -> Table:
    """By formula (8.14) the rows that the right never has stay as often as they are."""
    inputs = {"s1": elements([("a", 1, 5), ("a", 1, 5), ("b", 1, 5)]), "s2": elements([("b", 2, 3), ("a", 4, 6)])}
    plan = SetOperation(lasting("s1"), lasting("s2"), SetRule.STRICT_EXCEPT_ALL)
    return Table(plan, inputs, rows(("a", 1, 4), ("a", 1, 4), ("b", 1, 2), ("b", 3, 5)))


def semi_join_with_many_partners_e11() -> Table:
    """With a condition that several rows meet, the join of (8.11) would multiply b."""
    inputs = {"s1": elements([("b", 1, 9), ("b", 2, 9)]), "s2": elements([("c", 1, 5), ("d", 3, 6), ("a", 1, 9)])}
    plan = SemiJoin(lasting("s1"), renamed(lasting("s2"), "r"), Call("<", (E, R), Type.BOOLEAN))
    return Table(plan, inputs, rows(("b", 1, 6), ("b", 2, 6)))


def anti_join_with_many_partners_e11() -> Table:
    inputs = {"s1": elements([("b", 1, 9), ("b", 2, 9)]), "s2": elements([("c", 1, 5), ("d", 3, 6), ("a", 1, 9)])}
    plan = SemiJoin(lasting("s1"), renamed(lasting("s2"), "r"), Call("<", (E, R), Type.BOOLEAN), anti=True)
    return Table(plan, inputs, rows(("b", 6, 9), ("b", 6, 9)))


def istream_of_duplicates_e12() -> Table:
    """A second c is an insertion, too, though there is one already."""
    inputs = {"s": elements([("c", 0, 7), ("c", 1, 4)])}
    return Table(Changes(lasting("s"), Change.INSERTED), inputs, rows(("c", 0, 1), ("c", 1, 2)))


def dstream_of_duplicates_e13() -> Table:
    inputs = {"s": elements([("c", 0, 7), ("c", 1, 4)])}
    return Table(Changes(lasting("s"), Change.DELETED), inputs, rows(("c", 4, 5), ("c", 7, 8)))


def dstream_one_instant_earlier_e13() -> Table:
    inputs = {"s": elements([("c", 0, 7), ("c", 1, 4)])}
    return Table(Changes(lasting("s"), Change.DELETED_LAST), inputs, rows(("c", 3, 4), ("c", 6, 7)))


def changes_where_one_element_takes_over() -> Table:
    """An end and a start of equal rows at one instant are no change, whichever elements they are of."""
    inputs = {"s": elements([("c", 0, 5), ("c", 2, 3), ("c", 5, 9), ("c", 3, 6)])}
    return Table(Changes(lasting("s"), Change.INSERTED), inputs, rows(("c", 0, 1), ("c", 2, 3)))


def dstream_of_what_never_ends() -> Table:
    inputs = {"s": elements([("a", 0, 3), ("b", 1, FOREVER)])}
    return Table(Changes(lasting("s"), Change.DELETED_LAST), inputs, rows(("a", 2, 3)))


def difference_of_many_pieces_e19() -> Table:
    """Intervals that do not meet take nothing from each other."""
    inputs = {
        "s1": elements([("a", 0, 10), ("a", 2, 4)]),
        "s2": elements([("a", 1, 3), ("a", 5, 6), ("a", 8, 12), ("b", 0, 9)]),
    }
    plan = SetOperation(lasting("s1"), lasting("s2"), SetRule.EXCEPT_ALL)
    return Table(plan, inputs, rows(("a", 0, 1), ("a", 2, 4), ("a", 3, 5), ("a", 6, 8)))


def quiet_group_of_a_partitioned_window_e24() -> Table:
    """A group that is cut when it gets an element at the same instant leaves no empty validity."""
    inputs = {"s": elements([("b", 0, 1), ("a", 7, 8), ("b", 7, 8)])}
    plan = CountWindow(letters("s"), 1, keys=("e",))
    return Table(plan, inputs, rows(("b", 0, 7), ("a", 7, FOREVER), ("b", 7, FOREVER)))


def granularity_of_raw_elements_e43() -> Table:
    """Of elements of one chronon, those at multiples of the size survive."""
    inputs = {"s": elements([("a", 3, 4), ("b", 4, 5), ("c", 5, 6)])}
    return Table(Granularity(letters("s"), 4), inputs, rows(("b", 4, 8)))


def ties_in_a_partitioned_window_e47() -> Table:
    """Two elements of a group at one instant: the greater one counts last."""
    inputs = {"s": elements([("b", 1, 2), ("a", 1, 2), ("a", 6, 7)])}
    return Table(CountWindow(letters("s"), 1), inputs, rows(("b", 1, 6), ("a", 6, FOREVER)))


def count_of_empty_windows_e49() -> Table:
    """No row where there is nothing: a count is never 0."""
    inputs = {"s": elements([("a", 1, 2), ("a", 8, 9)])}
    plan = Aggregate(Window(letters("s"), 3), (), (AggregateCall("count", None, "n", Type.BIGINT),))
    return Table(plan, inputs, [(1, 4, (1,)), (8, 11, (1,))])


def join_within_a_range() -> Table:
    """RANGE 5 covers five instants, the current one among them: an element at 1 meets those at 1 to 5."""
    inputs = {"s1": elements([("a", 1, 2)]), "s2": elements([("a", 5, 6), ("a", 6, 7)])}
    plan = Join(Window(letters("s1"), 5), renamed(letters("s2"), "r"), equal(E, R))
    return Table(plan, inputs, [(5, 6, ("a", "a"))])


def join_with_a_table() -> Table:
    """A constant relation is valid always (section 5.16)."""
    inputs = {"s": elements([("a", 1, 2), ("b", 3, 4)]), "t": elements([("a", BEGINNING, FOREVER)])}
    plan = Join(Window(letters("s"), 4), renamed(table("t"), "r"), equal(E, R))
    return Table(plan, inputs, [(1, 5, ("a", "a"))])


def difference_with_a_table() -> Table:
    inputs = {"s": elements([("a", 1, 4), ("a", 2, 5), ("b", 3, 4)]), "t": elements([("a", BEGINNING, FOREVER)])}
    plan = SetOperation(lasting("s"), table("t"), SetRule.EXCEPT_ALL)
    return Table(plan, inputs, rows(("a", 2, 4), ("b", 3, 4)))


ERRATA: tuple[Callable[[], Table], ...] = (
    distinct_with_early_end_e03,
    coalesce_beyond_its_length_e04,
    split_without_order_of_ends_e05,
    aggregate_above_split_e05,
    strict_difference_keeps_duplicates_e10,
    semi_join_with_many_partners_e11,
    anti_join_with_many_partners_e11,
    istream_of_duplicates_e12,
    dstream_of_duplicates_e13,
    dstream_one_instant_earlier_e13,
    changes_where_one_element_takes_over,
    dstream_of_what_never_ends,
    difference_of_many_pieces_e19,
    quiet_group_of_a_partitioned_window_e24,
    granularity_of_raw_elements_e43,
    ties_in_a_partitioned_window_e47,
    count_of_empty_windows_e49,
    join_within_a_range,
    join_with_a_table,
    difference_with_a_table,
)
