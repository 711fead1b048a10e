"""Results: combinations of complete elements, each reported when its last element has arrived."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.keyed_join.kernels.closure import closure
from tidegate.physical.keyed_join.kernels.graph import Graph
from tidegate.physical.keyed_join.kernels.index import home_slot
from tidegate.physical.keyed_join.kernels.layout import HIGH, LOW, ROW
from tidegate.physical.keyed_join.kernels.model import NO_POSITIONS, YES, Combinations, Positions
from tidegate.physical.keyed_join.kernels.table import Table


class PartialCombinations(NamedTuple):
    """Combinations of elements reached from some members of a cover: their positions and validity."""

    reached: dict[int, Positions]
    low: Ints
    high: Ints

    @classmethod
    def of_elements(cls, graph: Graph, tables: Sequence[Table], stream: int, at: Positions) -> PartialCombinations:
        """Return complete elements with all elements below them."""
        table = tables[stream]
        low, high = _take(table["low"], at), _take(table["high"], at)
        if graph.shape == "tree":
            return cls(_follow_edges(graph, tables, stream, at), low, high)
        return cls(closure(graph, tables, stream, at)[0], low, high)

    def join(self, other: PartialCombinations, shared: int, size: int) -> PartialCombinations:
        """Join with another partial: pairs that agree in all shared streams and overlap in time."""
        mine, others = (self.reached[shared], self.low, self.high), (other.reached[shared], other.low, other.high)
        here, there, low, high = _overlapping_pairs(*mine, *others, size)
        agree = np.ones(len(here), np.bool_)
        both = (self.reached.keys() & other.reached.keys()) - {shared}
        for stream in both:
            agree &= self.reached[stream][here] == other.reached[stream][there]
        if both:
            here, there, low, high = here[agree], there[agree], low[agree], high[agree]
        reached = {stream: _take(position, here) for stream, position in self.reached.items()}
        more = other.reached.keys() - self.reached.keys()
        return PartialCombinations(reached | {s: _take(other.reached[s], there) for s in more}, low, high)


def new_combinations(graph: Graph, tables: Sequence[Table], promoted: Sequence[Positions]) -> Combinations:
    """Return all combinations in which an element has just become complete."""
    cover = graph.covers[0]
    if graph.shape == "tree" and len(cover) == 1:
        return _combinations_from_root(graph, tables, cover[0], promoted[cover[0]])
    if graph.shape == "tree" and len(graph) == 3:
        return _combine_two_streams(graph, tables, promoted)
    found = []
    for stream in cover:
        if len(promoted[stream]):
            found.append(_combinations_with_new(graph, tables, promoted, cover, stream))
        if graph.shape == "tree":  # chain only now, so that earlier members do not find new elements of later members
            tables[stream].chain(tables[stream].count)
    columns = np.empty((len(graph) + 2, sum(len(p.low) for p in found)), np.int64)
    begin = 0
    for partial in found:
        for stream, at in partial.reached.items():
            _copy_rows(tables[stream].ints, at, columns, stream, begin)
        after = begin + len(partial.low)
        columns[-2, begin:after], columns[-1, begin:after] = partial.low, partial.high
        begin = after
    return Combinations(tuple(columns[:-2]), columns[-2], columns[-1])


@compiled
def _copy_rows(ints: Any, at: Any, columns: Any, stream: Any, begin: Any) -> None:
    for i in range(len(at)):
        columns[stream, begin + i] = ints[ROW, at[i]]


def _combine_two_streams(graph: Graph, tables: Sequence[Table], promoted: Sequence[Positions]) -> Combinations:
    """Combine each new element with all that have the same child, if two streams share a child."""
    (one, child), (two, _) = graph.edges
    shared, room = tables[child], 4 * max(len(promoted[one]), len(promoted[two])) + 16
    columns, found = np.empty((5, room), np.int64), 0
    for stream, member, edge in ((one, two, 1), (two, one, 0)) if one < two else ((two, one, 0), (one, two, 1)):
        here, there = tables[stream], tables[member]
        if len(promoted[stream]):
            new = promoted[member] if member > stream else NO_POSITIONS
            known = (promoted[stream], here.ints, here.pointers, shared.ints, shared.keys[edge], stream, child, member)
            others = (there.ints, there.pointers, there.heads, there.component, new, there.flags)
            columns, found = _append_sharing_child(*known, *others, columns, found)
        here.chain(here.count)
    return Combinations(tuple(columns[:-2, :found]), columns[-2, :found], columns[-1, :found])


@compiled
def _append_sharing_child(
    at: Any, ints: Any, pointers: Any, child_ints: Any, keys: Any, stream: Any, child_stream: Any, member: Any,
    others: Any, other_pointers: Any, heads: Any, component: Any, new: Any, is_new: Any, columns: Any, found: Any,
) -> Any:  # fmt: skip
    """Append combinations of elements with those that share their child, except new ones: three rows and validity.

    `is_new` is scratch space to mark new elements, and is cleared at the end. Each loop has independent steps, so that
    memory accesses overlap.
    """
    for row in new:
        is_new[row] = True
    children, firsts = np.empty(len(at), np.int32), np.empty(len(at), np.int32)
    for i in range(len(at)):
        children[i] = pointers[at[i], 0]
        firsts[i] = heads[0, home_slot(keys[children[i]], heads.shape[1])]
    pairs = np.empty((columns.shape[1], 2), np.int32)
    done, count = _fill_pairs(0, children, firsts, other_pointers, component, is_new, pairs, 0)
    while done < len(at):
        pairs = _double_length(pairs)
        done, count = _fill_pairs(done, children, firsts, other_pointers, component, is_new, pairs, count)
    for row in new:
        is_new[row] = False
    if found + count > columns.shape[1]:
        columns = _with_room(columns, 2 * (found + count))
    mine, its, others_row = columns[stream], columns[child_stream], columns[member]
    start, end = columns[3], columns[4]
    for each in range(count):
        i, row = pairs[each, 0], pairs[each, 1]
        own = at[i]
        low, high = max(ints[LOW, own], others[LOW, row]), min(ints[HIGH, own], others[HIGH, row])
        mine[found], its[found], others_row[found] = ints[ROW, own], child_ints[ROW, children[i]], others[ROW, row]
        start[found], end[found] = low, high
        found += low < high
    return columns, found


@compiled
def _fill_pairs(
    first: Any, children: Any, firsts: Any, pointers: Any, component: Any, is_new: Any, pairs: Any, count: Any
) -> Any:
    """Pair children with complete parents that are not new, until room runs out; return the next child and the count.

    The function returns when room runs out because replacing an array inside the loop would cost reference counting in
    each iteration.
    """
    for i in range(first, len(children)):
        row, before = firsts[i], count
        while row >= 0:
            if count == len(pairs):
                return i, before
            pairs[count, 0], pairs[count, 1] = i, row
            count += (pointers[row, 0] == children[i]) & (component[row] == YES) & (not is_new[row])
            row = pointers[row, 1]
    return len(children), count


def _combinations_from_root(graph: Graph, tables: Sequence[Table], root: int, at: Positions) -> Combinations:
    """Return one combination per complete element of the root, in a tree in which one stream reaches all others."""
    columns = np.empty((len(graph) + 2, len(at)), np.int64)
    _copy_rows_and_validity(tables[root].ints, at, columns, root)
    todo = [(root, at)] if len(at) else []
    while todo:
        here, position = todo.pop()
        for place, edge in enumerate(graph.below[here]):
            child = graph.edges[edge].child
            if graph.below[child]:
                todo.append((child, _take(tables[here].pointers[:, place], position)))
            _copy_child_rows(tables[here].pointers, place, position, tables[child].ints, columns, child)
    return Combinations(tuple(columns[:-2]), columns[-2], columns[-1])


@compiled
def _copy_rows_and_validity(ints: Any, at: Any, columns: Any, stream: Any) -> None:
    """Copy the rows and validity of elements."""
    for i in range(len(at)):
        columns[stream, i] = ints[ROW, at[i]]
        columns[-2, i], columns[-1, i] = ints[LOW, at[i]], ints[HIGH, at[i]]


@compiled
def _copy_child_rows(pointers: Any, place: Any, at: Any, ints: Any, columns: Any, stream: Any) -> None:
    """Copy the rows of their children."""
    for i in range(len(at)):
        columns[stream, i] = ints[ROW, pointers[at[i], place]]


def _combinations_with_new(
    graph: Graph, tables: Sequence[Table], promoted: Sequence[Positions], cover: tuple[int, ...], stream: int
) -> PartialCombinations:
    """Return combinations with new elements of one member. Earlier members may be new as well, later ones are not."""
    partial = PartialCombinations.of_elements(graph, tables, stream, promoted[stream])
    left = [member for member in cover if member != stream]
    while left:
        member = next(m for m in left if graph.reachable[m] & partial.reached.keys())
        left.remove(member)
        new = promoted[member] if member > stream else promoted[member][:0]
        shared = max(graph.reachable[member] & partial.reached.keys(), key=lambda s: len(graph.reachable[s]))
        direct = [edge for edge in graph.below[member] if graph.edges[edge].child == shared]
        if direct and graph.shape == "tree":
            partial = _join_member(graph, tables, partial, member, direct[0], new)
        else:
            other = PartialCombinations.of_elements(
                graph, tables, member, _complete_positions(tables[member]["component"], new)
            )
            partial = partial.join(other, shared, tables[shared].count)
    return partial


def _join_member(
    graph: Graph, tables: Sequence[Table], partial: PartialCombinations, member: int, edge: int, new: Positions
) -> PartialCombinations:
    """Combine with the elements of a member of a cover, except new ones, that have the same child."""
    table, shared = tables[member], graph.edges[edge].child
    known = (partial.reached[shared], partial.low, partial.high, tables[shared].keys[edge])
    there = (table.ints, table.pointers, table.heads, graph.below[member].index(edge), table.component)
    here, at, low, high = _find_parents(*known, *there, new, table.count)
    reached = {stream: _take(position, here) for stream, position in partial.reached.items()}
    if len(graph.reachable[member]) == 2:
        return PartialCombinations(reached | {member: at}, low, high)
    return PartialCombinations(_follow_edges(graph, tables, member, at) | reached, low, high)


def _follow_edges(graph: Graph, tables: Sequence[Table], stream: int, at: Positions) -> dict[int, Positions]:
    """Follow the edges from complete elements. In a tree, each element below is reached by one path."""
    reached = {stream: at}
    todo = [stream]
    while todo:
        here = todo.pop()
        for edge in graph.below[here]:
            child = graph.edges[edge].child
            reached[child] = _take(tables[here][f"child{edge}"], reached[here])
            todo.append(child)
    return reached


@compiled
def _take(column: Any, at: Any) -> Any:
    taken = np.empty(len(at), column.dtype)
    for i in range(len(at)):
        taken[i] = column[at[i]]
    return taken


@compiled
def _complete_positions(component: Any, new: Any) -> Any:
    """Return the positions of all elements that are Yes, except new ones."""
    complete, is_new = np.empty(len(component), np.int32), np.zeros(len(component), np.bool_)
    count = 0
    for row in new:
        is_new[row] = True
    for row in range(len(component)):
        complete[count] = row
        count += (component[row] == YES) & (not is_new[row])
    return complete[:count]


@compiled
def _find_parents(
    left: Any, left_low: Any, left_high: Any, keys: Any,
    ints: Any, pointers: Any, heads: Any, place: Any, component: Any, new: Any, count: Any,
) -> Any:  # fmt: skip
    """Return all pairs with parents that are Yes, except new ones, and when they overlap."""
    low, high, head, edges = ints[LOW], ints[HIGH], heads[place], len(heads)
    is_new = np.zeros(count if len(new) else 0, np.bool_)
    for row in new:
        is_new[row] = True
    room = 2 * len(left) + 16
    pairs, times = np.empty((2, room), np.int32), np.empty((2, room), np.int64)
    found = 0
    for i in range(len(left)):
        row = head[home_slot(keys[left[i]], len(head))]
        while row >= 0:
            if pointers[row, place] == left[i] and component[row] == YES and not (len(new) and is_new[row]):
                if found == room:
                    room *= 2
                    pairs, times = _with_room(pairs, room), _with_room(times, room)
                pairs[0, found], pairs[1, found] = i, row
                times[0, found], times[1, found] = max(left_low[i], low[row]), min(left_high[i], high[row])
                found += times[0, found] < times[1, found]
            row = pointers[row, edges + place]
    return pairs[0, :found], pairs[1, :found], times[0, :found], times[1, :found]


@compiled
def _with_room(columns: Any, room: Any) -> Any:
    more = np.empty((len(columns), room), columns.dtype)
    more[:, : columns.shape[1]] = columns
    return more


@compiled
def _double_length(pairs: Any) -> Any:
    longer = np.empty((2 * len(pairs), 2), np.int32)
    longer[: len(pairs)] = pairs
    return longer


@compiled
def _overlapping_pairs(
    left: Any, left_low: Any, left_high: Any, right: Any, right_low: Any, right_high: Any, size: Any
) -> Any:
    """Return all pairs of equal positions that overlap, and when they do."""
    head, following = np.full(size, -1, np.int32), np.empty(len(left), np.int32)
    for i in range(len(left)):
        following[i] = head[left[i]]
        head[left[i]] = i
    count = 0
    for j in range(len(right)):
        i = head[right[j]] if right[j] >= 0 else -1
        while i >= 0:
            count += 1
            i = following[i]
    here, there = np.empty(count, np.int32), np.empty(count, np.int32)
    low, high = np.empty(count, np.int64), np.empty(count, np.int64)
    count = 0
    for j in range(len(right)):
        i = head[right[j]] if right[j] >= 0 else -1
        while i >= 0:
            here[count], there[count] = i, j
            low[count], high[count] = max(left_low[i], right_low[j]), min(left_high[i], right_high[j])
            count += low[count] < high[count]
            i = following[i]
    return here[:count], there[:count], low[:count], high[:count]
