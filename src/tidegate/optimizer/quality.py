"""Quality of service: keys of adaptable windows, and the sizes that the queries that read them allow.

Several queries may share a window. Its size then stays within the bounds of all of them (PIPES, section 9.3.5). Bounds
are computed from the plans of the queries that run, so they become wider again when a query goes (erratum E-45).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Literal

from tidegate.algebra.adaptable import Adaptable, granule_chain, is_adaptable
from tidegate.algebra.plan import EVERY_ROW, LEAST_RATE, CountWindow, Granularity, Plan, Sample, Window, inputs
from tidegate.expressions.functions.aggregates import AggregateFunction
from tidegate.expressions.user_calls import UserFunction
from tidegate.optimizer.plan_keys import plan_key
from tidegate.values import value

SizeKind = Literal["range", "rows", "granularity", "rate"]
"""What a size counts: microseconds of a window or granule, rows of a count window, or millionths of rows kept."""

_KEY_DIGITS = 16


@value
class SizeBounds:
    """The sizes that a window or granularity may have.

    `chain` has those of a granularity, from the finest on. A window may have any size from `worst` to `best`.
    """

    best: int
    worst: int
    kind: SizeKind
    chain: tuple[int, ...] = ()

    def allows(self, size: int) -> bool:
        """Return whether a size is within the bounds."""
        return size in self.chain if self.kind == "granularity" else self.worst <= size <= self.best

    def intersect(self, other: SizeBounds) -> SizeBounds:
        """Return the sizes that both allow; the best one is always among them."""
        chain = tuple(size for size in self.chain if size in other.chain)
        worst = chain[-1] if chain else max(self.worst, other.worst)
        return SizeBounds(self.best, worst, self.kind, chain)


def size_key(plan: Plan) -> str | None:
    """Return the key of the size history of a plan; None if its size never changes.

    It is the same in every process, and for equal windows over equal inputs, whatever the names of columns.
    """
    if not is_adaptable(plan):
        return None
    return hashlib.sha256(_canonical_text(plan_key(plan)).encode()).hexdigest()[:_KEY_DIGITS]


def adaptable_nodes(plan: Plan) -> dict[str, Adaptable]:
    """Return the adaptable windows and granularities of a plan by their keys."""
    return {key: node for key, node, _ in _walk_adaptable(plan)}


def size_bounds(plans: Iterable[Plan]) -> Mapping[str, SizeBounds]:
    """Return the sizes that all plans allow, by key.

    A granule must divide each granule above it: time becomes only coarser on the way to a result.
    """
    known: dict[str, SizeBounds] = {}
    for plan in plans:
        for key, node, above in _walk_adaptable(plan):
            bounds = _own_bounds(node, above)
            known[key] = known[key].intersect(bounds) if key in known else bounds
    return known


def _walk_adaptable(plan: Plan) -> Iterator[tuple[str, Adaptable, tuple[int, ...]]]:
    """Yield each adaptable operator with its key, and the granules above it."""
    waiting: list[tuple[Plan, tuple[int, ...]]] = [(plan, ())]
    while waiting:
        node, above = waiting.pop()
        key = size_key(node)
        if key is not None:
            assert isinstance(node, Adaptable)
            yield key, node, above
        below = (*above, node.size) if isinstance(node, Granularity) else above
        waiting += [(each, below) for each in reversed(inputs(node))]


def _own_bounds(node: Adaptable, above: tuple[int, ...]) -> SizeBounds:
    match node:
        case Granularity(size=size):
            # An adaptable granule above is a multiple of its finest size.
            chain = tuple(each for each in granule_chain(node) if all(size % each == 0 for size in above))
            return SizeBounds(size, chain[-1], "granularity", chain)
        case Window(size=int(size), least=int(least)):
            return SizeBounds(size, least, "range")
        case CountWindow(rows=int(rows), least=int(least)):
            return SizeBounds(rows, least, "rows")
        case Sample():
            return SizeBounds(EVERY_ROW, LEAST_RATE, "rate")
    raise AssertionError(node)


def _canonical_text(part: object) -> str:
    """Return a text of a key that is the same in every process, and differs for different keys."""
    match part:
        case UserFunction() | AggregateFunction():
            return f"{type(part).__name__} {part.signature}"
        case Enum():
            return f"{type(part).__name__}.{part._name_}"
        case tuple() | list():
            return f"({','.join(map(_canonical_text, part))})"
        case frozenset() | set():
            return f"{{{','.join(sorted(map(_canonical_text, part)))}}}"
    if is_dataclass(part):
        compared = [getattr(part, each.name) for each in fields(part) if each.compare]
        return f"{type(part).__name__}{_canonical_text(tuple(compared))}"
    return f"{type(part).__name__} {part!r}"
