"""Strategies of plan migration, element by element and as they are printed: to show where they fail.

An element is a value, a validity `[start, end)`, and whether it is *old*: whether anything that it is made of arrived
before the migration. Boxes are small functions over lists of elements, which compute what the algebra says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

Time = int | Fraction


class FlaggedElement(NamedTuple):
    """A value with its validity; `old` says whether something old contributed to it."""

    value: object
    start: Time
    end: Time
    old: bool = False


Inputs = Sequence[Sequence[FlaggedElement]]
BoxFunction = Callable[[Inputs], list[FlaggedElement]]
StrategyFunction = Callable[[BoxFunction, BoxFunction, Inputs, Time], list[FlaggedElement]]


def join(left: Iterable[FlaggedElement], right: Iterable[FlaggedElement]) -> list[FlaggedElement]:
    """Join equal values; a result is valid where both are, and old if one of them is."""
    pairs = ((a, b, max(a.start, b.start), min(a.end, b.end)) for a in left for b in right if a.value == b.value)
    found = [FlaggedElement(a.value, start, end, a.old or b.old) for a, b, start, end in pairs if start < end]
    return sorted(found, key=lambda each: (each.start, each.end))


def distinct(elements: Iterable[FlaggedElement]) -> list[FlaggedElement]:
    """Emit of each value what is not covered yet, in the order of starts (algorithm 7, with erratum E-03 corrected).

    A result is old if an old element of its value is valid within it.
    """
    given = sorted(elements, key=lambda each: (each.start, each.end))
    covered: dict[object, Time] = {}
    found: list[tuple[object, Time, Time]] = []
    for each in given:
        start = max(each.start, covered.get(each.value, each.start))
        if start < each.end:
            found.append((each.value, start, each.end))
            covered[each.value] = each.end
    return [
        FlaggedElement(v, s, e, any(g.old and g.value == v and g.start < e and s < g.end for g in given))
        for v, s, e in found
    ]


def count(elements: Sequence[FlaggedElement]) -> list[FlaggedElement]:
    """Count the elements that are valid together, wherever there are any."""
    times = sorted({time for each in elements for time in (each.start, each.end)})
    found = []
    for start, end in pairwise(times):
        valid = [each for each in elements if each.start <= start < each.end]
        if valid:
            found.append(FlaggedElement(len(valid), start, end, any(each.old for each in valid)))
    return found


def parallel_track(old_box: BoxFunction, new_box: BoxFunction, inputs: Inputs, begin: Time) -> list[FlaggedElement]:
    """Run both boxes from `begin` on: all results of the old one that are old, and all of the new one."""
    flagged = [[each._replace(old=each.start < begin) for each in some] for some in inputs]
    new = [[each for each in some if not each.old] for some in flagged]
    return [*(each for each in old_box(flagged) if each.old), *new_box(new)]


def genmig(old_box: BoxFunction, new_box: BoxFunction, inputs: Inputs, split: Time) -> list[FlaggedElement]:
    """Split elements at `split`: the old box answers for the instants before it, the new one for those from it on."""
    before = [[each._replace(end=min(each.end, split)) for each in some if each.start < split] for some in inputs]
    after = [[each._replace(start=max(each.start, split)) for each in some if each.end > split] for some in inputs]
    return [*old_box(before), *new_box(after)]


def reference_point(old_box: BoxFunction, new_box: BoxFunction, inputs: Inputs, split: Time) -> list[FlaggedElement]:
    """Send elements whole to the old box, and drop the results of the new one that start at `split`."""
    before = [[each for each in some if each.start < split] for some in inputs]
    after = [[each._replace(start=max(each.start, split)) for each in some if each.end > split] for some in inputs]
    return [*old_box(before), *(each for each in new_box(after) if each.start != split)]


def wrong_instants(
    found: Iterable[FlaggedElement], right: Iterable[FlaggedElement], instants: Iterable[int]
) -> list[int]:
    """Return the instants at which two outputs differ."""
    given, wanted = list(found), list(right)
    return [t for t in instants if _snapshot(given, t) != _snapshot(wanted, t)]


def _snapshot(elements: Iterable[FlaggedElement], instant: int) -> Counter[object]:
    return Counter(each.value for each in elements if each.start <= instant < each.end)


class Counterexample(NamedTuple):
    """Two boxes of equal meaning, their inputs, when the migration begins, and where it splits time."""

    old_box: BoxFunction
    new_box: BoxFunction
    inputs: Inputs
    begin: Time
    split: Time

    def answer(self) -> list[FlaggedElement]:
        return self.old_box(self.inputs)


def _elements(*given: tuple[object, int, int]) -> list[FlaggedElement]:
    return [FlaggedElement(*each) for each in given]


DISTINCT_JOIN = Counterexample(
    lambda inputs: distinct(join(*inputs)),
    lambda inputs: join(distinct(inputs[0]), distinct(inputs[1])),
    (_elements(("a", 10, 111), ("a", 50, 151)), _elements(("a", 20, 121), ("a", 70, 171))),
    begin=40,
    split=Fraction(243, 2),
)
"""Example 28.1: the elimination of duplicates goes below a join. The split is 20 + 101 + 1/2."""

COUNTS = Counterexample(
    lambda inputs: count(inputs[0]),
    lambda inputs: count(inputs[0]),
    (_elements((None, 0, 10), (None, 5, 15), (None, 12, 22)),),
    begin=3,
    split=Fraction(21, 2),
)
"""Erratum E-32: a count over a window of 10. The split is 0 + 10 + 1/2."""

JOINED = Counterexample(
    lambda inputs: join(join(inputs[0], inputs[1]), inputs[2]),
    lambda inputs: join(inputs[0], join(inputs[1], inputs[2])),
    (
        _elements(("a", 0, 10), ("b", 3, 13), ("a", 9, 19), ("b", 14, 24)),
        _elements(("a", 2, 12), ("b", 4, 14), ("a", 11, 21), ("a", 15, 25)),
        _elements(("b", 1, 11), ("a", 5, 15), ("a", 12, 22), ("b", 13, 23)),
    ),
    begin=8,
    split=Fraction(35, 2),
)
"""A join in another order: here all strategies are right."""
