"""A skip list of tuples (Pugh), linked in both directions on its lowest level."""

from __future__ import annotations

from benchmarks.baselines import store_linked_list as linked_list
from benchmarks.baselines.store_nodes import HEIGHT, LEVELS, NONE, SEED, TIME, Nodes, is_after, is_before
from tidegate.physical.common.arrays import Floats, Ints
from tidegate.physical.common.kernels.compiled import inlined


@inlined
def find_floor(nodes: Nodes, values: Floats, forward: Nodes, path: Ints, time: int, value: float) -> int:
    """Return the last node that is not after a time and value, and note the path to it."""
    node = NONE
    for level in range(LEVELS - 1, -1, -1):
        after = forward[node, level]
        while after != NONE and not is_after(nodes, values, after, time, value):
            node, after = after, forward[after, level]
        path[level] = node
    return node


@inlined
def insert(nodes: Nodes, forward: Nodes, path: Ints, sizes: Ints, node: int, floor: int) -> None:
    """Insert a node after another one, whose path was noted."""
    nodes[node, HEIGHT] = _draw_height(sizes)
    for level in range(nodes[node, HEIGHT]):
        forward[node, level] = forward[path[level], level]
        forward[path[level], level] = node
    linked_list.insert(nodes, node, floor)


@inlined
def remove(nodes: Nodes, values: Floats, forward: Nodes, sizes: Ints, node: int) -> None:
    """Remove a node, after a search for the nodes that lead to it."""
    before, time, value = NONE, nodes[node, TIME], values[node]
    for level in range(LEVELS - 1, -1, -1):
        after = forward[before, level]
        # The node itself is the first that is not before its own tuple.
        while after != NONE and is_before(nodes, values, after, time, value):
            before, after = after, forward[after, level]
        if level < nodes[node, HEIGHT]:
            forward[before, level] = forward[node, level]
    linked_list.remove(nodes, sizes, node)


@inlined
def _draw_height(sizes: Ints) -> int:
    """Return a random height: each further level with probability 1/2."""
    drawn = sizes[SEED] * 48_271 % 2_147_483_647
    sizes[SEED] = drawn
    height = 1
    while height < LEVELS and (drawn >> (height + 8)) & 1:
        height += 1
    return height
