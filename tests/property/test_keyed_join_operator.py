"""The operator of keyed joins against the join by definition: any graph, cuts, buckets, saved and loaded."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from property.test_synopses import KINDS, SHAPES, distances, seeds, world_of
from support.examples import examples

from tidegate.algebra.constraints import ConstraintSettings, Reach
from tidegate.algebra.keyed_join import ConstraintKind, EdgeConstraint, JoinEdge
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.kernels.hashing import bucket_of, hash_columns
from tidegate.physical.common.operator import NO_STATE
from tidegate.physical.keyed_join.directive import KeyedJoinDirective
from tidegate.physical.keyed_join.kernels import cold
from tidegate.physical.keyed_join.operator import KeyedJoinOperator
from tidegate.runtime.state import deserialize, serialize
from tidegate.schema import Field, Schema, Type
from tidegate.time import FOREVER

TYPES = [Type.BIGINT, Type.INT, Type.DOUBLE, Type.STRING]


def operator_of(random, world, *, more, share, exact, rows_only=False):
    """A join of the world's streams: a column for each edge, or one for all if there is one key."""
    graph, kind = world.graph, random.choice(TYPES)
    names: list[list[str]] = [[] for _ in graph.streams]
    edges = []
    for number, (parent, child) in enumerate(graph.edges):
        column = "k" if world.one_key else f"k{number}"
        keys = [f"{graph.streams[s]}.{column}" for s in (parent, child)]
        for stream, name in zip((parent, child), keys, strict=True):
            names[stream] += [] if name in names[stream] else [name]
        edges.append(JoinEdge(parent, child, (keys[0],), (keys[1],)))
    schemas = tuple(
        Schema((*(Field(n, kind) for n in own), Field(f"{graph.streams[s]}.row", Type.INT)))
        for s, own in enumerate(names)
    )
    constraints = []
    for each in KINDS:
        for edge in range(len(graph.edges)):
            if random.random() < share:
                rows, time = (max(k + more, 0) for k in distances(world, each, edge))
                reaches = [Reach(rows=rows)] if rows_only else [Reach(rows=rows), Reach(time=time)]
                some = random.sample(reaches, random.randint(1, len(reaches)))
                constraints += [EdgeConstraint(edge, ConstraintKind[each.upper()], reach) for reach in some]
    its = (tuple(graph.streams), tuple(constraints), (), ConstraintSettings(exact=exact))
    return KeyedJoinOperator(schemas, tuple(edges), *its)


def batch_of(schema, tuples):
    columns = []
    for field in schema:
        name = field.name.partition(".")[2]
        if name == "row":
            values = [t.row for t in tuples]
        else:
            values = [t.keys[int(name[1:])] if name != "k" else next(iter(t.keys.values())) for t in tuples]
        values = [str(v) for v in values] if field.type is Type.STRING else values
        columns.append(pa.array(values, field.type.arrow))
    start, end = (np.array([getattr(t, name) for t in tuples], np.int64) for name in ("start", "end"))
    return Batch(start, end, pa.RecordBatch.from_arrays(columns, schema=schema.arrow))


def joined(random, world, operator, buckets, behind=(0, 0, 2)):
    """The results: some tuples do not pass, and so do not come; any cuts, any order in a step.

    Watermarks are behind what they could be by one of so many instants.
    """
    found: Counter[tuple[int, ...]] = Counter()
    states, promised, begin = [NO_STATE] * buckets, [0] * buckets, 0
    streams = range(len(world.graph))
    while begin < len(world.tuples):
        end = begin + random.choice([1, 2, 3, 8, 50])
        batch, begin = random.sample(world.tuples[begin:end], len(world.tuples[begin:end])), end
        later = [[t.start for t in world.tuples[end:] if t.stream == s] for s in streams]
        watermarks = [min(starts) - random.choice(behind) if starts else FOREVER for starts in later]
        arrived = {world.graph.streams[s]: len(world.of(s)) - len(later[s]) for s in streams}
        inputs = [batch_of(operator.schemas[s], [t for t in batch if t.stream == s and t.passes]) for s in streams]
        for bucket in range(buckets):
            mine = [_of_bucket(operator, s, each, bucket, buckets) for s, each in enumerate(inputs)]
            if random.random() < 0.3:
                states[bucket] = {name: deserialize(serialize(chunk)) for name, chunk in states[bucket].items()}
            step = operator.with_directive(None, arrived).step(states[bucket], mine, watermarks)
            states[bucket] = step.state
            assert len(step.dead) == 0
            rows = [step.output.column(f"{name}.row").to_pylist() for name in world.graph.streams]
            assert all(start >= promised[bucket] for start in step.output.start)
            promised[bucket] = step.watermark
            found.update(zip(*rows, step.output.start.tolist(), step.output.end.tolist(), strict=True))
    return found


def _of_bucket(operator, stream, batch, bucket, buckets):
    if buckets == 1 or not len(batch):
        return batch
    columns = [batch.column(name) for name in operator.partition_keys[stream]]
    return batch.filter(bucket_of(hash_columns(columns), buckets) == bucket)


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=examples(40), deadline=None)
@given(seed=seeds, more=st.sampled_from([0, 0, 2, -1, -100]), one_key=st.booleans(), size=st.sampled_from([1, 3, 100]))
def test_an_exact_join_is_the_join_whether_constraints_hold_or_not(shape, seed, more, one_key, size):
    random = Random(seed)
    world = world_of(random, shape, one_key)
    operator = operator_of(random, world, more=more, share=0.6, exact=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cold, "FULL_SLICE", size)
        assert joined(random, world, operator, 3 if one_key else 1) == world.expected()


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=examples(40), deadline=None)
@given(seed=seeds, one_key=st.booleans(), rows_only=st.booleans())
def test_a_lean_join_misses_nothing_while_constraints_hold(shape, seed, one_key, rows_only):
    random = Random(seed)
    world = world_of(random, shape, one_key)
    operator = operator_of(random, world, more=0, share=0.6, exact=False, rows_only=rows_only)
    assert joined(random, world, operator, random.choice([1, 3]) if one_key else 1) == world.expected()


@settings(max_examples=examples(60), deadline=None)
@given(seed=seeds, shape=st.sampled_from(SHAPES), more=st.sampled_from([-1, -2, -100]))
def test_a_lean_join_never_has_results_too_many(seed, shape, more):
    random = Random(seed)
    world = world_of(random, shape)
    operator = operator_of(random, world, more=more, share=0.8, exact=False)
    assert not joined(random, world, operator, 1) - world.expected()


@settings(max_examples=examples(20), deadline=None)
@given(seed=seeds)
def test_what_is_ordered_is_made_use_of_instead_of_what_is_declared(seed):
    random = Random(seed)
    world = world_of(random, "tree")
    operator = operator_of(random, world, more=-100, share=1, exact=False)
    everything = replace(operator, constraints=())
    with_directive = KeyedJoinOperator.with_directive
    children = tuple(s for s, above in enumerate(operator.layout.graph.above) if above)
    nothing = KeyedJoinDirective(within={}, keeps_no=children)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            KeyedJoinOperator, "with_directive", lambda self, _, arrived: with_directive(self, nothing, arrived)
        )
        assert joined(random, world, operator, 1) == world.expected()
    assert joined(random, world, everything, 1) == world.expected()
