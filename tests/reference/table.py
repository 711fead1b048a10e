"""What a table of PIPES' physical algebra is, and the streams that they share (Tables 11.1 and 11.11)."""

from __future__ import annotations

from dataclasses import dataclass

from reference.letters import row
from reference.members import Elements
from tidegate.algebra.plan import Plan

Printed = list[tuple[str, int, int]]
Expected = list[tuple[int, int, tuple[object, ...]]]

S1: Printed = [("c", 1, 8), ("a", 5, 11), ("d", 6, 14), ("a", 9, 10), ("b", 12, 17)]  # Table 11.1 (a)
S2: Printed = [("b", 1, 7), ("d", 3, 9), ("a", 4, 5), ("b", 7, 15), ("e", 10, 18)]  # Table 11.1 (b)
S3: Printed = [("b", 1, 2), ("a", 3, 4), ("c", 4, 5), ("a", 7, 8), ("b", 10, 11)]  # Table 11.11 (a)


@dataclass(frozen=True, slots=True)
class Table:
    """A plan over scans, the elements of the scanned streams by (start, end, row), and what must come out."""

    plan: Plan
    inputs: Elements
    expected: Expected


def elements(printed: Printed) -> list[tuple[int, int, dict[str, object]]]:
    """Elements of letters, in the order of their starts."""
    return [(start, end, row(letter)) for letter, start, end in sorted(printed, key=lambda element: element[1])]


INPUTS: Elements = {"s1": elements(S1), "s2": elements(S2), "s3": elements(S3)}


def rows(*printed: tuple[str, int, int]) -> Expected:
    """Rows of one column of letters."""
    return [(start, end, (letter,)) for letter, start, end in printed]
