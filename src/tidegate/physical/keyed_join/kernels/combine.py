"""Results: combinations of complete elements, each reported when its last element has arrived."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from tidegate.physical.common.arrays import Ints, Positions
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.keyed_join.kernels.graph import Graph
from tidegate.physical.keyed_join.kernels.graph_decisions import closure
from tidegate.physical.keyed_join.kernels.index import home_slot
from tidegate.physical.keyed_join.kernels.layout import HIGH, LOW, ROW, ElementArrays, ElementColumns
from tidegate.physical.keyed_join.kernels.model import NO_POSITIONS, YES, Combinations, Components
from tidegate.physical.keyed_join.kernels.table import Table

Scalar = TypeVar("Scalar", bound=np.generic)


class TimedPositions(NamedTuple):
    """Positions of elements, and when each of the combinations that have them is valid."""

    at: Positions
    low: Ints
    high: Ints


class CombinationBuffer(NamedTuple):
    """Combinations of three streams: their rows, start and end, with room for more, and how many are filled.

    `stream` and `other` are the numbers of the streams that share a child, and `child` is the number of the child.
    """

    columns: Ints
    filled: int
    stream: int
    other: int
    child: int


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
        here, there, low, high = _overlapping_pairs(self.at_stream(shared), other.at_stream(shared), size)
        agree = np.ones(len(here), np.bool_)
        both = (self.reached.keys() & other.reached.keys()) - {shared}
        for stream in both:
            agree &= self.reached[stream][here] == other.reached[stream][there]
        if both:
            here, there, low, high = here[agree], there[agree], low[agree], high[agree]
        reached = {stream: _take(position, here) for stream, position in self.reached.items()}
        more = other.reached.keys() - self.reached.keys()
        return PartialCombinations(reached | {s: _take(other.reached[s], there) for s in more}, low, high)

    def at_stream(self, stream: int) -> TimedPositions:
        """Return the positions in one stream, with the validity of the combinations."""
        return TimedPositions(self.reached[stream], self.low, self.high)


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
            _copy_rows(tables[stream].elements.ints, at, columns, stream, begin)
        after = begin + len(partial.low)
        columns[-2, begin:after], columns[-1, begin:after] = partial.low, partial.high
        begin = after
    return Combinations(tuple(columns[:-2]), columns[-2], columns[-1])


@compiled
def _copy_rows(ints: Ints, at: Positions, columns: Ints, stream: int, begin: int) -> None:
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
            columns, found = _append_sharing_child(
                promoted[stream],
                here.elements.ints,
                here.elements.pointers[:, 0],
                shared.elements.ints,
                shared.layout.key[edge],
                there.arrays,
                promoted[member] if member > stream else NO_POSITIONS,
                (columns, found, stream, member, child),
            )
        here.chain(here.count)
    return Combinations(tuple(columns[:-2, :found]), columns[-2, :found], columns[-1, :found])


@compiled
def _append_sharing_child(
    at: Positions,
    ints: Ints,
    child_of: Positions,
    child_ints: Ints,
    key: int,
    others: ElementArrays,
    new: Positions,
    given: tuple[Ints, int, int, int, int],
) -> tuple[Ints, int]:
    """Append combinations of the elements `at` with those that share their child, except new ones.

    `ints` and `child_of` are columns of these elements, `child_ints` those of the children with the column `key`, and
    `others` those of the elements to combine with. Return the columns of `given`, and how many combinations they have.
    Each loop has independent steps, so that memory accesses overlap.
    """
    there, results = ElementColumns(*others), CombinationBuffer(*given)
    children = np.empty(len(at), np.int32)
    for i in range(len(at)):
        children[i] = child_of[at[i]]
    pairs = _pairs_with_parents(children, child_ints[key], there, new, results.columns.shape[1])
    columns, found, other_ints = results.columns, results.filled, there.ints
    if found + len(pairs) > columns.shape[1]:
        columns = _with_room(columns, 2 * (found + len(pairs)))
    rows, child_rows, other_rows = columns[results.stream], columns[results.child], columns[results.other]
    start, end = columns[3], columns[4]
    for pair in range(len(pairs)):
        i, other = pairs[pair, 0], pairs[pair, 1]
        row = at[i]
        low, high = max(ints[LOW, row], other_ints[LOW, other]), min(ints[HIGH, row], other_ints[HIGH, other])
        rows[found], child_rows[found] = ints[ROW, row], child_ints[ROW, children[i]]
        other_rows[found], start[found], end[found] = other_ints[ROW, other], low, high
        found += low < high
    return columns, found


@compiled
def _pairs_with_parents(
    children: Positions, keys: Ints, parents: ElementColumns, new: Positions, room: int
) -> Positions:
    """Return pairs: which of the children, and the position of a complete parent that is not new.

    `keys` are the keys of all children by position. `room` is the number of pairs expected.
    """
    head, is_new = parents.heads[0], parents.flags  # nothing is listed now, so all flags are free and zero
    for row in new:
        is_new[row] = True
    firsts = np.empty(len(children), np.int32)
    for i in range(len(children)):
        firsts[i] = head[home_slot(keys[children[i]], len(head))]
    pairs = np.empty((room, 2), np.int32)
    done, count = _fill_pairs(0, children, firsts, parents, pairs, 0)
    while done < len(children):
        pairs = _double_length(pairs)
        done, count = _fill_pairs(done, children, firsts, parents, pairs, count)
    for row in new:
        is_new[row] = False
    return pairs[:count]


@compiled
def _fill_pairs(
    first: int,
    children: Positions,
    firsts: Positions,
    parents: ElementColumns,
    pairs: Positions,
    count: int,
) -> tuple[int, int]:
    """Pair children with complete parents that are not new, until room runs out; return the next child and the count.

    New parents are flagged. The chains of parents start at `firsts`. The function returns when room runs out because
    replacing an array inside the loop would cost reference counting in each iteration.
    """
    pointers, component, is_new = parents.pointers, parents.component, parents.flags
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
    _copy_rows_and_validity(tables[root].elements.ints, at, columns, root)
    todo = [(root, at)] if len(at) else []
    while todo:
        here, position = todo.pop()
        for edge in graph.below[here]:
            child, children = graph.edges[edge].child, tables[here].children[edge]
            if graph.below[child]:
                todo.append((child, _take(children, position)))
            _copy_child_rows(children, position, tables[child].elements.ints, columns, child)
    return Combinations(tuple(columns[:-2]), columns[-2], columns[-1])


@compiled
def _copy_rows_and_validity(ints: Ints, at: Positions, columns: Ints, stream: int) -> None:
    """Copy the rows and validity of elements."""
    for i in range(len(at)):
        columns[stream, i] = ints[ROW, at[i]]
        columns[-2, i], columns[-1, i] = ints[LOW, at[i]], ints[HIGH, at[i]]


@compiled
def _copy_child_rows(children: Positions, at: Positions, ints: Ints, columns: Ints, stream: int) -> None:
    """Copy the rows of their children."""
    for i in range(len(at)):
        columns[stream, i] = ints[ROW, children[at[i]]]


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
    children, keys, place = partial.at_stream(shared), tables[shared].keys[edge], table.layout.below[edge].place
    here, at, low, high = _find_parents(children, keys, table.elements, place, new, table.count)
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
def _take(column: npt.NDArray[Scalar], at: Positions) -> npt.NDArray[Scalar]:
    taken = np.empty(len(at), column.dtype)
    for i in range(len(at)):
        taken[i] = column[at[i]]
    return taken


@compiled
def _complete_positions(component: Components, new: Positions) -> Positions:
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
    children: TimedPositions, keys: Ints, parents: ElementColumns, place: int, new: Positions, count: int
) -> tuple[Positions, Positions, Ints, Ints]:
    """Return all pairs with parents that are Yes, except new ones, and when they overlap.

    `keys` are the keys of all children by position. `place` is that of the edge among those of the parents, of which
    there are `count`.
    """
    pointers, component, low, high = parents.pointers, parents.component, parents.ints[LOW], parents.ints[HIGH]
    at, child_low, child_high = children.at, children.low, children.high
    head, following = parents.heads[place], len(parents.heads) + place
    is_new = np.zeros(count if len(new) else 0, np.bool_)
    for row in new:
        is_new[row] = True
    room = 2 * len(at) + 16
    pairs, times = np.empty((2, room), np.int32), np.empty((2, room), np.int64)
    found = 0
    for i in range(len(at)):
        row = head[home_slot(keys[at[i]], len(head))]
        while row >= 0:
            if pointers[row, place] == at[i] and component[row] == YES and not (len(new) and is_new[row]):
                if found == room:
                    room *= 2
                    pairs, times = _with_room(pairs, room), _with_room(times, room)
                pairs[0, found], pairs[1, found] = i, row
                times[0, found], times[1, found] = max(child_low[i], low[row]), min(child_high[i], high[row])
                found += times[0, found] < times[1, found]
            row = pointers[row, following]
    return pairs[0, :found], pairs[1, :found], times[0, :found], times[1, :found]


@compiled
def _with_room(columns: npt.NDArray[Scalar], room: int) -> npt.NDArray[Scalar]:
    more = np.empty((len(columns), room), columns.dtype)
    more[:, : columns.shape[1]] = columns
    return more


@compiled
def _double_length(pairs: Positions) -> Positions:
    longer = np.empty((2 * len(pairs), 2), np.int32)
    longer[: len(pairs)] = pairs
    return longer


@compiled
def _overlapping_pairs(
    left: TimedPositions, right: TimedPositions, size: int
) -> tuple[Positions, Positions, Ints, Ints]:
    """Return all pairs of equal positions that overlap, and when they do. Positions are less than `size`."""
    head, following = np.full(size, -1, np.int32), np.empty(len(left.at), np.int32)
    for one in range(len(left.at)):
        following[one] = head[left.at[one]]
        head[left.at[one]] = one
    count = 0
    for position in right.at:
        one = head[position] if position >= 0 else -1
        while one >= 0:
            count += 1
            one = following[one]
    here, there = np.empty(count, np.int32), np.empty(count, np.int32)
    low, high = np.empty(count, np.int64), np.empty(count, np.int64)
    count = 0
    for two in range(len(right.at)):
        one = head[right.at[two]] if right.at[two] >= 0 else -1
        while one >= 0:
            here[count], there[count] = one, two
            low[count], high[count] = max(left.low[one], right.low[two]), min(left.high[one], right.high[two])
            count += low[count] < high[count]
            one = following[one]
    return here[:count], there[:count], low[:count], high[:count]
