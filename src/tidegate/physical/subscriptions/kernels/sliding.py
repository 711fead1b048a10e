"""Track totals in ranges within a sliding window: an element counts until it is as old as the window is long.

A subscription counts elements from a number on; element numbers never restart. In one pass over a batch, all
subscriptions count what is added and what expires. Only those that the added weight could complete are checked element
by element.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from tidegate.physical.common.arrays import Columns, Floats, Ints, Mask
from tidegate.physical.subscriptions.kernels.model import (
    CompletedSubscriptions,
    Subscriptions,
    WeightedElements,
    sort_completions,
)
from tidegate.physical.subscriptions.kernels.sliding_chunks import (
    CountingState,
    SubscriptionChunk,
    chunk_of,
    restore_chunk,
)
from tidegate.physical.subscriptions.kernels.sliding_model import (
    FIRST,
    NumberedElements,
    SlidingSettings,
    SubscriptionTotals,
    closed_boxes_of,
    cuts_of,
    points_of,
)
from tidegate.physical.subscriptions.kernels.sliding_search import CompletionColumns, Search, Stretch, events_of
from tidegate.physical.subscriptions.kernels.sliding_weights import line_of
from tidegate.physical.subscriptions.kernels.sliding_window import SlidingWindow, restore_window_chunk

_DEFAULT = SlidingSettings()

_DIRECTORY = ("number", "settled", "time", "slack")


@dataclass(slots=True, eq=False)
class SlidingTracker:
    """Tracker that counts elements in batches; it is changed in place."""

    dimensions: int
    keyed: bool
    repeats: bool
    settings: SlidingSettings
    window: SlidingWindow
    chunks: list[SubscriptionChunk] = field(default_factory=list)
    next_number: int = 0
    """Number of the next element."""
    pushed: int = 0
    """Number of chunks of subscriptions made so far; it numbers them."""
    by_id: dict[int, Ints] = field(default_factory=dict)
    """Rows of a chunk in the order of id, built when an id is first looked up."""
    written: dict[str, Columns] = field(default_factory=dict)
    """Small parts of the state as they were last saved."""

    @classmethod
    def empty(
        cls,
        dimensions: int,
        length: int,
        *,
        keyed: bool = False,
        repeats: bool = False,
        settings: SlidingSettings = _DEFAULT,
    ) -> SlidingTracker:
        """Return a tracker without subscriptions; if it is keyed, the first dimension is the key."""
        return cls(dimensions, keyed, repeats, settings, SlidingWindow(length, dimensions))

    def __len__(self) -> int:
        return sum(chunk.live for chunk in self.chunks)

    def copy(self) -> SlidingTracker:
        return replace(self, chunks=list(self.chunks), by_id=dict(self.by_id), written=dict(self.written))

    def register(self, ranges: Subscriptions) -> SlidingTracker:
        self._add_subscriptions(ranges, np.full(len(ranges), self.next_number))
        return self

    def live_subscriptions(self) -> tuple[Subscriptions, Ints]:
        """Return the live subscriptions, as closed ranges of places, and what they lack now."""
        self.chunks = [self._settle_chunk(chunk) for chunk in self.chunks]
        ids, queries = _concat_subscriptions([chunk.live_subscriptions() for chunk in self.chunks], self.dimensions)
        closed = np.zeros(queries.low.T.shape, np.bool_)
        low, high = (cast("Floats", ends.T) for ends in (queries.low, queries.high))
        ranges = Subscriptions(ids, low, high, closed, closed, queries.threshold)
        return ranges, queries.threshold - queries.total

    def are_live(self, ids: Ints) -> Mask:
        """Return which of the ids are live."""
        found = np.zeros(len(ids), np.bool_)
        for chunk in self.chunks:
            found |= self._rows_of_ids(chunk, ids) >= 0
        return found

    def terminate(self, ids: Ints) -> tuple[SlidingTracker, Mask]:
        """Drop the subscriptions with these ids; return which were live, only the first time for a repeated id."""
        found, first = np.zeros(len(ids), np.bool_), np.zeros(len(ids), np.bool_)
        first[np.unique(ids, return_index=True)[1]] = True
        for at, chunk in enumerate(self.chunks):
            row = self._rows_of_ids(chunk, ids)
            here = first & (row >= 0)
            if here.any():
                self.chunks[at] = chunk.without_rows(row[here])
                found |= here
        self._tidy_chunks()
        return self, found

    def absorb_with(
        self, elements: WeightedElements, time: Ints, ranges: Subscriptions, position: Ints
    ) -> tuple[SlidingTracker, CompletedSubscriptions]:
        """Count the next elements, and register ranges among them, each before the element at its position.

        Times and positions are ascending. The result is the same as if the batch were cut at all positions.
        """
        self._add_subscriptions(ranges, self.next_number + np.asarray(position, np.int64))
        rows, times = len(elements), np.ascontiguousarray(time, np.int64)
        counted = NumberedElements(points_of(elements), np.arange(self.next_number, self.next_number + rows))
        answers: list[CompletionColumns] = []
        for begin, end in cuts_of(counted.points.weight, self.settings.cut):
            ids, element, total = self._absorb_cut(counted.part(begin, end), times[begin:end])
            answers.append((ids, element + begin, total))
        return self, sort_completions(*_concat_completions(answers))

    def to_columns(self) -> Mapping[str, Columns]:
        """Return the state in named parts that never change; an equal part is the same object as last time."""
        state = {"dimensions": self.dimensions, "keyed": self.keyed, "repeats": self.repeats, "pushed": self.pushed}
        state |= {"following": self.next_number, "length": self.window.length, "now": self.window.now}
        small: dict[str, Columns] = {
            "tracker": {name: np.array([value], np.int64) for name, value in state.items()},
            "remembered": {"pushed": np.array([self.window.pushed])},
            "chunks": self._chunk_directory(),
            "window": {"number": np.array([chunk.number for chunk in self.window.chunks], np.int64)},
        }
        self.written = {name: _same_or_new(self.written.get(name), columns) for name, columns in small.items()}
        parts = dict(self.written)
        for chunk in self.chunks:
            parts |= {f"chunk {chunk.number} {name}": columns for name, columns in chunk.parts.items()}
        return parts | {f"window {chunk.number}": chunk.columns for chunk in self.window.chunks}

    @classmethod
    def from_columns(cls, parts: Mapping[str, Columns], settings: SlidingSettings = _DEFAULT) -> SlidingTracker:
        state = {name: int(column[0]) for name, column in parts["tracker"].items()}
        dimensions, keyed = state["dimensions"], bool(state["keyed"])
        numbers = parts["window"]["number"].tolist()
        remembered = tuple(restore_window_chunk(each, parts[f"window {each}"], dimensions) for each in numbers)
        pushed = int(parts["remembered"]["pushed"][0])
        chunks = []
        for number, *settled in zip(*(parts["chunks"][name].tolist() for name in _DIRECTORY), strict=True):
            own = {name: parts[f"chunk {number} {name}"] for name in ("queries", "since", "totals", "gone")}
            chunks.append(restore_chunk(number, own, CountingState(*settled), dimensions, keyed=keyed))
        window = SlidingWindow(state["length"], dimensions, state["now"], pushed, remembered)
        told = {name: parts[name] for name in ("tracker", "remembered", "chunks", "window")}
        which = (dimensions, keyed, bool(state["repeats"]), settings, window, chunks)
        return cls(*which, state["following"], state["pushed"], written=told)

    def _chunk_directory(self) -> Columns:
        rows = np.array([(chunk.number, *chunk.settled) for chunk in self.chunks], np.int64).reshape(-1, 4)
        return {name: rows[:, column].copy() for column, name in enumerate(_DIRECTORY)}

    def _absorb_cut(self, added: NumberedElements, time: Ints) -> CompletionColumns:
        """Count for the chunks in which a subscription may complete, or that have deferred counting for long."""
        weight, now = int(added.points.weight.sum()), int(time[-1])
        long_ago = now - self.settings.patience * self.window.length
        due = [c.settled.slack <= weight or c.settled.time <= long_ago for c in self.chunks]
        chunks = self.chunks
        self.chunks = [self._settle_chunk(chunk) for chunk, is_due in zip(chunks, due, strict=True) if is_due]
        found = self._absorb_in_due_chunks(added, time)
        self.next_number += len(time)
        counted = iter([chunk.mark_settled_at(self.next_number, now) for chunk in self.chunks])
        both = zip(chunks, due, strict=True)
        self.chunks = [next(counted) if is_due else chunk.defer_weight(weight) for chunk, is_due in both]
        self._tidy_chunks()
        floor = min((chunk.settled.time for chunk in self.chunks), default=now)
        self.window = self.window.advance(added, time, self._are_in_live_range(added), floor, self.settings.most)
        return found

    def _settle_chunk(self, chunk: SubscriptionChunk) -> SubscriptionChunk:
        """Return the chunk with all earlier elements counted."""
        number, time, _ = chunk.settled
        if number == self.next_number:
            return chunk
        return chunk.with_changes(*self.window.changes_since(number, time)).mark_settled_at(
            self.next_number, self.window.now
        )

    def _absorb_in_due_chunks(self, added: NumberedElements, time: Ints) -> CompletionColumns:
        if not self.chunks:
            none = np.empty(0, np.int64)
            return none, none, none
        expiring, times = self.window.expiring_elements(added, time)
        horizon = np.maximum(time, FIRST + self.window.length) - self.window.length
        over = np.searchsorted(times, horizon, side="right")
        if 8 * over[0] > len(time):  # much expires before the first element: count it first, for a tighter bound
            early, expiring = expiring.part(0, int(over[0])), expiring.part(int(over[0]), len(times))
            self.chunks = [chunk.with_changes(added.part(0, 0), early) for chunk in self.chunks]
            over -= over[0]
        stretch = Stretch(added, expiring, over)
        return self._find_completions(stretch, self._count_stretch(stretch))

    def _count_stretch(self, stretch: Stretch) -> list[Ints]:
        """Return the rows of each chunk that may become complete; for all others, count additions and expirations."""
        added = line_of(stretch.added.points, keyed=self.keyed)
        expiring = line_of(stretch.expiring.points, keyed=self.keyed)
        rows = []
        for at, chunk in enumerate(self.chunks):
            more, less = chunk.weights(stretch.added, added), chunk.weights(stretch.expiring, expiring)
            self.chunks[at], may = chunk.apply_weights(more, less)
            rows.append(may)
        return rows

    def _find_completions(self, stretch: Stretch, rows: list[Ints]) -> CompletionColumns:
        """Check rows of the chunks element by element."""
        looked = [(chunk.ids[row], chunk.subscriptions.take(row)) for chunk, row in zip(self.chunks, rows, strict=True)]
        ids, queries = _concat_subscriptions(looked, self.dimensions)
        if len(ids) == 0:
            return ids, ids, ids
        done = np.zeros(len(ids), np.bool_)
        search = Search(queries, done, stretch, events_of(stretch), self.repeats, self.keyed, self.settings)
        row, element, total = search.find_all()
        begin = 0
        for at, here in enumerate(rows):
            part = slice(begin, begin + len(here))
            if len(here):
                self.chunks[at] = _update_chunk(
                    self.chunks[at], here, queries.total[part], queries.since[part], done[part]
                )
            begin += len(here)
        return ids[row], element, total

    def _are_in_live_range(self, added: NumberedElements) -> Mask:
        """Return which elements may be in a live range; no other element needs to be kept."""
        answer, line = np.zeros(len(added.number), np.bool_), line_of(added.points, keyed=self.keyed)
        for chunk in self.chunks:
            chunk.mark_elements(line, answer)
        return answer

    def _add_subscriptions(self, ranges: Subscriptions, since: Ints) -> None:
        """Make a chunk of these subscriptions and of the chunks that are not much larger than all that follow them."""
        if len(ranges) == 0:
            return
        threshold = np.array(ranges.threshold, np.int64)
        new = SubscriptionTotals(
            *closed_boxes_of(ranges, keyed=self.keyed), threshold, np.zeros(len(ranges), np.int64), since
        )
        place, behind = len(self.chunks), len(ranges)
        for at in reversed(range(len(self.chunks))):
            live = self.chunks[at].live
            place = at if live <= self.settings.share * behind else place
            behind += live
        rest = [self._settle_chunk(chunk).live_subscriptions() for chunk in self.chunks[place:]]
        here = CountingState(self.next_number, self.window.now, 0)
        chunk = self._make_chunk([*rest, (np.array(ranges.id, np.int64), new)], here)
        self.chunks[place:] = [chunk.mark_settled_at(here.number, here.time)]

    def _make_chunk(self, rest: list[tuple[Ints, SubscriptionTotals]], settled: CountingState) -> SubscriptionChunk:
        self.pushed += 1
        return chunk_of(self.pushed, rest, settled, keyed=self.keyed)

    def _tidy_chunks(self) -> None:
        """Rebuild chunks that have lost half of their subscriptions."""
        lean = [2 * chunk.live < len(chunk.ids) for chunk in self.chunks]
        if any(lean):
            pairs = [(chunk, is_lean) for chunk, is_lean in zip(self.chunks, lean, strict=True) if chunk.live]
            self.chunks = [
                self._make_chunk([c.live_subscriptions()], c.settled) if is_lean else c for c, is_lean in pairs
            ]
        numbers = {chunk.number for chunk in self.chunks}
        self.by_id = {number: order for number, order in self.by_id.items() if number in numbers}

    def _rows_of_ids(self, chunk: SubscriptionChunk, ids: Ints) -> Ints:
        if chunk.number not in self.by_id:
            self.by_id[chunk.number] = np.argsort(chunk.ids, kind="stable").astype(np.int32)
        return chunk.find_rows(self.by_id[chunk.number], ids)


def _update_chunk(chunk: SubscriptionChunk, rows: Ints, total: Ints, since: Ints, done: Mask) -> SubscriptionChunk:
    """Return the chunk with new totals and `since` of some rows, and without those that are done."""
    totals, begins = chunk.subscriptions.total.copy(), chunk.subscriptions.since.copy()
    totals[rows], begins[rows] = total, since
    chunk = chunk.with_totals(totals)
    if (since != chunk.subscriptions.since[rows])[~done].any():
        chunk = chunk.with_since(begins)
    return chunk.without_rows(rows[done]) if done.any() else chunk


def _concat_subscriptions(
    parts: list[tuple[Ints, SubscriptionTotals]], dimensions: int
) -> tuple[Ints, SubscriptionTotals]:
    none, no_ends = np.empty(0, np.int64), np.empty((dimensions, 0), np.int64)
    parts = [(none, SubscriptionTotals(no_ends, no_ends, none, none, none)), *parts]
    columns = zip(*(queries for _, queries in parts), strict=True)
    return np.concatenate([ids for ids, _ in parts]), SubscriptionTotals(
        *(np.concatenate(each, axis=-1) for each in columns)
    )


def _concat_completions(answers: list[CompletionColumns]) -> CompletionColumns:
    none = np.empty(0, np.int64)
    ids, element, total = (np.concatenate([none, *(answer[part] for answer in answers)]) for part in range(3))
    return ids, element, total


def _same_or_new(told: Columns | None, columns: Columns) -> Columns:
    if told is None or any(not np.array_equal(told[name], column) for name, column in columns.items()):
        return columns
    return told
