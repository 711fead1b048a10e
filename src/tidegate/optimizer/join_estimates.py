"""Estimate the cost of trees of joins, from the rates of their inputs and the selectivities of their conditions.

A set of inputs has the same rows in every tree: the product of the valid rows of the inputs, times the selectivity of
each condition among them. An overlap of validities of lengths l1, l2, … is 1 / (1/l1 + 1/l2 + …) long on average. So
the rate of results is their number at an instant, divided by that length (PIPES, formula 22.4).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from tidegate.algebra.plan import Plan, Scan, Validity, walk
from tidegate.algebra.properties.validities import validity_bound
from tidegate.expressions.nodes import Call, Column, Expression, columns_of
from tidegate.expressions.sql_text import to_sql
from tidegate.optimizer.advice import PlanAdvice
from tidegate.schema import Type
from tidegate.values import value

INSERT = 1.0
"""Cost of a row that arrives at a join; other costs are relative to it.

All three were fitted to the processor time of 500 orders of 39 random joins of 3 to 6 streams. A row costs 200 ns, with
its share of the merging of runs. Prices that depend on the size of the state, or on the number of columns of a result,
explain these times a little better, but none of them leads to better orders.
"""

CANDIDATE = 0.01
"""Cost of a pair of rows for which the conditions besides equalities are decided: 1 to 5 ns if they read numbers."""

RESULT = 0.16
"""Cost of a result: 33 ns, of which about a third for each column of a number."""

CONDITION_SELECTIVITY = 1 / 3
"""Assumed share of pairs that satisfy a condition that is not an equality."""


@value
class JoinInput:
    """An input of joins: its rows that are valid at an instant, and how long a row is valid, in microseconds."""

    valid: float
    length: float


@value
class EqualColumns:
    """Columns of different inputs that are equal in every result, by the number of the input."""

    columns: tuple[tuple[int, Expression], ...]
    measured: tuple[tuple[int, float], ...] = ()
    """Share of the pairs of two inputs that agree, by the inputs as bits, the largest share first."""

    @property
    def members(self) -> int:
        """The inputs as bits."""
        return sum(1 << number for number, _ in self.columns)


@value
class OtherCondition:
    """A condition that is not part of `EqualColumns`, with the inputs that it reads as bits."""

    term: Expression
    reads: int
    selectivity: float


@dataclass(frozen=True)  # no slots: estimates are cached
class JoinEstimates:
    """Estimates for the sets of some inputs, which are numbers with a bit for each input."""

    inputs: tuple[JoinInput, ...]
    equal: tuple[EqualColumns, ...]
    others: tuple[OtherCondition, ...]
    _known: dict[int, JoinInput] = field(default_factory=dict, compare=False)

    def result_of(self, some: int) -> JoinInput:
        """Return the valid rows and the length of the results of joining some inputs."""
        if some not in self._known:
            members = [self.inputs[number] for number in bits(some)]
            valid = math.prod(each.valid for each in members)
            valid *= math.prod(self._share_of_equal(each, some) for each in self.equal)
            valid *= math.prod(each.selectivity for each in self.others if each.reads & some == each.reads)
            closing = sum(1 / each.length for each in members)
            self._known[some] = JoinInput(valid, 1 / closing if closing else math.inf)
        return self._known[some]

    def cost_of_join(self, left: int, right: int) -> float:
        """Return the cost of one join in a microsecond of application time."""
        one, two, made = self.result_of(left), self.result_of(right), self.result_of(left | right)
        meeting = one.valid * two.valid * (1 / one.length + 1 / two.length)
        for each in self.equal:
            if each.members & left and each.members & right:
                meeting *= self._share_of_link(each, left, right)
        arriving = one.valid / one.length + two.valid / two.length
        return arriving * INSERT + meeting * CANDIDATE + made.valid / made.length * RESULT

    def is_linked(self, left: int, right: int) -> bool:
        """Return whether a condition links two sets of inputs."""
        if any(each.members & left and each.members & right for each in self.equal):
            return True
        both = left | right
        return any(each.reads & left and each.reads & right and each.reads & both == each.reads for each in self.others)

    def _share_of_equal(self, equal: EqualColumns, some: int) -> float:
        """Return the share of combinations of some inputs whose columns agree.

        Without any measurement, every row is assumed to meet one row of each smaller input.
        """
        members = [number for number, _ in equal.columns if some >> number & 1]
        if not equal.measured:
            sizes = sorted(self.inputs[number].valid for number in members)
            return math.prod(1 / max(size, 1e-12) for size in sizes[:-1])
        return share_along_links(members, equal.measured)

    def _share_of_link(self, equal: EqualColumns, left: int, right: int) -> float:
        within = self._share_of_equal(equal, left) * self._share_of_equal(equal, right)
        return self._share_of_equal(equal, left | right) / within


def share_along_links(members: Iterable[int], measured: Sequence[tuple[int, float]]) -> float:
    """Return the share of combinations that agree, by links that connect all members, measured ones if possible.

    A link that was not measured counts as the average one.

    Examples
    --------
    >>> share_along_links([0, 1, 2], [(0b011, 0.5), (0b110, 0.125)])
    0.0625
    >>> share_along_links([0, 2], [(0b011, 0.5), (0b110, 0.125)])
    0.25
    """
    parts = [1 << number for number in members]
    usual = math.exp(sum(math.log(share) for _, share in measured) / len(measured))
    found = 1.0
    for link, share in measured:
        touched = [part for part in parts if part & link]
        if len(touched) == 2 and sum(touched) & link == link:
            parts = [part for part in parts if part not in touched] + [sum(touched)]
            found *= share
    return found * usual ** max(len(parts) - 1, 0)


def estimate_joins(leaves: Sequence[Plan], terms: Sequence[Expression], advice: PlanAdvice) -> JoinEstimates | None:
    """Return the estimates for the inputs and conditions of a tree of joins; None if a rate or length is unknown."""
    inputs = [_estimate_input(leaf, advice) for leaf in leaves]
    known = tuple(each for each in inputs if each is not None)
    if len(known) < len(inputs):
        return None
    equal, rest = _find_equal_columns(leaves, terms, advice)
    others = tuple(
        OtherCondition(term, _reads(term, leaves), _selectivity(term, known, leaves, advice)) for term in rest
    )
    return JoinEstimates(known, equal, others)


def bits(some: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set, the lowest first.

    Examples
    --------
    >>> list(bits(0b1101))
    [0, 2, 3]
    """
    while some:
        yield (some & -some).bit_length() - 1
        some &= some - 1


