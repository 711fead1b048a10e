"""Proofs by cases: halve boxes until the claim is decided in every one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidegate.arrays import Mask
from tidegate.expressions.shape.enclose import Box
from tidegate.expressions.shape.intervals import Interval, Numbers
from tidegate.values import value

_LEAST = 50  # fewer boxes than this take as long as this number
_MANY = 4_000  # with more boxes than this, only the widest side is cut
_BETTER = 0.9  # another cut is preferred to the widest side if it reduces the doubt by this factor
_ROUNDS = 40  # after this number of halvings, some point is probably undecidable
_WIDE = 1e4  # intervals whose ends are further apart than this, relatively, are halved by order of magnitude
_DECADE, _FARTHEST = 10.0, 1e300
_MAGNITUDES = 40.0  # assumed width of an unbounded interval, in magnitudes


@value
class BoxVerdicts:
    """Verdicts on boxes: where a claim is known to hold, the doubt elsewhere, and whether it fails somewhere."""

    known: Mask
    doubt: Numbers
    fails: bool = False


Judge = Callable[[Box], BoxVerdicts]


@value
class _BoxCorners:
    """Lower and upper corners: a row per box, a column per name."""

    low: Numbers
    high: Numbers

    def __len__(self) -> int:
        return len(self.low)

    def __getitem__(self, mask: Mask) -> _BoxCorners:
        return _BoxCorners(self.low[mask], self.high[mask])

    def halve(self, sides: npt.NDArray[np.int64]) -> _BoxCorners:
        """Return the lower halves of all boxes, then the upper halves."""
        rows = np.arange(len(self))
        cut = _cut_point(self.low[rows, sides], self.high[rows, sides])
        upper, lower = self.low.copy(), self.high.copy()
        upper[rows, sides], lower[rows, sides] = cut, cut
        return _BoxCorners(np.concatenate([self.low, upper]), np.concatenate([lower, self.high]))


@dataclass(slots=True)
class Budget:
    """The number of boxes that may still be examined."""

    left: int

    def take(self, boxes: int) -> None:
        self.left -= max(boxes, _LEAST)


def holds_everywhere(box: Box, judge: Judge, budget: Budget) -> bool:
    """Return whether a claim is proved in all of a box, within the budget."""
    names = list(box.columns)
    boxes = _BoxCorners(
        np.array([[box[name].low[0] for name in names]]), np.array([[box[name].high[0] for name in names]])
    )
    span = _width(boxes.low, boxes.high)
    judged = _judge_boxes(judge, box, boxes, budget)
    for _ in range(_ROUNDS):
        if judged.fails or budget.left < 0:
            return False
        boxes = boxes[~judged.known]
        if not len(boxes):
            return True
        divisible = _can_divide(boxes.low, boxes.high)
        if not divisible.any(axis=1).all():
            return False
        share = np.where(divisible, _width(boxes.low, boxes.high) / np.where(span > 0, span, 1.0), -1.0)
        boxes, judged = _divide_boxes(boxes, share, judge, box, budget)
    return False


def _divide_boxes(
    boxes: _BoxCorners, share: Numbers, judge: Judge, around: Box, budget: Budget
) -> tuple[_BoxCorners, BoxVerdicts]:
    """Cut each box in two where this leaves the least doubt, or at its widest side."""
    many, sides = share.shape
    widest = share.argmax(axis=1)
    if sides == 1 or many * sides > _MANY:
        halves = boxes.halve(widest)
        return halves, _judge_boxes(judge, around, halves, budget)
    ways = [boxes.halve(np.full(many, i)) for i in range(sides)]
    judged = [_judge_boxes(judge, around, way, budget) for way in ways]
    doubt = np.stack([np.maximum(j.doubt[:many], j.doubt[many:]) for j in judged], axis=1)
    doubt = np.where(np.isnan(doubt) | (share <= 0), np.inf, doubt)
    tied = ~(doubt.min(axis=1) < _BETTER * doubt[np.arange(many), widest])
    chosen = np.tile(np.where(tied, widest, doubt.argmin(axis=1)), 2)
    rows = np.arange(2 * many)
    known = np.stack([j.known for j in judged])[chosen, rows]
    low, high = np.stack([w.low for w in ways])[chosen, rows], np.stack([w.high for w in ways])[chosen, rows]
    return _BoxCorners(low, high), BoxVerdicts(known, np.zeros(0), fails=any(j.fails for j in judged))


def _judge_boxes(judge: Judge, around: Box, boxes: _BoxCorners, budget: Budget) -> BoxVerdicts:
    budget.take(len(boxes))
    columns = {name: Interval(boxes.low[:, i], boxes.high[:, i]) for i, name in enumerate(around.columns)}
    found = judge(Box(columns, around.given))
    shape = len(boxes)
    return BoxVerdicts(np.broadcast_to(found.known, shape), np.broadcast_to(found.doubt, shape), fails=found.fails)


def _can_divide(low: Numbers, high: Numbers) -> npt.NDArray[np.bool_]:
    middle = _cut_point(low, high)
    return np.asarray((low < middle) & (middle < high) & (np.abs(middle) < _FARTHEST))


def _cut_point(low: Numbers, high: Numbers) -> Numbers:
    """Return the cut: 0, ±1 or a power of ten if an end is infinite, else the middle.

    The middle of a wide interval is that by magnitude.
    """
    small, large = np.minimum(np.abs(low), np.abs(high)), np.maximum(np.abs(low), np.abs(high))
    plain = low + (high - low) / 2
    scaled = np.sinh((np.arcsinh(low) + np.arcsinh(high)) / 2)
    finite = np.where(large > _WIDE * np.maximum(small, 1.0), scaled, plain)
    outward = np.where(small < 1, 1.0, small * _DECADE) * np.where(low >= 0, 1.0, -1.0)
    infinite = np.where((low < 0) & (high > 0), 0.0, outward)
    return np.where(np.isinf(large), infinite, finite)


def _width(low: Numbers, high: Numbers) -> Numbers:
    """Return the width of an interval, on the scale on which it is halved."""
    bounded = np.isfinite(low) & np.isfinite(high)
    magnitudes = np.clip(np.arcsinh(high), -_MAGNITUDES, _MAGNITUDES) - np.clip(
        np.arcsinh(low), -_MAGNITUDES, _MAGNITUDES
    )
    return np.where(bounded, np.minimum(high - low, np.finfo(float).max), magnitudes)
