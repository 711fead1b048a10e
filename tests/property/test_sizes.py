"""Windows and granularities whose sizes change while a query runs: whatever the history, the output is its meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from itertools import count

import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from reference.instants import snapshots
from reference.semantics import elements_of, relations_of
from strategies.sizes import adaptable_in, histories, plans_over_adaptable, reference_sizes, some_sizes, two_streams
from strategies.streams import Delivery, Streams, deliveries
from support.examples import examples
from support.harness import TIME, job_of, rows_of
from support.sizes import at_best

from tidegate.algebra.adaptable import is_adaptable
from tidegate.algebra.plan import Plan, rewrite, walk
from tidegate.errors import Span
from tidegate.optimizer.optimize import optimize
from tidegate.optimizer.quality import SizeBounds, size_bounds, size_key
from tidegate.physical.common.sizes import SizeHistory
from tidegate.runtime.adaptation import Adaptation, adjusted_windows, decide_sizes, known_sizes, trim_sizes
from tidegate.runtime.embedded.engine import Engine

INSTANTS = range(-3, 45)

modes = pytest.mark.parametrize("optimized", [False, True], ids=["as_written", "optimised"])


def run_with(
    plan: Plan, source: Streams, delivery: Delivery, sizes: Mapping[str, SizeHistory], *, delay: int, optimized: bool
):
    """What comes out if the histories are known from the beginning."""
    engine = Engine(job_of(plan, source, buckets=delivery.buckets, delay=delay, optimized=optimized), sizes=sizes)
    return run_engine(engine, source, delivery)


def run_engine(engine: Engine, source: Streams, delivery: Delivery, after_step=lambda: None):
    outboxes = []
    for arrival in delivery.arrivals[:-1]:
        raw = {
            name: _table(source, name, elements).to_batches()
            for name, elements in arrival.elements.items()
            if name in engine.watermarks
        }
        outboxes.append(engine.step(raw)[0])
        after_step()
    return [*outboxes, engine.finish()]


def _table(source, name, elements):
    schema = source.schemas[name]
    columns = {f.name: pa.array([row[f.name] for _, row in elements], f.type.arrow) for f in schema}
    return pa.table({**columns, TIME: pa.array([t for t, _ in elements], pa.int64())})


@modes
@given(data=st.data())
@settings(max_examples=examples(200), deadline=None)
def test_the_output_is_that_of_the_history(optimized, data):
    written, source = data.draw(plans_over_adaptable()), data.draw(two_streams())
    delay = data.draw(st.sampled_from([0, 3]))
    delivery = data.draw(deliveries(source, delay))
    plan = optimize(written)[0] if optimized else written
    bounds = size_bounds([plan])
    by_key = {key: data.draw(histories(bounds[key])) for key in sorted(bounds)}
    event(f"{len(by_key)} histories")
    rows = rows_of(run_with(written, source, delivery, by_key, delay=delay, optimized=optimized))
    sizes = reference_sizes((node, by_key[key_of(node)]) for node in adaptable_in(plan))
    assert snapshots(rows, INSTANTS) == relations_of(plan, elements_of(source.elements), INSTANTS, sizes)


@given(data=st.data())
@settings(max_examples=examples(150), deadline=None)
def test_an_optimised_plan_means_the_same_if_its_windows_change_as_the_written_ones(data):
    """Rules move and copy windows; each is known by its place in the text."""
    written, source = with_places(data.draw(plans_over_adaptable())), data.draw(two_streams())
    plan = optimize(written)[0]
    bounds = size_bounds([written, plan])
    nodes = [node for each in (written, plan) for node in walk(each) if is_adaptable(node)]
    groups: list[set[object]] = []
    for node in nodes:
        known = {key_of(node), node.span}
        touched = [each for each in groups if each & known]
        groups = [each for each in groups if not each & known] + [known.union(*touched)]
    drawn = []
    for group in groups:
        first, *rest = (bounds[key] for key in sorted(each for each in group if isinstance(each, str)))
        drawn.append((group, data.draw(histories(reduce(SizeBounds.intersect, rest, first)))))
    event(f"{len(drawn)} histories of {len(nodes)} windows")
    sizes = reference_sizes((node, next(h for group, h in drawn if key_of(node) in group)) for node in nodes)
    elements = elements_of(source.elements)
    assert relations_of(plan, elements, INSTANTS, sizes) == relations_of(written, elements, INSTANTS, sizes)


def key_of(node: Plan) -> str:
    key = size_key(node)
    assert key is not None
    return key


def with_places(plan: Plan) -> Plan:
    """The plan, with another span for each operator."""
    numbers = count(1)
    return rewrite(plan, lambda node: replace(node, span=Span(number := next(numbers), number + 1)))


@given(data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_without_a_history_the_sizes_are_the_best(data):
    plan, source = data.draw(plans_over_adaptable()), data.draw(two_streams())
    delivery = data.draw(deliveries(source, 0))
    rows = rows_of(run_with(plan, source, delivery, {}, delay=0, optimized=True))
    expected = relations_of(at_best(plan), elements_of(source.elements), INSTANTS)
    assert snapshots(rows, INSTANTS) == expected == relations_of(plan, elements_of(source.elements), INSTANTS)


@given(data=st.data())
@settings(max_examples=examples(150), deadline=None)
def test_sizes_decided_after_each_step_are_exact_whatever_the_cuts(data):
    """Changes begin after what was seen, so the elements of earlier steps already have the sizes of the history."""
    plan, source = data.draw(plans_over_adaptable()), data.draw(two_streams())
    delay = data.draw(st.sampled_from([0, 3]))
    delivery = data.draw(deliveries(source, delay))
    job = job_of(plan, source, buckets=delivery.buckets, delay=delay, optimized=False)
    windows = adjusted_windows([("query", plan)], [])
    engine = Engine(job)
    kept, whole = known_sizes(windows, {}, engine.watermarks), known_sizes(windows, {}, engine.watermarks)

    def decide(adaptation: Adaptation):
        chosen = {}
        for key, window in windows.items():
            allowed = some_sizes(window.bounds)
            if data.draw(st.booleans()):
                chosen[key] = adaptation.change(key, data.draw(st.sampled_from(allowed)))
        return chosen

    def after_step():
        nonlocal kept, whole
        adaptation = Adaptation(engine.step_number, job.graph, engine.watermarks, job.source_streams, windows, kept)
        decided = decide_sizes(decide, adaptation)
        for key, history in decided.items():
            for change in history.changes:
                if change.instant > whole[key].newest.instant:
                    whole[key] = whole[key].changed(*change)
        kept = trim_sizes(decided, windows, engine.watermarks)
        engine.sizes = kept

    rows = rows_of(run_engine(engine, source, delivery, after_step))
    event(f"{max((len(each.changes) for each in whole.values()), default=0)} sizes")
    written = [(node, whole[key_of(node)]) for node in adaptable_in(plan)]
    expected = relations_of(plan, elements_of(source.elements), INSTANTS, reference_sizes(written))
    assert snapshots(rows, INSTANTS) == expected


def test_all_adaptable_operators_occur_in_the_plans_that_are_drawn():
    """Else the tests above say nothing."""
    kinds = set[str]()

    @given(plans_over_adaptable())
    @settings(max_examples=200, database=None, deadline=None)
    def look(plan):
        kinds.update(type(node).__name__ for each in walk(plan) for node in adaptable_in(each))

    look()
    assert kinds == {"Window", "CountWindow", "Granularity", "Sample"}
