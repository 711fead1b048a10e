"""Joins that shed against the join by definition and a straightforward reference: any condition, cuts and budgets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise, product
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.shedding import Shedding, Tuple, window_join
from support.examples import examples
from support.sets import sets_of

from benchmarks.support.shedding_data import SECOND, Workload, batches
from benchmarks.support.shedding_paper import best_by_vertices, random_case, utility_adapted, utility_of
from tidegate.physical.shedding.kernels.budget import best_first, knapsack
from tidegate.physical.similarity_join.kernels import matching, slots
from tidegate.physical.similarity_join.kernels.conditions import (
    Anything,
    Equal,
    InnerProduct,
    Jaccard,
    Near,
    Overlap,
    Subset,
    Superset,
)
from tidegate.physical.similarity_join.kernels.join import SheddingJoin
from tidegate.physical.similarity_join.kernels.matching import Method
from tidegate.physical.similarity_join.kernels.model import SimilarityJoinSettings, Utilities
from tidegate.physical.similarity_join.kernels.slots import SlotArrivals
from tidegate.physical.similarity_join.kernels.values import Numbers, Sets

seeds = st.integers(0, 10**9)
SETS = [Overlap(2), Overlap(1), Overlap(0), Subset(), Superset(), Equal(), Jaccard(0.5), Jaccard(0.4), Jaccard(0.0)]
WEIGHTED = [InnerProduct(1.0), InnerProduct(2.5), InnerProduct(0.0), InnerProduct(-1.0)]
WHOLE = [Equal(), Near(2), Near(0.5), Near(-1)]
FLOATS = [Equal(), Near(0.5), Near(0.3)]
KINDS: dict[str, list[Any]] = {"sets": SETS, "weighted": WEIGHTED, "whole": WHOLE, "floats": FLOATS}


@dataclass(frozen=True)
class World:
    """Elements of both streams in batches, and the watermarks after each."""

    batches: list
    watermarks: list

    @property
    def streams(self):
        return [[t for batch in self.batches for t in batch[stream]] for stream in (0, 1)]


def value_of(random, kind):
    items = random.sample(range(-3, 9), random.choice([0, 1, 2, 3, 3, 4, 5]))
    match kind:
        case "sets":
            return frozenset(items)
        case "weighted":
            return {item: random.choice([-1.0, 0.1, 0.5, 1.0, 1.5]) for item in items}
        case "whole":
            return random.choice([random.randint(-6, 6), random.randint(-6, 6), 2**63 - 1, -(2**63)])
    return random.choice([random.randint(-6, 6) / 5, random.randint(-6, 6) / 5, float("nan"), -0.0, float("inf")])


def world_of(random, kind, kinds=1, window=None):
    """Times in and out of order, as far as watermarks allow, and windows of equal or of any lengths."""
    batches, watermarks, marks, row = [], [], [0, 0], 0
    lateness = random.choice([0, 0, 7])
    for _ in range(random.randint(1, 6)):
        batch: tuple[list[Tuple], list[Tuple]] = ([], [])
        for stream in (0, 1):
            upto = marks[stream] + random.choice([5, 10, 10, 30])
            for _ in range(random.choice([0, 1, 6, 12])):
                start = random.randint(marks[stream], upto)
                length = window or random.randint(1, 40)
                value = value_of(random, kind)
                batch[stream].append(Tuple(start, start + length, row, value, random.randrange(kinds)))
                row += 1
            marks[stream] = max(marks[stream], upto - lateness)
        batches.append(batch)
        watermarks.append(tuple(marks))
    return World(batches, watermarks)


def columns(tuples, kind):
    values: Numbers | Sets
    match kind:
        case "sets" | "weighted":
            values = sets_of([t.value for t in tuples])
        case _:
            dtype = np.int64 if kind == "whole" else np.float64
            values = Numbers(np.array([t.value for t in tuples], dtype))
    given = ([getattr(t, name) for t in tuples] for name in ("start", "end", "row", "kind"))
    start, end, row, kinds = (np.array(each, np.int64) for each in given)
    return SlotArrivals(start, end, row, values, kinds)


def run(join, world, kind, budgets=None, **options):
    """Pairs of all batches, and the answers."""
    answers = []
    for number, (batch, watermarks) in enumerate(zip(world.batches, world.watermarks, strict=True)):
        arrivals = tuple(columns(each, kind) for each in batch)
        join, answer = join.step(arrivals, watermarks, budgets[number] if budgets else None, **options)
        answers.append(answer)
    return [pair for answer in answers for pair in pairs_of(answer)], answers


def pairs_of(answer):
    return list(zip(answer.left.tolist(), answer.right.tolist(), strict=True))


@settings(max_examples=examples(25))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", list(Method))
@given(seed=seeds)
def test_without_a_budget_every_method_finds_the_join_by_definition(kind, method, seed):
    compare_with_definition(kind, method, seed)


def compare_with_definition(kind, method, seed):
    random = Random(seed)
    condition = random.choice(KINDS[kind])
    world = world_of(random, kind)
    join = SheddingJoin.empty(
        SimilarityJoinSettings(condition, random.choice([1, 7, 10, 100]), random.choice([1, 5]), method)
    )
    found, answers = run(join, world, kind)
    assert len(found) == len(set(found))
    assert set(found) == window_join(condition, *world.streams)
    assert all(answer.results_share == 1.0 and answer.compared == answer.volume for answer in answers)


@settings(max_examples=examples(25))
@given(seed=seeds)
def test_sets_with_many_different_items_are_merged_with_the_same_result(seed):
    with patch.object(matching, "MOST_BIT_ITEMS", 0):
        compare_with_definition("sets", Method.NESTED, seed)


@settings(max_examples=examples(15))
@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
def test_few_elements_in_many_slots_are_dealt_with_together(kind, seed):
    with patch.object(slots, "MOST_NEW_SLOTS", Random(seed).choice([1, 2])):
        compare_with_definition(kind, Method.FILTERED, seed)


@settings(max_examples=examples(25))
@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
def test_where_elements_are_kept_in_several_blocks_every_pair_is_found_in_one(kind, seed):
    random = Random(seed)
    condition, method, places = random.choice(KINDS[kind]), random.choice(list(Method)), random.choice([2, 3])
    world, width = world_of(random, kind), random.choice([1, 10, 100])
    homes = {t.row: random.randrange(places) for stream in world.streams for t in stream}
    found, exact = [], random.random() < 0.5
    for place in range(places):
        join = SheddingJoin.empty(SimilarityJoinSettings(condition, width, 3, method, seed=place))
        for batch, watermarks in zip(world.batches, world.watermarks, strict=True):
            left, right = (np.array([homes[t.row] == place for t in stream], bool) for stream in batch)
            arrivals = tuple(columns(each, kind) for each in batch)
            join, answer = join.step(arrivals, watermarks, None if exact else 20, own=(left, right))
            found += pairs_of(answer)
            kept = {row for stream in (0, 1) for slot in join.slots[stream].values() for row in slot.row.tolist()}
            assert all(homes[row] == place for row in kept)
    everything = window_join(condition, *world.streams)
    assert len(found) == len(set(found))
    assert set(found) == everything if exact else set(found) <= everything


@settings(max_examples=examples(30))
@given(seed=seeds)
def test_where_sums_are_in_doubt_no_pair_is_missing_that_an_exact_sum_would_find(seed):
    random = Random(seed)
    weights = [0.1, 0.2, 0.3, 1.0, -1.0, 1e16, -1e16]
    maps = [[{i: random.choice(weights) for i in random.sample(range(6), 4)} for _ in range(8)] for _ in (0, 1)]
    least, method = random.choice([0.06, 0.1, 0.5, 1.0, -1.0]), random.choice(list(Method))
    one, other = (
        slots.split_into_slots(SlotArrivals(np.arange(8), np.full(8, 100), np.arange(8), sets_of(side)), 1000)[0]
        for side in maps
    )
    found = matching.find_matches(InnerProduct(least, 1e-9), method, one, np.arange(8), other, flipped=False).pairs
    exact = {
        (a, b)
        for a, b in product(range(8), repeat=2)
        if math.fsum(maps[0][a][i] * maps[1][b][i] for i in maps[0][a].keys() & maps[1][b].keys()) >= least
    }
    assert exact <= set(map(tuple, found.tolist()))


@settings(max_examples=examples(20))
@given(seed=seeds)
def test_any_predicate_may_decide(seed):
    world = world_of(Random(seed), "whole")
    join = SheddingJoin.empty(SimilarityJoinSettings(Anything(), 10, 4))
    found, _ = run(join, world, "whole", predicate=lambda left, right: (left + right) % 3 == 0)
    everything = window_join(Anything(), *world.streams)
    assert sorted(found) == sorted(pair for pair in everything if sum(pair) % 3 == 0)


@settings(max_examples=examples(30))
@given(seed=seeds)
def test_under_a_budget_the_pairs_are_those_of_the_reference(seed):
    random = Random(seed)
    kinds = random.choice([1, 1, 3])
    world = world_of(random, "sets", kinds)
    utilities = ([1.0, 0.5, 0.2], [1.0, 0.3, 0.1])
    given = Utilities(np.array(utilities[0]), np.array(utilities[1])) if kinds > 1 else None
    reference = Shedding(Overlap(1), 10, 3, seed, utilities if kinds > 1 else None)
    join = SheddingJoin.empty(SimilarityJoinSettings(Overlap(1), 10, 3, seed=seed, utilities=given))
    budgets = [random.choice([0, 3, 20, 50, 1000]) for _ in world.batches]
    _, answers = run(join, world, "sets", budgets)
    everything = window_join(Overlap(1), *world.streams)
    for number, answer in enumerate(answers):
        left, right = world.batches[number]
        expected = reference.step((list(left), list(right)), world.watermarks[number], budgets[number])
        assert sorted(pairs_of(answer)) == sorted(expected.pairs)
        assert (answer.compared, answer.volume) == (expected.compared, expected.volume)
        assert set(expected.pairs) <= everything


def test_under_a_budget_the_pairs_are_those_of_the_reference_over_a_long_time():
    load = Workload(
        1.5, 5.0, ((math.inf, 12.0),), 40, windows=(6.0, 6.0), cycle=12.0, swap=20.0, frequencies=(1.0, 2.0)
    )
    utilities = ([1.0, 0.5], [1.0, 0.5])
    given = Utilities(np.array(utilities[0]), np.array(utilities[1]))
    reference = Shedding(Overlap(2), SECOND, 7, 1, utilities)
    join = SheddingJoin.empty(SimilarityJoinSettings(Overlap(2), SECOND, 7, seed=1, utilities=given))
    for number, arrivals in enumerate(batches(load)):
        tuples = (tuples_of(arrivals[0]), tuples_of(arrivals[1]))
        join, answer = join.step(arrivals, (number * SECOND,) * 2, 300)
        expected = reference.step(tuples, (number * SECOND,) * 2, 300)
        assert sorted(pairs_of(answer)) == sorted(expected.pairs)
        assert answer.compared == expected.compared


def tuples_of(arrivals):
    bounds, items = arrivals.values.bounds, arrivals.values.items
    sets = [frozenset(items[a:b].tolist()) for a, b in pairwise(bounds.tolist())]
    given = (arrivals.start, arrivals.end, arrivals.row, sets, arrivals.kind)
    return [Tuple(int(a), int(b), int(c), d, int(e)) for a, b, c, d, e in zip(*given, strict=True)]


@settings(max_examples=examples(25))
@given(seed=seeds)
def test_comparisons_keep_to_the_budget_but_for_one_element_of_each_cell(seed):
    random = Random(seed)
    world = world_of(random, "sets", window=1000)
    join = SheddingJoin.empty(SimilarityJoinSettings(Overlap(1), 10, 3, seed=seed))
    budgets = [random.choice([0, 10, 100]) for _ in world.batches]
    _, answers = run(join, world, "sets", budgets)
    most = max(len(stream) for stream in world.streams)
    assert all(a.compared <= budget + a.calls * most for a, budget in zip(answers, budgets, strict=True))


@settings(max_examples=examples(25))
@given(seed=seeds)
def test_a_saved_state_goes_on_as_if_it_had_not_been_saved(seed):
    random = Random(seed)
    world, given = world_of(random, "sets"), SimilarityJoinSettings(Overlap(1), 10, 3, seed=seed)
    join = saved = SheddingJoin.empty(given)
    for batch, watermarks in zip(world.batches, world.watermarks, strict=True):
        arrivals = tuple(columns(each, "sets") for each in batch)
        budget = random.choice([10, 50, None])
        before = join.to_columns()
        join, answer = join.step(arrivals, watermarks, budget)
        after = join.to_columns()
        new = {
            f"{part}{stream}/{t.start // 10}" for part in ("slot", "items") for stream in (0, 1) for t in batch[stream]
        }
        assert all(
            after[name] is before[name] for name in after.keys() & before.keys() - new - {"batch", "lags", "kinds"}
        )
        assert all(len({len(column) for column in part.values()}) == 1 for part in after.values())
        reversed_parts = dict(reversed(list(saved.to_columns().items())))
        saved, again = SheddingJoin.from_columns(reversed_parts, given).step(arrivals, watermarks, budget)
        assert pairs_of(again) == pairs_of(answer)


@settings(max_examples=examples(25))
@given(seed=seeds)
def test_what_was_stopped_is_repeated_by_its_number_of_calls(seed):
    random = Random(seed)
    world, given = world_of(random, "sets"), SimilarityJoinSettings(Overlap(1), 10, 3, seed=seed)
    asked = []
    limit = random.randint(0, 5)

    def stop(calls: int) -> bool:
        del calls
        asked.append(1)
        return len(asked) > limit

    for batch, watermarks in zip(world.batches[:1], world.watermarks[:1], strict=True):
        arrivals = tuple(columns(each, "sets") for each in batch)
        _, stopped = SheddingJoin.empty(given).step(arrivals, watermarks, 50, stop=stop)
        _, again = SheddingJoin.empty(given).step(
            arrivals, watermarks, 50, stop=lambda calls, most=stopped.calls: calls >= most
        )
        assert pairs_of(stopped) == pairs_of(again)


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 9)), min_size=1, max_size=8), st.integers(0, 40))
def test_the_greedy_plan_is_the_optimum_of_the_linear_program(items, budget):
    value, volume = (np.array(each, float) for each in zip(*items, strict=True))
    part = knapsack(volume, best_first(value, np.arange(len(items))), budget)
    assert (part * volume).sum() <= budget + 1e-9
    assert (part * volume * value).sum() == pytest.approx(best_by_vertices(value.tolist(), volume.tolist(), budget))


@given(seed=seeds)
def test_algorithm_5_is_the_optimum_of_the_linear_program(seed):
    given, items = random_case(Random(seed))
    budget = given[2][0] * given[2][1] * given[-1] * sum(given[1])
    values, volumes = zip(*items, strict=True)
    best = best_by_vertices(values, volumes, budget)
    fractions = utility_adapted(*given)
    assert utility_of(*given[:-1], fractions) == pytest.approx(best, rel=1e-9, abs=1e-12)
    used = sum(given[1][i] * given[3][1 - i][z] * fractions[i][z] for i in (0, 1) for z in (0, 1))
    assert used == pytest.approx(min(1.0, given[-1]) * sum(given[1]))
