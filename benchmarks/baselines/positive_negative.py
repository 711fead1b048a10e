"""The positive-negative approach of chapter 14: operators over elements (row, time, sign), one at a time.

A positive element says that a row is valid from a time on, its negative element that it no longer is. Streams are in
the order of time. Operators that keep state add it to a list of containers, so that a run can count what is kept.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any

from sortedcontainers import SortedList

Row = tuple[Any, ...]
Raw = tuple[Row, int]
Signed = tuple[Row, int, int]
Interval = tuple[Row, int, int]
Kept = list[Sized]


def window_by_time(source: Iterable[Raw], size: int, kept: Kept) -> Iterator[Signed]:
    """Emit each row, and its negative element after `size`, which waits here until then."""
    waiting: deque[Raw] = deque()
    kept.append(waiting)
    for row, time in source:
        while waiting and waiting[0][1] <= time:
            yield (*waiting.popleft(), -1)
        yield row, time, 1
        waiting.append((row, time + size))
    while waiting:
        yield (*waiting.popleft(), -1)


def window_by_count(source: Iterable[Raw], rows: int, kept: Kept) -> Iterator[Signed]:
    """Emit each row at once, and the negative element of the row that it replaces."""
    waiting: deque[Row] = deque()
    kept.append(waiting)
    for row, time in source:
        if len(waiting) == rows:
            yield waiting.popleft(), time, -1
        yield row, time, 1
        waiting.append(row)


def filter_signed(source: Iterable[Signed], test: Callable[[Row], bool]) -> Iterator[Signed]:
    return (each for each in source if test(each[0]))


def map_signed(source: Iterable[Signed], function: Callable[[Row], Row]) -> Iterator[Signed]:
    return ((function(row), time, sign) for row, time, sign in source)


def merge_sides(left: Iterable[Signed], right: Iterable[Signed]) -> Iterator[tuple[int, Signed]]:
    """Merge two streams by the time in the second place of each element, with the number of its side."""
    return heapq.merge(_with_side(0, left), _with_side(1, right), key=lambda each: each[1][1])


def _with_side(side: int, source: Iterable[Signed]) -> Iterator[tuple[int, Signed]]:
    return ((side, each) for each in source)


def hash_join(
    left: Iterable[Signed], right: Iterable[Signed], keys: tuple[Callable[[Row], Any], Callable[[Row], Any]], kept: Kept
) -> Iterator[Signed]:
    """Join on equal keys: a negative element removes its row by hashing, and probes as a positive one does."""
    states: tuple[dict[Any, Counter[Row]], dict[Any, Counter[Row]]] = (defaultdict(Counter), defaultdict(Counter))
    counted = _Count()
    kept.append(counted)
    for side, (row, time, sign) in merge_sides(left, right):
        key = keys[side](row)
        own = states[side][key]
        own[row] += sign
        counted.size += sign
        if not own[row]:
            del own[row]
            if not own:
                del states[side][key]
        if (partners := states[1 - side].get(key)) is not None:
            for other, copies in partners.items():
                for _ in range(copies):
                    yield (row + other, time, sign) if side == 0 else (other + row, time, sign)


def nested_loops_join(
    left: Iterable[Signed], right: Iterable[Signed], test: Callable[[Row, Row], bool], kept: Kept
) -> Iterator[Signed]:
    """Join by a scan of all rows of the other side, for positive and negative elements."""
    states: tuple[Counter[Row], Counter[Row]] = (Counter(), Counter())
    kept += states
    for side, (row, time, sign) in merge_sides(left, right):
        own = states[side]
        own[row] += sign
        if not own[row]:
            del own[row]
        for other, copies in states[1 - side].items():
            pair = (row, other) if side == 0 else (other, row)
            if test(*pair):
                for _ in range(copies):
                    yield pair[0] + pair[1], time, sign


def running_max(source: Iterable[Signed], kept: Kept) -> Iterator[Signed]:
    """MAX over an ordered list of all values; a result waits until time goes on, because times may repeat."""
    values: SortedList = SortedList()
    kept.append(values)
    yield from _aggregate(source, values.add, values.remove, lambda: values[-1] if values else None)


def recomputed_max(source: Iterable[Signed], kept: Kept) -> Iterator[Signed]:
    """MAX over a hash table: found again by a scan whenever a value has gone."""
    values: Counter[Any] = Counter()
    kept.append(values)
    newest: list[Any] = [None]

    def add(value: Any) -> None:
        values[value] += 1
        newest[0] = value if newest[0] is None else max(newest[0], value)

    def remove(value: Any) -> None:
        values[value] -= 1
        if not values[value]:
            del values[value]
        newest[0] = max(values, default=None)

    yield from _aggregate(source, add, remove, lambda: newest[0])


def _aggregate(
    source: Iterable[Signed], add: Callable[[Any], None], remove: Callable[[Any], None], result: Callable[[], Any]
) -> Iterator[Signed]:
    shown, now = None, None
    for row, time, sign in source:
        if now is not None and time > now:
            value = result()
            if value != shown:
                yield from _replace(shown, value, now)
                shown = value
        now = time
        (add if sign > 0 else remove)(row[0])
    if now is not None:
        yield from _replace(shown, result(), now)


def _replace(old: Any, new: Any, time: int) -> Iterator[Signed]:
    if old != new:
        if old is not None:
            yield (old,), time, -1
        if new is not None:
            yield (new,), time, 1


class _Count:
    """Number of elements in a state of several containers."""

    size = 0

    def __len__(self) -> int:
        return self.size


# ---- converters (chapter 17): plans may have parts of both kinds


def to_signed(source: Iterable[Interval]) -> Iterator[Signed]:
    """Emit each interval as a positive element, and a negative one once time has come to its end."""
    waiting: list[tuple[int, int, Row]] = []
    for number, (row, start, end) in enumerate(source):
        while waiting and waiting[0][0] <= start:
            time, _, ended = heapq.heappop(waiting)
            yield ended, time, -1
        yield row, start, 1
        heapq.heappush(waiting, (end, number, row))
    while waiting:
        time, _, ended = heapq.heappop(waiting)
        yield ended, time, -1


def to_intervals(source: Iterable[Signed]) -> Iterator[Interval]:
    """Emit the interval of each row when its negative element comes, in the order of starts."""
    begun: dict[Row, deque[list[Any]]] = defaultdict(deque)
    order: deque[list[Any]] = deque()
    for row, time, sign in source:
        if sign > 0:
            element = [row, time, None]
            order.append(element)
            begun[row].append(element)
        else:
            begun[row].popleft()[2] = time
        while order and order[0][2] is not None:
            closed = order.popleft()
            if closed[1] < closed[2]:
                yield (closed[0], closed[1], closed[2])


def net_edges(source: Iterable[Signed]) -> Counter[tuple[Row, int]]:
    """Return by how many copies each row becomes more or fewer at each instant: equal relations have equal edges."""
    edges: Counter[tuple[Row, int]] = Counter()
    for row, time, sign in source:
        edges[row, time] += sign
    return Counter({edge: count for edge, count in edges.items() if count})
