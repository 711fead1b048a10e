"""Window join of two streams that makes the most productive comparisons within a budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Columns, Floats, Ints, Mask
from tidegate.physical.shedding.kernels.budget import best_first, shares
from tidegate.physical.shedding.kernels.evidence import Estimate, Tally, estimate
from tidegate.physical.shedding.kernels.random_choice import chosen, key_of, rounded
from tidegate.physical.similarity_join.kernels.conditions import Anything
from tidegate.physical.similarity_join.kernels.matching import Predicate, blocks, matches
from tidegate.physical.similarity_join.kernels.model import Answer, Settings
from tidegate.physical.similarity_join.kernels.pairs import Found
from tidegate.physical.similarity_join.kernels.slots import Arrivals, Slot, merged, slots_of
from tidegate.physical.similarity_join.kernels.tasks import Cell, Slots, Task, frequencies, tasks_of, volumes

Limits = tuple[int, int]

Own = tuple[Mask, Mask]
"""New elements of each stream that this bucket keeps."""


class Work(NamedTuple):
    """Comparisons that new elements need, and their expected yield."""

    new: tuple[Slots, Slots]
    kept: tuple[Slots, Slots]
    """New elements that this bucket keeps."""
    tasks: list[Task]
    cells: list[Cell]
    volume: Ints
    """Comparisons of each cell."""
    cost: Floats
    """Units per comparison of each cell."""
    known: Estimate

    @property
    def units(self) -> float:
        """Return the cost of all comparisons."""
        return float((self.volume * self.cost).sum())


@dataclass(frozen=True, slots=True, eq=False)
class SheddingJoin:
    """Elements of both streams that may still meet others, and the results of comparisons so far."""

    settings: Settings
    slots: tuple[Slots, Slots]
    tally: Tally
    """Decayed counts."""
    batch: int = 0

    @classmethod
    def empty(cls, settings: Settings) -> SheddingJoin:
        return cls(settings, ({}, {}), Tally.empty(settings.reach, settings.kinds))

    def step(
        self,
        arrivals: tuple[Arrivals, Arrivals],
        watermarks: Limits,
        budget: float | None = None,
        *,
        own: Own | None = None,
        predicate: Predicate | None = None,
        tally: Tally | None = None,
        stop: Callable[[], bool] | None = None,
        limit: int | None = None,
    ) -> tuple[SheddingJoin, Answer]:
        """Process new elements of both streams, and compare as much as the budget of units allows.

        Without a budget, or if it is enough, all pairs are compared. `predicate` checks the pairs that match. If
        several buckets get all new elements, `own` are those that this bucket keeps. Kept elements are compared with
        all new ones of the other stream, and new elements with the new ones of the right stream that this bucket keeps.
        `tally` replaces the join's own counts if these are collected from several buckets. The best comparisons come
        first. Before each call of a kernel, `stop` or the `limit` of calls can end the step.
        """
        settings, work = self.settings, self.work(arrivals, own=own, tally=tally)
        lag = np.array([cell.lag for cell in work.cells], np.int64)
        value = self._values(work.cells, work.known)
        explore = settings.explore_at_first if self.batch < settings.reach else settings.explore
        planned = shares(value, work.volume * work.cost, lag, np.inf if budget is None else budget, explore)
        made = dict(zip(work.cells, planned.made.tolist(), strict=True))
        rank = {work.cells[cell]: place for place, cell in enumerate(best_first(value, lag).tolist())}
        run = _Run(settings, self.batch, predicate)
        for task in sorted(work.tasks, key=lambda each: (rank[each.cell], each.name)):
            if (limit is not None and run.calls >= limit) or (stop is not None and stop()):
                break
            run.perform(task, made[task.cell])
        after = (tally or self.tally).followed_by(run.tally)
        # Estimate missed results from the counts after the step: before the first step there are none.
        answer = run.answer(work.cells, work.volume, planned.price, self._estimate(after, work.kept))
        return self._after(work.kept, watermarks, after, changed=answer.compared > 0), answer

    def work(self, arrivals: tuple[Arrivals, Arrivals], *, own: Own | None = None, tally: Tally | None = None) -> Work:
        """Return all comparisons that new elements need; see `step`."""
        width, reach = self.settings.width, self.settings.reach
        new = kept = (slots_of(arrivals[0], width), slots_of(arrivals[1], width))
        if own is not None:
            left, right = (each.take(np.flatnonzero(mask)) for each, mask in zip(arrivals, own, strict=True))
            kept = (slots_of(left, width), slots_of(right, width))
        tasks = tasks_of(new, self.slots, kept[1], reach)
        cells, volume = volumes(tasks)
        known = self._estimate(tally or self.tally, kept)
        cost = known.cost[np.array([cell.lag for cell in cells], np.int64) + reach]
        return Work(new, kept, tasks, cells, volume, cost, known)

    def forget(self, watermarks: Limits) -> SheddingJoin:
        """Return the join without the elements that later ones cannot meet."""
        left, right = (_kept(self.slots[stream], {}, watermarks[1 - stream]) for stream in (0, 1))
        return SheddingJoin(self.settings, (left, right), self.tally, self.batch)

    def to_columns(self) -> Mapping[str, Columns]:
        """Return the state as named, immutable parts. The parts of an unchanged slot are the same objects."""
        parts: dict[str, Columns] = {"batch": {"number": np.array([self.batch])}, **self.tally.columns()}
        for stream in (0, 1):
            for number, slot in self.slots[stream].items():
                parts[f"slot{stream}/{number}"] = slot.columns
                if slot.items:
                    parts[f"items{stream}/{number}"] = slot.items
        return parts

    @classmethod
    def from_columns(cls, parts: Mapping[str, Columns], settings: Settings) -> SheddingJoin:
        slots: tuple[dict[int, Slot], dict[int, Slot]] = ({}, {})
        for name in parts:
            if name.startswith("slot"):
                place = name.removeprefix("slot")
                stream, number = map(int, place.split("/"))
                slots[stream][number] = Slot(parts[name], parts.get(f"items{place}", {}))
        return cls(settings, slots, Tally.from_columns(parts), int(parts["batch"]["number"][0]))

    def _estimate(self, tally: Tally, new: tuple[Slots, Slots]) -> Estimate:
        return estimate(tally, self._worth(new), prior=self.settings.prior, pool=self.settings.pool)

    def _worth(self, new: tuple[Slots, Slots]) -> Floats:
        """Return the utility of a match of each stream's kinds, if matches do not depend on kinds."""
        utilities = self.settings.utilities
        if utilities is None:
            return np.ones((2, 1))
        kinds = np.arange(utilities.kinds)
        pairs = utilities.of_pairs(kinds[:, None], kinds[None, :])
        left, right = (frequencies(self.slots[stream], new[stream], len(kinds)) for stream in (0, 1))
        return np.stack([pairs @ right, left @ pairs])

    def _values(self, cells: list[Cell], known: Estimate) -> Floats:
        """Return the value of a unit of each cell."""
        reach = self.settings.reach
        lag, stream, kind = np.array(cells, np.int64).reshape(-1, 3).T
        return known.density[lag + reach] * known.worth[stream, kind] / known.cost[lag + reach]

    def _after(self, new: tuple[Slots, Slots], watermarks: Limits, tally: Tally, *, changed: bool) -> SheddingJoin:
        """Return the state after a batch. Counts decay only if anything was compared."""
        left, right = (_kept(self.slots[stream], new[stream], watermarks[1 - stream]) for stream in (0, 1))
        known = tally.decayed(self.settings.decay) if changed else tally
        return SheddingJoin(self.settings, (left, right), known, self.batch + 1)


