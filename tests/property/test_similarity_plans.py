"""Similarity joins mean what the joins mean whose place they take: at every instant, and for rows that fail."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from reference.instants import snapshots
from reference.semantics import Elements, failures_of, relations_of
from reference.values import Row, canonical, fit
from support.examples import examples
from support.harness import rows_of, run_elements

from tidegate.algebra.equalities import is_by_key
from tidegate.algebra.plan import Plan, walk
from tidegate.algebra.similarity_join import NO_SHEDDING, Policy, Shedding, SimilarityJoin
from tidegate.language.bind.program import bind
from tidegate.optimizer.optimize import RULES, optimize
from tidegate.optimizer.rule import apply_rules
from tidegate.optimizer.similarity_join import find_similarity_joins
from tidegate.schema import Type
from tidegate.time import BEGINNING, FOREVER

COLUMNS = """ids ARRAY<INT>, longs ARRAY<BIGINT>, flags ARRAY<BOOLEAN>, words ARRAY<STRING>, points ARRAY<DOUBLE>,
    weights MAP<STRING, DOUBLE>, x DOUBLE, r REAL, n INT, few INT CHECK (few BETWEEN -9 AND 9)"""
DECLARED = f"CREATE STREAM s ({COLUMNS}) FROM 's.csv'; CREATE STREAM t ({COLUMNS}) FROM 't.csv';"

SETS = [("s.ids", "t.longs"), ("t.words", "s.words")]
NEAR = [("s.x", "t.x"), ("t.r", "s.r"), ("t.few", "s.few"), ("s.n", "t.few")]
ALIKE = [
    *(f"OVERLAP({a}, {b}) {bound}" for a, b in SETS for bound in (">= 1", "> 1")),
    "2 <= OVERLAP(s.points, t.points)",
    "1 <= OVERLAP(t.flags, s.flags)",
    "OVERLAP(ARRAY[s.n, s.few], t.ids) >= 1.5",
    *(f"JACCARD({a}, {b}) {bound}" for a, b in SETS for bound in (">= 0.5", "> 0.5")),
    "JACCARD(t.longs, s.ids) >= 1",
    *(f"{a} {way} OF {b}" for a, b in SETS for way in ("SUBSET", "SUPERSET")),
    *(f"INNER_PRODUCT(s.weights, t.weights) {bound}" for bound in (">= 0.3", "> 0.3", ">= 0.5")),
    *(f"ABS({a} - {b}) {bound}" for a, b in NEAR for bound in ("<= 0.1", "< 1", "<= 1.5")),
    "0.1 >= ABS(s.x - t.few)",
    "1 > ABS(CAST(s.n AS BIGINT) - CAST(t.n AS BIGINT))",
]
BESIDES = ["TRUE", "s.few <= t.few", "s.x / t.few < 1", "OVERLAP(s.ids, t.ids) >= 1", "s.n = t.n"]
EQUAL = [
    "s.few = t.n",
    "s.x = t.x",
    "t.r = s.r AND s.n = t.n",
    "s.ids = t.ids AND s.few / t.few < 1",
    "s.n % 2 = t.few",
]
WINDOWS = ["[RANGE 3]", "[RANGE 4 SLIDE 2]", ""]
SHEDDING = st.sampled_from(
    [NO_SHEDDING, NO_SHEDDING, Shedding(Policy.ON, budget=10**12), Shedding(Policy.DROP, budget=10**12)]
)
INSTANTS = range(14)


def sets(values):
    return st.none() | st.lists(st.sampled_from([*values, None]), max_size=3)


WEIGHTS = st.none() | st.lists(
    st.tuples(st.sampled_from("pqv"), st.sampled_from([0.1, 0.5, 1.0, 2.0, -1.0, 1e17, -1e17, math.nan, None])),
    max_size=3,
    unique_by=lambda pair: pair[0],
)
NUMBERS = [0.0, -0.0, 0.1, 0.3, 0.4, 1.0, 1e300, -1e300, math.inf, -math.inf, math.nan]
ROWS = st.fixed_dictionaries(
    {
        "ids": sets([1, 2, 3]),
        "longs": sets([1, 2, 3]),
        "flags": sets([True, False]),
        "words": sets(["", "u", "v"]),
        "points": sets([0.0, -0.0, 1.5, math.nan]),
        "weights": WEIGHTS,
        "x": st.none() | st.sampled_from(NUMBERS),
        "r": st.none() | st.sampled_from(NUMBERS).map(lambda value: fit(value, Type.REAL)),
        "n": st.none() | st.sampled_from([0, 1, 2, 2**31 - 1, -(2**31)]),
        "few": st.none() | st.integers(-1, 2),
    }
)


def elements():
    row = st.tuples(st.integers(0, 6), ROWS)
    return st.lists(row, max_size=6).map(
        lambda rows: [(t, t + 1, {name: canonical(value) for name, value in each.items()}) for t, each in rows]
    )


@st.composite
def plans(draw) -> Plan:
    terms = draw(st.permutations([draw(st.sampled_from(ALIKE)), draw(st.sampled_from(BESIDES + EQUAL))]))
    windows = [draw(st.sampled_from(WINDOWS)) for _ in range(2)]
    joined = f"FROM s {windows[0]}, t {windows[1]} WHERE {' AND '.join(terms)}"
    shown = draw(st.sampled_from(["s.few AS a, t.few AS b", "s.few, COUNT(*) AS n", "s.ids, t.words, t.x"]))
    grouped = " GROUP BY s.few" if "COUNT" in shown else ""
    return bind(f"{DECLARED} SELECT {shown} {joined}{grouped}").queries[-1].plan


def joins(plan: Plan) -> list[SimilarityJoin]:
    return [node for node in walk(plan) if isinstance(node, SimilarityJoin)]


@given(plans(), SHEDDING, elements(), elements())
@settings(max_examples=examples(200))
def test_the_relation_at_every_instant_stays(plan: Plan, shedding: Shedding, left, right) -> None:
    streams = {"s": left, "t": right}
    better, _ = optimize(plan, shedding=shedding)
    event(str([join.similarity and join.similarity.measure for join in joins(better)]))
    assert better.schema == plan.schema
    assert relations_of(better, streams, INSTANTS) == relations_of(plan, streams, INSTANTS)


@given(plans(), SHEDDING, elements(), elements())
@settings(max_examples=examples(200))
def test_the_same_rows_fail_as_before(plan: Plan, shedding: Shedding, left, right) -> None:
    streams = {"s": left, "t": right}
    before, _ = apply_rules(plan, RULES)
    assert _failed(find_similarity_joins(before, shedding), streams) == _failed(before, streams)


def _failed(plan: Plan, streams: Elements) -> Counter[tuple[frozenset[str], Row]]:
    failures = failures_of(plan, streams, INSTANTS)
    return Counter((each.kinds, each.row) for each in failures.elements())


@given(plans(), SHEDDING, elements(), elements(), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=examples(100), deadline=None)
def test_it_runs_as_it_is_defined(plan: Plan, shedding: Shedding, left, right, buckets: int, cuts: int) -> None:
    streams = {"s": left or right, "t": right or left}
    if not left and not right:
        return
    better, _ = optimize(plan, shedding=shedding)
    found = snapshots(rows_of(run_elements(better, streams, buckets=buckets, cuts=cuts)), INSTANTS)
    assert found == relations_of(plan, streams, INSTANTS)


@pytest.mark.parametrize("term", EQUAL)
def test_rows_with_equal_keys_are_compared_only_if_they_may_be_shed(term: str) -> None:
    where = f"{term} AND s.few <= t.few"
    plan = bind(f"{DECLARED} SELECT s.few FROM s [RANGE 3], t [RANGE 3] WHERE {where}").queries[-1].plan
    assert not joins(optimize(plan)[0])
    (join,) = joins(optimize(plan, shedding=Shedding(Policy.ON))[0])
    assert is_by_key(join)


@pytest.mark.parametrize("term", ALIKE)
def test_all_but_what_can_overflow_is_found_by_likeness(term: str) -> None:
    plan = bind(f"{DECLARED} SELECT s.few FROM s [RANGE 3], t [RANGE 3] WHERE {term}").queries[-1].plan
    found = [join.similarity for join in joins(optimize(plan)[0])]
    assert bool(found) == ("s.n - t.few" not in term)


@given(elements(), elements(), st.sampled_from(WINDOWS), st.integers(1, 3), st.integers(1, 2))
@settings(max_examples=examples(30), deadline=None)
def test_so_does_a_join_with_a_table(left, right, window: str, buckets: int, cuts: int) -> None:
    declared = DECLARED.replace("STREAM t", "TABLE t")
    query = f"SELECT s.few AS a, t.few AS b FROM s {window}, t WHERE OVERLAP(s.ids, t.longs) >= 1"
    plan = bind(f"{declared} {query}").queries[-1].plan
    streams = {"s": left, "t": [(BEGINNING, FOREVER, row) for _, _, row in right]}
    better, _ = optimize(plan)
    assert len(joins(better)) == 1
    if left or right:
        found = snapshots(rows_of(run_elements(better, streams, buckets=buckets, cuts=cuts)), INSTANTS)
        assert found == relations_of(plan, streams, INSTANTS)
