"""Range trees: a balanced tree over the ends in one dimension, and below its nodes trees of the next.

A tree is kept as a heap without pointers: leaf k of n is node n + k, the parent of node u is u // 2. A range is
the disjoint union of at most two nodes of each level, its canonical nodes; a node that is canonical for some
ranges has a tree of their ends in the next dimension below it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from benchmarks.baselines.tracking_cuts import Boxes, Cells
from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.kernels.compiled import compiled, inlined

NOTHING = np.int32(-1)


class Trees(NamedTuple):
    """Trees of all dimensions; the tree of the first dimension is number 0.

    The leaves of tree t begin at `starts[starts_at[t] : starts_at[t + 1]]`, where the last is the end of the
    last leaf. Node u of it has the number `nodes_at[t] + u` among those of its kind: nodes that have trees
    below them, or those of the last dimension.
    """

    dimension: Cells
    starts_at: Ints
    starts: Cells
    nodes_at: Ints
    below: Cells
    """The tree below each node that is not of the last dimension, or NOTHING."""


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """Queries that are in a tree, tree by tree."""

    tree: Ints
    query: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Grove:
    """The trees of one dimension and, for every member of them, the leaves it reaches over."""

    members: Members
    starts_at: Ints
    starts: Cells
    low_leaf: Ints
    high_leaf: Ints

    @property
    def leaves(self) -> Ints:
        """The number of leaves of each tree."""
        return np.maximum(np.diff(self.starts_at) - 1, 0)


@dataclass(frozen=True, slots=True, eq=False)
class Canonical:
    """Canonical nodes, member by member, by their number among the nodes of all trees of the grove."""

    node: Ints
    query: Ints


def range_trees(boxes: Boxes, queries: Ints) -> tuple[Trees, Grove]:
    """The trees over these queries, and the grove of the last dimension."""
    dimensions = len(boxes.low)
    members = Members(np.zeros(len(queries), np.int64), queries)
    groves: list[Grove] = []
    nodes_at: list[Ints] = []
    below: list[Cells] = []
    trees = inner = 0
    for dimension in range(dimensions):
        grove = planted(members, boxes.low[dimension], boxes.high[dimension])
        ends = np.cumsum(2 * grove.leaves)
        groves.append(grove)
        trees += len(grove.starts_at) - 1
        if dimension == dimensions - 1:
            nodes_at.append(ends - 2 * grove.leaves)
            break
        nodes_at.append(ends - 2 * grove.leaves + inner)
        members, roots = _below(canonical(grove), int(ends[-1]), trees)
        below.append(roots)
        inner += int(ends[-1])
    found = Trees(
        np.repeat(np.arange(dimensions, dtype=np.int32), [len(g.starts_at) - 1 for g in groves]),
        _joined([g.starts_at for g in groves]),
        np.concatenate([g.starts for g in groves]),
        np.concatenate(nodes_at),
        np.concatenate(below) if below else np.empty(0, np.int32),
    )
    return found, groves[-1]


def _joined(offsets: list[Ints]) -> Ints:
    """Offsets into parts as offsets into the whole."""
    lengths = np.concatenate([np.diff(part) for part in offsets])
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))


def planted(members: Members, low: Cells, high: Cells) -> Grove:
    """Trees over the ends that their members have in one dimension."""
    width = int(high.max(initial=0)) + 1
    trees = int(members.tree[-1]) + 1 if len(members.tree) else 1
    begin, end = (members.tree * width + cells[members.query] for cells in (low, high))
    codes = np.unique(np.concatenate((begin, end)))
    starts_at = np.searchsorted(codes, np.arange(trees + 1) * width)
    first = starts_at[members.tree]
    low_leaf, high_leaf = np.searchsorted(codes, begin) - first, np.searchsorted(codes, end) - first
    return Grove(members, starts_at, (codes % width).astype(np.int32), low_leaf, high_leaf)


def canonical(grove: Grove, order: Ints | slice = slice(None)) -> Canonical:
    """The canonical nodes of the members of a grove, in the given order of members."""
    tree, low, high = grove.members.tree[order], grove.low_leaf[order], grove.high_leaf[order]
    first = np.cumsum(2 * grove.leaves) - 2 * grove.leaves
    counts = _counted(low, high, grove.leaves[tree])
    nodes = _decomposed(low, high, grove.leaves[tree], first[tree], int(counts.sum()))
    return Canonical(nodes, np.repeat(grove.members.query[order], counts))


def _below(found: Canonical, nodes: int, trees: int) -> tuple[Members, Cells]:
    """The members of the trees below canonical nodes, and the tree below each of all the nodes."""
    order = np.argsort(found.node, kind="stable")
    node = found.node[order]
    is_first = np.ones(len(node), np.bool_)
    is_first[1:] = node[1:] != node[:-1]
    tree = np.cumsum(is_first) - 1
    below = np.full(nodes, NOTHING, np.int32)
    below[node] = tree + trees
    return Members(tree, found.query[order]), below


@compiled
def _counted(low: Ints, high: Ints, leaves: Ints) -> Ints:
    """How many canonical nodes there are between leaves."""
    counts = np.zeros(len(low), np.int64)
    for i in range(len(low)):
        left, right = low[i] + leaves[i], high[i] + leaves[i]
        while left < right:
            counts[i] += (left & 1) + (right & 1)
            left, right = (left + 1) >> 1, right >> 1
    return counts


@compiled
def _decomposed(low: Ints, high: Ints, leaves: Ints, first: Ints, size: int) -> Ints:
    nodes = np.empty(size, np.int64)
    n = 0
    for i in range(len(low)):
        left, right = low[i] + leaves[i], high[i] + leaves[i]
        while left < right:
            if left & 1:
                nodes[n] = first[i] + left
                n += 1
            if right & 1:
                nodes[n] = first[i] + right - 1
                n += 1
            left, right = (left + 1) >> 1, right >> 1
    return nodes


@inlined
def leaf_of(trees: Trees, tree: int, cell: int) -> int:
    """The leaf of a tree that a cell lies in, or -1 if it is outside of all."""
    first, last = trees.starts_at[tree], trees.starts_at[tree + 1] - 1
    if last < first or cell < trees.starts[first] or cell >= trees.starts[last]:
        return -1
    low, high = first, last
    while high - low > 1:
        middle = (low + high) >> 1
        if trees.starts[middle] <= cell:
            low = middle
        else:
            high = middle
    return low - first


@inlined
def push_trees_below(trees: Trees, first: int, node: int, waiting: Ints, depth: int) -> int:
    """Push the trees below a node and those above it; the number of trees that wait."""
    while node:
        if trees.below[first + node] >= 0:
            waiting[depth] = trees.below[first + node]
            depth += 1
        node >>= 1
    return depth
