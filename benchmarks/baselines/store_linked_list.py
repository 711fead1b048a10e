"""A doubly linked list of tuples, which is searched from its end: fast where tuples arrive in order."""

from __future__ import annotations

from benchmarks.baselines.store_nodes import NEXT, NONE, PREVIOUS, Nodes, free_node, is_after
from tidegate.physical.common.arrays import Floats, Ints
from tidegate.physical.common.kernels.compiled import inlined


@inlined
def find_floor(nodes: Nodes, values: Floats, time: int, value: float) -> int:
    """Return the last node that is not after a time and value."""
    node = nodes[NONE, PREVIOUS]
    while node != NONE and is_after(nodes, values, node, time, value):
        node = nodes[node, PREVIOUS]
    return node


@inlined
def insert(nodes: Nodes, node: int, floor: int) -> None:
    """Insert a node after another one."""
    after = nodes[floor, NEXT]
    nodes[floor, NEXT], nodes[after, PREVIOUS] = node, node
    nodes[node, NEXT], nodes[node, PREVIOUS] = after, floor


@inlined
def remove(nodes: Nodes, sizes: Ints, node: int) -> None:
    """Remove a node."""
    before, after = nodes[node, PREVIOUS], nodes[node, NEXT]
    nodes[before, NEXT], nodes[after, PREVIOUS] = after, before
    free_node(nodes, sizes, node)
