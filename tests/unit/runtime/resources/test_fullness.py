"""How full windows are, compared with elements that are counted one by one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples

from tidegate.language.bind.program import bind
from tidegate.optimizer.quality import SizeBounds
from tidegate.runtime.compile import compile_queries
from tidegate.runtime.resources.fullness import Fullness
from tidegate.runtime.stage_graph import StageGraph

LONGEST = 9
BOUNDS = {"w": SizeBounds(LONGEST, 1, "range")}
CHANGES = st.lists(st.tuples(st.integers(1, 4), st.integers(1, LONGEST)), min_size=1, max_size=6)


def changed_in_turn(changes: list[tuple[int, int]]) -> tuple[Fullness, list[tuple[int, int]]]:
    """The fullness after changes, each some time after the one before, and their instants with their sizes."""
    now, known, found = 0, Fullness(), list[tuple[int, int]]()
    for pause, size in changes:
        now += pause
        known = known.with_sizes(now, {"w": size}, LONGEST)
        found.append((now, size))
    return known, found


@given(CHANGES, st.integers(0, 12))
@settings(max_examples=examples(300))
def test_windows_hold_the_elements_that_are_valid(changes, later):
    """One element starts at each instant, with the size in force then; the first size was always in force."""
    known, found = changed_in_turn(changes)
    time = found[-1][0] + later

    def size_at(start: int) -> int:
        return next((size for instant, size in reversed(found) if instant <= start), found[0][1])

    # Elements start all the time; those of the instants [start, start + 1) are valid up to start + size at least.
    valid = sum(1 for start in range(time - 2 * LONGEST, time) if start + size_at(start) >= time)
    assert known.sizes_at(time, BOUNDS) == {"w": valid}


@given(CHANGES, st.integers(LONGEST, 30))
@settings(max_examples=examples(100))
def test_after_the_longest_window_only_the_newest_size_counts(changes, later):
    known, found = changed_in_turn(changes)
    assert known.sizes_at(found[-1][0] + later, BOUNDS) == {"w": found[-1][1]}


def test_of_granules_and_rows_the_newest_size_counts():
    known = Fullness().with_sizes(0, {"g": 8, "r": 5}, 10).with_sizes(100, {"g": 2, "r": 3}, 10)
    bounds = {"g": SizeBounds(2, 8, "granularity", (2, 4, 8)), "r": SizeBounds(5, 1, "rows")}
    assert known.sizes_at(101, bounds) == {"g": 2, "r": 3}


def test_a_window_that_is_new_had_its_best_size():
    known = Fullness().with_sizes(0, {}, LONGEST).with_sizes(10, {"w": 4}, LONGEST)
    assert known.sizes_at(10, BOUNDS) == {"w": LONGEST}


def test_sizes_of_elements_that_are_gone_are_forgotten():
    known = Fullness()
    for now in range(100):
        known = known.with_sizes(now, {"w": 1 + now % LONGEST}, LONGEST)
    assert len(known.sizes) <= LONGEST + 2


def test_stages_have_ages_until_their_windows_are_full():
    known = Fullness().in_graph({0, 1}, 100).in_graph({1, 2}, 130)
    assert known.since == {1: 100, 2: 130}
    assert known.ages(150, 60) == {1: 50, 2: 20}
    assert known.ages(170, 60) == {2: 40}


def graph_of(*queries: str) -> StageGraph:
    streams = "".join(f"CREATE STREAM {name} (k INT, at BIGINT) FROM '{name}.csv' TIMESTAMP BY at;" for name in "ab")
    return compile_queries(bind(streams + ";".join(queries)))[1]


def test_while_the_load_changes_only_new_stages_and_readers_of_streams_are_learnt():
    join = "SELECT a.k FROM a WINDOW(RANGE 9), b WINDOW(RANGE 9) WHERE a.k = b.k"
    graph = graph_of(join, f"SELECT COUNT(*) AS n FROM ({join})")
    by_level = {number: stage.level for number, stage in graph.by_number.items()}
    readers = frozenset(number for number, level in by_level.items() if level == 0)
    known = Fullness().in_graph(graph.numbers, 0).with_load(0, {"a": 1.0, "b": 1.0})
    assert known.learnable(graph, 1, LONGEST) == graph.numbers
    calm = known.with_load(50, {"a": 1.1, "b": 1.0, "c": 7.0})
    assert calm.learnable(graph, 51, LONGEST) == graph.numbers
    tripled = calm.with_load(60, {"a": 3.0, "b": 3.0, "c": 7.0})
    assert tripled.learnable(graph, 61, LONGEST) == readers
    assert tripled.learnable(graph, 60 + LONGEST, LONGEST) == graph.numbers
    newest = max(by_level, key=lambda number: by_level[number])
    # Above an operator that holds elements of another load, a new one cannot be learnt either.
    partly = tripled.in_graph(graph.numbers - {newest}, 60).in_graph(graph.numbers, 65)
    assert partly.learnable(graph, 66, LONGEST) == readers
    young = Fullness(load=tripled.load, load_since=60).in_graph(graph.numbers, 65)
    assert young.learnable(graph, 66, LONGEST) == graph.numbers
