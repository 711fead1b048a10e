"""Trees of joins as a flat list of inputs and conditions, and the keyed edges among the inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.algebra.constraints import Reference
from tidegate.algebra.join_graph import connected_components
from tidegate.algebra.keyed_join import JoinEdge
from tidegate.algebra.plan import Filter, Join, Map, Output, Plan, walk
from tidegate.expressions.nodes import Call, Column, Expression, Literal, columns_of, conjuncts
from tidegate.optimizer.names import is_safe, substitute
from tidegate.optimizer.origins import Origin, find_origin
from tidegate.values import value

ColumnExpressions = Mapping[str, Expression]
"""Expressions of columns over the columns of a cluster's inputs, by name."""


@dataclass(slots=True)
class Cluster:
    """The inputs and conditions of a tree of joins, over column names that are unique among all inputs."""

    inputs: list[Plan] = field(default_factory=list)
    terms: list[Expression] = field(default_factory=list)

    def add(self, plan: Plan) -> ColumnExpressions:
        """Add a tree of joins; return the expressions of its columns."""
        match plan:
            case Join(left=left, right=right, predicate=predicate) if is_inner(plan):
                made = {**self.add(left), **self.add(right)}
                self.terms += [substitute(term, made) for term in conjuncts(predicate)]
                return made
            case Filter(source=source, predicate=predicate) if is_inner(plan):
                made = dict(self.add(source))
                self.terms += [substitute(term, made) for term in conjuncts(predicate)]
                return made
            case Map(source=source, outputs=outputs) if is_inner(plan):
                below = self.add(source)
                return {o.name: substitute(o.expression, below) for o in outputs}
        return self._add_input(plan)

    def _add_input(self, plan: Plan) -> ColumnExpressions:
        taken = {name for each in self.inputs for name in each.schema.names}
        mark = f"{len(self.inputs)}:" if taken & set(plan.schema.names) else ""
        outputs = tuple(Output(mark + f.name, Column(f.name, f.type)) for f in plan.schema)
        self.inputs.append(Map(plan, outputs) if mark else plan)
        return {f.name: Column(mark + f.name, f.type) for f in plan.schema}


def is_inner(plan: Plan) -> bool:
    """Return whether the plan is a join, or filters or maps over one, none of which can fail."""
    # An expression that can fail must be evaluated on the pairs of its own join only.
    match plan:
        case Join(predicate=predicate):
            return is_safe(predicate)
        case Filter(source=source, predicate=predicate):
            return is_safe(predicate) and is_inner(source)
        case Map(source=source, outputs=outputs):
            return is_safe(*(o.expression for o in outputs)) and is_inner(source)
    return False


@value
class Equality:
    """A condition that equates expressions of two inputs, given by position."""

    term: Expression
    inputs: tuple[int, int]
    sides: tuple[Expression, Expression]


@value
class EdgeTerms:
    """All equalities between two inputs, in one direction: the child's sides contain a key.

    Without terms, the equalities follow from those between other inputs.
    """

    parent: int
    child: int
    pairs: tuple[tuple[Expression, Expression], ...]
    terms: tuple[Expression, ...]


def edges_of(inputs: Sequence[Plan], origins: Sequence[Origin | str], terms: Sequence[Expression]) -> list[EdgeTerms]:
    """Return the keyed edges among inputs that have an origin, in both directions if both sides have a key."""
    between: dict[tuple[int, int], list[Equality]] = {}
    for found in _equalities(inputs, terms):
        between.setdefault(found.inputs, []).append(found)
    edges = []
    for (one, other), equalities in sorted(between.items()):
        used = tuple(each.term for each in equalities)
        pairs = tuple(each.sides for each in equalities)
        turned = tuple((b, a) for a, b in pairs)
        if isinstance(origins[one], str) or isinstance(origins[other], str):
            continue
        if has_key(origins[other], [b for _, b in pairs], inputs[other]):
            edges.append(EdgeTerms(one, other, pairs, used))
        if has_key(origins[one], [a for a, _ in pairs], inputs[one]):
            edges.append(EdgeTerms(other, one, turned, used))
    return edges


