"""What queries have in common runs once, and every query still gets its own relation at every instant."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from reference.instants import interesting_instants_of, snapshots
from reference.semantics import elements_of, relations_of
from strategies.plans import deliveries, plans, streams
from support.examples import examples
from support.harness import _table, job_of, rows_of

from tidegate.algebra.plan import Aggregate, AggregateCall, Join, Map, Output, Plan
from tidegate.expressions.nodes import Call, Column
from tidegate.optimizer.optimize import optimize
from tidegate.optimizer.sharing import share_subplans
from tidegate.physical.lower import lower
from tidegate.runtime.bucket_step import Outbox
from tidegate.runtime.cut_stages import cut_into_stages
from tidegate.runtime.embedded.engine import Engine
from tidegate.runtime.job import Job
from tidegate.schema import Type


def renamed(plan: Plan, prefix: str) -> Plan:
    return Map(plan, tuple(Output(f"{prefix}{i}", Column(f.name, f.type)) for i, f in enumerate(plan.schema)))


def with_itself(plan: Plan) -> Plan:
    left, right = renamed(plan, "l"), renamed(plan, "r")
    first = plan.schema.fields[0].type
    return Join(left, right, Call("=", (Column("l0", first), Column("r0", first)), Type.BOOLEAN))


def counted(plan: Plan) -> Plan:
    return Aggregate(plan, (), (AggregateCall("count", None, "n", Type.BIGINT),))


@st.composite
def programs(draw):
    """A plan as one query, and other queries that contain it under other names."""
    source = draw(streams())
    plan = draw(plans(source, depth=3))
    others = [renamed(plan, "x"), with_itself(plan), counted(renamed(plan, "y")), with_itself(renamed(plan, "z"))]
    chosen = draw(st.lists(st.sampled_from(others), min_size=1, max_size=3))
    return [plan, *chosen], source, draw(deliveries(source, 2))


@given(programs())
@settings(max_examples=examples(60), deadline=None)
def test_shared_parts_serve_each_query_as_if_it_were_alone(program):
    queries, source, delivery = program
    shared = share_subplans([optimize(plan)[0] for plan in queries])
    alone = job_of(queries[0], source, buckets=delivery.buckets, delay=2)
    graph = cut_into_stages([(f"q{i}", lower(plan)) for i, plan in enumerate(shared)])
    outboxes = _outboxes(Engine(Job(graph, alone.sources, {}, delivery.buckets)), source, delivery)
    given_elements = elements_of(source.elements)
    for number, plan in enumerate(queries):
        rows = rows_of([_only(outbox, f"q{number}") for outbox in outboxes])
        instants = interesting_instants_of(plan, given_elements, rows)
        assert snapshots(rows, instants) == relations_of(plan, given_elements, instants)


def _outboxes(engine: Engine, source, delivery) -> list[Outbox]:
    steps = [
        {
            name: _table(source.schemas[name], elements).to_batches()
            for name, elements in arrival.elements.items()
            if name in engine.watermarks
        }
        for arrival in delivery.arrivals[:-1]
    ]
    return [*(engine.step(raw)[0] for raw in steps), engine.finish()]


def _only(outbox: Outbox, query: str) -> Outbox:
    return Outbox(results=[(name, batch) for name, batch in outbox.results if name == query])
