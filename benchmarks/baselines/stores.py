"""Omission with the stores of the paper of threshold functions: a linked list, a skip list and a red-black tree.

This is Algorithm 1 of the paper, with its errata corrected: tuples arrive one by one, in any order, and a new one looks
for the nearest greater and lesser ones on either side. A comparison: our own store takes batches of tuples.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from benchmarks.baselines import store_linked_list as linked_list
from benchmarks.baselines import store_red_black_tree as tree
from benchmarks.baselines import store_skip_list as skip_list
from benchmarks.baselines.store_nodes import (
    COUNT,
    LEFT_ABOVE,
    LEFT_BELOW,
    NEXT,
    NONE,
    PREVIOUS,
    RIGHT_ABOVE,
    RIGHT_BELOW,
    TIME,
    Nodes,
    Store,
    take_node,
)
from tidegate.physical.common.arrays import Floats, Ints
from tidegate.physical.common.kernels.compiled import compiled, inlined

FAR = 2**60
"""Distance to a tuple that is not there."""


class Kind(IntEnum):
    """The structure of a store."""

    LINKED_LIST = 0
    SKIP_LIST = 1
    RED_BLACK_TREE = 2


class Kept(NamedTuple):
    """Tuples that a store keeps, in the order of their times and values."""

    time: Ints
    value: Floats


def retained(kind: Kind, time: Ints, value: Floats, window: int) -> Kept:
    """Return what a store keeps of tuples that arrive one by one."""
    store = Store.empty(len(time))
    return Kept(*_absorb_all(store, int(kind), time, value, window))


@compiled
def _absorb_all(store: Store, kind: int, time: Ints, value: Floats, window: int) -> tuple[Ints, Floats]:
    # Unpack the tuple before the loop: inside it, each access would count references.
    nodes, values, forward, path, sizes = store
    gone, mine = np.empty(len(time) + 1, np.int64), np.empty(5, np.int64)
    for row in range(len(time)):
        new, at = time[row], value[row]
        if kind == 0:
            floor = linked_list.find_floor(nodes, values, new, at)
        elif kind == 1:
            floor = skip_list.find_floor(nodes, values, forward, path, new, at)
        else:
            floor = tree.find_floor(nodes, values, sizes, new, at)
        if floor != NONE and nodes[floor, TIME] == new and values[floor] == at:
            continue  # a copy
        many = _meet_neighbours(nodes, values, sizes, kind, floor, new, at, window, mine, gone)
        if mine[LEFT_ABOVE] + mine[RIGHT_ABOVE] > window or mine[LEFT_BELOW] + mine[RIGHT_BELOW] > window:
            node = take_node(nodes, values, sizes, new, at)
            nodes[node, LEFT_ABOVE : RIGHT_BELOW + 1] = mine[LEFT_ABOVE : RIGHT_BELOW + 1]
            if kind == 0:
                linked_list.insert(nodes, node, floor)
            elif kind == 1:
                skip_list.insert(nodes, forward, path, sizes, node, floor)
            else:
                tree.insert(nodes, sizes, node, floor)
        for place in range(many):
            if kind == 0:
                linked_list.remove(nodes, sizes, gone[place])
            elif kind == 1:
                skip_list.remove(nodes, values, forward, sizes, gone[place])
            else:
                tree.remove(nodes, sizes, gone[place])
    times, kept = np.empty(sizes[COUNT], np.int64), np.empty(sizes[COUNT], np.float64)
    node = _next(nodes, sizes, kind, NONE)
    for place in range(len(times)):
        times[place], kept[place] = nodes[node, TIME], values[node]
        node = _next(nodes, sizes, kind, node)
    return times, kept


@inlined
def _meet_neighbours(
    nodes: Nodes,
    values: Floats,
    sizes: Ints,
    kind: int,
    floor: int,
    time: int,
    value: float,
    window: int,
    mine: Ints,
    gone: Ints,
) -> int:
    """Let a new tuple and its neighbours note each other as brackets: `mine` has its distances.

    Return how many of them leave, because it brackets them; these are in `gone`.
    """
    many = 0
    mine[:] = FAR
    # The tuples of the same instant, then the earlier ones, the nearest first.
    node = floor
    while node != NONE and time - nodes[node, TIME] <= window:
        apart = time - nodes[node, TIME]
        if apart > 0 and mine[LEFT_ABOVE] < FAR and mine[LEFT_BELOW] < FAR:
            break
        if values[node] > value:
            mine[LEFT_ABOVE] = min(mine[LEFT_ABOVE], apart)
            nodes[node, RIGHT_BELOW] = min(nodes[node, RIGHT_BELOW], apart)
        elif values[node] < value:
            mine[LEFT_BELOW] = min(mine[LEFT_BELOW], apart)
            nodes[node, RIGHT_ABOVE] = min(nodes[node, RIGHT_ABOVE], apart)
        if apart == 0:
            mine[RIGHT_BELOW], nodes[node, LEFT_ABOVE] = 0, 0  # of one instant, those before it are lesser
        if _is_bracketed(nodes, node, window):
            gone[many] = node
            many += 1
        node = tree.find_previous(nodes, node) if kind == 2 else nodes[node, PREVIOUS]
    node = _next(nodes, sizes, kind, floor)
    while node != NONE and nodes[node, TIME] - time <= window:
        apart = nodes[node, TIME] - time
        if apart > 0 and mine[RIGHT_ABOVE] < FAR and mine[RIGHT_BELOW] < FAR:
            break
        if values[node] > value:
            mine[RIGHT_ABOVE] = min(mine[RIGHT_ABOVE], apart)
            nodes[node, LEFT_BELOW] = min(nodes[node, LEFT_BELOW], apart)
        elif values[node] < value:
            mine[RIGHT_BELOW] = min(mine[RIGHT_BELOW], apart)
            nodes[node, LEFT_ABOVE] = min(nodes[node, LEFT_ABOVE], apart)
        if apart == 0:
            mine[LEFT_ABOVE], nodes[node, RIGHT_BELOW] = 0, 0  # of one instant, those after it are greater
        if _is_bracketed(nodes, node, window):
            gone[many] = node
            many += 1
        node = _next(nodes, sizes, kind, node)
    return many


@inlined
def _is_bracketed(nodes: Nodes, node: int, window: int) -> bool:
    above = nodes[node, LEFT_ABOVE] + nodes[node, RIGHT_ABOVE] <= window
    return above and nodes[node, LEFT_BELOW] + nodes[node, RIGHT_BELOW] <= window


@inlined
def _next(nodes: Nodes, sizes: Ints, kind: int, node: int) -> int:
    """Return the tuple after another one, or the first one."""
    return tree.find_next(nodes, sizes, node) if kind == 2 else nodes[node, NEXT]