def _estimate_input(leaf: Plan, advice: PlanAdvice) -> JoinInput | None:
    scans = [each for each in walk(leaf) if isinstance(each, Scan)]
    if any(each.stream not in advice.rows for each in scans):
        return None
    rows = sum(advice.rows[each.stream] for each in scans)
    if all(each.validity is Validity.RELATION for each in scans):
        return JoinInput(float(rows), math.inf)
    if measured := [advice.inputs[name] for name in leaf.schema.names if name in advice.inputs]:
        return JoinInput(*measured[0])
    length = validity_bound(leaf)
    return None if length is None else JoinInput(rows / max(advice.span, 1) * length, float(length))


@dataclass(slots=True)
class _EqualityClass:
    """Columns that are equal, by input, and the measured selectivities of the terms that say so."""

    columns: dict[int, Expression]
    measured: list[tuple[int, float]]

    def holds(self, number: int, column: Expression) -> bool:
        return self.columns.get(number) == column

    def merge(self, other: _EqualityClass) -> _EqualityClass | None:
        """Return both classes as one; None if that one would have two columns of an input."""
        columns = {**self.columns, **other.columns}
        if any(columns[number] != column for number, column in self.columns.items()):
            return None
        return _EqualityClass(columns, [*self.measured, *other.measured])

    def finish(self, advice: PlanAdvice) -> EqualColumns:
        columns = tuple(sorted(self.columns.items(), key=lambda item: item[0]))
        measured = dict(self.measured)
        for (one, a), (two, b) in combinations(columns, 2):
            # An equality that follows from others may have been measured, too.
            for share in _find_measured(Call("=", (a, b), Type.BOOLEAN), advice):
                measured.setdefault(1 << one | 1 << two, share)
        return EqualColumns(columns, tuple(sorted(measured.items(), key=lambda link: (-link[1], link[0]))))


def _find_equal_columns(
    leaves: Sequence[Plan], terms: Sequence[Expression], advice: PlanAdvice
) -> tuple[tuple[EqualColumns, ...], list[Expression]]:
    """Return the classes of equal columns, and the terms that do not belong to one.

    A class has at most one column of each input: a term that would bring in a second one stays a condition.
    """
    classes: list[_EqualityClass] = []
    rest: list[Expression] = []
    for term in terms:
        ends = _ends_of_equality(term, leaves)
        links = [(_reads(term, leaves), share) for share in _find_measured(term, advice)]
        merged = None if ends is None else _EqualityClass(dict(ends), links)
        touched = [each for each in classes if ends is not None and any(each.holds(*end) for end in ends)]
        for each in touched:
            merged = None if merged is None else merged.merge(each)
        if merged is None:
            rest.append(term)
        else:
            classes = [*(each for each in classes if each not in touched), merged]
    return tuple(each.finish(advice) for each in classes), rest


def _ends_of_equality(term: Expression, leaves: Sequence[Plan]) -> tuple[tuple[int, Column], tuple[int, Column]] | None:
    """Return the two columns that a term equates, with their inputs; None if it is another term."""
    match term:
        case Call("=", (Column() as a, Column() as b)) if a.type == b.type:
            one, two = _inputs_read(a, leaves), _inputs_read(b, leaves)
            if one != two:
                return (one[0], a), (two[0], b)
    return None


def _inputs_read(term: Expression, leaves: Sequence[Plan]) -> list[int]:
    read = columns_of(term)
    return [number for number, leaf in enumerate(leaves) if read & frozenset(leaf.schema.names)]


def _reads(term: Expression, leaves: Sequence[Plan]) -> int:
    return sum(1 << number for number in _inputs_read(term, leaves))


def _selectivity(term: Expression, inputs: Sequence[JoinInput], leaves: Sequence[Plan], advice: PlanAdvice) -> float:
    for share in _find_measured(term, advice):
        return share
    match term:
        case Call("=") if sizes := [inputs[number].valid for number in _inputs_read(term, leaves)]:
            return 1 / max(min(sizes), 1.0)
    return CONDITION_SELECTIVITY


def _find_measured(term: Expression, advice: PlanAdvice) -> list[float]:
    """Return the measured selectivity of a condition, if there is one."""
    share = advice.selectivities.get(to_sql(term))
    return [] if share is None else [max(share, 1e-12)]


def splits(some: int) -> Iterator[tuple[int, int]]:
    """Yield every way to split a set in two, each once.

    Examples
    --------
    >>> sorted(splits(0b111))
    [(1, 6), (3, 4), (5, 2)]
    """
    rest = some & (some - 1)
    part = rest
    while part:
        yield some ^ part, part
        part = (part - 1) & rest


def subsets_by_size(count: int) -> Iterator[int]:
    """Yield the sets of at least two of some inputs, small sets first."""
    for size in range(2, count + 1):
        for numbers in combinations(range(count), size):
            yield sum(1 << number for number in numbers)
