"""The tables of PIPES' logical algebra (chapter 8): relations by instant, as strings of letters.

Printed mistakes are corrected from the formulas (E-01: two rows of Table 8.5). `aab` is the
multiset of two a and one b; an instant that is not listed has the empty relation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from reference.letters import (
    E,
    equal,
    grouped,
    is_letter,
    letters,
    renamed,
    replaced,
    row,
    ungrouped,
    weight,
    weights,
)
from reference.semantics import Raw, Relation
from tidegate.algebra.plan import (
    Aggregate,
    AggregateCall,
    Change,
    Changes,
    Coalesce,
    CountWindow,
    Distinct,
    Filter,
    Granularity,
    Join,
    Limit,
    Map,
    Order,
    Output,
    Plan,
    SemiJoin,
    SetOperation,
    SetRule,
    Split,
    Union,
    Window,
)
from tidegate.expressions.nodes import TRUE, Call, Column
from tidegate.schema import Type

R = Column("r", Type.STRING)

L_S1 = {1: "c", 2: "aaa", 3: "aaab", 4: "aaabc", 5: "bb", 6: "bb"}  # Table 8.1 (a)
L_S2 = {2: "bb", 3: "bb", 4: "abc", 5: "aab", 6: "acc"}  # Table 8.1 (b)
L_S3 = {1: "c", 2: "a", 3: "b", 4: "b", 5: "a", 6: "c"}  # E-02: not Table 8.11, but what follows from 8.12 and 8.13


@dataclass(frozen=True, slots=True)
class LogicalTable:
    """A plan over scans, raw streams, and the relations at all instants that have any row.

    With `lasting`, the relation of the last instant is that of all later ones.
    """

    plan: Plan
    streams: Raw
    expected: Mapping[int, Relation]
    lasting: bool = False

    def at(self, instants: Iterable[int]) -> dict[int, Relation]:
        """The relations at the instants, without the empty ones."""
        last = max(self.expected)
        kept = {t: last if self.lasting and t > last else t for t in instants}
        return {t: self.expected[known] for t, known in kept.items() if known in self.expected}


def raw(table: Mapping[int, str]) -> list[tuple[int, dict[str, object]]]:
    return [(t, row(letter)) for t, multiset in table.items() for letter in multiset]


STREAMS: Raw = {"s1": raw(L_S1), "s2": raw(L_S2), "s3": raw(L_S3)}


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
    plan = Map(Join(letters("s1"), partners, equal(E, R)), (Output("e", E),))
    return LogicalTable(plan, STREAMS, relations_of({3: "b", 4: "aaabc", 5: "bb"}))


def semi_join_as_one_operator() -> LogicalTable:
    plan = SemiJoin(letters("s1"), renamed(letters("s2"), "r"), equal(E, R))
    return LogicalTable(plan, STREAMS, relations_of({3: "b", 4: "aaabc", 5: "bb"}))


def anti_join_8_16() -> LogicalTable:
    plan = SemiJoin(letters("s1"), renamed(letters("s2"), "r"), equal(E, R), anti=True)
    return LogicalTable(plan, STREAMS, relations_of({1: "c", 2: "aaa", 3: "aaa", 6: "bb"}))


def by_rule(rule: SetRule, expected: Mapping[int, str]) -> LogicalTable:
    return LogicalTable(SetOperation(letters("s1"), letters("s2"), rule), STREAMS, relations_of(expected))


def difference_8_7() -> LogicalTable:
    return by_rule(SetRule.EXCEPT_ALL, {1: "c", 2: "aaa", 3: "aaa", 4: "aa", 5: "b", 6: "bb"})


def intersection_8_12() -> LogicalTable:
    return by_rule(SetRule.INTERSECT_ALL, {3: "b", 4: "abc", 5: "b"})


def max_union_8_13() -> LogicalTable:
    expected = {1: "c", 2: "aaabb", 3: "aaabb", 4: "aaabc", 5: "aabb", 6: "abbcc"}
    return by_rule(SetRule.MAX_UNION, expected)


def strict_difference_8_14() -> LogicalTable:
    return by_rule(SetRule.STRICT_EXCEPT_ALL, {1: "c", 2: "aaa", 3: "aaa", 6: "bb"})


def difference_of_sets() -> LogicalTable:
    return by_rule(SetRule.EXCEPT, {1: "c", 2: "a", 3: "a", 6: "b"})


def intersection_of_sets() -> LogicalTable:
    return by_rule(SetRule.INTERSECT, {3: "b", 4: "abc", 5: "b"})


def window_8_10() -> LogicalTable:
    expected = {1: "c", 2: "aaac", 3: "aaaaaab", 4: "aaaaaabbc", 5: "aaabbbc", 6: "bbbb", 7: "bb"}
    return LogicalTable(Window(letters("s1"), 2), STREAMS, relations_of(expected))


def sliding_window_by_formula_17_1() -> LogicalTable:
    """Not printed: size 2, slide 3 over S1. At 2 to 4 the window is [1, 2], at 5 to 7 it is [4, 5]."""
    expected = {2: "aaac", 3: "aaac", 4: "aaac", 5: "aaabbbc", 6: "aaabbbc", 7: "aaabbbc"}
    return LogicalTable(Window(letters("s1"), 2, 3), STREAMS, relations_of(expected))


def count_window_8_12() -> LogicalTable:
    expected = relations_of({1: "c", 2: "ac", 3: "abc", 4: "abb", 5: "abb", 6: "abc"})
    return LogicalTable(CountWindow(letters("s3"), 3), STREAMS, expected, lasting=True)


def sliding_count_window_by_formula_17_2() -> LogicalTable:
    """Not printed: three rows, slide 2 over S3."""
    expected = relations_of({2: "ac", 3: "ac", 4: "abb", 5: "abb", 6: "abc"})
    return LogicalTable(CountWindow(letters("s3"), 3, 2), STREAMS, expected, lasting=True)


def partitioned_window_8_13() -> LogicalTable:
    """a and c are one group, b is another."""
    plan = ungrouped(CountWindow(grouped(letters("s3"), c="a"), 1, keys=("g",)))
    expected = relations_of({1: "c", 2: "a", 3: "ab", 4: "ab", 5: "ab", 6: "cb"})
    return LogicalTable(plan, STREAMS, expected, lasting=True)


def granularity_20_1() -> LogicalTable:
    """At even instants as printed; an odd one, which has no row in the table, is as the one before."""
    expected = relations_of({2: "aaa", 3: "aaa", 4: "aaabc", 5: "aaabc", 6: "bb", 7: "bb"})
    return LogicalTable(Granularity(letters("s1"), 2), STREAMS, expected)


def istream_17_3() -> LogicalTable:
    """Not printed: S1 at each instant without S1 at the instant before."""
    plan = Changes(letters("s1"), Change.INSERTED)
    return LogicalTable(plan, STREAMS, relations_of({1: "c", 2: "aaa", 3: "b", 4: "c", 5: "b"}))


def dstream_17_4() -> LogicalTable:
    """Not printed: S1 at the instant before, without S1 at each instant."""
    plan = Changes(letters("s1"), Change.DELETED)
    return LogicalTable(plan, STREAMS, relations_of({2: "c", 5: "aaac", 7: "bb"}))


def dstream_at_the_last_instant() -> LogicalTable:
    plan = Changes(letters("s1"), Change.DELETED_LAST)
    return LogicalTable(plan, STREAMS, relations_of({1: "c", 4: "aaac", 6: "bb"}))


def rstream() -> LogicalTable:
    return LogicalTable(Split(letters("s1"), 1), STREAMS, relations_of(L_S1))


def coalesced() -> LogicalTable:
    return LogicalTable(Coalesce(letters("s1"), 3), STREAMS, relations_of(L_S1))


def limit_of_each_instant() -> LogicalTable:
    """Not printed: of each instant the second and third letter, from the end of the alphabet."""
    plan = Limit(letters("s1"), (Order("e", descending=True),), 2, 1)
    return LogicalTable(plan, STREAMS, relations_of({2: "aa", 3: "aa", 4: "ba", 5: "b", 6: "b"}))


def limit_of_each_group() -> LogicalTable:
    """Not printed: at most two of each letter."""
    plan = Limit(letters("s1"), (), 2, keys=("e",))
    expected = relations_of({1: "c", 2: "aa", 3: "aab", 4: "aabc", 5: "bb", 6: "bb"})
    return LogicalTable(plan, STREAMS, expected)


def limit_with_ties() -> LogicalTable:
    """Not printed: the first letter of each instant, as often as it is there."""
    plan = Limit(letters("s1"), (Order("e"),), 1, ties=True)
    return LogicalTable(plan, STREAMS, relations_of({1: "c", 2: "aaa", 3: "aaa", 4: "aaa", 5: "bb", 6: "bb"}))


BUILDERS: tuple[Callable[[], LogicalTable], ...] = (
    filter_8_2,
    map_8_3,
    union_8_4,
    product_8_5,
    distinct_8_6,
    grouping_8_8,
    sum_8_9,
    semi_join_8_11,
    semi_join_as_one_operator,
    anti_join_8_16,
    difference_8_7,
    intersection_8_12,
    max_union_8_13,
    strict_difference_8_14,
    difference_of_sets,
    intersection_of_sets,
    window_8_10,
    sliding_window_by_formula_17_1,
    count_window_8_12,
    sliding_count_window_by_formula_17_2,
    partitioned_window_8_13,
    granularity_20_1,
    istream_17_3,
    dstream_17_4,
    dstream_at_the_last_instant,
    rstream,
    coalesced,
    limit_of_each_instant,
    limit_of_each_group,
    limit_with_ties,
)

LOGICAL_TABLES: list[tuple[str, Callable[[], LogicalTable]]] = [(builder.__name__, builder) for builder in BUILDERS]
"""Names and builders, ready for `pytest.mark.parametrize`."""
