"""A red-black tree of tuples, after Cormen, Leiserson, Rivest and Stein; neighbours are found through the tree."""

from __future__ import annotations

from benchmarks.baselines.store_nodes import LEFT, NONE, PARENT, RED, RIGHT, ROOT, Nodes, free_node, is_after
from tidegate.physical.common.arrays import Floats, Ints
from tidegate.physical.common.kernels.compiled import compiled, inlined


@inlined
def find_floor(nodes: Nodes, values: Floats, sizes: Ints, time: int, value: float) -> int:
    """Return the last node that is not after a time and value."""
    node, found = sizes[ROOT], NONE
    while node != NONE:
        if is_after(nodes, values, node, time, value):
            node = nodes[node, LEFT]
        else:
            found, node = node, nodes[node, RIGHT]
    return found


@compiled
def find_next(nodes: Nodes, sizes: Ints, node: int) -> int:
    """Return the node after another one, or the first one."""
    below = sizes[ROOT] if node == NONE else nodes[node, RIGHT]
    if below != NONE:
        while nodes[below, LEFT] != NONE:
            below = nodes[below, LEFT]
        return below
    if node == NONE:
        return NONE
    above = nodes[node, PARENT]
    while above != NONE and node == nodes[above, RIGHT]:
        node, above = above, nodes[above, PARENT]
    return above


@compiled
def find_previous(nodes: Nodes, node: int) -> int:
    """Return the node before another one."""
    below = nodes[node, LEFT]
    if below != NONE:
        while nodes[below, RIGHT] != NONE:
            below = nodes[below, RIGHT]
        return below
    above = nodes[node, PARENT]
    while above != NONE and node == nodes[above, LEFT]:
        node, above = above, nodes[above, PARENT]
    return above


@compiled
def insert(nodes: Nodes, sizes: Ints, node: int, floor: int) -> None:
    """Insert a node after another one."""
    nodes[node, LEFT], nodes[node, RIGHT], nodes[node, RED] = NONE, NONE, True
    if sizes[ROOT] == NONE:
        sizes[ROOT], nodes[node, PARENT] = node, NONE
    elif floor != NONE and nodes[floor, RIGHT] == NONE:
        nodes[floor, RIGHT], nodes[node, PARENT] = node, floor
    else:
        after = find_next(nodes, sizes, floor)
        nodes[after, LEFT], nodes[node, PARENT] = node, after
    while nodes[nodes[node, PARENT], RED]:
        above = nodes[node, PARENT]
        top = nodes[above, PARENT]
        is_left = above == nodes[top, LEFT]
        uncle = nodes[top, RIGHT] if is_left else nodes[top, LEFT]
        if nodes[uncle, RED]:
            nodes[above, RED], nodes[uncle, RED], nodes[top, RED] = False, False, True
            node = top
            continue
        if node == (nodes[above, RIGHT] if is_left else nodes[above, LEFT]):
            node = above
            _rotate(nodes, sizes, node, is_left)
            above = nodes[node, PARENT]
        nodes[above, RED], nodes[top, RED] = False, True
        _rotate(nodes, sizes, top, not is_left)
    nodes[sizes[ROOT], RED] = False


@compiled
def remove(nodes: Nodes, sizes: Ints, node: int) -> None:
    """Remove a node; all others keep their tuples."""
    was_red = nodes[node, RED]
    if nodes[node, LEFT] == NONE:
        moved = nodes[node, RIGHT]
        _replace(nodes, sizes, node, moved)
    elif nodes[node, RIGHT] == NONE:
        moved = nodes[node, LEFT]
        _replace(nodes, sizes, node, moved)
    else:
        after = nodes[node, RIGHT]
        while nodes[after, LEFT] != NONE:
            after = nodes[after, LEFT]
        was_red, moved = nodes[after, RED], nodes[after, RIGHT]
        if nodes[after, PARENT] == node:
            nodes[moved, PARENT] = after
        else:
            _replace(nodes, sizes, after, moved)
            nodes[after, RIGHT] = nodes[node, RIGHT]
            nodes[nodes[after, RIGHT], PARENT] = after
        _replace(nodes, sizes, node, after)
        nodes[after, LEFT] = nodes[node, LEFT]
        nodes[nodes[after, LEFT], PARENT], nodes[after, RED] = after, nodes[node, RED]
    if not was_red:
        _restore_black(nodes, sizes, moved)
    nodes[NONE, PARENT] = NONE
    free_node(nodes, sizes, node)


@compiled
def _restore_black(nodes: Nodes, sizes: Ints, node: int) -> None:
    """Make all paths through a node one black node longer."""
    while node != sizes[ROOT] and not nodes[node, RED]:
        above = nodes[node, PARENT]
        is_left = node == nodes[above, LEFT]
        other = nodes[above, RIGHT] if is_left else nodes[above, LEFT]
        if nodes[other, RED]:
            nodes[other, RED], nodes[above, RED] = False, True
            _rotate(nodes, sizes, above, is_left)
            other = nodes[above, RIGHT] if is_left else nodes[above, LEFT]
        near, far = (nodes[other, LEFT], nodes[other, RIGHT]) if is_left else (nodes[other, RIGHT], nodes[other, LEFT])
        if not nodes[near, RED] and not nodes[far, RED]:
            nodes[other, RED] = True
            node = above
            continue
        if not nodes[far, RED]:
            nodes[near, RED], nodes[other, RED] = False, True
            _rotate(nodes, sizes, other, not is_left)
            other = nodes[above, RIGHT] if is_left else nodes[above, LEFT]
            far = nodes[other, RIGHT] if is_left else nodes[other, LEFT]
        nodes[other, RED], nodes[above, RED], nodes[far, RED] = nodes[above, RED], False, False
        _rotate(nodes, sizes, above, is_left)
        node = sizes[ROOT]
    nodes[node, RED] = False


@inlined
def _replace(nodes: Nodes, sizes: Ints, node: int, by: int) -> None:
    """Put a node, or none, in the place of another one below its parent."""
    above = nodes[node, PARENT]
    if above == NONE:
        sizes[ROOT] = by
    elif node == nodes[above, LEFT]:
        nodes[above, LEFT] = by
    else:
        nodes[above, RIGHT] = by
    nodes[by, PARENT] = above


@compiled
def _rotate(nodes: Nodes, sizes: Ints, node: int, to_left: bool) -> None:  # noqa: FBT001 - keywords of kernels are positional
    """Turn a node down to the left, or to the right, below its child of the other side."""
    down, up = (LEFT, RIGHT) if to_left else (RIGHT, LEFT)
    child = nodes[node, up]
    moved = nodes[child, down]
    nodes[node, up] = moved
    if moved != NONE:
        nodes[moved, PARENT] = node
    _replace(nodes, sizes, node, child)
    nodes[child, down], nodes[node, PARENT] = node, child
