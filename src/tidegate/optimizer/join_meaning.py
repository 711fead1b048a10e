"""Compare trees of joins: two of them may differ only in the order in which they join the same inputs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from tidegate.algebra.plan import Filter, Join, Map, Plan, walk
from tidegate.expressions.nodes import Call, Column, Expression, conjuncts
from tidegate.optimizer.names import is_safe, substitute
from tidegate.optimizer.plan_keys import plan_key


def is_same_join(plan: Plan, other: Plan) -> bool:
    """Return whether two plans join the same inputs on the same conditions, and compute the same columns of them.

    Inputs that occur twice are not told apart: with such inputs, plans count as different.
    """
    numbers: dict[Hashable, int] = {}
    one, two = _JoinParts(numbers), _JoinParts(numbers)
    columns, others = one.add(plan), two.add(other)
    if set(one.leaves) != set(two.leaves) or not one.is_clear or not two.is_clear:
        return False
    if not is_safe(*one.terms, *two.terms):
        return False
    same_columns = list(columns.values()) == list(others.values())
    return same_columns and one.condition() == two.condition()


@dataclass(slots=True)
class _JoinParts:
    """Inputs and conditions of a tree of joins. Columns are named by the number of their input and their position."""

    numbers: dict[Hashable, int]
    """Numbers of inputs, the same for both trees."""
    leaves: list[int] = field(default_factory=list)
    terms: list[Expression] = field(default_factory=list)

    @property
    def is_clear(self) -> bool:
        return len(set(self.leaves)) == len(self.leaves)

    def add(self, plan: Plan) -> Mapping[str, Expression]:
        """Add a plan; return its columns as expressions over those of the inputs."""
        match plan:
            case Join(left=left, right=right, predicate=predicate):
                columns = {**self.add(left), **self.add(right)}
                self.terms += [substitute(term, columns) for term in conjuncts(predicate)]
                return columns
            case Map(source=source, outputs=outputs) if _has_join(source):
                below = self.add(source)
                return {o.name: substitute(o.expression, below) for o in outputs}
            case Filter(source=source, predicate=predicate) if _has_join(source):
                columns = dict(self.add(source))
                self.terms += [substitute(term, columns) for term in conjuncts(predicate)]
                return columns
        number = self.numbers.setdefault(plan_key(plan), len(self.numbers))
        self.leaves.append(number)
        return {each.name: Column(f"{number}#{at}", each.type) for at, each in enumerate(plan.schema)}

    def condition(self) -> tuple[frozenset[frozenset[Expression]], frozenset[Expression]]:
        """Return the classes of columns that are equal, and the other terms."""
        classes: list[frozenset[Expression]] = []
        others: set[Expression] = set()
        for term in self.terms:
            match term:
                case Call("=", (Column() as a, Column() as b)) if a.type == b.type:
                    touched = [each for each in classes if a in each or b in each]
                    classes = [each for each in classes if each not in touched]
                    classes.append(frozenset([a, b]).union(*touched))
                case _:
                    others.add(term)
        return frozenset(classes), frozenset(others)


def _has_join(plan: Plan) -> bool:
    return any(isinstance(each, Join) for each in walk(plan))
