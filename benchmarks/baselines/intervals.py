"""The interval operators of PIPES as chapter 11 prints them, one element at a time: what chapter 14 measures.

Elements are (row, start, end), in the order of starts. They are written as those of `positive_negative.py` are, with
the same containers, so that only the approach differs. Tidegate's own operators work on columns.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from benchmarks.baselines.positive_negative import Interval, Kept, Raw, Row, merge_sides


def window_by_time(source: Iterable[Raw], size: int) -> Iterator[Interval]:
    return ((row, time, time + size) for row, time in source)


def window_by_count(source: Iterable[Raw], rows: int, kept: Kept) -> Iterator[Interval]:
    """Emit a row when `rows` later ones have come, because only then its end is known."""
    waiting: deque[Raw] = deque()
    kept.append(waiting)
    for row, time in source:
        if len(waiting) == rows:
            begun = waiting.popleft()
            if begun[1] < time:
                yield (*begun, time)
        waiting.append((row, time))


def filter_intervals(source: Iterable[Interval], test: Callable[[Row], bool]) -> Iterator[Interval]:
    return (each for each in source if test(each[0]))


def map_intervals(source: Iterable[Interval], function: Callable[[Row], Row]) -> Iterator[Interval]:
    return ((function(row), start, end) for row, start, end in source)


class FirstInFirstOut:
    """Elements in the order in which they came, which is that of their ends."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[int, Any]] = deque()

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, end: int, element: Any) -> None:
        self.waiting.append((end, element))

    def remove_ended(self, time: int) -> Iterator[Any]:
        while self.waiting and self.waiting[0][0] <= time:
            yield self.waiting.popleft()[1]


class FirstToEnd:
    """Elements in a priority queue by their ends."""

    def __init__(self) -> None:
        self.waiting: list[tuple[int, int, Any]] = []
        self.number = 0

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, end: int, element: Any) -> None:
        self.number += 1
        heapq.heappush(self.waiting, (end, self.number, element))

    def remove_ended(self, time: int) -> Iterator[Any]:
        while self.waiting and self.waiting[0][0] <= time:
            yield heapq.heappop(self.waiting)[2]


Linkage = type[FirstInFirstOut] | type[FirstToEnd]


def hash_join(
    left: Iterable[Interval],
    right: Iterable[Interval],
    keys: tuple[Callable[[Row], Any], Callable[[Row], Any]],
    kept: Kept,
    linkage: Linkage = FirstToEnd,
) -> Iterator[Interval]:
    """Join on equal keys; an element leaves when the other side has passed its end, found by a second linkage."""
    states: tuple[dict[Any, dict[int, Interval]], ...] = (defaultdict(dict), defaultdict(dict))
    links = (linkage(), linkage())
    kept += links
    for number, (side, element) in enumerate(merge_sides(left, right)):
        row, start, end = element
        key = keys[side](row)
        other = states[1 - side]
        for gone, place in links[1 - side].remove_ended(start):
            del other[gone][place]
            if not other[gone]:
                del other[gone]
        states[side][key][number] = element
        links[side].add(end, (key, number))
        for partner, _, until in other.get(key, {}).values():
            joined = row + partner if side == 0 else partner + row
            yield joined, start, min(end, until)


def nested_loops_join(
    left: Iterable[Interval], right: Iterable[Interval], test: Callable[[Row, Row], bool], kept: Kept
) -> Iterator[Interval]:
    """Join by a scan of all elements of the other side."""
    states: tuple[dict[int, Interval], dict[int, Interval]] = ({}, {})
    links = (FirstToEnd(), FirstToEnd())
    kept += links
    for number, (side, element) in enumerate(merge_sides(left, right)):
        row, start, end = element
        other = states[1 - side]
        for place in links[1 - side].remove_ended(start):
            del other[place]
        states[side][number] = element
        links[side].add(end, number)
        for partner, _, until in other.values():
            pair = (row, partner) if side == 0 else (partner, row)
            if test(*pair):
                yield pair[0] + pair[1], start, min(end, until)


def running_max(source: Iterable[Interval], kept: Kept) -> Iterator[Interval]:
    """MAX by partial aggregates: disjoint intervals, of which those that end before the next start are results."""
    parts: deque[list[Any]] = deque()
    kept.append(parts)
    for (value, *_), start, end in source:
        while parts and parts[0][1] <= start:
            first, until, most = parts.popleft()
            yield (most,), first, until
        covered = start
        for number in range(len(parts)):
            part = parts[number]
            if part[1] <= start:
                continue
            if part[0] < start:  # only the first part
                yield (part[2],), part[0], start
                part[0] = start
            if part[0] >= end:
                break
            if part[1] > end:
                parts.insert(number + 1, [end, part[1], part[2]])
                part[1] = end
            part[2] = max(part[2], value)
            covered = part[1]
        if covered < end:
            parts.append([covered, end, value])
    for first, until, most in parts:
        yield (most,), first, until


def coalesce(source: Iterable[Interval]) -> Iterator[Interval]:
    """Merge equal neighbours of a stream with one row at a time."""
    held: Interval | None = None
    for row, start, end in source:
        if held is not None and held[0] == row and held[2] == start:
            held = (row, held[1], end)
            continue
        if held is not None:
            yield held
        held = (row, start, end)
    if held is not None:
        yield held


def edges_of(source: Iterable[Interval]) -> Iterator[tuple[Row, int, int]]:
    """Yield the two ends of each interval with their signs."""
    for row, start, end in source:
        yield row, start, 1
        yield row, end, -1
