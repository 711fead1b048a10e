"""Verdicts about the shape of a function in one of its inputs."""

from __future__ import annotations

from enum import Enum

from tidegate.values import value


class Shape(Enum):
    """The behaviour of a function in one input with the others fixed; not strict, so a constant is rising."""

    RISING = "rising"
    FALLING = "falling"
    QUASICONVEX = "quasiconvex"


@value
class Proved:
    shape: Shape
    why: str


@value
class Refuted:
    """A counterexample: a < b < c with f(b) > f(a) and f(b) > f(c), so the function is not quasiconvex.

    `at` names the input three times, with a, b and c, and then the fixed inputs.
    """

    why: str
    at: tuple[tuple[str, float], ...]


@value
class Undecided:
    why: str


Verdict = Proved | Refuted | Undecided
