"""Whole plans of the same query: what each really needs, and whether the one that is estimated to be cheaper is.

Bids join the auctions that they are for, and are grouped above the join, as a plain or a keyed join, or below it; and
numbers that are alike are found by a similarity join or by nested loops. Each plan runs over the same rows, step by
step. The results of all plans of a query are compared.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.support.report import Report, main, say
from tidegate.catalog.catalog import Catalog
from tidegate.costs.characteristics import Characteristics
from tidegate.costs.estimates import SECOND, Flow
from tidegate.language.bind.program import bind
from tidegate.optimizer.advice import GroupPosition, KeyedJoins, PlanAdvice, PlanChoices
from tidegate.optimizer.optimize import optimize
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.emit import Emit
from tidegate.physical.common.operator import NO_STATE, Chunks, Steered
from tidegate.physical.common.plan import Apply, PhysicalPlan, Read
from tidegate.physical.lower import lower
from tidegate.runtime.costs.plan_costs import PlanCost, cost_of_plan
from tidegate.runtime.costs.query_knowledge import QueryKnowledge

STREAMS = """
CREATE STREAM bid (auction BIGINT, price BIGINT, at TIMESTAMP) FROM 'bid' TIMESTAMP BY at;
CREATE STREAM auction (id BIGINT, seller BIGINT, at TIMESTAMP) FROM 'auction' TIMESTAMP BY at KEY (id);
CREATE STREAM s (x DOUBLE, at TIMESTAMP) FROM 's' TIMESTAMP BY at;
CREATE STREAM r (y DOUBLE, at TIMESTAMP) FROM 'r' TIMESTAMP BY at;
"""
GROUPED = """
    SELECT b.auction, a.seller, {} AS x FROM bid b WINDOW(RANGE 2 SECONDS), auction a WINDOW(RANGE 5 SECONDS)
    WHERE b.auction = a.id GROUP BY b.auction, a.seller"""
ALIKE = "SELECT s.x, r.y FROM s WINDOW(RANGE {}), r WINDOW(RANGE {}) WHERE abs(s.x - r.y) < 1"
GROUPED_PLANS = {
    "plain": PlanChoices(keyed_joins=KeyedJoins.NEVER),
    "keyed": PlanChoices(keyed_joins=KeyedJoins.ALWAYS),
    "below": PlanChoices(grouping=GroupPosition.BELOW),
}
ALIKE_PLANS = {"nested": PlanChoices(similarity_joins=False), "similarity": PlanChoices()}

STEP = 250_000
AUCTIONS, BIDDEN = 100, 300
"""Auctions in a second, and of how many the bids are."""


@dataclass(frozen=True, slots=True)
class Case:
    """A query with the share of its bids that meet an auction, or with the rows that are alike at an instant."""

    text: str
    rates: Mapping[str, int]
    plans: Mapping[str, PlanChoices]
    matching: float = 1.0

    def known(self) -> QueryKnowledge:
        flows = {}
        for stream, rate in self.rates.items():
            distance = SECOND / rate
            flows[stream] = Flow.of(Characteristics(distance, 1.0)).with_distance(distance, 0.0)
        shares = dict.fromkeys(["b.auction = a.id", "a.id = b.auction"], self.matching / (5 * AUCTIONS))
        values = dict.fromkeys(["b.auction", "a.id"], BIDDEN / self.matching)
        return QueryKnowledge(flows, shares=shares, values=values, loose=(1e-6,), step=float(STEP))

    def rows(self, stream: str, step: int) -> Mapping[str, np.ndarray]:
        """Return the columns of the rows of a step, with their times."""
        random = np.random.default_rng([step, len(stream)])
        count = self.rates[stream] * STEP // 1_000_000
        times = np.sort(random.integers(step * STEP, (step + 1) * STEP, count))
        newest = AUCTIONS * STEP * (step + 1) // 1_000_000
        match stream:
            case "bid":
                known = random.integers(max(newest - BIDDEN, 0), newest, count)
                others = -random.integers(1, int(BIDDEN / self.matching) + 2, count)
                chosen = np.where(random.random(count) < self.matching, known, others)
                return {"at": times, "auction": chosen, "price": random.integers(0, 1_000_000, count)}
            case "auction":
                ids = np.arange(newest - count, newest)
                return {"at": times, "id": ids, "seller": ids % 7}
        return {"at": times, "x": random.random(count) * 1e7, "y": random.random(count) * 1e7}


CASES = {
    "max": Case(GROUPED.format("MAX(b.price)"), {"bid": 40_000, "auction": AUCTIONS}, GROUPED_PLANS),
    "count": Case(GROUPED.format("COUNT(*)"), {"bid": 40_000, "auction": AUCTIONS}, GROUPED_PLANS),
    "few_match": Case(GROUPED.format("MAX(b.price)"), {"bid": 40_000, "auction": AUCTIONS}, GROUPED_PLANS, 0.01),
    "alike_200": Case(ALIKE.format(*["10 MILLISECONDS"] * 2), {"s": 20_000, "r": 20_000}, ALIKE_PLANS),
    "alike_20000": Case(ALIKE.format(*["1 SECOND"] * 2), {"s": 20_000, "r": 20_000}, ALIKE_PLANS),
}


class PlanRun:
    """Run of a plan, step by step, with the processor time of its operators."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.states: dict[PhysicalPlan, Chunks] = {}
        self.seconds = 0.0

    def step(self, part: PhysicalPlan, number: int) -> tuple[Batch, int]:
        """Return the elements of a part in a step, and its watermark."""
        if isinstance(part, Read):
            rows = self.case.rows(part.stream, number)
            columns = [pa.array(rows[f.name], f.type.arrow) for f in part.schema]
            batch = pa.RecordBatch.from_arrays(columns, schema=part.schema.arrow)
            return Batch(rows["at"], rows["at"] + 1, batch), (number + 1) * STEP
        inputs = [self.step(each, number) for each in part.inputs]
        operator = part.operator.with_directive(None, {}) if isinstance(part.operator, Steered) else part.operator
        began = time.process_time()
        done = operator.step(self.states.get(part, NO_STATE), [e for e, _ in inputs], [mark for _, mark in inputs])
        self.seconds += time.process_time() - began
        self.states[part] = done.state
        return done.output, done.watermark


