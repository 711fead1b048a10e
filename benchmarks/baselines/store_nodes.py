"""Nodes of the stores of the paper of threshold functions. Node 0 stands for none, and heads the lists.

A node is a row of integers, with a value of its own in another array. Kernels get the arrays themselves: each access
through a tuple would count references.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tidegate.physical.common.arrays import Floats, Ints
from tidegate.physical.common.kernels.compiled import inlined

NONE = 0
LEVELS = 20
"""Levels of a skip list."""

TIME, LEFT_ABOVE, LEFT_BELOW, RIGHT_ABOVE, RIGHT_BELOW, NEXT, PREVIOUS, LEFT, RIGHT, PARENT, RED, HEIGHT = range(12)
"""Fields of a node: its time, the distances to the nearest greater and lesser tuples before and after it, and links of
lists and trees."""

FIELDS = 12

COUNT, TAKEN, FREE, ROOT, SEED = range(5)
"""Sizes of a store: tuples, nodes ever used, the first free node, the root of the tree, and a random number."""

Nodes = npt.NDArray[np.int64]
"""A row for each node."""


class Store(NamedTuple):
    """The arrays of a store."""

    nodes: Nodes
    value: Floats
    forward: Nodes
    """Next nodes of a skip list, by level."""
    path: Ints
    """The last nodes of a skip list, by level, before the place that was searched last."""
    sizes: Ints

    @classmethod
    def empty(cls, tuples: int) -> Self:
        """Return an empty store with room for a number of tuples."""
        return cls(
            np.zeros((tuples + 1, FIELDS), np.int64),
            np.zeros(tuples + 1, np.float64),
            np.zeros((tuples + 1, LEVELS), np.int64),
            np.zeros(LEVELS, np.int64),
            np.array([0, 0, NONE, NONE, 20_210_614], np.int64),
        )


@inlined
def take_node(nodes: Nodes, values: Floats, sizes: Ints, time: int, value: float) -> int:
    """Return an unused node that has a tuple from now on."""
    sizes[COUNT] += 1
    node = sizes[FREE]
    if node == NONE:
        sizes[TAKEN] += 1
        node = sizes[TAKEN]
    else:
        sizes[FREE] = nodes[node, NEXT]
    nodes[node, TIME], values[node] = time, value
    return node


@inlined
def free_node(nodes: Nodes, sizes: Ints, node: int) -> None:
    """Give a node back."""
    sizes[COUNT] -= 1
    nodes[node, NEXT] = sizes[FREE]
    sizes[FREE] = node


@inlined
def is_after(nodes: Nodes, values: Floats, node: int, time: int, value: float) -> bool:
    """Return whether the tuple of a node is after a time and value."""
    return nodes[node, TIME] > time or (nodes[node, TIME] == time and values[node] > value)


@inlined
def is_before(nodes: Nodes, values: Floats, node: int, time: int, value: float) -> bool:
    """Return whether the tuple of a node is before a time and value."""
    return nodes[node, TIME] < time or (nodes[node, TIME] == time and values[node] < value)
