"""The tables of PIPES' logical algebra (chapter 8): relations by instant, as strings of letters.

Printed mistakes are corrected from the formulas (E-01: two rows of Table 8.5). `aab` is the
multiset of two a and one b; an instant that is not listed has the empty relation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from reference.letters import E, equal, is_letter, letters, renamed, replaced, row, weight, weights
from reference.semantics import Raw, Relation
from tidegate.algebra.plan import Aggregate, AggregateCall, Distinct, Filter, Join, Map, Output, Plan, Union, Window
from tidegate.expressions.nodes import TRUE, Call, Column
from tidegate.schema import Type

L_S1 = {1: "c", 2: "aaa", 3: "aaab", 4: "aaabc", 5: "bb", 6: "bb"}  # Table 8.1 (a)
L_S2 = {2: "bb", 3: "bb", 4: "abc", 5: "aab", 6: "acc"}  # Table 8.1 (b)


@dataclass(frozen=True, slots=True)
class LogicalTable:
    """A plan over scans, raw streams, and the relations at all instants that have any row."""

    plan: Plan
    streams: Raw
    expected: Mapping[int, Relation]


def raw(table: Mapping[int, str]) -> list[tuple[int, dict[str, object]]]:
    return [(t, row(letter)) for t, multiset in table.items() for letter in multiset]


STREAMS: Raw = {"s1": raw(L_S1), "s2": raw(L_S2)}


def relations_of(table: Mapping[int, str]) -> dict[int, Relation]:
    return {t: Counter((letter,) for letter in multiset) for t, multiset in table.items()}


def filter_8_2() -> LogicalTable:
    plan = Filter(letters("s1"), Call("or", (is_letter("a"), is_letter("c")), Type.BOOLEAN))
    return LogicalTable(plan, STREAMS, relations_of({1: "c", 2: "aaa", 3: "aaa", 4: "aaac"}))


def map_8_3() -> LogicalTable:
    plan = Map(letters("s1"), (Output("f", replaced(b="x")),))
    expected = {1: "c", 2: "aaa", 3: "aaax", 4: "aaaxc", 5: "xx", 6: "xx"}
    return LogicalTable(plan, STREAMS, relations_of(expected))


def union_8_4() -> LogicalTable:
    expected = {1: "c", 2: "aaabb", 3: "aaabbb", 4: "aaaabbcc", 5: "aabbb", 6: "abbcc"}
    return LogicalTable(Union((letters("s1"), letters("s2"))), STREAMS, relations_of(expected))


def product_8_5() -> LogicalTable:
    plan = Join(letters("s1"), renamed(letters("s2"), "r"), TRUE)
    expected = {
        2: {"ab": 6},
        3: {"ab": 6, "bb": 2},
        4: {"aa": 3, "ab": 3, "ac": 3, "ba": 1, "bb": 1, "bc": 1, "ca": 1, "cb": 1, "cc": 1},
        5: {"ba": 4, "bb": 2},
        6: {"ba": 2, "bc": 4},
    }
    counted: dict[int, Relation] = {
        t: Counter({tuple(pair): n for pair, n in pairs.items()}) for t, pairs in expected.items()
    }
    return LogicalTable(plan, STREAMS, counted)


def distinct_8_6() -> LogicalTable:
    expected = {1: "c", 2: "a", 3: "ab", 4: "abc", 5: "b", 6: "b"}
    return LogicalTable(Distinct(letters("s1")), STREAMS, relations_of(expected))


def grouping_8_8() -> LogicalTable:
    """Formula (8.15) over the groups of Table 8.8: each group's number of elements."""
    groups = {"a": {2: 3, 3: 3, 4: 3}, "b": {3: 1, 4: 1, 5: 2, 6: 2}, "c": {1: 1, 4: 1}}
    plan = Aggregate(letters("s1"), ("e",), (AggregateCall("count", None, "n", Type.BIGINT),))
    expected: dict[int, Relation] = {
        t: Counter((e, group[t]) for e, group in groups.items() if t in group) for t in L_S1
    }
    return LogicalTable(plan, STREAMS, expected)


def sum_8_9() -> LogicalTable:
    plan = Aggregate(weights("s1"), (), (AggregateCall("sum", "v", "total", Type.BIGINT),))
    return LogicalTable(plan, STREAMS, {t: Counter([(weight(multiset),)]) for t, multiset in L_S1.items()})


def semi_join_8_11() -> LogicalTable:
    """S1 with a partner in S2, by equality: the join with the distinct elements of S2."""
    partners = Distinct(renamed(letters("s2"), "r"))
    plan = Map(Join(letters("s1"), partners, equal(E, Column("r", Type.STRING))), (Output("e", E),))
    return LogicalTable(plan, STREAMS, relations_of({3: "b", 4: "aaabc", 5: "bb"}))


def window_8_10() -> LogicalTable:
    expected = {1: "c", 2: "aaac", 3: "aaaaaab", 4: "aaaaaabbc", 5: "aaabbbc", 6: "bbbb", 7: "bb"}
    return LogicalTable(Window(letters("s1"), 2), STREAMS, relations_of(expected))


def sliding_window_by_formula_17_1() -> LogicalTable:
    """Not printed: size 2, slide 3 over S1. At 2 to 4 the window is [1, 2], at 5 to 7 it is [4, 5]."""
    expected = {2: "aaac", 3: "aaac", 4: "aaac", 5: "aaabbbc", 6: "aaabbbc", 7: "aaabbbc"}
    return LogicalTable(Window(letters("s1"), 2, 3), STREAMS, relations_of(expected))


BUILDERS: tuple[Callable[[], LogicalTable], ...] = (
    filter_8_2,
    map_8_3,
    union_8_4,
    product_8_5,
    distinct_8_6,
    grouping_8_8,
    sum_8_9,
    semi_join_8_11,
    window_8_10,
    sliding_window_by_formula_17_1,
)

LOGICAL_TABLES: list[tuple[str, Callable[[], LogicalTable]]] = [(builder.__name__, builder) for builder in BUILDERS]
"""Names and builders, ready for `pytest.mark.parametrize`."""
