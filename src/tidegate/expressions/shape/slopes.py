"""The shape of an expression from the signs of its derivatives in all of a box."""

from __future__ import annotations

import numpy as np

from tidegate.arrays import Mask
from tidegate.expressions.nodes import Expression
from tidegate.expressions.shape.cover import BoxVerdicts, Budget, holds_everywhere
from tidegate.expressions.shape.enclose import Box
from tidegate.expressions.shape.facts import NOTHING, Fact, add_implied
from tidegate.expressions.shape.intervals import Interval
from tidegate.expressions.shape.jets import Jet, jet_of
from tidegate.expressions.shape.samples import sample_points
from tidegate.values import value

_CLAIMS = (Fact.RISING, Fact.FALLING, Fact.CONVEX, Fact.QUASICONVEX)
_WORDS = {Fact.RISING: "derivative", Fact.FALLING: "derivative", Fact.CONVEX: "second derivative"}
_MANY = 64


@value
class ProvedFacts:
    facts: Fact
    why: str = ""


def facts_by_slope(expression: Expression, variable: str, box: Box, budget: Budget, known: Fact) -> ProvedFacts:
    """Return the first provable claim that is not known yet.

    A claim that cannot be proved at a single point cannot be proved in a box around it, so it is not tried.
    """
    seen = jet_of(expression, variable, sample_points(box, _MANY))
    for claim in _CLAIMS[:2] if Fact.QUASICONVEX in known else _CLAIMS:
        if _judge_claim(claim, seen).known.all() and (why := _prove(claim, expression, variable, box, budget)):
            return ProvedFacts(add_implied(claim), why)
    return ProvedFacts(NOTHING)


def _prove(claim: Fact, expression: Expression, variable: str, box: Box, budget: Budget) -> str | None:
    bounds: list[tuple[float, float]] = []

    def judge(boxes: Box) -> BoxVerdicts:
        judged = _judge_claim(claim, found := jet_of(expression, variable, boxes))
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


def _judge_claim(claim: Fact, found: Jet) -> BoxVerdicts:
    slope, bend = found.slope, found.bend
    match claim:
        case Fact.RISING:
            return BoxVerdicts(slope.low >= 0, -slope.low, fails=bool((slope.high < 0).any()))
        case Fact.FALLING:
            return BoxVerdicts(slope.high <= 0, slope.high, fails=bool((slope.low > 0).any()))
        case Fact.CONVEX:
            return BoxVerdicts(bend.low >= 0, -bend.low, fails=bool((bend.high < 0).any()))
    # A function that turns only upwards turns at most once.
    known = (slope.low > 0) | (slope.high < 0) | (bend.low > 0)
    return BoxVerdicts(known, np.minimum(np.minimum(-slope.low, slope.high), -bend.low))
