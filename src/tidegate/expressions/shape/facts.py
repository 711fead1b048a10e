"""Facts about a function of one input, and how they carry over to composed functions."""

from __future__ import annotations

from enum import Flag, auto


class Fact(Flag):
    """Properties that hold for every choice of the other inputs.

    MONOTONE: rising for some choices, falling for the others.
    """

    RISING = auto()
    FALLING = auto()
    MONOTONE = auto()
    CONVEX = auto()
    CONCAVE = auto()
    QUASICONVEX = auto()
    QUASICONCAVE = auto()


NOTHING = Fact(0)
DIRECTION = Fact.RISING | Fact.FALLING
CURVATURE = Fact.CONVEX | Fact.CONCAVE
ORDER = DIRECTION | Fact.MONOTONE | Fact.QUASICONVEX | Fact.QUASICONCAVE
CONSTANT = ORDER | CURVATURE
AFFINE = CURVATURE | Fact.MONOTONE | Fact.QUASICONVEX | Fact.QUASICONCAVE

_OPPOSITES = (
    (Fact.RISING, Fact.FALLING),
    (Fact.CONVEX, Fact.CONCAVE),
    (Fact.QUASICONVEX, Fact.QUASICONCAVE),
)


def add_implied(facts: Fact) -> Fact:
    """Return the facts with all that they imply."""
    if DIRECTION in facts:
        return CONSTANT
    if facts & DIRECTION or CURVATURE in facts:
        facts |= Fact.MONOTONE
    if facts & (Fact.MONOTONE | Fact.CONVEX):
        facts |= Fact.QUASICONVEX
    if facts & (Fact.MONOTONE | Fact.CONCAVE):
        facts |= Fact.QUASICONCAVE
    return facts


def negate_facts(facts: Fact) -> Fact:
    """Return the facts of the negated function."""
    result = facts & Fact.MONOTONE
    for one, other in _OPPOSITES:
        result |= (other if one in facts else NOTHING) | (one if other in facts else NOTHING)
    return result


def compose_facts(outer: Fact, inner: Fact) -> Fact:
    """Return the facts of outer(inner(x)), if those of outer hold on an interval with all values of inner."""
    result = NOTHING
    if Fact.RISING in outer:
        result |= inner & ORDER
    if Fact.FALLING in outer:
        result |= negate_facts(inner & ORDER)
    if Fact.MONOTONE in inner:
        result |= outer & (Fact.MONOTONE | Fact.QUASICONVEX | Fact.QUASICONCAVE)
    if _is_convex(outer, inner):
        result |= Fact.CONVEX
    if _is_convex(negate_facts(outer), inner):
        result |= Fact.CONCAVE
    return add_implied(result)


def _is_convex(outer: Fact, inner: Fact) -> bool:
    if Fact.CONVEX not in outer:
        return False
    return (
        CURVATURE in inner
        or (Fact.RISING in outer and Fact.CONVEX in inner)
        or (Fact.FALLING in outer and Fact.CONCAVE in inner)
    )


def scale_facts(facts: Fact, *, positive: bool, negative: bool) -> Fact:
    """Return the facts of a function times a factor that is not negative, or not positive, or of either sign."""
    if positive:
        return facts
    if negative:
        return negate_facts(facts)
    return add_implied(facts & (AFFINE if CURVATURE in facts else Fact.MONOTONE))
