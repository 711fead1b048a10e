"""Keyed joins, through the embedded runtime: whatever is known of how rows arrive, they mean the same."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from reference.instants import snapshots
from reference.semantics import Relation, relations_of
from strategies.many_one_programs import LENGTHS, World, cuts_of, world_of
from support.examples import examples
from support.harness import OutputRow, rows_of

from tidegate.algebra import refusals
from tidegate.algebra.constraints import ConstraintSettings, ConstraintUse
from tidegate.algebra.keyed_join import KeyedJoin
from tidegate.algebra.plan import walk
from tidegate.catalog.catalog import Program, SourceStream
from tidegate.connectors.memory import MemorySource
from tidegate.language.bind.program import bind
from tidegate.optimizer import failing_rows, keyed_join
from tidegate.optimizer.optimize import optimize
from tidegate.physical.keyed_join.kernels import cold
from tidegate.runtime import compile as compile_module
from tidegate.runtime.compile import compile_queries
from tidegate.runtime.control import decode_records, encode_values
from tidegate.runtime.embedded.engine import Engine
from tidegate.runtime.job import Job
from tidegate.runtime.state import StateStore
from tidegate.time import FOREVER

MONITORED = """SET constraints = monitored MODE {mode};
SET monitor_events = 1; SET monitor_window = {window}; SET monitor_factor = {factor}; SET monitor_sample = {sample};
"""

seeds = st.integers(0, 2**32)


@pytest.fixture(autouse=True)
def _always_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """All joins that can be keyed joins are."""
    monkeypatch.setattr(keyed_join, "why_plain_is_cheaper", lambda *_: None)


@dataclass
class Ran:
    """What came out, what was decided, and whether there was a keyed join at all."""

    rows: list[OutputRow] = field(default_factory=list)
    dead: Counter[tuple[str, str]] = field(default_factory=Counter)
    found: int = 0
    cold: int = 0
    is_many_one: bool = False
    is_marked: bool = False


def ran(random: Random, world: World, program: Program, most: int | None = None) -> Ran:
    """The query over all rows: any cuts, any number of buckets, sometimes anew from its files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cold, "FULL_SLICE", random.choice([1, 3, 1000]))
        gains = random.random() < 0.7
        patch.setattr(failing_rows, "gains_by_failing_rows", lambda *_: gains)
        return _ran(random, world, program, most)


def _ran(random: Random, world: World, program: Program, most: int | None) -> Ran:
    compiled, graph = compile_queries(program)
    tables = {name: world.streams[name].table([]) for name in graph.streams}
    sources = {name: MemorySource(_source(program, name), table) for name, table in tables.items()}
    job = Job(graph, sources, {}, random.randint(1, 3))
    result, boxes = Ran(), []
    joins = [node for node in walk(compiled[0].optimized) if isinstance(node, KeyedJoin)]
    result.is_many_one, result.is_marked = bool(joins), any(any(join.marks) for join in joins)
    with tempfile.TemporaryDirectory() as folder:
        store = StateStore(folder) if random.random() < 0.4 else None
        engine = Engine(job, store)
        for step in cuts_of(random, world, most):
            raw = {name: world.streams[name].table(rows).to_batches() for name, rows in step.items() if name in tables}
            boxes.append(engine.step(raw)[0])
            findings: list[Any] = [finding for record in engine.control.values() for finding in record.found]
            result.found += sum(1 for each in findings if each.reach and not each.is_declared)
            result.cold = max(result.cold, engine.state_size().cold_bytes)
            if store and random.random() < 0.4:
                engine = started_again(engine, store)
        boxes.append(engine.finish())
    result.rows = rows_of(boxes)
    for box in boxes:
        for letters in box.dead:
            result.dead.update(zip(*(letters.column(name).to_pylist() for name in ("origin", "reason")), strict=True))
    return result


def _source(program: Program, name: str) -> SourceStream:
    stream = program.catalog.find(name)
    assert isinstance(stream, SourceStream)
    return stream


def started_again(engine: Engine, store: StateStore) -> Engine:
    """Another engine, with what is in files and records."""
    state = {place: store.load(*place, version.file) for place, version in engine.state.items()}
    control = decode_records(engine.job.graph, json.loads(json.dumps(encode_values(engine.control))))
    assert control == engine.control
    return Engine(engine.job, store, engine.watermarks, state, engine.step_number, engine.arrived, control)


def expected_of(world: World, program: Program) -> dict[int, Relation]:
    plan, _ = optimize(program.queries[0].plan, ConstraintSettings(ConstraintUse.OFF))  # so that joins have conditions
    return relations_of(plan, world.elements, instants(world))


def instants(world: World) -> list[int]:
    return [*range(-1, world.last + max(LENGTHS) + 2), 900, FOREVER - 1]


def monitored(random: Random, mode: str) -> str:
    return MONITORED.format(
        mode=mode, window=random.choice([1, 2, 8]), factor=random.choice([1, 1, 1.5]), sample=random.choice([0, 0.2, 1])
    )


def program_of(random: Random, world: World, use: str, mode: str, more: int, share: float = 0.6) -> Program:
    said = monitored(random, mode) if use == "monitored" else f"SET constraints = {use} MODE {mode};\n"
    return bind(said + world.declared(more, share) + world.query)


