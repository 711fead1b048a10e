"""Columns that are known never to be NULL."""

from __future__ import annotations

from tidegate.algebra.plan import Aggregate, Join, Map, Plan, Scan, SetOperation, Union, inputs
from tidegate.expressions.nodes import Column, Expression, Literal


def is_never_null(expression: Expression, plan: Plan) -> bool:
    """Return whether an expression over the columns of a plan is known to be never NULL.

    Examples
    --------
    >>> from tidegate.schema import Schema, Type
    >>> is_never_null(Literal(1, Type.INT), Scan("bid", Schema.of()))
    True
    """
    match expression:
        case Literal(value=value):
            return value is not None
        case Column(name=name) if name in plan.schema:
            return _is_column_never_null(name, plan)
    return False


def _is_column_never_null(name: str, plan: Plan) -> bool:
    match plan:
        case Scan():
            return False
        case Map(source=source, outputs=outputs):
            return all(is_never_null(o.expression, source) for o in outputs if o.name == name)
        case Aggregate(source=source, keys=keys, calls=calls):
            counts = any(c.name == name and c.function == "count" for c in calls)
            return counts or (name in keys and _is_column_never_null(name, source))
        case Union(inputs=many):
            place = plan.schema.names.index(name)
            return all(_is_column_never_null(each.schema.names[place], each) for each in many)
        case Join(left=left, right=right):
            return _is_column_never_null(name, left if name in left.schema else right)
        case SetOperation():
            return False
    return _is_column_never_null(name, inputs(plan)[0])