def plan_of(case: Case, choices: PlanChoices) -> Apply:
    program = bind(STREAMS + case.text, Catalog())
    plan, _ = optimize(program.queries[0].plan, program.settings, advice=PlanAdvice(choices=choices))
    made = lower(plan, emit=Emit.SETTLED)
    assert isinstance(made, Apply)
    return made


def run(case: Case, plan: Apply, steps: int) -> tuple[PlanCost, int]:
    """Return what a plan needs in the second half of some steps, and a checksum of its results at all instants."""
    process, seen = PlanRun(case), 0
    for number in range(steps):
        if number == steps // 2:
            process.seconds = 0.0
        found, _ = process.step(plan, number)
        values = [column.cast(pa.float64()).to_numpy(zero_copy_only=False) for column in found.columns.columns]
        weights = (sum((at + 1) * (each * 1000).astype(np.int64) for at, each in enumerate(values)) % 1_000_003) + 1
        seen += int(np.sum(weights * (found.end - found.start)))
    size = sum(chunk.nbytes for state in process.states.values() for chunk in state.values())
    return PlanCost(process.seconds / ((steps - steps // 2) * STEP / 1e6), float(size)), seen


def measure_case(name: str, case: Case, steps: int, figures: dict[str, float], ratios: dict[str, float]) -> bool:
    measured, estimated, seen = dict[str, PlanCost](), dict[str, PlanCost](), set[int]()
    for kind, choices in case.plans.items():
        plan = plan_of(case, choices)
        estimated[kind] = cost_of_plan(plan, case.known())
        measured[kind], checksum = run(case, plan, steps)
        seen.add(checksum)
        say(f"{name}, {kind}: {measured[kind].describe()}; estimated {estimated[kind].describe()}")
        figures |= {f"{name}_{kind}_cpu": measured[kind].seconds, f"{name}_{kind}_mb": measured[kind].bytes / 1e6}
    best = min(case.plans, key=lambda kind: estimated[kind].total)
    others = [each for each in case.plans if each != best]
    ratios |= {f"{name}_{best}_vs_{each}": measured[each].total / measured[best].total for each in others}
    return len(seen) == 1


def measure(quick: bool) -> Report:  # noqa: FBT001 - the contract of all benchmarks
    figures, ratios = dict[str, float](), dict[str, float]()
    equal = [measure_case(name, each, 40 if quick else 200, figures, ratios) for name, each in CASES.items()]
    return Report("plan_choices", all(equal), ratios, figures)


if __name__ == "__main__":
    main(measure, __doc__ or "")
