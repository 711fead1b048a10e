"""Registered ranges and elements of small worlds, in which ties are common, and ways through a tracker."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st
from reference.ranges import BruteForce, Query

from tidegate.physical.subscriptions.kernels.model import (
    CompletedSubscriptions,
    Subscriptions,
    WeightedElements,
    sort_completions,
)

LEAST, GREATEST = -(2**63) + 1, 2**63 - 2
"""The first and the last value among integers."""


@dataclass(frozen=True)
class World:
    """What a tracker is made for; with a key, the first dimension is one."""

    dimensions: int
    keyed: bool = False
    integers: bool = False
    repeats: bool = False

    def values(self) -> st.SearchStrategy[Any]:
        if self.integers:
            some = st.integers(0, 4)
            return some | some | some | st.sampled_from([LEAST, GREATEST, -1, 5])
        some = st.sampled_from([0.0, -0.0, 1.0, 2.0, 3.0, 4.0])
        return some | some | some | st.sampled_from([math.nan, math.inf, -math.inf, 5e-324, 0.5])

    def side(self) -> st.SearchStrategy[Any]:
        """Mostly ranges that points can be in; now and then one that is empty."""
        number = st.integers(0, 4) if self.integers else st.sampled_from([0.0, -0.0, 1.0, 2.0, 3.0, 4.0])
        least, greatest = (LEAST, GREATEST) if self.integers else (-math.inf, math.inf)
        some = st.tuples(number | st.just(least), st.booleans(), number | st.just(greatest), st.booleans())
        ordered = some.map(lambda s: (min(s[0], s[2]), s[1], max(s[0], s[2]), s[3]))
        return ordered | ordered | ordered | some

    def sides(self) -> st.SearchStrategy[Any]:
        key = [KEYS.map(lambda key: (key, False, key, False))] if self.keyed else []
        return st.tuples(*key, *[self.side()] * (self.dimensions - len(key)))

    def queries(self, most: int = 6) -> st.SearchStrategy[Any]:
        return st.lists(st.tuples(self.sides(), THRESHOLDS), max_size=most)

    def elements(self, most: int = 16) -> st.SearchStrategy[Any]:
        key = [KEYS] if self.keyed else []
        value = st.tuples(*key, *[self.values()] * (self.dimensions - len(key)))
        return st.lists(st.tuples(value, WEIGHTS), max_size=most)

    def operations(self) -> st.SearchStrategy[Any]:
        """Registrations, terminations of ids that may be known, elements, and ways through columns and copies."""
        absorb = st.tuples(st.just("absorb"), self.elements())
        among = st.tuples(self.elements(), self.queries(), st.lists(st.integers(0, 16), min_size=6, max_size=6))
        return st.lists(
            st.tuples(st.just("register"), self.queries())
            | st.tuples(st.just("terminate"), st.lists(st.integers(0, 12), max_size=4))
            | absorb
            | absorb
            | st.tuples(st.just("absorb_with"), among)
            | st.tuples(st.sampled_from(["save", "save", "reload", "copy", "resume"]), st.none()),
            max_size=16,
        )


KEYS = st.sampled_from([0, 1, 2, 2, 7, -3])
THRESHOLDS = st.integers(1, 8) | st.integers(1, 8) | st.integers(50, 300)
WEIGHTS = st.integers(1, 3) | st.integers(1, 3) | st.integers(1, 3) | st.just(20)

worlds = st.builds(World, st.integers(1, 3), integers=st.booleans(), repeats=st.booleans()) | st.builds(
    World, st.integers(1, 3), keyed=st.just(True), integers=st.just(True), repeats=st.booleans()
)
histories = worlds.flatmap(lambda world: st.tuples(st.just(world), world.operations()))


def ranges_of(queries: Sequence[Query], world: World) -> Subscriptions:
    kind: Any = np.int64 if world.integers else np.float64
    ends = np.array([q.sides for q in queries], kind).reshape(len(queries), world.dimensions, 4)
    ids, required = [q.id for q in queries], [q.threshold for q in queries]
    opens = ends[:, :, 1] > 0, ends[:, :, 3] > 0
    return Subscriptions(np.array(ids, np.int64), ends[:, :, 0], ends[:, :, 2], *opens, np.array(required, np.int64))


def elements_of(rows: Sequence[Any], world: World) -> WeightedElements:
    """As they come from a file: in arrays that cannot be written to."""
    kind: Any = np.int64 if world.integers else np.float64
    value = np.array([v for v, _ in rows], kind).reshape(len(rows), world.dimensions)
    weight = np.array([w for _, w in rows], np.int64)
    value.flags.writeable = weight.flags.writeable = False
    return WeightedElements(value, weight)


def rows_of(matured: Any) -> list[tuple[int, int, int]]:
    return list(zip(matured.id.tolist(), matured.element.tolist(), matured.total.tolist(), strict=True))


def stored(parts: Any) -> dict[str, dict[str, Any]]:
    """The parts as they come back from a file: other arrays, which cannot be written."""
    copies = {name: {key: column.copy() for key, column in columns.items()} for name, columns in parts.items()}
    for columns in copies.values():
        assert len({column.shape for column in columns.values()}) == 1
        for column in columns.values():
            assert column.ndim == 1
            column.flags.writeable = False
    return copies


class Files:
    """What has been written: parts must stay as they were, and be the same objects if nothing has changed."""

    def __init__(self) -> None:
        self.written: list[tuple[Any, Any]] = []

    def save(self, tracker: Any) -> dict[str, dict[str, Any]]:
        parts = tracker.to_columns()
        again = tracker.to_columns()
        assert parts.keys() == again.keys()
        assert all(again[name] is part for name, part in parts.items())
        copies = stored(parts)
        self.written += [(part, copies[name]) for name, part in parts.items()]
        return copies

    def check(self) -> None:
        for part, copies in self.written:
            assert all(np.array_equal(part[name], column) for name, column in copies.items())


def through(
    tracker: Any, world: World, steps: Sequence[Any], new: Callable[[], Any], load: Callable[[Any], Any]
) -> None:
    """Compare on the way what a tracker answers with the definition."""
    expected, ids, files = BruteForce(world.repeats), count(), Files()
    for kind, what in steps:
        match kind:
            case "register":
                queries = [Query(next(ids), *each) for each in what]
                expected.register(queries)
                tracker = tracker.register(ranges_of(queries[::-1], world))
            case "terminate":
                assert tracker.are_live(np.array(what, np.int64)).tolist() == [i in expected.live for i in what]
                tracker, known = tracker.terminate(np.array(what, np.int64))
                assert known.tolist() == expected.terminate(what)
            case "absorb":
                tracker, matured = tracker.absorb(elements_of(what, world))
                assert rows_of(matured) == expected.absorb(what)
            case "absorb_with":
                rows, some, places = what
                queries = [Query(next(ids), *each) for each in some]
                position = sorted(min(place, len(rows)) for place in places[: len(queries)])
                among = elements_of(rows, world), ranges_of(queries, world), np.array(position, np.int64)
                tracker, matured = tracker.absorb_with(*among)
                assert rows_of(matured) == expected.absorb_with(rows, queries, position)
            case "save":
                files.save(tracker)
            case "reload":
                parts = files.save(tracker)
                tracker = load(parts)
                assert all(part is parts[name] for name, part in tracker.to_columns().items())
            case "resume":
                tracker = new().resume(*tracker.live_subscriptions())
            case "copy":
                left, tracker = tracker, tracker.copy()
                left.absorb(elements_of([((number,) * world.dimensions, 300) for number in (0, 1, 2, 3)], world))
                left.to_columns()
        assert len(tracker) == len(expected.live)
    files.check()


def ranges_by_key(
    rng: np.random.Generator, number: int, keys: int, thresholds: tuple[int, int], first: int = 0
) -> Subscriptions:
    """Ranges of one dimension behind a key."""
    key, low = rng.integers(0, keys, (number, 1)), rng.integers(0, 90_000, (number, 1))
    closed = np.zeros((number, 2), np.bool_)
    ends = np.hstack([key, low]), np.hstack([key, low + 10_000])
    return Subscriptions(np.arange(first, first + number), *ends, closed, closed, rng.integers(*thresholds, number))


def elements_by_key(rng: np.random.Generator, number: int, keys: int) -> WeightedElements:
    """Elements of these keys and of two others."""
    value = np.column_stack([rng.integers(-1, keys + 1, number), rng.integers(0, 100_000, number)])
    return WeightedElements(value, rng.integers(1, 20, number))


def dense(world: World, seed: int, steps: int = 25) -> list[tuple[str, Any]]:
    """A long history in which much happens: what Hypothesis draws by itself is mostly short."""
    random = Random(seed)
    kinds = ["register", "absorb", "absorb", "absorb_with", "terminate", "save", "save", "reload", "copy", "resume"]
    return [(kind, _drawn(kind, world, random)) for kind in random.choices(kinds, k=steps)]


def _drawn(kind: str, world: World, random: Random) -> Any:
    match kind:
        case "register":
            return _some_queries(world, random, 12)
        case "absorb":
            return _some_elements(world, random)
        case "absorb_with":
            return _some_elements(world, random), _some_queries(world, random, 6), random.choices(range(17), k=6)
        case "terminate":
            return random.choices(range(40), k=random.randrange(8))
        case _:
            return None


def _some_queries(world: World, random: Random, most: int) -> list[Any]:
    first, last = (LEAST, GREATEST) if world.integers else (-math.inf, math.inf)

    def side() -> tuple[float, bool, float, bool]:
        low, high = sorted([random.randint(0, 6), random.randint(0, 6)])
        ends = random.choices([(low, high), (first, high), (low, last)], [4, 1, 1])[0]
        return (ends[0], random.random() < 0.3, ends[1], random.random() < 0.3)

    def sides() -> tuple[Any, ...]:
        key = random.choice([0, 1, 2, 7])
        front = [(key, False, key, False)] if world.keyed else []
        return (*front, *(side() for _ in range(world.dimensions - len(front))))

    return [(sides(), random.choice([1, 2, 5, 12, 30, 80])) for _ in range(random.randint(1, most))]


def _some_elements(world: World, random: Random) -> list[Any]:
    def value() -> tuple[Any, ...]:
        front = [random.choice([0, 1, 2, 7, 8])] if world.keyed else []
        rare = [LEAST, GREATEST] if world.integers else [math.inf, -math.inf, math.nan, 2.5]
        numbers = random.choices([*range(7), *rare], [5] * 7 + [1] * len(rare), k=world.dimensions - len(front))
        return (*front, *numbers)

    return [(value(), random.choice([1, 1, 2, 3, 9])) for _ in range(random.randint(5, 40))]


def by_definition(ranges: Subscriptions, elements: WeightedElements) -> CompletedSubscriptions:
    """Who is complete, of ranges that are all registered before the elements."""
    value = elements.value[:, None, :]
    above = np.where(ranges.low_open, value > ranges.low, value >= ranges.low)
    below = np.where(ranges.high_open, value < ranges.high, value <= ranges.high)
    total = np.cumsum((above & below).all(axis=2) * elements.weight[:, None], axis=0)
    done = np.flatnonzero(total[-1] >= ranges.threshold)
    element = (total[:, done] >= ranges.threshold[done]).argmax(axis=0)
    return sort_completions(ranges.id[done], element, total[element, done])
