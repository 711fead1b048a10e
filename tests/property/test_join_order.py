"""Join orders by cost: the plan keeps its meaning, and no tree of the same inputs is estimated to be cheaper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from reference.semantics import Elements, relations_of
from support.examples import examples

from tidegate.algebra.plan import Join, Map, Output, Plan, Scan, Validity, Window
from tidegate.expressions.nodes import Call, Column, Expression, conjunction
from tidegate.optimizer.advice import PlanAdvice
from tidegate.optimizer.join_estimates import JoinEstimates, estimate_joins
from tidegate.optimizer.join_order import best_tree, order_joins_by_cost
from tidegate.optimizer.joins import parts_of_join
from tidegate.schema import Schema, Type

SCHEMA = Schema.of(k=Type.INT, v=Type.INT)
STREAMS = ("a", "b", "c", "d", "e")
INSTANTS = range(-2, 16)

ROWS = st.fixed_dictionaries({"k": st.sampled_from([0, 1, None]), "v": st.sampled_from([0, 1, 2])})
ELEMENTS = st.lists(st.tuples(st.integers(0, 6), ROWS).map(lambda e: (e[0], e[0] + 1, e[1])), max_size=4)
GIVEN: st.SearchStrategy[Elements] = st.fixed_dictionaries(dict.fromkeys(STREAMS, ELEMENTS))


def column(stream: str, name: str) -> Column:
    return Column(stream + name, Type.INT)


def leaf(stream: str, size: int) -> Plan:
    outputs = tuple(Output(stream + f.name, Column(f.name, f.type)) for f in SCHEMA)
    return Map(Window(Scan(stream, SCHEMA, validity=Validity.INSTANT), size), outputs)


@st.composite
def conditions(draw: DrawFn, streams: Sequence[str]) -> list[Expression]:
    """Conditions between two streams each; mostly equalities, sometimes of two columns of one class."""
    found: list[Expression] = []
    for _ in range(draw(st.integers(1, len(streams) + 1))):
        one, two = draw(st.permutations(streams))[:2]
        function = draw(st.sampled_from(["=", "=", "=", "<"]))
        ends = (column(one, draw(st.sampled_from("kkv"))), column(two, draw(st.sampled_from("kkv"))))
        found.append(Call(function, ends, Type.BOOLEAN))
    return found


@st.composite
def joins(draw: DrawFn) -> Plan:
    """A tree of joins as written: left-deep or bushy, each condition at the first join that has its columns."""
    streams = draw(st.permutations(STREAMS))[: draw(st.integers(3, 5))]
    terms = draw(conditions(streams))
    parts = [leaf(each, draw(st.integers(1, 5))) for each in streams]
    while len(parts) > 1:
        at = draw(st.integers(0, len(parts) - 2))
        left, right = parts[at], parts[at + 1]
        names = {*left.schema.names, *right.schema.names}
        ready = [t for t in terms if {c.name for c in t.arguments} <= names]
        terms = [t for t in terms if t not in ready]
        parts[at : at + 2] = [Join(left, right, conjunction(tuple(ready)))]
    return parts[0]


@st.composite
def advices(draw: DrawFn) -> PlanAdvice:
    rows = {each: draw(st.integers(1, 1000)) for each in STREAMS}
    texts = draw(st.lists(st.sampled_from([f"{a}k = {b}k" for a in STREAMS for b in STREAMS if a != b]), max_size=4))
    return PlanAdvice(rows=rows, span=draw(st.sampled_from([0, 10, 1000])), selectivities=dict.fromkeys(texts, 0.01))


@settings(max_examples=examples(150))
@given(joins(), advices(), GIVEN)
def test_an_order_by_cost_keeps_the_meaning(plan: Plan, advice: PlanAdvice, given_elements: Elements):
    ordered = order_joins_by_cost(plan, advice)
    assert ordered.schema == plan.schema
    assert relations_of(ordered, given_elements, INSTANTS) == relations_of(plan, given_elements, INSTANTS)


Tree = int | tuple["Tree", "Tree"]


def all_trees(some: Sequence[int]) -> Iterator[tuple[int, Tree]]:
    """Every binary tree over some inputs, with its inputs as bits, by definition."""
    if len(some) == 1:
        yield 1 << some[0], some[0]
        return
    first, rest = some[0], some[1:]
    for mask in range(2 ** len(rest) - 1):
        left = [first, *(each for at, each in enumerate(rest) if mask >> at & 1)]
        right = [each for at, each in enumerate(rest) if not mask >> at & 1]
        for one, one_tree in all_trees(left):
            for two, two_tree in all_trees(right):
                yield one | two, (one_tree, two_tree)


def cost_of(tree: Tree, estimates: JoinEstimates) -> tuple[int, float]:
    """The inputs of a tree as bits, and the sum of the costs of its joins."""
    if isinstance(tree, int):
        return 1 << tree, 0.0
    (one, one_cost), (two, two_cost) = (cost_of(each, estimates) for each in tree)
    return one | two, one_cost + two_cost + estimates.cost_of_join(one, two)


@settings(max_examples=examples(100))
@given(joins(), advices())
def test_no_tree_without_needless_products_is_cheaper(plan: Plan, advice: PlanAdvice):
    leaves, terms = parts_of_join(plan)
    estimates = estimate_joins(leaves, terms, advice)
    assert estimates is not None
    least = min(
        cost_of(tree, estimates)[1]
        for _, tree in all_trees(range(len(leaves)))
        if not has_needless_product(tree, estimates)
    )
    assert best_tree(estimates).cost == pytest.approx(least)


def has_needless_product(tree: Tree, estimates: JoinEstimates) -> bool:
    """Whether a join of the tree has parts that no condition links, though its inputs can be split otherwise."""
    if isinstance(tree, int):
        return False
    one, two = (cost_of(each, estimates)[0] for each in tree)
    some = one | two
    parts = [part for part in range(1, some) if part & some == part]
    needless = not estimates.is_linked(one, two) and any(estimates.is_linked(part, some ^ part) for part in parts)
    return needless or any(has_needless_product(each, estimates) for each in tree)
