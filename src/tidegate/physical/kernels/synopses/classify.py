"""Which component elements belong to, now that all of a batch is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tidegate.physical.kernels.compiled import compiled
from tidegate.physical.kernels.synopses.bounds import LEAST
from tidegate.physical.kernels.synopses.closure import until_settled
from tidegate.physical.kernels.synopses.graph import Graph
from tidegate.physical.kernels.synopses.index import home, slot_of
from tidegate.physical.kernels.synopses.model import COLD, GONE, NO, UNKNOWN, YES, Ints, Patience, Positions
from tidegate.physical.kernels.synopses.table import Table


def classify(
    graph: Graph, tables: Sequence[Table], patience: Sequence[Patience], slots: Sequence[Ints], late: int
) -> list[Positions]:
    """Set the components of all that are Unknown, and answer for each stream which are Yes now.

    In trees, parents find new children through these slots. `late` is the component of those whose children do
    not come by a constraint.
    """
    asked = [_asked(table.waiting, table["component"], table.fresh) for table in tables]
    if graph.shape == "tree":
        for stream in graph.children_first:
            _by_children(graph, tables, stream, asked[stream], patience, slots, late)
    else:
        until_settled(graph, tables, asked, patience, late)
    promoted = []
    for table, at in zip(tables, asked, strict=True):
        waiting, yes = _parted(at, table["component"])
        table.waiting = waiting
        promoted.append(yes)
    return promoted


@compiled
def _asked(waiting: Any, component: Any, fresh: Any) -> Any:
    """All that are Unknown."""
    asked = np.empty(len(waiting) + len(component) - fresh, np.int32)
    asked[: len(waiting)] = waiting
    count = len(waiting)
    for row in range(fresh, len(component)):
        asked[count] = row
        count += component[row] == UNKNOWN
    return asked[:count].copy()


@compiled
def _parted(at: Any, component: Any) -> Any:
    """Which are Unknown, and which are Yes."""
    unknown, yes = np.empty(len(at), np.int32), np.empty(len(at), np.int32)
    waiting, complete = 0, 0
    for row in at:
        unknown[waiting] = row
        waiting += component[row] == UNKNOWN
        yes[complete] = row
        complete += component[row] == YES
    return unknown[:waiting].copy(), yes[:complete].copy()


def _by_children(
    graph: Graph,
    tables: Sequence[Table],
    stream: int,
    at: Positions,
    patience: Sequence[Patience],
    slots: Sequence[Ints],
    late: int,
) -> None:
    """In a tree, what the children are says all; most elements wait on, and only a look is taken at them."""
    table = tables[stream]
    state = np.zeros(len(at), np.uint8)
    for edge in graph.below[stream]:
        child, children = tables[graph.edges[edge].child], table[f"child{edge}"]
        told = len(slots[edge]) == 0 or bool(graph.below[graph.edges[edge].child])
        _regard(at, 0 if told else len(table.waiting), children, child["component"], child.fresh, state)
        there = (children, slots[edge], _marks(slots[edge]), child["component"])
        _await(at, _missing(at, children), *there, *_own(table, edge), table["high"], *patience[edge], state)
    some = _to_decide(state)
    table.changed |= len(some) > 0
    at, state = at[some], state[some]
    low, high = table["start"][at], table["end"][at]
    for edge in graph.below[stream]:
        child = tables[graph.edges[edge].child]
        _narrow(at, table[f"child{edge}"], child["low"], child["high"], low, high)
    _settle(at, state, low, high, table["component"], table["low"], table["high"], late)


def _own(table: Table, edge: int) -> tuple[Ints, Ints, Ints]:
    return table[f"key{edge}"], table[f"seen{edge}"], table["start"]


_MISSING, _LATE, _NEVER, _LINKED = 1, 2, 4, 8
"""What is said of an element: a child is missing, may not come by a constraint, never comes, or has come now."""


@compiled
def _regard(at: Any, begin: Any, children: Any, component: Any, fresh: Any, state: Any) -> None:
    """Take one child of each element into account, as far as it is there."""
    for i in range(begin, len(at)):
        child = children[at[i]]
        if child >= 0:
            said = _LINKED if child >= fresh else 0
            its = component[child]
            if its != YES:
                said |= _MISSING if its == UNKNOWN else _LATE if its == COLD else _NEVER
            state[i] |= said


@compiled
def _missing(at: Any, children: Any) -> Any:
    """Which of the elements lack a child; found without a branch, as there is no telling."""
    missing = np.empty(len(at), np.int32)
    count = 0
    for i in range(len(at)):
        missing[count] = i
        count += children[at[i]] < 0
    return missing[:count].copy()


_MARKS = 4
"""A table of marks has so many places for each slot."""


@compiled
def _marks(slots: Any) -> Any:
    """Where keys may be: a small table that says of most keys at once that they are not in the slots."""
    marks = np.zeros(min(len(slots) * _MARKS, 2**15), np.bool_)
    for slot in range(len(slots)):
        if slots[slot, 1] >= 0:
            marks[home(slots[slot, 0], len(marks))] = True
    return marks


@compiled
def _await(
    at: Any, missing: Any, children: Any, slots: Any, marks: Any, component: Any,
    key: Any, seen: Any, start: Any, high: Any, rows: Any, time: Any, least: Any, watermark: Any, state: Any,
) -> None:  # fmt: skip
    """Look for a new child of those that lack it, and say of the others whether it still may come."""
    for i in missing:
        row = at[i]
        child = -1
        if len(marks) and marks[home(key[row], len(marks))]:
            child = slots[slot_of(slots, key[row]), 1]
        if child >= 0 and (component[child] < GONE or component[child] == COLD):
            children[row] = child
            its = component[child]
            said = _LINKED
            if its != YES:
                said |= _MISSING if its == UNKNOWN else _LATE if its == COLD else _NEVER
        else:
            said = _MISSING  # a column that does not matter is not read: memory takes the time here
            if (rows >= 0 and seen[row] <= rows) or (time > LEAST and start[row] < time) or key[row] < least:
                said |= _LATE
            if watermark > LEAST and high[row] <= watermark:
                said |= _NEVER
        state[i] |= said


@compiled
def _to_decide(state: Any) -> Any:
    """Elements that are complete, that go, or of whose validity more is known."""
    some = np.empty(len(state), np.int32)
    count = 0
    for i in range(len(state)):
        some[count] = i
        count += state[i] != _MISSING
    return some[:count].copy()


@compiled
def _narrow(at: Any, children: Any, below_low: Any, below_high: Any, low: Any, high: Any) -> None:
    for i in range(len(at)):
        child = children[at[i]]
        if child >= 0:
            low[i], high[i] = max(low[i], below_low[child]), min(high[i], below_high[child])


@compiled
def _settle(at: Any, state: Any, low: Any, high: Any, component: Any, to_low: Any, to_high: Any, late: Any) -> None:
    for i in range(len(at)):
        row = at[i]
        if state[i] & _NEVER or low[i] >= high[i]:
            component[row] = NO
        elif state[i] & _LATE:
            component[row] = late
        else:
            component[row] = UNKNOWN if state[i] & _MISSING else YES
            to_low[row], to_high[row] = low[i], high[i]
