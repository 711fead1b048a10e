"""Simplification of marks that need not distinguish unknown from false, or unknown from true.

WHERE and HAVING keep rows for which a condition is true. Below AND and OR alone, an unknown mark may as well be
false; below a NOT, it may as well be true. This leaves two cases of each mark instead of three.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tidegate.expressions.nodes import Call, Column, Expression, columns_of
from tidegate.language.bind.query.unnesting import Lookup, MarkColumn


def narrow_marks(
    steps: Sequence[Lookup | MarkColumn], conditions: Sequence[Expression], elsewhere: Iterable[Expression]
) -> list[Lookup | MarkColumn]:
    """Return the steps, with marks that are never unknown where only the conditions read them."""
    read = [*elsewhere, *(part for step in steps for part in _expressions(step))]
    others = frozenset(name for expression in read for name in columns_of(expression))
    return [_narrow_mark(step, conditions) if step.column.name not in others else step for step in steps]


def _narrow_mark(step: Lookup | MarkColumn, conditions: Sequence[Expression]) -> Lookup | MarkColumn:
    if not isinstance(step, MarkColumn) or step.possible is None:
        return step
    signs = {sign for each in conditions for sign in _signs(each, step.column.name, sign=True)}
    if signs == {True}:
        return replace(step, possible=None)
    if signs == {False}:
        return replace(step, predicate=step.possible, possible=None)
    return step


def _signs(condition: Expression, name: str, *, sign: bool | None) -> Iterator[bool | None]:
    """Yield, for each occurrence of a column, whether it is below an even number of NOTs; None: below anything else."""
    match condition:
        case Column(name=own):
            if own == name:
                yield sign
        case Call("and" | "or", arguments):
            for each in arguments:
                yield from _signs(each, name, sign=sign)
        case Call("not", (argument,)):
            yield from _signs(argument, name, sign=None if sign is None else not sign)
        case _:
            if name in columns_of(condition):
                yield None


def _expressions(step: Lookup | MarkColumn) -> Iterator[Expression]:
    yield step.predicate
    match step:
        case Lookup(value=value, empty_value=nothing):
            yield value
            yield nothing
        case MarkColumn(possible=possible) if possible is not None:
            yield possible
