"""What the synopses are compared with: a sliding-window join with a hash table per join column.

It knows nothing of keys and constraints: the windows are full, but for elements that do not pass a filter. An
element is put into rings of columns and in front of the chain of its hash; chains so are in the order of arrival,
and one that is followed ends at the first element that has left its window: nothing need be taken out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.keyed_join.kernels.graph import Graph
from tidegate.physical.keyed_join.kernels.model import Combinations, StreamArrivals

Ints = npt.NDArray[np.int64]

_LEAST = 1024


class Window:
    """The live elements of a stream, from `oldest` to before `after`.

    As a rule they leave in the order in which they came. Where one stays for longer than later ones, those are
    taken out when they are as many as the live ones; until then it is their validity that tells.
    """

    def __init__(self, edges: tuple[int, ...]) -> None:
        self.oldest, self.after, self.watermark = 0, 0, 0
        self._most = _LEAST
        self.edges = edges
        self._allocate(_LEAST)

    def __len__(self) -> int:
        """How many are live."""
        return int(np.count_nonzero(self.end[self._places()] > self.watermark))

    def _places(self) -> Ints:
        return np.arange(self.oldest, self.after) & (self.room - 1)

    def _allocate(self, room: int) -> None:
        self.room = room
        self.keys = {edge: np.empty(room, np.int64) for edge in self.edges}
        self.heads = {edge: np.full(2 * room, -1) for edge in self.edges}
        self.following = {edge: np.empty(room, np.int64) for edge in self.edges}
        self.start, self.end, self.row = (np.empty(room, np.int64) for _ in range(3))

    def append(self, keys: Mapping[int, Ints], start: Ints, end: Ints, row: Ints) -> None:
        used = self.after - self.oldest + len(start)
        if used > self.room:
            self._rebuild(self._places(), 1 << (2 * used - 1).bit_length())
        for column, new in ((self.start, start), (self.end, end), (self.row, row)):
            _put(column, self.after, new)
        for edge in self.edges:
            _chain(self.keys[edge], self.heads[edge], self.following[edge], self.after, keys[edge])
        self.after += len(start)

    def _rebuild(self, places: Ints, room: int) -> None:
        keys = {edge: column[places] for edge, column in self.keys.items()}
        columns = self.start[places], self.end[places], self.row[places]
        self.oldest, self.after = 0, 0
        self._allocate(room)
        self.append(keys, *columns)

    def expire(self, watermark: int) -> None:
        self.watermark = watermark
        self.oldest += int(_expired(self.end, self.oldest, self.after, watermark))
        if self.after - self.oldest > self._most:
            places = self._places()
            live = places[self.end[places] > watermark]
            self._most = 2 * len(live) + _LEAST
            if 2 * len(live) < len(places):
                self._rebuild(live, self.room)

    def find(self, edge: int, wanted: Ints) -> tuple[Ints, Ints]:
        """Which of the wanted keys are found, and where, each as often as it is there."""
        which, places = _find(self.keys[edge], self.heads[edge], self.following[edge], self.oldest, wanted)
        return which, places


class WindowJoin:
    """Windows of all streams; each new element looks for partners along the edges."""

    def __init__(self, graph: Graph) -> None:
        self.windows = [Window(tuple(sorted(graph.below[s] + graph.above[s]))) for s in range(len(graph))]
        self._ways = [_way(graph, stream) for stream in range(len(graph))]

    def __len__(self) -> int:
        return sum(map(len, self.windows))

    def step(self, batch: Mapping[int, StreamArrivals], watermark: int) -> Combinations:
        """Take in the next elements, stream by stream, and answer the new combinations."""
        found = [self._take_in(stream, arrivals) for stream, arrivals in batch.items()]
        for window in self.windows:
            window.expire(watermark)
        rows = tuple(np.concatenate([each.rows[s] for each in found]) for s in range(len(self.windows)))
        return Combinations(
            rows, np.concatenate([each.start for each in found]), np.concatenate([each.end for each in found])
        )

    def _take_in(self, stream: int, arrivals: StreamArrivals) -> Combinations:
        window = self.windows[stream]
        keys, start, end, row = arrivals.keys, arrivals.start, arrivals.end, arrivals.row
        if arrivals.passes is not None:
            passes = arrivals.passes
            keys = {edge: column[passes] for edge, column in keys.items()}
            start, end, row = start[passes], end[passes], row[passes]
        window.append(keys, start, end, row)
        places = {stream: np.arange(window.after - len(start), window.after)}
        for edge, here, there in self._ways[stream]:
            known = self.windows[here]
            wanted = known.keys[edge][places[here] & (known.room - 1)]
            which, found = self.windows[there].find(edge, wanted)
            places = {s: place[which] for s, place in places.items()} | {there: found}
        return self._valid(places)

    def _valid(self, places: Mapping[int, Ints]) -> Combinations:
        """What is valid at the same time, as rows."""
        at = [places[stream] & (window.room - 1) for stream, window in enumerate(self.windows)]
        low, high = self.windows[0].start[at[0]], self.windows[0].end[at[0]]
        for window, each in zip(self.windows[1:], at[1:], strict=True):
            low, high = np.maximum(low, window.start[each]), np.minimum(high, window.end[each])
        valid = low < high
        rows = tuple(window.row[each[valid]] for window, each in zip(self.windows, at, strict=True))
        return Combinations(rows, low[valid], high[valid])


def _way(graph: Graph, stream: int) -> list[tuple[int, int, int]]:
    """Edges to go along from a stream to reach all others, each with where it begins and where it ends."""
    way: list[tuple[int, int, int]] = []
    reached = {stream}
    while len(reached) < len(graph):
        for edge, ends in enumerate(graph.edges):
            here, there = ends if ends.parent in reached else reversed(ends)
            if here in reached and there not in reached:
                way.append((edge, here, there))
                reached.add(there)
    return way


@inlined
def _bucket(key: Any, size: Any) -> Any:
    bits = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((bits ^ (bits >> np.uint64(29))) >> np.uint64(16)) & (size - 1)


@compiled
def _put(column: Any, after: Any, new: Any) -> None:
    for i in range(len(new)):
        column[(after + i) & (len(column) - 1)] = new[i]


@compiled
def _chain(keys: Any, heads: Any, following: Any, after: Any, new: Any) -> None:
    for i in range(len(new)):
        at, bucket = (after + i) & (len(keys) - 1), _bucket(new[i], len(heads))
        keys[at] = new[i]
        following[at] = heads[bucket]
        heads[bucket] = after + i


@compiled
def _expired(end: Any, oldest: Any, after: Any, watermark: Any) -> Any:
    count = 0
    while oldest + count < after and end[(oldest + count) & (len(end) - 1)] <= watermark:
        count += 1
    return count


@compiled
def _find(keys: Any, heads: Any, following: Any, oldest: Any, wanted: Any) -> Any:
    room = len(wanted) + 16
    which, places = np.empty(room, np.int64), np.empty(room, np.int64)
    count = 0
    for i in range(len(wanted)):
        place = heads[_bucket(wanted[i], len(heads))]
        while place >= oldest:
            at = place & (len(keys) - 1)
            if keys[at] == wanted[i]:
                if count == room:
                    room *= 2
                    which, places = _more(which, room), _more(places, room)
                which[count], places[count] = i, place
                count += 1
            place = following[at]
    return which[:count], places[:count]


@compiled
def _more(column: Any, room: Any) -> Any:
    more = np.empty(room, np.int64)
    more[: len(column)] = column
    return more
