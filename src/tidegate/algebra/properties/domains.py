"""The numbers that a column can have, as far as declarations show."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tidegate.algebra.plan import Map, Plan, Scan, Union, inputs
from tidegate.expressions.nodes import Expression, columns_of
from tidegate.schema import Domain, Type

_WHOLE = {Type.INT: Domain(-(2.0**31), 2.0**31 - 1), Type.BIGINT: Domain(-(2.0**63), 2.0**63)}


def domain_of(plan: Plan, column: str) -> Domain:
    """Return the declared domain of a column of a plan; that of its type if none is declared."""
    return _declared_domain(plan, column) or _WHOLE.get(plan.schema.type_of(column), Domain())


def range_of(expression: Expression, domains: Mapping[str, Domain]) -> Domain:
    """Return the numbers that an expression can yield, as far as the domains of its columns show."""
    from tidegate.expressions.shape.enclose import box_of, enclose

    if not expression.type.is_numeric:
        return Domain()
    found = enclose(expression, box_of(expression, domains))
    low, high = float(found.low.min()), float(found.high.max())
    return Domain() if math.isnan(low) or math.isnan(high) else Domain(low, high)


def _declared_domain(plan: Plan, column: str) -> Domain | None:
    match plan:
        case Scan(domains=domains):
            return dict(domains).get(column)
        case Map(source=source, outputs=outputs):
            made = next(o.expression for o in outputs if o.name == column)
            return range_of(made, {name: domain_of(source, name) for name in columns_of(made)})
        case Union():
            return None
    # All other operators pass on values of their inputs under the same names.
    return next((_declared_domain(each, column) for each in inputs(plan) if column in each.schema), None)
