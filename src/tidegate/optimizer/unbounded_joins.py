"""Joins over unbounded windows: refuse those that would keep all rows, and warn of those whose storage grows."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.algebra.constraints import ConstraintSettings, ConstraintUse
from tidegate.algebra.explain_keyed_join import input_names
from tidegate.algebra.keyed_join import KeyedJoin, why_unordered
from tidegate.algebra.plan import Join, Plan, inputs, walk
from tidegate.algebra.properties import is_bounded
from tidegate.algebra.refusals import span_of_unbounded
from tidegate.algebra.similarity_join import SimilarityJoin
from tidegate.algebra.unbounded_inputs import Growth, Kept, growth_of, unbounded_inputs
from tidegate.errors import QueryError, TidegateWarning
from tidegate.optimizer.explain_fallback import describe_plain_joins


def refuse_growing_joins(given: Plan, optimized: Plan, settings: ConstraintSettings) -> None:
    """Raise a QueryError if a join of the optimised plan would keep rows in memory for ever.

    `given` is the plan before: only joins over unbounded windows can.
    """
    if not has_unbounded_join(given):
        return
    for node in walk(optimized):
        match node:
            case Join() | SimilarityJoin():
                _refuse_plain_join(node, settings)
            case KeyedJoin():
                _refuse_growth(node)


def growth_warnings(plan: Plan) -> tuple[TidegateWarning, ...]:
    """Return warnings about rows that the joins of an optimised plan over unbounded windows keep for ever."""
    joins = dict.fromkeys(node for node in walk(plan) if isinstance(node, KeyedJoin) and unbounded_inputs(node))
    return tuple(dict.fromkeys(each for join in joins for each in _warnings_of(join)))


def _warnings_of(join: KeyedJoin) -> Iterator[TidegateWarning]:
    names = input_names(join)
    if join.settings.exact:
        endless = unbounded_inputs(join)
        message = f"cold storage grows for ever: rows of {' and '.join(names[i] for i in endless)} never end"
        hint = "write SET constraints = … MODE lean to forget them, or give the windows a RANGE"
        yield TidegateWarning("W202", message, span_of_unbounded(join.inputs[endless[0]]), hint=hint)
    certain, hoped = list(growth_of(join, found=False)), list(growth_of(join, found=True))
    for growth in hoped:
        why = f"no row of {names[growth.other]} joins stay in memory for ever: CLUSTERED BY lets only joined rows go"
        yield _warn(join, growth, "W203", f"rows of {names[growth.input]} that {why}")
    for growth in certain:
        if growth not in hoped:
            message = f"rows of {names[growth.input]} stay in memory until watching finds {_unknown_of(join, growth)}"
            yield _warn(join, growth, "W204", message)


def _warn(join: KeyedJoin, growth: Growth, code: str, message: str) -> TidegateWarning:
    return TidegateWarning(code, message, span_of_unbounded(join.inputs[growth.input]), hint=_growth_hint(join, growth))


def has_unbounded_join(plan: Plan) -> bool:
    """Return whether a join reads an unbounded window."""
    joins = (node for node in walk(plan) if isinstance(node, Join | KeyedJoin | SimilarityJoin))
    return any(not is_bounded(each) for join in joins for each in inputs(join))


def _refuse_plain_join(join: Join | SimilarityJoin, settings: ConstraintSettings) -> None:
    for each in inputs(join):
        if not is_bounded(each):
            message = "a join over an unbounded window would have to keep all elements for ever"
            why = "; ".join(describe_plain_joins(join, settings)) or "it is no join on a key"
            if settings.use is ConstraintUse.OFF:
                why = "SET constraints = off"
            hint = "give the window a RANGE, such as RANGE 1 HOUR"
            raise QueryError("Q201", f"{message}: {why}", span_of_unbounded(each), hint=hint)


def _refuse_growth(join: KeyedJoin) -> None:
    for growth in growth_of(join, found=True):
        if growth.kept is not Kept.UNJOINED:
            place = span_of_unbounded(join.inputs[growth.input])
            raise QueryError("Q201", _growth_text(join, growth), place, hint=_growth_hint(join, growth))


def _growth_text(join: KeyedJoin, growth: Growth) -> str:
    names = input_names(join)
    kept = f"rows of {names[growth.input]} stay in memory for ever"
    if growth.edge is None:
        return f"{kept}: {names[growth.other]} does not join them directly, so no constraint can end that"
    return f"{kept}: no constraint says {_unknown_of(join, growth)}"


def _unknown_of(join: KeyedJoin, growth: Growth) -> str:
    other = input_names(join)[growth.other]
    if growth.kept is Kept.WAITING:
        return f"how long they wait for rows of {other}"
    return f"when no more rows of {other} join them"


def _growth_hint(join: KeyedJoin, growth: Growth) -> str:
    name = input_names(join)[growth.input]
    bound = f"give {name} a RANGE, such as RANGE 1 HOUR"
    if growth.edge is None:
        return bound
    edge = join.edges[growth.edge]
    parent, child = join.streams[edge.parent], join.streams[edge.child]
    declared = []
    if growth.kept is Kept.WAITING:
        own, theirs = ", ".join(edge.parent_columns), ", ".join(edge.child_columns)
        declared.append(f"({own}) REFERENCES {child} ({theirs}) WITHIN … of {parent}")
    types = [join.inputs[edge.parent].schema.type_of(column) for column in edge.parent_keys]
    if why_unordered(types) is None:
        ordered, column = (child, edge.child_columns) if growth.kept is Kept.WAITING else (parent, edge.parent_columns)
        declared.append(f"ORDERED BY {column[0]} WITHIN … of {ordered}")
    return f"declare {' or '.join(declared)}; or {bound}" if declared else bound
