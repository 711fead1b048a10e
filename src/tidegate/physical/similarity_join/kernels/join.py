"""Window join of two streams that makes the most productive comparisons within a budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Columns, Floats, Ints, Mask
from tidegate.physical.shedding.kernels.budget import best_first, divide_budget
from tidegate.physical.shedding.kernels.evidence import Estimate, Tally, estimate
from tidegate.physical.shedding.kernels.random_choice import choose_rows, key_of, round_randomly
from tidegate.physical.similarity_join.kernels.conditions import SameKey
from tidegate.physical.similarity_join.kernels.matching import Finder, Predicate, blocks, find_matches
from tidegate.physical.similarity_join.kernels.model import SimilarityJoinSettings, SimilarityStepResult
from tidegate.physical.similarity_join.kernels.pairs import MatchedPairs
from tidegate.physical.similarity_join.kernels.slots import Slot, SlotArrivals, merge_slots, split_into_slots
from tidegate.physical.similarity_join.kernels.tasks import Cell, Slots, Task, kind_shares, tasks_of, volume_by_cell

Limits = tuple[int, int]

Own = tuple[Mask, Mask]
"""New elements of each stream that this bucket keeps."""


class NeededComparisons(NamedTuple):
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
    estimate: Estimate

    @property
    def units(self) -> float:
        """Return the cost of all comparisons."""
        return float((self.volume * self.cost).sum())


@dataclass(frozen=True, slots=True, eq=False)
class SheddingJoin:
    """Elements of both streams that may still meet others, and the results of comparisons so far."""

    settings: SimilarityJoinSettings
    slots: tuple[Slots, Slots]
    tally: Tally
    """Decayed counts."""
    batch: int = 0

    @classmethod
    def empty(cls, settings: SimilarityJoinSettings) -> SheddingJoin:
        return cls(settings, ({}, {}), Tally.empty(settings.reach, settings.kinds))

    def step(
        self,
        arrivals: tuple[SlotArrivals, SlotArrivals],
        watermarks: Limits,
        budget: float | None = None,
        *,
        own: Own | None = None,
        predicate: Predicate | None = None,
        finder: Finder | None = None,
        tally: Tally | None = None,
        stop: Callable[[int], bool] | None = None,
    ) -> tuple[SheddingJoin, SimilarityStepResult]:
        """Process new elements of both streams, and compare as much as the budget of units allows.

        Without a budget, or if it is enough, all pairs are compared. `predicate` checks the pairs that match. If
        several buckets get all new elements, `own` are those that this bucket keeps. Kept elements are compared with
        all new ones of the other stream, and new elements with the new ones of the right stream that this bucket keeps.
        `finder` finds the pairs that the predicate has to check, if it knows more of them than the condition says.
        `tally` replaces the join's own counts if these are collected from several buckets. The best comparisons come
        first. Before each call of a kernel, `stop` can end the step; it gets the number of calls so far.
        """
        settings, work = self.settings, self.needed_comparisons(arrivals, own=own, tally=tally)
        lag = np.array([cell.lag for cell in work.cells], np.int64)
        value = self._cell_values(work.cells, work.estimate)
        explore = settings.explore_at_first if self.batch < settings.first_batches else settings.explore
        planned = divide_budget(value, work.volume * work.cost, lag, np.inf if budget is None else budget, explore)
        made = dict(zip(work.cells, planned.total.tolist(), strict=True))
        rank = {work.cells[cell]: place for place, cell in enumerate(best_first(value, lag).tolist())}
        run = _ComparisonRun(settings, self.batch, predicate, finder)
        for task in sorted(work.tasks, key=lambda each: (rank[each.cell], each.name)):
            if stop is not None and stop(run.calls):
                break
            run.perform(task, made[task.cell])
        after = (tally or self.tally).with_newer(run.tally)
        # Estimate missed results from the counts after the step: before the first step there are none.
        answer = run.build_result(work.cells, work.volume, planned.price, self._estimate(after, work.kept))
        return self._state_after(work.kept, watermarks, after, changed=answer.compared > 0), answer

    def needed_comparisons(
        self, arrivals: tuple[SlotArrivals, SlotArrivals], *, own: Own | None = None, tally: Tally | None = None
    ) -> NeededComparisons:
        """Return all comparisons that new elements need; see `step`."""
        width, reach = self.settings.width, self.settings.reach
        new = kept = (split_into_slots(arrivals[0], width), split_into_slots(arrivals[1], width))
        if own is not None:
            left, right = (each.take(np.flatnonzero(mask)) for each, mask in zip(arrivals, own, strict=True))
            kept = (split_into_slots(left, width), split_into_slots(right, width))
        tasks = tasks_of(new, self.slots, kept[1], reach, keyed=isinstance(self.settings.condition, SameKey))
        cells, volume = volume_by_cell(tasks)
        known = self._estimate(tally or self.tally, kept)
        cost = known.cost[np.array([cell.lag for cell in cells], np.int64) + reach]
        return NeededComparisons(new, kept, tasks, cells, volume, cost, known)

    def forget(self, watermarks: Limits) -> SheddingJoin:
        """Return the join without the elements that later ones cannot meet."""
        left, right = (_live_slots(self.slots[stream], {}, watermarks[1 - stream]) for stream in (0, 1))
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
    def from_columns(cls, parts: Mapping[str, Columns], settings: SimilarityJoinSettings) -> SheddingJoin:
        slots: tuple[dict[int, Slot], dict[int, Slot]] = ({}, {})
        for name in parts:
            if name.startswith("slot"):
                place = name.removeprefix("slot")
                stream, number = map(int, place.split("/"))
                slots[stream][number] = Slot(parts[name], parts.get(f"items{place}", {}))
        return cls(settings, slots, Tally.from_columns(parts), int(parts["batch"]["number"][0]))

    def _estimate(self, tally: Tally, new: tuple[Slots, Slots]) -> Estimate:
        return estimate(tally, self._expected_utility(new), prior=self.settings.prior, pool=self.settings.pool)

    def _expected_utility(self, new: tuple[Slots, Slots]) -> Floats:
        """Return the utility of a match of each stream's kinds, if matches do not depend on kinds."""
        utilities = self.settings.utilities
        if utilities is None:
            return np.ones((2, 1))
        kinds = np.arange(utilities.kinds)
        pairs = utilities.of_pairs(kinds[:, None], kinds[None, :])
        left, right = (kind_shares(self.slots[stream], new[stream], len(kinds)) for stream in (0, 1))
        return np.stack([pairs @ right, left @ pairs])

    def _cell_values(self, cells: list[Cell], known: Estimate) -> Floats:
        """Return the value of a unit of each cell."""
        reach = self.settings.reach
        lag, stream, kind = np.array(cells, np.int64).reshape(-1, 3).T
        return known.density[lag + reach] * known.utility[stream, kind] / known.cost[lag + reach]

    def _state_after(
        self, new: tuple[Slots, Slots], watermarks: Limits, tally: Tally, *, changed: bool
    ) -> SheddingJoin:
        """Return the state after a batch. Counts decay only if anything was compared."""
        left, right = (_live_slots(self.slots[stream], new[stream], watermarks[1 - stream]) for stream in (0, 1))
        known = tally.with_decay(self.settings.decay) if changed else tally
        return SheddingJoin(self.settings, (left, right), known, self.batch + 1)


