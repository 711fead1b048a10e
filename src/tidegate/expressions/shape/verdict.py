"""What can be said of the shape of a function of one of its inputs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Shape(Enum):
    """How a function goes with one input while the others stay; none of it strictly, a constant is rising."""

    RISING = "rising"
    FALLING = "falling"
    QUASICONVEX = "quasiconvex"


@dataclass(frozen=True, slots=True)
class Proved:
    shape: Shape
    why: str


@dataclass(frozen=True, slots=True)
class Refuted:
    """There are a < b < c with f(b) > f(a) and f(b) > f(c): the function is not quasiconvex.

    `at` names the input three times, with a, b and c, and then the inputs that stay.
    """

    why: str
    at: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Undecided:
    why: str


Verdict = Proved | Refuted | Undecided
