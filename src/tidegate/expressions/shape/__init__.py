"""Shapes of formulas: rising, falling or quasiconvex in an input, proved over the domains of all inputs."""

from tidegate.expressions.shape.proof import certify
from tidegate.expressions.shape.verdict import Proved, Refuted, Shape, Undecided, Verdict

__all__ = ["Proved", "Refuted", "Shape", "Undecided", "Verdict", "certify"]
