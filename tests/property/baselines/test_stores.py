"""The stores of the paper of threshold functions keep what is needed by definition, in any order of arrival."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.alerts import needed

from benchmarks.baselines import store_red_black_tree as tree
from benchmarks.baselines import store_skip_list as skip_list
from benchmarks.baselines.store_nodes import (
    HEIGHT,
    LEFT,
    LEVELS,
    NEXT,
    NONE,
    PARENT,
    PREVIOUS,
    RED,
    RIGHT,
    ROOT,
    TIME,
    Nodes,
    Store,
    take_node,
)
from benchmarks.baselines.stores import Kind, retained

tuples = st.lists(st.tuples(st.integers(0, 20), st.integers(-5, 5)), max_size=30)
changes = st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=60)


@pytest.mark.parametrize("kind", Kind)
@given(arriving=tuples, window=st.integers(0, 5))
def test_a_store_keeps_what_is_needed(kind, arriving, window):
    check(kind, arriving, window)


def check(kind: Kind, arriving: list[tuple[int, int]], window: int) -> None:
    time = np.array([time for time, _ in arriving], np.int64)
    value = np.array([value for _, value in arriving], np.float64)
    kept = retained(kind, time, value, window)
    elements = [(0, t, v) for t, v in arriving]
    expected = sorted((t, v) for _, t, v in needed(elements, window, strict=False, above=True, below=True))
    assert list(zip(kept.time.tolist(), kept.value.tolist(), strict=True)) == expected


def blacks(nodes: Nodes, node: int) -> int:
    """Check a part of a tree; return the number of black nodes on each path through it."""
    if node == NONE:
        return 1
    below = [each for each in nodes[node, [LEFT, RIGHT]] if each != NONE]
    assert all(nodes[each, PARENT] == node for each in below)
    assert not nodes[node, RED] or not any(nodes[each, RED] for each in below)
    one, other = blacks(nodes, nodes[node, LEFT]), blacks(nodes, nodes[node, RIGHT])
    assert one == other
    return one + int(not nodes[node, RED])


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("seed", range(12))
def test_a_store_keeps_what_is_needed_of_many(kind, seed):
    random = np.random.default_rng(seed)
    arriving = list(zip(random.integers(0, 25, 40).tolist(), random.integers(-6, 6, 40).tolist(), strict=True))
    check(kind, arriving, seed % 6)


def chain(nodes: Nodes, links: Nodes, level: int) -> list[int]:
    """The times of the nodes that a level of a list has, from the first on."""
    found, node = [], links[NONE, level]
    while node != NONE:
        found.append(int(nodes[node, TIME]))
        node = links[node, level]
    return found


@given(changes)
def test_all_levels_of_the_skip_list_stay_in_order(changes):
    (nodes, values, forward, path, sizes), known = Store.empty(len(changes)), dict[int, int]()
    for adds, time in changes:
        if adds and time not in known:
            floor = skip_list.find_floor(nodes, values, forward, path, time, 0.0)
            known[time] = take_node(nodes, values, sizes, time, 0.0)
            skip_list.insert(nodes, forward, path, sizes, known[time], floor)
        elif not adds and time in known:
            skip_list.remove(nodes, values, forward, sizes, known.pop(time))
        assert chain(nodes, nodes, NEXT) == chain(nodes, nodes, PREVIOUS)[::-1] == sorted(known)
        for level in range(LEVELS):
            expected = [t for t, node in sorted(known.items()) if nodes[node, HEIGHT] > level]
            assert chain(nodes, forward, level) == expected


@given(changes)
def test_the_tree_stays_in_order_and_balanced(changes):
    (nodes, values, _, _, sizes), known = Store.empty(len(changes)), dict[int, int]()
    for adds, time in changes:
        if adds and time not in known:
            floor = tree.find_floor(nodes, values, sizes, time, 0.0)
            known[time] = take_node(nodes, values, sizes, time, 0.0)
            tree.insert(nodes, sizes, known[time], floor)
        elif not adds and time in known:
            tree.remove(nodes, sizes, known.pop(time))
        assert not nodes[sizes[ROOT], RED]
        blacks(nodes, sizes[ROOT])
        found, node = [], tree.find_next(nodes, sizes, NONE)
        while node != NONE:
            found.append(int(nodes[node, TIME]))
            node = tree.find_next(nodes, sizes, node)
        assert found == sorted(known)