def implied_edges(
    inputs: Sequence[Plan], origins: Sequence[Origin | str], terms: Sequence[Expression], members: Sequence[int]
) -> list[EdgeTerms]:
    """Return edges that follow from other equalities, from an input that declares a reference to the other.

    Other implied edges would not help: they add nothing to what is known.
    """
    classes = _equality_classes(_equalities(inputs, terms))
    written = {each.inputs for each in _equalities(inputs, terms)}
    pairs = [(a, b) for a in members for b in members if a != b and (min(a, b), max(a, b)) not in written]
    found = []
    for parent, child in pairs:
        one, other = origins[parent], origins[child]
        if isinstance(one, str) or isinstance(other, str):
            continue
        for each in one.scan.constraints:
            if isinstance(each, Reference) and each.other == other.scan.stream:
                sides = [
                    _equal_sides(classes, (parent, one, a), (child, other, b))
                    for a, b in zip(each.columns, each.other_columns, strict=True)
                ]
                known = tuple(pair for pair in sides if pair is not None)
                if len(known) == len(sides) and has_key(other, [b for _, b in known], inputs[child]):
                    found.append(EdgeTerms(parent, child, known, ()))
    return list({(each.parent, each.child): each for each in reversed(found)}.values())


_Classes = list[list[tuple[int, Expression]]]
"""Classes of equal expressions, each with its input."""


def _equality_classes(equalities: Sequence[Equality]) -> _Classes:
    classes: _Classes = []
    for each in equalities:
        both = list(zip(each.inputs, each.sides, strict=True))
        touched = [known for known in classes if any(side in known for side in both)]
        merged = dict.fromkeys([side for known in touched for side in known] + both)
        classes = [known for known in classes if known not in touched] + [list(merged)]
    return classes


def _equal_sides(
    classes: _Classes, one: tuple[int, Origin, str], other: tuple[int, Origin, str]
) -> tuple[Expression, Expression] | None:
    """Return expressions of the two inputs that have these source columns and must be equal."""
    for known in classes:
        sides = [
            next((side for at, side in known if at == which and known_as.column(side) == column), None)
            for which, known_as, column in (one, other)
        ]
        if sides[0] is not None and sides[1] is not None:
            return sides[0], sides[1]
    return None


def groups_of(count: int, edges: Sequence[EdgeTerms]) -> list[tuple[int, ...]]:
    """Return the groups of two or more inputs that edges connect."""
    bare = [JoinEdge(edge.parent, edge.child, (), ()) for edge in edges]
    return [group for group in connected_components(count, bare) if len(group) > 1]


def has_key(known: Origin | str, sides: Sequence[Expression], plan: Plan) -> bool:
    """Return whether no two rows of a plan with this origin agree in these expressions."""
    if isinstance(known, str) or not known.scan.key:
        return False
    return frozenset(known.scan.key) <= {known.column(each) for each in sides} | _constant_columns(plan)


def _constant_columns(plan: Plan) -> frozenset[str | None]:
    """Return the source columns that a filter restricts to one value."""
    found: set[str | None] = set()
    for node in walk(plan):
        if isinstance(node, Filter) and isinstance(below := find_origin(node.source), Origin):
            for term in conjuncts(node.predicate):
                match term:
                    case Call("=", (side, Literal())) | Call("=", (Literal(), side)):
                        found.add(below.column(side))
    return frozenset(found)


def _equalities(inputs: Sequence[Plan], terms: Sequence[Expression]) -> list[Equality]:
    found = (_equality(term, inputs) for term in dict.fromkeys(terms))
    return [each for each in found if each is not None]


def _equality(term: Expression, inputs: Sequence[Plan]) -> Equality | None:
    match term:
        case Call("=", (a, b)) if a.type == b.type:
            one, other = _only_input(a, inputs), _only_input(b, inputs)
            if one is None or other is None or one == other:
                return None
            return Equality(term, (one, other), (a, b)) if one < other else Equality(term, (other, one), (b, a))
    return None


def _only_input(side: Expression, inputs: Sequence[Plan]) -> int | None:
    """Return the only input whose columns an expression reads; None if there is no such input."""
    read = columns_of(side)
    found = [at for at, each in enumerate(inputs) if read & frozenset(each.schema.names)]
    return found[0] if len(found) == 1 else None
