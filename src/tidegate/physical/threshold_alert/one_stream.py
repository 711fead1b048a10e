"""Emit alarms of an alert on one stream: needed elements whose function crosses a threshold.

The function may be costly, so it is computed for needed elements only, and once for each. An element waits until the
watermark shows that it is needed; so neither the alarms nor the number of calls depend on the order of arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tidegate.algebra.threshold_alert import ALARM, INCIDENT, NUMBER, VALUE, Alert, Demand, demands_on
from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.dead_letters import NO_DEAD_LETTERS
from tidegate.physical.common.failures import dead_letters_of_failures
from tidegate.physical.common.kernels.time_order import sort_in_time_order
from tidegate.physical.common.operator import Chunks, PartitionKeys, Step
from tidegate.physical.threshold_alert.crossing import evaluate_crossing
from tidegate.physical.threshold_alert.kernels.certainty import certain_from
from tidegate.physical.threshold_alert.kernels.incidents import Incidents
from tidegate.physical.threshold_alert.omission import alias_of, float_values
from tidegate.physical.threshold_alert.state import Side, ThresholdAlertState, load_with_inputs
from tidegate.schema import Schema
from tidegate.time import BEGINNING, CHRONON, FOREVER

_WATERMARK = "watermark"


@dataclass(frozen=True, slots=True)
class OneStreamAlertOperator:
    """Evaluate an alert on the elements of one stream, by their keys."""

    input: Schema
    keys: tuple[str, ...]
    alert: Alert
    schema: Schema = field(init=False, repr=False, compare=False)
    demand: Demand | None = field(init=False, repr=False, compare=False)
    """The elements that are needed; None if all of them are."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", Schema((NUMBER, *self.input.fields, VALUE, INCIDENT, ALARM)))
        object.__setattr__(self, "demand", next(iter(demands_on(0, (self.alert,))), None))

    @property
    def partition_keys(self) -> PartitionKeys:
        return (self.keys,)

    @property
    def looks_back(self) -> int | None:
        return 2 * self.pause + CHRONON

    @property
    def pause(self) -> int:
        """The longest time between two alarms of an incident."""
        return 0 if self.alert.representation is None else self.alert.representation.span

    @property
    def wait(self) -> int:
        """For how long an element may wait for the watermark."""
        return 0 if self.demand is None else self.pause

    @property
    def aliases(self) -> tuple[str, ...]:
        return (alias_of(self.input),)

    @property
    def is_first(self) -> bool:
        return False

    @property
    def memory(self) -> int:
        """For how long an element is kept after the watermark has passed it.

        An element waits while the left end of a bracket may still get a right end. If it must be bracketed on both
        sides, it may wait for one side after it is bracketed on the other, with a left end that is still older.
        """
        sides = 0 if self.demand is None else self.demand.above + self.demand.below
        return sides * self.wait

    def describe(self) -> str:
        by = f" by {', '.join(self.keys)}" if self.keys else ""
        return f"threshold alert {self.alert.name}{by}"

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        """Take in the new elements, evaluate those that are now known to be needed, and drop what nothing needs."""
        (watermark,), before = watermarks, _load_watermark(state)
        demands = () if self.demand is None else (self.demand,)
        scene = load_with_inputs(state, inputs, (self.input,), (self.keys,), (demands,))
        (side,) = scene.sides
        certain = self._certain_from(side)
        due = np.flatnonzero((certain > before) & (certain <= watermark))
        output, incidents, dead = self._raise_alarms(scene, due, certain[due])
        until = watermark - self.wait - self.pause
        chunks = dict(scene.save(state, [watermark - self.memory], {0: incidents}, {0: until}))
        is_known = _WATERMARK in state and watermark == before
        chunks[_WATERMARK] = state[_WATERMARK] if is_known else _watermark_chunk(watermark)
        return Step(chunks, output, min(watermark - self.wait, FOREVER), dead, omitted=(side.omitted,))

    def _certain_from(self, side: Side) -> Ints:
        """Return the watermark from which each element is known to be needed."""
        start, demand = side.batch.start, self.demand
        if demand is None:
            return start + 1
        value = float_values(side.batch.column(demand.value))
        sides = {"above": demand.above, "below": demand.below}
        return certain_from(side.group, start, value, window=demand.window, strict=demand.strict, **sides)

    def _raise_alarms(
        self, scene: ThresholdAlertState, due: Ints, certain: Ints
    ) -> tuple[Batch, Incidents, pa.RecordBatch]:
        """Return the alarms among elements, the incidents after them, and dead letters where the function fails."""
        (side,) = scene.sides
        chosen, dead = side.batch.take(due), NO_DEAD_LETTERS
        crossing = evaluate_crossing(self.alert, chosen)
        if crossing.verdict.errors is not None:
            dead = dead_letters_of_failures(chosen, crossing.verdict, self.alert.condition, origin=self.alert.name)
        rows = np.flatnonzero(crossing.raised)
        alarms, group = chosen.take(rows), side.group[due][rows]
        order = sort_in_time_order(group, alarms.start, alarms.columns.columns, count=scene.groups).order
        order = order[np.lexsort([certain[rows][order], group[order]])]
        known, incident, number = scene.incidents_of_alert(0).add_in_order(
            group, alarms.start, alarms.start, order, self.pause
        )
        columns = [
            pa.array(np.zeros(len(rows)), NUMBER.type.arrow),
            *alarms.columns.columns,
            crossing.values_of(rows),
            pa.array(incident).cast(INCIDENT.type.arrow),
            pa.array(number),
        ]
        made = pa.RecordBatch.from_arrays(columns, schema=self.schema.arrow)
        return Batch(alarms.start, alarms.start + CHRONON, made), known, dead


def _load_watermark(state: Chunks) -> int:
    return state[_WATERMARK].column(0)[0].as_py() if _WATERMARK in state else BEGINNING


def _watermark_chunk(watermark: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([watermark], pa.int64())], ["watermark"])