class _Run:
    """Comparisons of one step, task by task."""

    def __init__(self, settings: Settings, batch: int, predicate: Predicate | None) -> None:
        self.settings, self.batch, self.predicate = settings, batch, predicate
        self.tally = Tally.empty(settings.reach, settings.kinds)
        self.made: dict[Cell, int] = {}
        self.found: list[tuple[Ints, ...]] = []
        self.calls = 0
        self.began = perf_counter()

    def perform(self, task: Task, share: float) -> None:
        rows = task.rows
        if share < 1.0:
            key = key_of(self.settings.seed, self.batch, *task.name)
            rows = chosen(rows, task.probing.row, rounded(share * len(rows), key), key)
        if not len(rows):
            return
        self.calls += 1
        if isinstance(self.settings.condition, Anything):
            for block in blocks(rows, len(task.stored)):
                self._compare(task, block)
        else:
            self._compare(task, rows)

    def _compare(self, task: Task, rows: Ints) -> None:
        flipped = task.cell.stream == 1
        condition, method, lookup = self.settings.condition, self.settings.method, self.settings.lookup
        found = matches(condition, method, task.probing, rows, task.stored, flipped=flipped, lookup=lookup)
        one, other = (task.stored, task.probing) if flipped else (task.probing, task.stored)
        left, right = found.pairs[:, 1 if flipped else 0], found.pairs[:, 0 if flipped else 1]
        if self.predicate is not None and len(left):
            mask = self.predicate(one.row[left], other.row[right])
            left, right = left[mask], right[mask]
        self._count(task, found, one.kind[left], other.kind[right])
        if len(left):
            start = np.maximum(one.times.start[left], other.times.start[right])
            end = np.minimum(one.times.end[left], other.times.end[right])
            self.found.append((one.row[left], other.row[right], start, end))

    def _count(self, task: Task, found: Found, left: Ints, right: Ints) -> None:
        tally, cell, place = self.tally, task.cell, task.cell.lag + self.settings.reach
        self.made[cell] = self.made.get(cell, 0) + found.compared
        tally.matches[place] += len(left)
        tally.made[place, cell.stream, cell.kind] += found.compared
        tally.units[place] += found.units
        utilities = self.settings.utilities
        worth = float(len(left))
        if utilities is not None and len(left):
            worth = float(utilities.of_pairs(left, right).cumsum()[-1])
        tally.utility[place, cell.stream, cell.kind] += worth

    def answer(self, cells: list[Cell], volume: Ints, price: float, known: Estimate) -> Answer:
        none = (np.empty(0, np.int64),) * 4
        left, right, start, end = (np.concatenate(each) for each in zip(none, *self.found, strict=True))
        made = np.array([self.made.get(cell, 0) for cell in cells], np.int64)
        lag, stream, kind = np.array(cells, np.int64).reshape(-1, 3).T
        missed = (volume - made) * known.measured[lag + self.settings.reach]
        worth = float((missed * known.worth[stream, kind]).sum())
        return Answer(
            left,
            right,
            start,
            end,
            tally=self.tally,
            compared=int(made.sum()),
            volume=int(volume.sum()),
            units=int(self.tally.units.sum()),
            calls=self.calls,
            missed=float(missed.sum()),
            missed_utility=worth,
            price=price,
            seconds=perf_counter() - self.began,
        )


def _kept(old: Slots, new: Slots, watermark: int) -> dict[int, Slot]:
    """Return the slots that elements starting at the watermark or later may still meet."""
    together = dict(old)
    for number, slot in new.items():
        together[number] = merged(together[number], slot) if number in together else slot
    return {number: slot for number, slot in together.items() if slot.extent[3] > watermark}
