"""Compile all kernels of a kind of tracker before data arrives."""

from __future__ import annotations

import numpy as np

from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.operator import NO_STATE
from tidegate.physical.subscriptions.kernels.model import Subscriptions, WeightedElements
from tidegate.physical.subscriptions.tracker import SubscriptionTracker, TrackerKind, restore_tracker

_MANY = 600
"""Number of subscriptions that fills a piece, many of which complete at once."""


def compile_kernels(kind: TrackerKind) -> None:
    """Register, count and terminate, with few and with many completions, before and after the state is saved."""
    tracker = restore_tracker(kind, None, NO_STATE, {})
    _count_elements(tracker, _make_subscriptions(kind, 0, _MANY), 0)
    _count_elements(tracker, _make_subscriptions(kind, _MANY, 3), 1)
    tracker.are_live(np.arange(4))
    tracker.terminate(np.array([_MANY - 1]))
    loaded = restore_tracker(kind, None, tracker.chunks(), tracker.figures())
    _count_elements(loaded, _make_subscriptions(kind, 2 * _MANY, _MANY), 2)
    _count_elements(loaded, _make_subscriptions(kind, 0, 0), 3)
    loaded.chunks()


def _count_elements(tracker: SubscriptionTracker, ranges: Subscriptions, time: int) -> None:
    some = WeightedElements(_make_places(tracker.kind, 100), np.ones(100, np.int64))
    tracker.absorb(some, np.full(100, time), ranges, np.zeros(len(ranges), np.int64))


def _make_subscriptions(kind: TrackerKind, first: int, count: int) -> Subscriptions:
    low, opens = _make_places(kind, count), np.zeros((count, kind.dimensions), np.bool_)
    high: Ints = low + np.append([0] if kind.keyed else [], np.full(kind.dimensions - kind.keyed, 40)).astype(np.int64)
    # Every other subscription completes with the first element in its range.
    threshold = np.where(np.arange(count) % 2 == 0, 1, 10**9)
    closed: Mask = opens
    return Subscriptions(np.arange(first, first + count), low, high, closed, closed, threshold)


def _make_places(kind: TrackerKind, count: int) -> Ints:
    places = np.arange(count)[:, None] * np.arange(1, kind.dimensions + 1)[None, :] % 50
    if kind.keyed:
        places[:, 0] = np.arange(count) % 3
    return np.ascontiguousarray(places)
