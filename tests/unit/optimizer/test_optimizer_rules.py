"""Each rule on a small plan: the plan before and after, as text, in optimizer_rules.txt.

That no rule changes the meaning is shown in property/test_rules.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.algebra.explain import explain
from tidegate.algebra.plan import (
    WHOLE,
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
    Sample,
    Scan,
    SemiJoin,
    SetOperation,
    SetRule,
    Split,
    Stamp,
    Union,
    Window,
)
from tidegate.expressions.nodes import TRUE, Call, Column, Expression, Literal, conjunction
from tidegate.optimizer.constants import FALSE
from tidegate.optimizer.joins import reorder_joins
from tidegate.optimizer.optimize import LAWS, RULES
from tidegate.optimizer.rule import apply_rule
from tidegate.optimizer.windows import extend_whole_elements
from tidegate.schema import Schema, Type

GOLDEN = Path(__file__).with_name("optimizer_rules.txt")


def scan(name: str) -> Plan:
    """A stream whose columns are called after it: s has sk and sv."""
    return Scan(name, Schema.of(**{f"{name}k": Type.INT, f"{name}v": Type.INT}))


S, R, T = scan("s"), scan("r"), scan("t")


def column(name: str) -> Column:
    return Column(name, Type.INT)


def more(name: str, than: int = 1) -> Expression:
    return Call(">", (column(name), Literal(than, Type.INT)), Type.BOOLEAN)


def fails(name: str) -> Expression:
    """A condition that can fail: 1 div name = 1."""
    quotient = Call("div", (Literal(1, Type.INT), column(name)), Type.INT)
    return Call("=", (quotient, Literal(1, Type.INT)), Type.BOOLEAN)


def is_null(name: str) -> Expression:
    return Call("is_null", (column(name),), Type.BOOLEAN)


def either(*terms: Expression) -> Expression:
    return Call("or", terms, Type.BOOLEAN)


def equal(left: str, right: str) -> Expression:
    return Call("=", (column(left), column(right)), Type.BOOLEAN)


def less(left: str, right: str) -> Expression:
    return Call("<", (column(left), column(right)), Type.BOOLEAN)


def both(*terms: Expression) -> Expression:
    return conjunction(terms)


def columns(plan: Plan, **names: str) -> Plan:
    return Map(plan, tuple(Output(new, column(old)) for new, old in names.items()))


def top(plan: Plan, *keys: str, of: str) -> Plan:
    return Aggregate(plan, keys, (AggregateCall("max", of, "top", Type.INT),))


ON_KEYS = equal("sk", "rk")

CASES: dict[str, Plan] = {
    "drop_identity_map": columns(S, sk="sk", sv="sv"),
    "merge_maps": Map(columns(S, a="sv"), (Output("b", Call("is_null", (column("a"),), Type.BOOLEAN)),)),
    "flatten_unions": Union((Union((S, R)), T)),
    "drop_union_of_one": Union((S,)),
    "drop_true_filter": Filter(S, TRUE),
    "merge_filters": Filter(Filter(S, more("sk")), more("sv")),
    "push_filter_below_window": Filter(Window(S, 10), more("sv")),
    "push_filter_below_count_window": Filter(CountWindow(S, 5, 1, ("sk",)), both(more("sk"), more("sv"))),
    "push_filter_below_time": Filter(Changes(Granularity(S, 60), Change.INSERTED), more("sv")),
    "push_filter_below_stamp": Filter(Stamp(S, "began"), more("sv")),
    "push_filter_below_sample": Filter(Sample(S, "weight", 100_000), more("sv")),
    "push_filter_below_union": Filter(Union((S, R)), more("sv")),
    "push_filter_below_map": Filter(columns(S, a="sk", b="sv"), more("b")),
    "push_filter_below_set_operation": Filter(SetOperation(S, R, SetRule.EXCEPT_ALL), more("sv")),
    "push_filter_below_semi_join": Filter(SemiJoin(S, R, ON_KEYS, anti=True), more("sv")),
    "push_filter_below_distinct": Filter(Distinct(S), more("sv")),
    "push_filter_below_aggregate": Filter(top(S, "sk", of="sv"), both(more("sk"), more("top"))),
    "push_filter_below_limit": Filter(Limit(S, (Order("sv"),), 3, 0, ("sk",)), more("sk")),
    "merge_filter_into_join": Filter(Join(S, R, ON_KEYS), more("sv")),
    "push_join_terms_to_inputs": Join(S, R, both(ON_KEYS, more("sv"), more("rv", 2))),
    "push_semi_join_terms_to_inputs": SemiJoin(S, R, both(ON_KEYS, more("sv"), more("rv", 2)), anti=True),
    "remove_now_window": Window(S, 1),
    "remove_now_window_of_validities": Window(Distinct(S), 1),
    "push_map_below_window": columns(Window(S, 10), a="sv"),
    "push_map_below_count_window": columns(CountWindow(S, 5, 1, ("sk",)), a="sk", b="sv"),
    "push_window_below_union": Window(Union((S, R)), 10),
    "omit_split": Split(S, 1),
    "merge_splits": Split(Split(Window(S, 10), 3), 5),
    "drop_inner_recut": Coalesce(Split(Window(S, 10), 3), 60),
    "drop_coalesce_below_window": Window(Coalesce(Distinct(S), 60), 10),
    "drop_recut_below_groups": SetOperation(Coalesce(Window(S, 10), WHOLE), Split(R, 5), SetRule.EXCEPT_ALL),
    "drop_coalesce_of_groups": Coalesce(Filter(columns(top(S, "sk", of="sv"), a="top", k="sk"), more("a")), WHOLE),
    "merge_granularities": Granularity(Granularity(Window(S, 120), 20), 60),
    "push_granularity_down": Granularity(top(Window(S, 120), "sk", of="sv"), 60),
    "drop_distinct_of_unique": Distinct(top(S, "sk", of="sv")),
    "push_distinct_below_join": Distinct(Join(S, top(R, "rk", of="rv"), ON_KEYS)),
    "drop_distinct_below_distinct_union": Distinct(Union((Distinct(S), R))),
    "drop_distinct_below_semi_join": SemiJoin(S, Distinct(R), ON_KEYS),
    "drop_distinct_below_set_operation": SetOperation(Distinct(S), R, SetRule.EXCEPT),
    "drop_distinct_below_blind_aggregate": top(Distinct(S), "sk", of="sv"),
    "push_aggregate_below_join": top(
        Join(S, columns(top(R, "rk", of="rv"), k="rk", w="top"), equal("sk", "k")), "k", "w", of="sv"
    ),
    "keep_only_extreme_rows": Join(
        columns(S, k="sk", v="sv"),
        columns(top(columns(S, i="sk", j="sv"), "i", of="j"), a="i", b="top"),
        both(equal("k", "a"), equal("v", "b")),
    ),
    "fold_constant_conditions": Filter(S, Call("or", (both(more("sv"), FALSE), more("sk")), Type.BOOLEAN)),
    "push_false_to_left": Join(S, R, FALSE),
    "drop_empty_union_inputs": Union((Window(Filter(R, FALSE), 10), S, T)),
    "split_anti_join_on_or": SemiJoin(S, R, both(ON_KEYS, either(less("sv", "rv"), is_null("rv"))), anti=True),
    "split_semi_join_on_or": SemiJoin(S, R, either(is_null("sv"), less("sv", "rv"))),
    "split_anti_join_on_left": SemiJoin(S, R, more("sv"), anti=True),
    "make_semi_join_a_join": SemiJoin(S, top(R, "rk", of="rv"), ON_KEYS),
    "keep_only_the_extreme_partner": SemiJoin(S, R, both(ON_KEYS, less("sv", "rv")), anti=True),
    "find_threshold_join": Distinct(
        columns(Join(Window(S, 9), Window(R, 5), both(ON_KEYS, less("sv", "rv"))), k="rk"),
    ),
    "reorder_joins": Join(Join(S, R, TRUE), T, both(equal("sk", "tk"), equal("rv", "tv"))),
    "extend_whole_elements": top(Filter(Window(CountWindow(S, 5), 10), more("sv")), "sk", of="sv"),
}

REFUSED: dict[str, Plan] = {
    "merge_filters": Filter(Filter(S, more("sk")), fails("sv")),
    "push_filter_below_window": Filter(Window(S, 10, 20), fails("sv")),
    "push_filter_below_count_window": Filter(CountWindow(S, 5, 1, ("sk",)), more("sv")),
    "push_filter_below_time": Filter(Split(Window(S, 9), 2), fails("sv")),
    "push_filter_below_stamp": Filter(Stamp(S, "sv"), more("sv")),
    "push_filter_below_sample": Filter(Sample(S, "weight", 100_000), fails("sv")),
    "push_filter_below_map": Filter(Map(S, (Output("a", fails("sv")),)), Column("a", Type.BOOLEAN)),
    "push_filter_below_distinct": Filter(Distinct(S), fails("sv")),
    "push_filter_below_aggregate": Filter(top(S, "sk", of="sv"), more("top")),
    "push_filter_below_limit": Filter(Limit(S, (Order("sv"),), 3), more("sk")),
    "push_join_terms_to_inputs": Join(S, R, both(ON_KEYS, fails("sv"))),
    "push_semi_join_terms_to_inputs": SemiJoin(S, R, both(ON_KEYS, more("sv")), anti=True),
    "push_map_below_window": Map(Window(S, 10, 20), (Output("a", fails("sv")),)),
    "push_map_below_count_window": columns(CountWindow(S, 5), a="sv"),
    "omit_split": Split(Window(S, 5), 1),
    "merge_granularities": Granularity(Granularity(S, 20), 50),
    "drop_recut_below_groups": SemiJoin(Coalesce(Window(S, 10), WHOLE), R, ON_KEYS),
    "drop_coalesce_of_groups": Coalesce(columns(top(S, "sk", of="sv"), a="top"), WHOLE),
    "push_granularity_down": Granularity(Filter(S, more("sv")), 60),
    "drop_distinct_of_unique": Distinct(S),
    "push_distinct_below_join": Distinct(Join(S, R, ON_KEYS)),
    "drop_distinct_below_set_operation": SetOperation(Distinct(S), R, SetRule.EXCEPT_ALL),
    "push_aggregate_below_join": top(Join(S, R, ON_KEYS), "sk", of="sv"),
    "keep_only_extreme_rows": SemiJoin(S, top(R, "rk", of="rv"), both(ON_KEYS, equal("sv", "top"))),
    "fold_constant_conditions": Filter(S, either(more("sv"), more("sk"))),
    "push_false_to_left": Join(S, R, TRUE),
    "drop_empty_union_inputs": Union((Filter(S, FALSE),)),
    "split_anti_join_on_or": SemiJoin(S, R, either(less("sv", "rv"), ON_KEYS), anti=True),
    "split_semi_join_on_or": SemiJoin(S, R, either(fails("sv"), less("sv", "rv"))),
    "split_anti_join_on_left": SemiJoin(S, R, fails("sv"), anti=True),
    "make_semi_join_a_join": SemiJoin(S, top(R, "rk", of="rv"), ON_KEYS, anti=True),
    "keep_only_the_extreme_partner": SemiJoin(S, R, both(less("sv", "rv"), less("rk", "sk"))),
    "find_threshold_join": Distinct(columns(Join(Window(S, 9), Window(R, 5), both(ON_KEYS, less("sv", "rv"))), v="rv")),
    "reorder_joins": Join(Join(S, R, ON_KEYS), T, equal("sk", "tk")),
    "extend_whole_elements": Distinct(Window(CountWindow(S, 5), 10, 20)),
    "push_window_below_union": Window(Union((Granularity(S, 20), R)), 20),
}

BY_NAME = {each.name: each for each in (*RULES, reorder_joins, extend_whole_elements)}


def shown() -> str:
    return "\n\n".join(
        f"{name}\n{LAWS[name]}\n\n{explain(plan)}\n→\n{explain(apply_rule(BY_NAME[name], plan) or plan)}"
        for name, plan in CASES.items()
    )


def test_every_rule_has_a_case() -> None:
    assert CASES.keys() == BY_NAME.keys()


def test_rules_rewrite_plans_as_recorded() -> None:
    assert shown() + "\n" == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_rule_does_not_apply_where_its_law_does_not_hold(name: str) -> None:
    assert apply_rule(BY_NAME[name], REFUSED[name]) is None
