"""Distributed tracking on one machine: canonical nodes signal to queries, and few signals make a round.

A query that lacks `left` and has h canonical nodes asks each to signal whenever its weight has grown by the
slack, left // 2h. As long as there are fewer than h signals the query cannot be complete: less than h times
the slack has been signalled, and each node holds back less than the slack. With the h-th signal the exact weights
are collected and the next round begins with what is left then. A query that lacks no more than six times its
nodes is told of every change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.baselines.tracking_cuts import Cells, Cuts, find_cells
from benchmarks.baselines.tracking_heaps import DUE, TOTAL, Heaps, change_key, take_out
from benchmarks.baselines.tracking_trees import Trees, leaf_of, push_trees_below
from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.kernels.compiled import compiled, inlined

FEW = 6
"""A query that lacks at most so much per canonical node is told of every change."""

DIRECT = 0
"""The slack of a query that is told of every change."""

_MOST = 2**63 - 1
"""A weight that no query ever gets."""

LEVELS = 64
"""More nodes than any path from a leaf to the root has."""


class Rounds(NamedTuple):
    """Where each query stands in its round; its entries are `entries_at[q]` to `entries_at[q + 1]`."""

    entries_at: Ints
    owner: Cells
    """The query of each entry."""
    threshold: Ints
    """The weight that completes it when it starts anew."""
    needed: Ints
    """The weight that completes the query, counted since the trees were made."""
    left: Ints
    """What it lacked when it was last looked at."""
    slack: Ints
    signals: Cells
    repeats: bool


def slack_of(left: Ints, nodes: Ints) -> Ints:
    """What the nodes of queries may hold back."""
    return np.where(left <= FEW * nodes, DIRECT, left // np.maximum(2 * nodes, 1))


def copied(rounds: Rounds) -> Rounds:
    """Rounds that can be changed while these stay as they are."""
    changing = rounds._replace(needed=rounds.needed.copy(), left=rounds.left.copy())
    return changing._replace(slack=rounds.slack.copy(), signals=rounds.signals.copy())


@compiled
def absorb(
    cuts: Cuts,
    value: Ints,
    weight: Ints,
    trees: Trees,
    heaps: Heaps,
    rounds: Rounds,
    enough: int,
    complete: Ints,
) -> tuple[int, int]:
    """Count elements until `enough` queries are complete; how many elements were counted, and queries completed.

    `complete` receives rows of queries, of the elements that completed them, and of totals.
    """
    dimensions, found = value.shape[1], 0
    cells = np.empty(dimensions, np.int64)
    waiting = np.empty(dimensions * LEVELS, np.int64)
    for i in range(len(value)):
        find_cells(cuts, value[i], cells)
        before, waiting[0], depth = found, 0, 1
        while depth:
            depth -= 1
            tree = waiting[depth]
            dimension = trees.dimension[tree]
            leaf = leaf_of(trees, tree, cells[dimension])
            if leaf < 0:
                continue
            node = leaf + trees.starts_at[tree + 1] - trees.starts_at[tree] - 1
            first = trees.nodes_at[tree]
            if dimension + 1 == dimensions:
                while node:
                    found = _grow(heaps, rounds, first + node, weight[i], complete, found)
                    node >>= 1
            else:
                depth = push_trees_below(trees, first, node, waiting, depth)
        complete[1, before:found] = i
        if found >= enough:
            return i + 1, found
    return len(value), found


@inlined
def _grow(heaps: Heaps, rounds: Rounds, node: int, weight: int, complete: Ints, found: int) -> int:
    """Add weight to a node and let it signal; the number of complete queries."""
    total = heaps.nodes[node, TOTAL] + weight
    heaps.nodes[node, TOTAL] = total
    while heaps.nodes[node, DUE] <= total:
        found = _signal(heaps, rounds, node, total, complete, found)
    return found


@inlined
def _signal(heaps: Heaps, rounds: Rounds, node: int, total: int, complete: Ints, found: int) -> int:
    """Tell the query that is due at a node; the number of complete queries."""
    slot = heaps.at[node]
    entry, key = heaps.entry[slot], heaps.key[slot]
    q = rounds.owner[entry]
    slack = rounds.slack[q]
    if slack == DIRECT:
        rounds.left[q] -= total - key + 1
        if rounds.left[q] > 0:
            change_key(heaps, entry, total + 1)
            return found
    else:
        # A heavy element makes a node signal several times in a row; those beyond the end of the round do not matter.
        nodes = rounds.entries_at[q + 1] - rounds.entries_at[q]
        more = (total - key) // slack + 1
        signals = rounds.signals[q] + more
        if signals < nodes:
            rounds.signals[q] = signals
            change_key(heaps, entry, key + more * slack)
            return found
        rounds.left[q] = lacking(heaps, rounds, q)
        if rounds.left[q] > 0:
            _begin_round(heaps, rounds, q)
            return found
    complete[0, found], complete[2, found] = q, rounds.threshold[q] - rounds.left[q]
    if rounds.repeats:
        _start_anew(heaps, rounds, q)
    else:
        leave(heaps, rounds, q)
    return found + 1


@inlined
def _start_anew(heaps: Heaps, rounds: Rounds, q: int) -> None:
    """Count from here on for a query that is complete."""
    had = rounds.needed[q] - rounds.left[q]
    rounds.needed[q] = had + min(rounds.threshold[q], _MOST - had)
    rounds.left[q] = rounds.needed[q] - had
    _begin_round(heaps, rounds, q)


@inlined
def _begin_round(heaps: Heaps, rounds: Rounds, q: int) -> None:
    first, last = rounds.entries_at[q], rounds.entries_at[q + 1]
    left, nodes = rounds.left[q], last - first
    slack = DIRECT if left <= FEW * nodes else left // (2 * nodes)
    rounds.slack[q], rounds.signals[q] = slack, 0
    for entry in range(first, last):
        change_key(heaps, entry, heaps.nodes[heaps.node[entry], TOTAL] + max(slack, 1))


@inlined
def lacking(heaps: Heaps, rounds: Rounds, q: int) -> int:
    """What a query lacks by the exact weights of its nodes."""
    left = rounds.needed[q]
    for entry in range(rounds.entries_at[q], rounds.entries_at[q + 1]):
        left -= heaps.nodes[heaps.node[entry], TOTAL]
    return left


@inlined
def leave(heaps: Heaps, rounds: Rounds, q: int) -> None:
    """Take a query out of all heaps."""
    for entry in range(rounds.entries_at[q], rounds.entries_at[q + 1]):
        take_out(heaps, entry)


@compiled
def all_leave(heaps: Heaps, rounds: Rounds, queries: Ints) -> None:
    for q in queries:
        leave(heaps, rounds, q)


@compiled
def all_lacking(heaps: Heaps, rounds: Rounds) -> Ints:
    """What each query lacks; of those that have left, anything."""
    left = np.empty(len(rounds.needed), np.int64)
    for q in range(len(left)):
        left[q] = lacking(heaps, rounds, q)
    return left
