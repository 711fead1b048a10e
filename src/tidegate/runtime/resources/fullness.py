"""How full windows are: since when operators run, and which sizes and which load their elements come from.

An operator gives less while its windows fill, and more while they still hold the elements of a larger size. Both can be
computed. So operators are learnt at any time, a new query while its windows fill.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field, replace
from itertools import pairwise

from tidegate.optimizer.quality import SizeBounds
from tidegate.runtime.costs.estimate import in_running_order
from tidegate.runtime.resources.choose_sizes import Sizes
from tidegate.runtime.stage import FromStage
from tidegate.runtime.stage_graph import StageGraph
from tidegate.time import BEGINNING, FOREVER
from tidegate.values import value

CHANGED_LOAD = 0.15
"""Relative change of the rate of all streams together from which on the load is another one."""


@value
class Fullness:
    """What decides how full windows are."""

    since: Mapping[int, int] = field(default_factory=dict)
    """The instant from which each stage got elements."""
    sizes: tuple[tuple[int, Sizes], ...] = ()
    """Sizes of windows, with the instants from which they were in force; the first ones also before."""
    load: Mapping[str, float] = field(default_factory=dict)
    """Rates of the streams when the load last changed."""
    load_since: int = BEGINNING
    """The instant of that change."""

    def in_graph(self, numbers: Collection[int], now: int) -> Fullness:
        """Return the fullness in a graph with stages of these numbers; those that are new get elements from now on."""
        return replace(self, since={number: self.since.get(number, now) for number in numbers})

    def with_sizes(self, now: int, sizes: Sizes, longest: int) -> Fullness:
        """Return the fullness when sizes are in force from now on; those of elements that are gone are forgotten."""
        if not self.sizes:
            return replace(self, sizes=((now, sizes),))
        if self.sizes[-1][1] == sizes:
            return self
        needed = [each for each, after in pairwise(self.sizes) if after[0] > now - longest]
        return replace(self, sizes=(*needed, self.sizes[-1], (now, sizes)))

    def with_load(self, now: int, rates: Mapping[str, float]) -> Fullness:
        """Return the fullness with the rates of now; those of new streams change nothing for the others."""
        before, after = (sum(each[name] for name in self.load.keys() & rates.keys()) for each in (self.load, rates))
        if abs(after - before) <= CHANGED_LOAD * before:
            return replace(self, load={**rates, **self.load})
        return replace(self, load=rates, load_since=now)

    def sizes_at(self, time: float, bounds: Mapping[str, SizeBounds]) -> dict[str, float]:
        """Return the sizes of windows that hold as much as the windows hold at a time.

        Examples
        --------
        >>> halved = Fullness().with_sizes(0, {"w": 60}, 60).with_sizes(100, {"w": 30}, 60)
        >>> [halved.sizes_at(time, {"w": SizeBounds(60, 10, "range")})["w"] for time in (100, 130, 145, 160)]
        [60, 60, 45, 30]
        """
        return {key: self._size_at(time, key, each) for key, each in bounds.items() if key in self.sizes[-1][1]}

    def _size_at(self, time: float, key: str, bounds: SizeBounds) -> float:
        known = [(instant, sizes.get(key, bounds.best)) for instant, sizes in self.sizes]
        if bounds.kind != "range":
            return known[-1][1]
        begins = [BEGINNING, *(instant for instant, _ in known[1:]), FOREVER]
        held = (
            max(min(end, time) - max(begin, time - size), 0)
            for (_, size), (begin, end) in zip(known, pairwise(begins), strict=True)
        )
        return sum(held)

    def ages(self, time: float, longest: int) -> dict[int, float]:
        """Return how long stages had got elements at a time, of those whose windows may not have been full."""
        found = {number: time - since for number, since in self.since.items()}
        return {number: max(age, 1.0) for number, age in found.items() if age < longest}

    def learnable(self, graph: StageGraph, now: int, longest: int) -> frozenset[int]:
        """Return the stages that hold only elements of the load of now. Those that read streams hold none."""
        if now - self.load_since >= longest:
            return graph.numbers
        found: set[int] = set()
        for stage in in_running_order(graph):
            below = {feed.stage for feed in stage.feeds if isinstance(feed, FromStage)}
            is_new = self.since.get(stage.number, BEGINNING) >= self.load_since
            if stage.level == 0 or (is_new and below <= found):
                found.add(stage.number)
        return frozenset(found)
