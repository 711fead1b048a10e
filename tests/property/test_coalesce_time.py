"""Rows that COALESCE TIME puts together, and rows that groups report whole without it, however input is cut."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from reference.instants import interesting_instants_of, snapshots
from reference.semantics import relations_of
from strategies.plans import deliveries, plans, sources
from support.examples import examples
from support.harness import OutputRow, rows_of, run_sources

from tidegate.algebra.plan import WHOLE, Coalesce, Plan


@st.composite
def cases(draw: st.DrawFn, roots: tuple[str, ...] = ()):
    source = draw(sources(size=10, times=(0, 6)))
    root = draw(st.sampled_from(roots)) if roots else None
    plan = draw(plans(source, depth=3, root=root, without=frozenset({"sample"})))
    return plan, source, draw(deliveries(source, 0))


def count_neighbours(rows: list[OutputRow]) -> int:
    """Return the number of rows that another row with the same values could have continued."""
    begins = Counter((start, values) for start, _, values in rows)
    ends = Counter((end, values) for _, end, values in rows)
    return (begins & ends).total()


def assert_means(plan: Plan, rows: list[OutputRow], source) -> None:
    instants = interesting_instants_of(plan, source.elements, rows)
    assert snapshots(rows, instants) == relations_of(plan, source.elements, instants)


@given(cases())
@settings(max_examples=examples(80))
def test_no_two_rows_of_coalesce_time_could_be_one(case):
    plan, source, delivery = case
    rows = rows_of(run_sources(Coalesce(plan, WHOLE), source, delivery))
    assert count_neighbours(rows) == 0
    assert_means(plan, rows, source)


@given(cases(("aggregate", "distinct")))
@settings(max_examples=examples(80))
def test_groups_report_each_row_whole_without_a_coalesce(case):
    plan, source, delivery = case
    assert count_neighbours(rows_of(run_sources(plan, source, delivery))) == 0