@settings(max_examples=examples(25))
@given(seeds, st.sampled_from([0, -1, -3, -100, -100]), st.sampled_from(["declared"] * 3 + ["monitored", "off"]))
def test_the_relation_at_every_instant_is_that_of_plain_joins(seed: int, more: int, use: str) -> None:
    random = Random(seed)
    world = world_of(random)
    program = program_of(random, world, use, "exact", more)
    found = ran(random, world, program)
    event(f"{use}: a keyed join: {found.is_many_one}")
    event(f"{use}: cold: {found.cold > 0}; results: {bool(found.rows)}")
    event(f"{use}: rows that fail are known by their keys: {found.is_marked}")
    assert found.is_many_one <= (use != "off")
    assert not found.dead
    assert snapshots(found.rows, instants(world)) == expected_of(world, program)


@settings(max_examples=examples(10))
@given(seeds, st.sampled_from([0, -2, -100]))
def test_what_is_found_while_streams_run_does_not_change_the_relation(seed: int, more: int) -> None:
    random = Random(seed)
    world = world_of(random, most=2, last=60)
    program = program_of(random, world, "monitored", "exact", more, share=0.1)
    found = ran(random, world, program, most=6)
    event(f"something was found: {found.found > 0}; cold: {found.cold > 0}; results: {bool(found.rows)}")
    assert not found.dead
    assert snapshots(found.rows, instants(world)) == expected_of(world, program)


@settings(max_examples=examples(20))
@given(seeds, st.sampled_from([1, 2, 9]))
def test_lean_joins_miss_nothing_while_constraints_hold(seed: int, size: int) -> None:
    random = Random(seed)
    world = world_of(random, most=3, last=36)
    program = program_of(random, world, "declared", "lean", 0, share=random.choice([0.3, 0.6]))
    found = ran(random, world, program, most=size)
    assert not found.dead
    assert snapshots(found.rows, instants(world)) == expected_of(world, program)


@settings(max_examples=examples(15))
@given(seeds, st.sampled_from([-1, -3, -100]), st.sampled_from(["declared", "monitored"]))
def test_lean_joins_have_no_result_too_many(seed: int, more: int, use: str) -> None:
    random = Random(seed)
    world = world_of(random, most=3, last=24 if use == "declared" else 40)
    program = program_of(random, world, use, "lean", more, share=0.8)
    found = ran(random, world, program)
    expected, seen = expected_of(world, program), snapshots(found.rows, instants(world))
    event(f"{use}: something is missing: {seen != expected}")
    assert not found.dead
    assert all(seen[at] <= expected[at] for at in expected)


@settings(max_examples=examples(15))
@given(seeds, st.sampled_from(["declared", "monitored"]), st.sampled_from([0, -100]))
def test_rows_that_repeat_a_key_are_dead_letters_and_disturb_no_others(seed: int, use: str, more: int) -> None:
    random = Random(seed)
    world = world_of(random, repeats=random.randint(1, 6))
    program = program_of(random, world, use, "exact", more)
    found = ran(random, world, program)
    event(f"dead letters: {bool(found.dead)}")
    assert {reason for _, reason in found.dead} <= {"repeated_key"}
    repeated = len(world.rows) - len(world.keeping_keys.rows)
    assert found.dead.total() <= repeated * len(world.places)
    seen = snapshots(found.rows, instants(world))
    most = expected_of(world, program)
    assert all(seen[at] <= most[at] for at in seen)
    if "ROWS" not in world.query:  # in windows of rows, others stay longer if these rows are not there
        least = expected_of(world.keeping_keys, program)
        assert all(least[at] <= seen[at] for at in seen)


# ---- windows without a bound


@pytest.fixture
def growing_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would grow for ever is not refused: the streams of tests end."""
    monkeypatch.setattr(compile_module, "refuse_growing_joins", lambda *_: None)
    monkeypatch.setattr(refusals, "_may_be_keyed", lambda _: True)


@pytest.mark.usefixtures("growing_allowed")
@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seeds, st.sampled_from([0, -1, -100, -100]), st.sampled_from(["declared"] * 3 + ["monitored"]))
def test_without_bounds_on_windows_an_exact_join_means_the_same_whatever_the_rows_do(
    seed: int, more: int, use: str
) -> None:
    random = Random(seed)
    world = world_of(random, unbounded=random.choice([0.3, 1.0]))
    program = program_of(random, world, use, "exact", more, share=0.8)
    found = ran(random, world, program)
    event(f"{use}: a keyed join: {found.is_many_one}; cold: {found.cold > 0}; results: {bool(found.rows)}")
    assert not found.dead
    assert snapshots(found.rows, instants(world)) == expected_of(world, program)


@pytest.mark.usefixtures("growing_allowed")
@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seeds, st.sampled_from([0, -2, -100]))
def test_without_bounds_on_windows_a_lean_join_has_no_result_too_many(seed: int, more: int) -> None:
    random = Random(seed)
    world = world_of(random, most=3, last=30, unbounded=random.choice([0.5, 1.0]))
    program = program_of(random, world, "declared", "lean", more, share=0.8)
    found = ran(random, world, program)
    expected, seen = expected_of(world, program), snapshots(found.rows, instants(world))
    event(f"constraints hold: {more == 0}; something is missing: {seen != expected}")
    assert not found.dead
    assert all(seen[at] <= expected[at] for at in expected)
    assert more < 0 or seen == expected
