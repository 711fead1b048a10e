"""Columns with the sizes in force: at every instant they say the size of that instant, however input is cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from property.test_sizes import INSTANTS, key_of, run_engine, with_places
from reference.instants import snapshots
from reference.semantics import elements_of, relations_of
from reference.size_columns import Changes, with_sizes_in_force
from strategies.sizes import adaptable_in, plans_over_adaptable, reference_sizes, some_sizes, two_streams
from strategies.streams import deliveries
from support.examples import examples
from support.harness import job_of_physical, rows_of

from tidegate.algebra.adaptable import is_adaptable
from tidegate.algebra.own_times import stamp_own_times
from tidegate.algebra.plan import Plan, walk
from tidegate.algebra.size_columns import SizeColumn
from tidegate.language.bind.size_columns import size_columns
from tidegate.optimizer.optimize import optimize
from tidegate.physical.common.emit import Emit
from tidegate.physical.common.sizes import SizeHistory
from tidegate.runtime.adaptation import (
    Adaptation,
    AdjustedWindows,
    adjusted_windows,
    decide_sizes,
    known_sizes,
    sizes_to_follow,
    trim_sizes,
)
from tidegate.runtime.embedded.engine import Engine
from tidegate.runtime.job import Job
from tidegate.runtime.size_columns import lower_with_sizes


class Deciding:
    """A run in which sizes are decided after each step. It keeps all of each history; the run forgets what is over."""

    def __init__(self, job: Job, windows: AdjustedWindows, data: st.DataObject) -> None:
        self.engine, self.windows, self.data = Engine(job), windows, data
        self.kept = known_sizes(windows, {}, self.engine.watermarks)
        self.whole: dict[str, SizeHistory] = dict(self.kept)

    def decide(self, seen: Adaptation) -> Mapping[str, SizeHistory]:
        found = {}
        for key, window in self.windows.items():
            if self.data.draw(st.booleans()):
                found[key] = seen.change(key, self.data.draw(st.sampled_from(some_sizes(window.bounds))))
        return found

    def after_step(self) -> None:
        engine, job = self.engine, self.engine.job
        seen = Adaptation(engine.step_number, job.graph, engine.watermarks, job.source_streams, self.windows, self.kept)
        decided = decide_sizes(self.decide, seen)
        for key, history in decided.items():
            for change in history.changes:
                if change.instant > self.whole[key].newest.instant:
                    self.whole[key] = self.whole[key].changed(*change)
        self.kept = trim_sizes(decided, self.windows, engine.watermarks)
        engine.sizes = sizes_to_follow(self.windows, self.kept)


@pytest.mark.parametrize("optimized", [False, True], ids=["as_written", "optimised"])
@pytest.mark.parametrize("emit", [Emit.ENDED, Emit.SETTLED], ids=["once", "settled"])
@given(data=st.data())
@settings(max_examples=examples(100), deadline=None)
def test_columns_say_the_size_of_each_instant_however_input_is_cut(emit, optimized, data):
    written, source = with_places(data.draw(plans_over_adaptable())), data.draw(two_streams())
    delay = data.draw(st.sampled_from([0, 3]))
    delivery = data.draw(deliveries(source, delay))
    plan = optimize(written)[0] if optimized else stamp_own_times(written)
    columns = size_columns(written, {}, written.schema.names)
    physical = lower_with_sizes(plan, plan, columns, emit)
    windows = adjusted_windows([("query", plan)], [])
    run = Deciding(job_of_physical(physical, source, buckets=delivery.buckets, delay=delay), windows, data)
    rows = rows_of(run_engine(run.engine, source, delivery, run.after_step))
    event(f"{max((len(each.changes) for each in run.whole.values()), default=0)} sizes")
    sizes = reference_sizes((node, run.whole[key_of(node)]) for node in adaptable_in(plan))
    expected = relations_of(plan, elements_of(source.elements), INSTANTS, sizes)
    assert snapshots(rows, INSTANTS) == with_sizes_in_force(expected, list(histories_of(columns, plan, sizes)))


def histories_of(
    columns: tuple[SizeColumn, ...], plan: Plan, sizes: Mapping[Plan, Changes]
) -> Iterator[tuple[int, Mapping[Plan, Changes]]]:
    """The windows that each column is about: those that come from its place in the text."""
    for column in columns:
        of_place = [node for node in walk(plan) if is_adaptable(node) and node.span == column.place]
        yield column.best, {node: sizes[node] for node in of_place if type(node) is type(column.node)}
