"""The shape of an expression from the signs of its derivatives in all of a box."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate.expressions.nodes import Expression
from tidegate.expressions.shape.cover import Budget, Judged, holds_everywhere
from tidegate.expressions.shape.enclose import Box
from tidegate.expressions.shape.facts import NOTHING, Fact, closed
from tidegate.expressions.shape.intervals import Interval, Mask
from tidegate.expressions.shape.jets import Jet, jet
from tidegate.expressions.shape.samples import points

_CLAIMS = (Fact.RISING, Fact.FALLING, Fact.CONVEX, Fact.QUASICONVEX)
_WORDS = {Fact.RISING: "derivative", Fact.FALLING: "derivative", Fact.CONVEX: "second derivative"}
_MANY = 64


@dataclass(frozen=True, slots=True)
class Found:
    facts: Fact
    why: str = ""


def facts_by_slope(expression: Expression, variable: str, box: Box, budget: Budget, known: Fact) -> Found:
    """Return the first provable claim that is not known yet.

    A claim that cannot be proved at a single point cannot be proved in a box around it, so it is not tried.
    """
    seen = jet(expression, variable, points(box, _MANY))
    for claim in _CLAIMS[:2] if Fact.QUASICONVEX in known else _CLAIMS:
        if _judged(claim, seen).known.all() and (why := _prove(claim, expression, variable, box, budget)):
            return Found(closed(claim), why)
    return Found(NOTHING)


def _prove(claim: Fact, expression: Expression, variable: str, box: Box, budget: Budget) -> str | None:
    bounds: list[tuple[float, float]] = []

    def judge(boxes: Box) -> Judged:
        judged = _judged(claim, found := jet(expression, variable, boxes))
        bounds.extend(_bounds(found.bend if claim is Fact.CONVEX else found.slope, judged.known))
        return judged

    if not holds_everywhere(box, judge, budget):
        return None
    if claim is Fact.QUASICONVEX:
        return f"wherever the derivative by {variable} can be 0, the second one is positive"
    low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
    return f"the {_WORDS[claim]} by {variable} lies in [{low:.4g}, {high:.4g}]"


def _bounds(decisive: Interval, known: Mask) -> list[tuple[float, float]]:
    low, high = np.broadcast_arrays(decisive.low, decisive.high, known)[:2]
    mask = np.broadcast_to(known, low.shape)
    return [(float(low[mask].min()), float(high[mask].max()))] if mask.any() else []


def _judged(claim: Fact, found: Jet) -> Judged:
    slope, bend = found.slope, found.bend
    match claim:
        case Fact.RISING:
            return Judged(slope.low >= 0, -slope.low, fails=bool((slope.high < 0).any()))
        case Fact.FALLING:
            return Judged(slope.high <= 0, slope.high, fails=bool((slope.low > 0).any()))
        case Fact.CONVEX:
            return Judged(bend.low >= 0, -bend.low, fails=bool((bend.high < 0).any()))
    # A function that turns only upwards turns at most once.
    known = (slope.low > 0) | (slope.high < 0) | (bend.low > 0)
    return Judged(known, np.minimum(np.minimum(-slope.low, slope.high), -bend.low))