class _ComparisonRun:
    """Comparisons of one step, task by task."""

    def __init__(
        self, settings: SimilarityJoinSettings, batch: int, predicate: Predicate | None, finder: Finder | None
    ) -> None:
        self.settings, self.batch, self.predicate, self.finder = settings, batch, predicate, finder
        self.tally = Tally.empty(settings.reach, settings.kinds)
        self.made: dict[Cell, int] = {}
        self.found: list[tuple[Ints, ...]] = []
        self.calls = 0
        self.began = perf_counter()

    def perform(self, task: Task, share: float) -> None:
        rows = task.rows
        if share < 1.0:
            key = key_of(self.settings.seed, self.batch, *task.name)
            rows = choose_rows(rows, task.probing.row, round_randomly(share * len(rows), key), key)
        if not len(rows):
            return
        self.calls += 1
        finder = self.finder or self._find_matches
        for block in blocks(self.settings.condition, task.probing, rows, task.stored):
            self._note_matches(task, finder(task.probing, block, task.stored, flipped=task.cell.stream == 1))

    def _find_matches(self, probing: Slot, rows: Ints, stored: Slot, *, flipped: bool) -> MatchedPairs:
        condition, method, lookup = self.settings.condition, self.settings.method, self.settings.lookup
        return find_matches(condition, method, probing, rows, stored, flipped=flipped, lookup=lookup)

    def _note_matches(self, task: Task, found: MatchedPairs) -> None:
        flipped = task.cell.stream == 1
        one, other = (task.stored, task.probing) if flipped else (task.probing, task.stored)
        left, right = found.pairs[:, 1 if flipped else 0], found.pairs[:, 0 if flipped else 1]
        if self.predicate is not None and len(left):
            mask = self.predicate(one.row[left], other.row[right])
            left, right = left[mask], right[mask]
        self._count_matches(task, found, one.kind[left], other.kind[right])
        if len(left):
            start = np.maximum(one.times.start[left], other.times.start[right])
            end = np.minimum(one.times.end[left], other.times.end[right])
            self.found.append((one.row[left], other.row[right], start, end))

    def _count_matches(self, task: Task, found: MatchedPairs, left: Ints, right: Ints) -> None:
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

    def build_result(self, cells: list[Cell], volume: Ints, price: float, known: Estimate) -> SimilarityStepResult:
        none = (np.empty(0, np.int64),) * 4
        left, right, start, end = (np.concatenate(each) for each in zip(none, *self.found, strict=True))
        made = np.array([self.made.get(cell, 0) for cell in cells], np.int64)
        lag, stream, kind = np.array(cells, np.int64).reshape(-1, 3).T
        missed = (volume - made) * known.measured[lag + self.settings.reach]
        worth = float((missed * known.utility[stream, kind]).sum())
        return SimilarityStepResult(
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


def _live_slots(old: Slots, new: Slots, watermark: int) -> dict[int, Slot]:
    """Return the slots that elements starting at the watermark or later may still meet."""
    together = dict(old)
    for number, slot in new.items():
        together[number] = merge_slots(together[number], slot) if number in together else slot
    return {number: slot for number, slot in together.items() if slot.extent[3] > watermark}
