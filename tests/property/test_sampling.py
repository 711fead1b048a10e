"""Samples: which rows are kept, and that estimates are those of their definition, on any cuts and buckets."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.instants import snapshots
from reference.sampling import estimated_average, estimated_count, estimated_sum, is_kept
from reference.semantics import elements_of, relations_of
from strategies.streams import Streams, deliveries
from support.examples import examples
from support.harness import rows_of, run

from tidegate.algebra.plan import EVERY_ROW, Aggregate, AggregateCall, Filter, Map, Output, Plan, Sample, Scan, Window
from tidegate.algebra.similarity_join import Policy, Shedding
from tidegate.expressions.nodes import Call, Column
from tidegate.language.bind.shedding.sampling import sample_query
from tidegate.physical.shedding.kernels.sampling import choose_sample
from tidegate.schema import Schema, Type

RATES = [1, 200_000, 500_000, 900_000, EVERY_ROW]
COLUMNS = Schema.of(k=Type.INT, x=Type.DOUBLE)
CALLS = (
    AggregateCall("count", None, "rows", Type.BIGINT),
    AggregateCall("count", "x", "known", Type.BIGINT),
    AggregateCall("sum", "x", "total", Type.DOUBLE),
    AggregateCall("avg", "x", "mean", Type.DOUBLE),
)

VALUES = {
    pa.int32(): st.integers(-3, 3),
    pa.int64(): st.sampled_from([0, -1, 2**62]),
    pa.float64(): st.sampled_from([0.0, -0.0, 0.5, math.nan, math.inf]),
    pa.string(): st.sampled_from(["", "a", "12345678", "123456789", "éö"]),
    pa.bool_(): st.booleans(),
}


@given(data=st.data())
@settings(max_examples=examples(300))
def test_a_row_is_kept_by_its_values_and_its_start(data):
    types = data.draw(st.lists(st.sampled_from(list(VALUES)), max_size=3))
    count = data.draw(st.integers(1, 8))
    columns = [data.draw(st.lists(st.none() | VALUES[each], min_size=count, max_size=count)) for each in types]
    starts = data.draw(st.lists(st.integers(-2, 5), min_size=count, max_size=count))
    rates = data.draw(st.lists(st.sampled_from(RATES), min_size=count, max_size=count))
    arrays = [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)]
    kept = choose_sample(arrays, np.array(starts, np.int64), np.array(rates, np.int64))
    rows = [tuple(column[row] for column in columns) for row in range(count)]
    assert kept.tolist() == [is_kept(*each) for each in zip(rows, starts, rates, strict=True)]


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=50), st.sampled_from(RATES), st.sampled_from(RATES))
def test_a_greater_sample_has_all_rows_of_a_smaller_one(values, one, other):
    columns, starts = [pa.array(values)], np.zeros(len(values), np.int64)
    small, large = (choose_sample(columns, starts, rate) for rate in sorted((one, other)))
    assert not (small & ~large).any()


@st.composite
def one_stream(draw) -> Streams:
    row = st.fixed_dictionaries({"k": st.sampled_from([0, 1]), "x": st.sampled_from([None, -1.5, 0.0, 2.0, 3.0])})
    elements = draw(st.lists(st.tuples(st.integers(0, 6), row), max_size=14))
    return Streams({"s": COLUMNS}, {"s": sorted(elements, key=lambda each: each[0])})


def query_over(below: Plan, keys: tuple[str, ...]) -> Map:
    grouped = Aggregate(below, keys, CALLS)
    return Map(grouped, tuple(Output(f.name, Column(f.name, f.type)) for f in grouped.schema))


@given(data=st.data())
@settings(max_examples=examples(150), deadline=None)
def test_estimates_are_those_of_the_rows_kept(data):
    source, delay = data.draw(one_stream()), data.draw(st.sampled_from([0, 3]))
    rate, keys = data.draw(st.sampled_from(RATES[1:])), data.draw(st.sampled_from([(), ("k",)]))
    size, slide = data.draw(st.integers(1, 5)), data.draw(st.sampled_from([1, 3]))
    positive = Call(">", (Column("x", Type.DOUBLE), Column("k", Type.DOUBLE)), Type.BOOLEAN)
    filtered = data.draw(st.booleans())

    def below(plan: Plan) -> Plan:
        return Window(Filter(plan, positive) if filtered else plan, size, slide)

    scan = Scan("s", COLUMNS)
    plan = sample_query(query_over(below(scan), keys), Shedding(Policy.SAMPLE, rate=rate))
    rows = rows_of(run(plan, source, data.draw(deliveries(source, delay)), delay=delay))
    instants = range(-1, 15)
    sampled = relations_of(below(Sample(scan, "w", rate)), elements_of(source.elements), instants)
    found = snapshots(rows, instants)
    for instant in instants:
        groups = defaultdict(list)
        for k, x, _ in sampled[instant].elements():
            groups[k if keys else None].append(x)
        shown = {(row[0] if keys else None): row[len(keys) :] for row in found[instant]}
        assert shown.keys() == groups.keys()
        for key, xs in groups.items():
            known = [x for x in xs if x is not None]
            rates = [rate] * len(known)
            wanted = [
                *estimated_count([rate] * len(xs), len(xs)),
                *estimated_count(rates, len(known)),
                *estimated_sum(known, rates),
                *estimated_average(known, rates),
            ]
            assert all(map(_is_close, shown[key], wanted)), (shown[key], wanted)


def _is_close(found: float | None, wanted: float | None) -> bool:
    if found is None or wanted is None:
        return found is wanted
    return math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-6)
