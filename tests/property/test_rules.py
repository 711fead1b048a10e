"""Every rule keeps the relation at every instant: plans on which it applies, over random streams, by definition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from reference.semantics import Elements, relations_of
from reference.threshold_plans import as_joins
from support.examples import examples

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
    Validity,
    Window,
)
from tidegate.algebra.properties import is_reducible
from tidegate.expressions.nodes import TRUE, Call, Cast, Column, Expression, Literal, conjunction, conjuncts
from tidegate.optimizer.columns import prune_columns
from tidegate.optimizer.constants import FALSE
from tidegate.optimizer.joins import reorder_joins
from tidegate.optimizer.optimize import RULES, optimize
from tidegate.optimizer.rule import Scope, apply_rule
from tidegate.optimizer.windows import extend_whole_elements
from tidegate.schema import Schema, Type

INSTANTS = range(-3, 24)
SCHEMA = Schema.of(k=Type.INT, v=Type.INT)
STREAMS = {"s": Validity.INSTANT, "r": Validity.INSTANT, "i": Validity.INTERVAL}

ROWS = st.fixed_dictionaries({"k": st.sampled_from([0, 1]), "v": st.sampled_from([0, 1, 2, None])})
INSTANT = st.tuples(st.integers(0, 7), ROWS).map(lambda e: (e[0], e[0] + 1, e[1]))
INTERVAL = st.tuples(st.integers(0, 7), st.integers(1, 4), ROWS).map(lambda e: (e[0], e[0] + e[1], e[2]))
GIVEN: st.SearchStrategy[Elements] = st.fixed_dictionaries(
    {
        name: st.lists(INSTANT if validity is Validity.INSTANT else INTERVAL, max_size=5)
        for name, validity in STREAMS.items()
    }
)


@dataclass(slots=True)
class Maker:
    """Draws plans whose columns are k and v under a prefix of their own."""

    draw: DrawFn
    prefixes: int = 0

    def scan(self, names: tuple[str, ...] = ("s", "r", "i")) -> Plan:
        name = self.draw(st.sampled_from(names))
        return Scan(name, SCHEMA, validity=STREAMS[name])

    def looks_at_instants(self, below: Plan) -> Plan:
        """An operator that looks at each instant separately, and merges equal neighbours."""
        match self.draw(st.integers(0, 5)):
            case 0:
                return self.group(below)
            case 1:
                return self.limit(below, keys=True)
            case 2:
                return Changes(below, self.draw(st.sampled_from(Change)))
            case 3:
                return SetOperation(below, self.leaf(), self.draw(st.sampled_from(SetRule)))
            case 4:
                return SemiJoin(self.leaf(), below, TRUE)
        return Distinct(below)

    def leaf(self) -> Plan:
        """A stream, often in a window, renamed."""
        plan = self.scan()
        return self.renamed(self.window(plan) if self.draw(st.integers(0, 3)) else plan)

    def unique(self) -> Plan:
        """A plan that is unique in its k."""
        source = self.leaf()
        k, v = source.schema.names
        return self.renamed(Aggregate(source, (k,), (AggregateCall("max", v, "top", Type.INT),)))

    def renamed(self, plan: Plan) -> Plan:
        self.prefixes += 1
        pairs = zip("kv", plan.schema, strict=True)
        return Map(plan, tuple(Output(f"p{self.prefixes}.{n}", Column(f.name, f.type)) for n, f in pairs))

    def window(self, plan: Plan) -> Plan:
        return Window(plan, self.draw(st.integers(1, 4)), self.draw(st.sampled_from([1, 1, 2, 3])))

    def rows_window(self, plan: Plan, *, keys: bool) -> Plan:
        return CountWindow(
            plan, self.draw(st.integers(1, 3)), self.draw(st.integers(1, 2)), plan.schema.names[:1] if keys else ()
        )

    def limit(self, plan: Plan, *, keys: bool = False) -> Plan:
        order = (Order(plan.schema.names[1], self.draw(st.booleans()), self.draw(st.booleans())),)
        count, ties = self.draw(st.integers(1, 2)), self.draw(st.booleans())
        return Limit(plan, order, count, 0, plan.schema.names[:1] if keys else (), ties=ties)

    def term(self, plan: Plan, columns: slice = slice(None)) -> Expression:
        """A condition on one column, sometimes one that can fail."""
        name = self.draw(st.sampled_from(plan.schema.names[columns]))
        value: Expression = Column(name, Type.INT)
        if columns == slice(None) and not self.draw(st.integers(0, 4)):
            value = Call("div", (Literal(1, Type.INT), value), Type.INT)
        comparison = self.draw(st.sampled_from(["=", "<>", "<"]))
        return Call(comparison, (value, Literal(self.draw(st.integers(0, 2)), Type.INT)), Type.BOOLEAN)

    def condition(self, plan: Plan, columns: slice = slice(None)) -> Expression:
        return conjunction(tuple(self.term(plan, columns) for _ in range(self.draw(st.integers(1, 2)))))

    def filtered(self, plan: Plan, columns: slice = slice(None)) -> Filter:
        return Filter(plan, self.condition(plan, columns))

    def equal(self, left: Plan, right: Plan, column: int = 0) -> Expression:
        sides = (Column(left.schema.names[column], Type.INT), Column(right.schema.names[column], Type.INT))
        return Call("=", sides, Type.BOOLEAN)

    def pair(self, left: Plan, right: Plan) -> Expression:
        """A condition of a join: an equality, and perhaps terms of both sides."""
        terms = [self.equal(left, right)] if self.draw(st.booleans()) else []
        terms += [self.term(side) for side in (left, right) if self.draw(st.booleans())]
        return conjunction(tuple(terms))

    def join(self, left: Plan | None = None, right: Plan | None = None) -> Join:
        left, right = left or self.leaf(), right or self.leaf()
        return Join(left, right, self.pair(left, right))

    def semi(self, right: Plan | None = None) -> SemiJoin:
        left, right = self.leaf(), right or self.leaf()
        return SemiJoin(left, right, self.pair(left, right), self.draw(st.booleans()))

    def compared_semi(self) -> SemiJoin:
        """With a comparison of v, either way round, and perhaps equal k."""
        left, right = self.leaf(), self.leaf()
        sides = [Column(side.schema.names[1], Type.INT) for side in (left, right)]
        comparison = self.draw(st.sampled_from(["<", "<=", ">", ">="]))
        terms: list[Expression] = [Call(comparison, tuple(self.draw(st.permutations(sides))), Type.BOOLEAN)]
        if self.draw(st.booleans()):
            terms.append(self.equal(left, right))
        return SemiJoin(left, right, conjunction(tuple(terms)), self.draw(st.booleans()))

    def divided_semi(self) -> SemiJoin:
        """With a comparison of v or a side that is NULL, and perhaps equal k."""
        semi = self.compared_semi()
        names = [side.schema.names[1] for side in (semi.left, semi.right)]
        nulls = [Call("is_null", (Column(name, Type.INT),), Type.BOOLEAN) for name in names]
        compared, *rest = conjuncts(semi.predicate)
        for each in self.draw(st.lists(st.sampled_from(nulls), min_size=1, max_size=2)):
            sides = (compared, each) if self.draw(st.booleans()) else (each, compared)
            compared = Call("or", sides, Type.BOOLEAN)
        return replace(semi, predicate=conjunction((compared, *rest)))

    def with_literals(self) -> Plan:
        """With conditions that are always true, false or unknown, somewhere in the predicate."""
        plans: list[Filter | Join] = [self.filtered(self.leaf()), self.join()]
        plan = self.draw(st.sampled_from(plans))
        predicate = plan.predicate
        for _ in range(self.draw(st.integers(1, 3))):
            literal: Expression = Literal(self.draw(st.sampled_from([True, False, None])), Type.BOOLEAN)
            if self.draw(st.booleans()):
                literal = Call(self.draw(st.sampled_from(["not", "is_null"])), (literal,), Type.BOOLEAN)
            sides = (predicate, literal) if self.draw(st.booleans()) else (literal, predicate)
            predicate = Call(self.draw(st.sampled_from(["and", "or"])), sides, Type.BOOLEAN)
            if not self.draw(st.integers(0, 2)):
                predicate = Call("not", (predicate,), Type.BOOLEAN)
        return replace(plan, predicate=predicate)

    def with_false(self) -> Plan:
        pairs: list[Join | SemiJoin] = [self.join(), self.semi()]
        return replace(self.draw(st.sampled_from(pairs)), predicate=FALSE)

    def with_own_extreme(self) -> Plan:
        """A stream and its own greatest or smallest v, of all rows or of each k; or of each v, which is no such."""
        plan = self.window(self.scan())
        left, same = self.renamed(plan), self.renamed(plan)
        k, v = same.schema.names
        keys = self.draw(st.sampled_from([(), (k,), (v,)]))
        call = AggregateCall(self.draw(st.sampled_from(["max", "min"])), v, "top", Type.INT)
        right = Aggregate(same, keys, (call,))
        terms = [self.equal(left, right)] if keys else []
        terms.append(Call("=", (Column(left.schema.names[1], Type.INT), Column("top", Type.INT)), Type.BOOLEAN))
        predicate = conjunction(tuple(terms))
        return Join(left, right, predicate) if self.draw(st.booleans()) else SemiJoin(left, right, predicate)

    def crossing(self) -> Plan:
        """Which k have, in all of several windows, values of v that together cross a threshold."""
        many = self.draw(st.integers(2, 3))
        leaves = [Window(self.renamed(self.scan(("s", "r"))), self.draw(st.integers(1, 4))) for _ in range(many)]
        values = [Cast(Column(leaf.schema.names[1], Type.INT), Type.DOUBLE) for leaf in leaves]
        joined: Any = leaves[0]
        total: Expression = values[0]
        for leaf, value in zip(leaves[1:], values[1:], strict=True):
            total = Call(self.draw(st.sampled_from("+-*")), (total, value), Type.DOUBLE)
            joined = Join(joined, leaf, self.equal(leaves[0], leaf))
        comparison = self.draw(st.sampled_from([">", "<"]))
        last = Call(comparison, (total, Literal(1.0, Type.DOUBLE)), Type.BOOLEAN)
        joined = replace(joined, predicate=conjunction((joined.predicate, last)))
        return Distinct(Map(joined, (Output("k", Column(leaves[-1].schema.names[0], Type.INT)),)))

    def both(self, left: Plan | None = None, rules: tuple[SetRule, ...] = tuple(SetRule)) -> SetOperation:
        return SetOperation(left or self.leaf(), self.leaf(), self.draw(st.sampled_from(rules)))

    def group(self, plan: Plan, functions: tuple[str, ...] = ("max", "sum", "count")) -> Plan:
        """By k, with an aggregate of v."""
        k, v = plan.schema.names[:2]
        function = self.draw(st.sampled_from(functions))
        kind = Type.INT if function == "max" else Type.BIGINT
        return Aggregate(plan, (k,), (AggregateCall(function, v, f"a{self.prefixes}", kind),))

    def temporal(self, plan: Plan) -> Plan:
        makers: list[Callable[[], Plan]] = [
            lambda: Granularity(plan, self.draw(st.integers(2, 3))),
            lambda: Split(plan, self.draw(st.integers(1, 3))),
            lambda: Coalesce(plan, self.draw(st.integers(1, 5))),
            lambda: Changes(plan, self.draw(st.sampled_from(list(Change)))),
        ]
        return self.draw(st.sampled_from(makers))()

    def reducible(self) -> Plan:
        """An operator that granularity can go below."""
        makers: list[Callable[[], Plan]] = [
            self.leaf,
            self.join,
            self.semi,
            self.both,
            lambda: Distinct(self.leaf()),
            lambda: self.group(self.leaf()),
            lambda: Union((self.leaf(), self.leaf())),
            lambda: self.limit(self.leaf()),
        ]
        return self.draw(st.sampled_from(makers))()

    def computed(self, plan: Plan) -> Plan:
        """A map of all columns in order, and of one more."""
        columns = [Column(n, Type.INT) for n in plan.schema.names]
        more = Call("is_null", (columns[-1],), Type.BOOLEAN)
        kept = tuple(Output(f"c{i}", column) for i, column in enumerate(columns))
        return Map(plan, (*kept, Output("more", more)))

    def blind(self) -> Plan:
        """An operator that sees only which rows there are, over windows of elements that last."""

        def below() -> Plan:
            coarse = Granularity(source, self.draw(st.integers(2, 3))) if self.draw(st.booleans()) else source
            return self.filtered(self.window(coarse), slice(0, 1))

        source = self.leaf()
        makers: list[Callable[[], Plan]] = [
            lambda: Distinct(below()),
            lambda: self.group(below(), ("max",)),
            lambda: self.semi(below()),
            lambda: Distinct(self.join(below(), self.leaf())),
            lambda: self.both(below(), (SetRule.EXCEPT, SetRule.INTERSECT)),
        ]
        return self.draw(st.sampled_from(makers))()

    def loose_join(self) -> Plan:
        """Three inputs of which the first and the last have an equality, joined in the order as they come."""
        a, b, c = self.leaf(), self.leaf(), self.leaf()
        return Join(Join(a, b, TRUE), c, conjunction((self.equal(a, c), self.equal(b, c, column=1))))

    def grouped_join(self) -> Plan:
        grouped, partner = self.leaf(), self.unique()
        sides = (grouped, partner) if self.draw(st.booleans()) else (partner, grouped)
        joined = Join(*sides, self.equal(*sides))
        keys = [grouped.schema.names[0], *(partner.schema.names if self.draw(st.booleans()) else ())]
        call = AggregateCall(self.draw(st.sampled_from(["max", "count"])), grouped.schema.names[1], "x", Type.BIGINT)
        return Aggregate(joined, tuple(keys), (call,))


RECUTS: list[type[Split | Coalesce]] = [Split, Coalesce]
MAKERS: dict[str, Callable[[Maker], Plan]] = {
    "drop_identity_map": lambda m: Map(p := m.leaf(), tuple(Output(f.name, Column(f.name, f.type)) for f in p.schema)),
    "merge_maps": lambda m: m.computed(m.renamed(m.leaf())),
    "flatten_unions": lambda m: Union((m.leaf(), Union((m.leaf(), m.leaf())))),
    "drop_union_of_one": lambda m: Union((m.leaf(),)),
    "drop_true_filter": lambda m: Filter(m.leaf(), TRUE),
    "merge_filters": lambda m: m.filtered(m.filtered(m.leaf())),
    "push_filter_below_window": lambda m: m.filtered(m.window(m.leaf())),
    "push_filter_below_count_window": lambda m: m.filtered(m.rows_window(m.leaf(), keys=True), slice(0, 1)),
    "push_filter_below_time": lambda m: m.filtered(m.temporal(m.leaf())),
    "push_filter_below_stamp": lambda m: m.filtered(Stamp(m.leaf(), "began"), slice(0, m.draw(st.integers(2, 3)))),
    "push_filter_below_sample": lambda m: m.filtered(Sample(m.leaf(), "weight", 500_000), slice(0, 2)),
    "push_filter_below_union": lambda m: m.filtered(Union((m.leaf(), m.leaf()))),
    "push_filter_below_map": lambda m: m.filtered(m.leaf()),
    "push_filter_below_set_operation": lambda m: m.filtered(m.both()),
    "push_filter_below_semi_join": lambda m: m.filtered(m.semi()),
    "push_filter_below_distinct": lambda m: m.filtered(Distinct(m.leaf())),
    "push_filter_below_aggregate": lambda m: m.filtered(m.group(m.leaf()), slice(0, 1)),
    "push_filter_below_limit": lambda m: m.filtered(m.limit(m.leaf(), keys=True), slice(0, 1)),
    "merge_filter_into_join": lambda m: m.filtered(m.join()),
    "push_join_terms_to_inputs": lambda m: m.join(),
    "push_semi_join_terms_to_inputs": lambda m: m.semi(),
    "remove_now_window": lambda m: Window(m.scan(("s", "r")), 1),
    "remove_now_window_of_validities": lambda m: Window(m.window(m.scan()), 1),
    "push_map_below_window": lambda m: m.computed(m.window(m.leaf())),
    "push_map_below_count_window": lambda m: m.computed(m.rows_window(m.leaf(), keys=m.draw(st.booleans()))),
    "push_window_below_union": lambda m: m.window(Union((m.leaf(), m.leaf()))),
    "omit_split": lambda m: Split(m.renamed(m.scan(("s", "r"))), m.draw(st.integers(1, 3))),
    "merge_splits": lambda m: Split(Split(m.leaf(), m.draw(st.integers(1, 3))), m.draw(st.integers(1, 3))),
    "drop_inner_recut": lambda m: m.draw(st.sampled_from(RECUTS))(Coalesce(m.leaf(), 3), 2),
    "drop_coalesce_below_window": lambda m: m.window(Coalesce(m.leaf(), 4)),
    "drop_recut_below_groups": lambda m: m.looks_at_instants(m.draw(st.sampled_from(RECUTS))(m.leaf(), 2)),
    "drop_coalesce_of_groups": lambda m: Coalesce(m.filtered(Distinct(m.leaf())), WHOLE),
    "merge_granularities": lambda m: Granularity(Granularity(m.leaf(), 2), 4),
    "push_granularity_down": lambda m: Granularity(m.reducible(), m.draw(st.integers(2, 3))),
    "drop_distinct_of_unique": lambda m: Distinct(m.join(m.unique(), m.unique())),
    "push_distinct_below_join": lambda m: Distinct(m.join(m.leaf(), m.unique())),
    "drop_distinct_below_distinct_union": lambda m: Distinct(Union((m.leaf(), Distinct(m.leaf())))),
    "drop_distinct_below_semi_join": lambda m: m.semi(Distinct(m.leaf())),
    "drop_distinct_below_set_operation": lambda m: m.both(Distinct(m.leaf()), (SetRule.EXCEPT, SetRule.INTERSECT)),
    "drop_distinct_below_blind_aggregate": lambda m: m.group(Distinct(m.leaf()), ("max",)),
    "push_aggregate_below_join": lambda m: m.grouped_join(),
    "keep_only_extreme_rows": lambda m: m.with_own_extreme(),
    "fold_constant_conditions": lambda m: m.with_literals(),
    "push_false_to_left": lambda m: m.with_false(),
    "drop_empty_union_inputs": lambda m: Union((Filter(m.leaf(), FALSE), m.leaf(), m.window(Filter(m.leaf(), FALSE)))),
    "split_anti_join_on_or": lambda m: replace(m.divided_semi(), anti=True),
    "split_semi_join_on_or": lambda m: replace(m.divided_semi(), anti=False),
    "split_anti_join_on_left": lambda m: replace(semi := m.semi(), predicate=m.term(semi.left), anti=True),
    "make_semi_join_a_join": lambda m: m.semi(m.unique()),
    "keep_only_the_extreme_partner": lambda m: m.compared_semi(),
    "find_threshold_join": lambda m: m.crossing(),
    "reorder_joins": lambda m: m.loose_join(),
    "extend_whole_elements": lambda m: m.blind(),
}


@st.composite
def made(draw: DrawFn, name: str) -> Plan:
    return MAKERS[name](Maker(draw))


def test_every_rule_has_plans_to_be_tried_on() -> None:
    assert MAKERS.keys() == {each.name for each in (*RULES, reorder_joins, extend_whole_elements)}


@pytest.mark.parametrize("rule", [*RULES, reorder_joins, extend_whole_elements], ids=lambda rule: rule.name)
@given(data=st.data())
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_a_rule_does_not_change_the_relation_at_any_instant(rule, data) -> None:
    plan = data.draw(made(rule.name))
    better = apply_rule(rule, plan)
    assume(better is not None)
    assert better is not None
    given_elements = data.draw(GIVEN)
    assert relations_of(as_joins(better), given_elements, INSTANTS) == relations_of(plan, given_elements, INSTANTS)


@pytest.mark.parametrize("name", sorted(MAKERS))
@given(data=st.data())
@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_all_rules_and_the_pruning_of_columns_together_do_not_either(name, data) -> None:
    plan, given_elements = data.draw(made(name)), data.draw(GIVEN)
    expected = relations_of(plan, given_elements, INSTANTS)
    for better in (optimize(plan)[0], prune_columns(plan)):
        assert relations_of(as_joins(better), given_elements, INSTANTS) == expected


@pytest.mark.parametrize("rule", [r for r in RULES if r.scope is Scope.REGION], ids=lambda rule: rule.name)
@given(data=st.data())
@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_a_conventional_rule_starts_at_an_operator_of_a_region(rule, data) -> None:
    plan = data.draw(made(rule.name))
    assume(apply_rule(rule, plan) is not None)
    assert is_reducible(plan)
