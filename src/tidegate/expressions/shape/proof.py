"""Proof of the shape of a formula in one input, over declared domains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from tidegate.expressions.nodes import (
    Call,
    Case,
    Cast,
    Column,
    Expression,
    InList,
    columns_of,
    transform,
    walk,
)
from tidegate.expressions.shape.cover import Budget
from tidegate.expressions.shape.enclose import STEPS, Box, box_of, enclose
from tidegate.expressions.shape.explanations import domain_text, explain_by_rules, explain_through
from tidegate.expressions.shape.factors import split_factors
from tidegate.expressions.shape.facts import DIRECTION, Fact, add_implied, compose_facts
from tidegate.expressions.shape.refute import find_counterexample
from tidegate.expressions.shape.requirements import explain_unmet, unmet_requirement
from tidegate.expressions.shape.rules import facts_of, scale_by_interval
from tidegate.expressions.shape.slopes import ProvedFacts, facts_by_slope
from tidegate.expressions.shape.smooth import SMOOTH
from tidegate.expressions.shape.verdict import Proved, Shape, Undecided, Verdict
from tidegate.expressions.sql_text import to_sql
from tidegate.schema import Domain

BUDGET, _PARTS = 12_000, 60
"""Number of boxes to examine before a formula is undecided, and the number of parts above which it shrinks."""

_SHAPES = ((Fact.RISING, Shape.RISING), (Fact.FALLING, Shape.FALLING), (Fact.QUASICONVEX, Shape.QUASICONVEX))
_KNOWN = frozenset({"+", "-", "*", "/", "negate", "abs", "power", "log", "atan2", "greatest", "least", "coalesce"})
_INNER = "the inner part"


def certify(expression: Expression, variable: str, domains: Mapping[str, Domain]) -> Verdict:
    """Return the shape of an expression in a variable, for every choice of the other columns from their domains.

    The proof is about real numbers and ignores the rounding and overflow of floats. Choices for which the expression
    fails for all values of the variable do not count. If it can fail for some values only, nothing is proved.

    Examples
    --------
    >>> from tidegate.schema import Type
    >>> humidity = Column("humidity", Type.DOUBLE)
    >>> certify(Call("ln", (humidity,), Type.DOUBLE), "humidity", {"humidity": Domain(1, 100)}).why
    'rising: ln(humidity) is rising for humidity in [1, 100]'
    """
    if variable not in columns_of(expression):
        return Proved(Shape.RISING, f"constant: nothing reads {variable}")
    if strange := _unknown_part(expression, variable):
        return Undecided(f"nothing is known about the shape of {to_sql(strange)}")
    with np.errstate(all="ignore"):
        box = box_of(expression, domains)
        return _decide_shape(expression, variable, box.with_column(variable, box[variable]))


def _decide_shape(expression: Expression, variable: str, box: Box) -> Verdict:
    for name, own in box.columns.items():
        if (own.low > own.high).any():
            return Undecided(f"no number is in the domain of {name}")
    if (box[variable].low == box[variable].high).all():
        return Proved(Shape.RISING, f"constant: {variable} is always {float(box[variable].low[0]):.6g}")
    if need := unmet_requirement(expression, variable, box):
        return Undecided(explain_unmet(need, box))
    found = _facts_by_rules(expression, variable, box)
    if not found.facts & Fact.QUASICONVEX and (refuted := find_counterexample(expression, variable, box)):
        return refuted
    if not found.facts & DIRECTION:
        found = _find_facts(expression, variable, box, _budget(expression))
    for fact, shape in _SHAPES:
        if fact in found.facts:
            return Proved(shape, f"{shape.value}: {found.why}")
    return Undecided(_describe_undecided(variable, box))


def _budget(expression: Expression) -> Budget:
    parts = sum(1 for _ in walk(expression))
    return Budget(min(BUDGET, BUDGET * _PARTS // parts))


def _facts_by_rules(expression: Expression, variable: str, box: Box) -> ProvedFacts:
    facts = facts_of(expression, variable, box)
    return ProvedFacts(facts, explain_by_rules(expression, variable, box, facts))


def _find_facts(
    expression: Expression, variable: str, box: Box, budget: Budget, *, defined: bool = True
) -> ProvedFacts:
    """Return the facts from rules, substitution and, if the expression has values in all of the box, derivatives."""
    box = box.only(columns_of(expression))
    found = _facts_by_rules(expression, variable, box)
    if found.facts & DIRECTION:
        return found
    if factors := split_factors(expression, variable):
        factor, rest = factors
        part = _find_facts(rest, variable, box, budget, defined=defined)
        facts = add_implied(found.facts | scale_by_interval(part.facts, enclose(factor, box)))
        news = facts & DIRECTION or not found.facts & Fact.QUASICONVEX
        return (
            ProvedFacts(facts, f"{part.why}; the factor {to_sql(factor)} does not read {variable}") if news else found
        )
    if inner := _common_inner_part(expression, variable):
        whole = _facts_through(expression, inner, variable, box, budget, defined=defined)
        if whole.facts & DIRECTION or (whole.facts & ~found.facts and not found.facts & Fact.QUASICONVEX):
            found = ProvedFacts(add_implied(found.facts | whole.facts), whole.why)
    if found.facts & DIRECTION or not defined:
        return found
    slopes = facts_by_slope(expression, variable, box, budget, found.facts)
    if slopes.facts & DIRECTION or not found.facts & Fact.QUASICONVEX:
        return ProvedFacts(add_implied(found.facts | slopes.facts), slopes.why or found.why)
    return found


def _common_inner_part(expression: Expression, variable: str) -> Expression | None:
    """Return the largest part that contains all occurrences of the variable, however often the part itself occurs."""
    parts = Counter(p for p in walk(expression) if variable in columns_of(p))
    places = _count_occurrences(expression, variable)
    having_all = [
        p for p in parts if parts[p] * _count_occurrences(p, variable) == places and not _is_bare(p) and p != expression
    ]
    return max(having_all, key=lambda p: sum(1 for _ in walk(p)), default=None)


def _count_occurrences(expression: Expression, variable: str) -> int:
    return sum(1 for p in walk(expression) if isinstance(p, Column) and p.name == variable)


def _is_bare(part: Expression) -> bool:
    """Return whether a part is only a column, perhaps cast to a wider type."""
    return isinstance(part, Column) or (isinstance(part, Cast) and isinstance(part.argument, Column))


def _replace_part(expression: Expression, part: Expression, by: Expression) -> Expression:
    return transform(expression, lambda e: by if e == part else e)


def _facts_through(
    expression: Expression, inner: Expression, variable: str, box: Box, budget: Budget, *, defined: bool
) -> ProvedFacts:
    """Return the facts of the expression as a function of a part of it."""
    outer = _replace_part(expression, inner, Column(_INNER, inner.type))
    around = box.with_column(_INNER, enclose(inner, box))
    # The interval of the inner part may contain numbers that it never is, and for which the outer part has no value.
    above = _find_facts(outer, _INNER, around, budget, defined=unmet_requirement(outer, _INNER, around) is None)
    below = _find_facts(inner, variable, box, budget, defined=defined)
    facts = compose_facts(above.facts, below.facts)
    how = next((shape.value for fact, shape in _SHAPES if fact in above.facts), "unknown")
    what = next((shape.value for fact, shape in _SHAPES if fact in below.facts), "unknown")
    return ProvedFacts(facts, explain_through(outer, inner, (how, what), below.why, (_INNER, variable)))


def _unknown_part(expression: Expression, variable: str) -> Expression | None:
    """Return the first part that reads the variable and about which nothing is known."""
    return next((p for p in walk(expression) if variable in columns_of(p) and not _is_known(p, variable)), None)


def _is_known(part: Expression, variable: str) -> bool:
    match part:
        case Column(type=type_):
            return type_.is_numeric
        case Cast(argument=argument, type=type_):
            return argument.type.is_numeric and type_.is_numeric
        case Case(branches=branches, type=type_):
            return type_.is_numeric and not any(variable in columns_of(condition) for condition, _ in branches)
        case Call(user=None, function=name, type=type_):
            return type_.is_numeric and (name in _KNOWN or name in SMOOTH or name in STEPS)
        case InList() | Call():
            return False
    return True


def _describe_undecided(variable: str, box: Box) -> str:
    unbounded = [name for name, own in box.columns.items() if np.isinf(own.low[0]) or np.isinf(own.high[0])]
    if unbounded:
        advice = f"a declared domain of {', '.join(unbounded)} may help: CHECK (… BETWEEN … AND …)"
        return f"neither proved nor refuted in {variable}; {advice}"
    domains = ", ".join(domain_text(name, box) for name in box.columns)
    return f"neither proved nor refuted in {variable} for {domains}; narrower domains may help"
