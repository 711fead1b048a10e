"""Keyed joins with windows of rows against the join by definition: any graph, cuts, constraints that hold or not."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from random import Random

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from property.test_keyed_join_operator import joined, operator_of
from property.test_synopses import SHAPES, seeds, world_of
from support.examples import examples

from tidegate.expressions.nodes import Call, Column, Literal, conjunction
from tidegate.physical.keyed_join.count_windows import CountedInput
from tidegate.physical.keyed_join.kernels import cold
from tidegate.physical.keyed_join.operator import KeyedJoinOperator
from tidegate.physical.stateless.operators import FilterOperator
from tidegate.schema import Type
from tidegate.time import FOREVER

DISORDERS = (0, 3, 12)
"""Rows wait for watermarks: so there must be some that do, and for how long."""


def in_windows_of_rows(random, world, operator: KeyedJoinOperator):
    """The world and the operator with windows of rows at some streams, at least one."""
    streams = range(len(world.graph))
    chosen = [s for s in streams if random.random() < 0.6] or [random.choice(streams)]
    ends: dict[int, int] = {}
    windows, passing = {}, set()
    for stream in chosen:
        rows, above = random.choice([1, 1, 2, 3, 6]), random.random() < 0.5
        own = [t for t in world.of(stream) if t.passes or above]
        ordered = sorted(own, key=lambda t: (t.start, *_values(operator.schemas[stream], t)))
        ends |= {t.row: later.start for t, later in zip(ordered, ordered[rows:], strict=False)}
        ends |= {t.row: FOREVER for t in ordered[-rows:]}
        windows[stream] = (rows, [t.row for t in own if not t.passes])
        passing |= {t.row for t in own}
    counted = tuple(
        CountedInput(windows[s][0], schema, _without(schema, windows[s][1])) if s in windows else None
        for s, schema in enumerate(operator.schemas)
    )
    expected = replace(world, tuples=[replace(t, end=ends.get(t.row, t.end)) for t in world.tuples])
    # What fails a filter above a window is counted: it comes, and the operator itself leaves it out.
    given_ = replace(world, tuples=[replace(t, passes=t.passes or t.row in passing) for t in world.tuples])
    return given_, expected, replace(operator, counted_inputs=counted)


def _values(schema, each):
    """In the order of columns; keys are digits, which as texts have the same order."""
    columns = [field.name.partition(".")[2] for field in schema]
    own = {"row": each.row, "k": next(iter(each.keys.values()), 0)} | {f"k{e}": key for e, key in each.keys.items()}
    return [own[column] for column in columns]


def _without(schema, rows):
    """A filter above a window that these rows fail."""
    column = Column(schema.names[-1], Type.INT)
    terms = tuple(Call("<>", (column, Literal(row, Type.INT)), Type.BOOLEAN) for row in rows)
    return (FilterOperator(schema, conjunction(terms)),) if terms else ()


def whole(pieces):
    """Results that may come in pieces, each as long as it is; none may come twice."""
    assert all(count == 1 for count in pieces.values())
    found: list[tuple] = []
    for rows, several in groupby(sorted(pieces), key=lambda piece: piece[:-2]):
        start, end = None, None
        for piece in several:
            assert end is None or piece[-2] >= end
            if end != piece[-2]:
                found += [] if end is None else [(*rows, start, end)]
                start = piece[-2]
            end = piece[-1]
        found.append((*rows, start, end))
    return sorted(found)


def compared(random, world, operator):
    """What is found, and what there is."""
    given_, expected, counting = in_windows_of_rows(random, world, operator)
    event(f"windows of rows: {sum(each is not None for each in counting.counted_inputs)}")
    return whole(joined(random, given_, counting, 1, behind=(0, 0, 2, 9))), sorted(expected.expected())


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=examples(40), deadline=None)
@given(seed=seeds, more=st.sampled_from([0, 0, 2, -1, -100]), one_key=st.booleans(), size=st.sampled_from([1, 3, 100]))
def test_an_exact_join_is_the_join_whether_constraints_hold_or_not(shape, seed, more, one_key, size):
    random = Random(seed)
    world = world_of(random, shape, one_key, DISORDERS)
    operator = operator_of(random, world, more=more, share=0.6, exact=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cold, "FULL_SLICE", size)
        found, expected = compared(random, world, operator)
    assert found == expected


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=examples(40), deadline=None)
@given(seed=seeds, one_key=st.booleans(), rows_only=st.booleans())
def test_a_lean_join_misses_nothing_while_constraints_hold(shape, seed, one_key, rows_only):
    random = Random(seed)
    world = world_of(random, shape, one_key, DISORDERS)
    operator = operator_of(random, world, more=0, share=0.6, exact=False, rows_only=rows_only)
    found, expected = compared(random, world, operator)
    assert found == expected


@settings(max_examples=examples(40), deadline=None)
@given(seed=seeds, shape=st.sampled_from(SHAPES), more=st.sampled_from([-1, -2, -100]))
def test_a_lean_join_never_has_results_too_many(seed, shape, more):
    random = Random(seed)
    world = world_of(random, shape, disorders=DISORDERS)
    found, expected = compared(random, world, operator_of(random, world, more=more, share=0.8, exact=False))
    assert set(found) <= set(expected)
