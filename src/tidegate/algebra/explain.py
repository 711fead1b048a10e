"""Plans as text, for people."""

from __future__ import annotations

from dataclasses import replace

from tidegate.algebra.alarms import RangeThreshold, ThresholdJoin, TotalThreshold
from tidegate.algebra.keyed_join import JoinEdge, KeyedJoin
from tidegate.algebra.plan import (
    Aggregate,
    AggregateCall,
    Changes,
    Coalesce,
    CountWindow,
    Distinct,
    Filter,
    Granularity,
    Join,
    Limit,
    Map,
    Order,
    Output,
    Plan,
    Scan,
    SemiJoin,
    SetOperation,
    Split,
    Stamp,
    Union,
    Window,
    inputs,
)
from tidegate.algebra.similarity_join import Measure, SimilarityJoin
from tidegate.algebra.subscriptions import Dimension, Waiting
from tidegate.expressions import nodes
from tidegate.expressions.coercion import cast_can_fail
from tidegate.expressions.nodes import (
    TRUE,
    Call,
    Cast,
    Column,
    Expression,
    Literal,
    conjunction,
    conjuncts,
    transform,
)
from tidegate.expressions.sql_text import to_sql
from tidegate.schema import Type
from tidegate.time import MICROSECONDS


def explain(plan: Plan) -> str:
    """Return the plan as an indented tree, one operator per line, each above its inputs.

    Examples
    --------
    >>> from tidegate.schema import Schema, Type
    >>> print(explain(Distinct(Window(Scan("bid", Schema.of(price=Type.DOUBLE)), 60_000_000))))
    Distinct
      Window range 1 minute
        Scan bid
    """
    return "\n".join(_lines(plan, ""))


def _lines(plan: Plan, indent: str) -> list[str]:
    below = [line for each in inputs(plan) for line in _lines(each, indent + "  ")]
    return [indent + describe(plan), *below]


def describe(plan: Plan) -> str:
    """Describe one operator with its parameters, without its inputs."""
    match plan:
        case Scan(stream=stream):
            return f"Scan {stream}"
        case Window(size=size, slide=slide, whole=whole):
            moving = "" if slide == 1 else f" slide {in_words(slide)}"
            extended = " of whole elements" if whole else ""
            return f"Window range {'unbounded' if size is None else in_words(size)}{moving}{extended}"
        case CountWindow(rows=rows, slide=slide, keys=keys):
            moving = "" if slide == 1 else f" slide {slide}"
            per = f" by {', '.join(keys)}" if keys else ""
            return f"Window rows {'unbounded' if rows is None else rows}{moving}{per}"
        case Granularity(size=size):
            return f"Granularity {in_words(size)}"
        case Split(length=length) | Coalesce(length=length):
            return f"{type(plan).__name__} to at most {in_words(length)}"
        case Stamp(column=column):
            return f"Stamp own time as {column}"
        case Changes(change=change):
            return f"Changes {change.name.lower().replace('_', ' ')}"
        case Limit(order=order, count=count, offset=offset, keys=keys, ties=ties):
            skipped = f" after {offset}" if offset else ""
            tied = " with ties" if ties else ""
            per = f" of each {', '.join(keys)}" if keys else ""
            return f"Limit {count}{tied}{skipped} in order of {', '.join(map(_order, order))}{per}"
        case SetOperation(rule=rule):
            return rule.value.capitalize()
        case SemiJoin(predicate=predicate, anti=anti):
            return f"{'Anti' if anti else 'Semi'}-join on {to_sql(predicate)}"
        case Filter(predicate=predicate):
            return f"Filter {to_sql(predicate)}"
        case Map(outputs=outputs):
            prefix = _common_prefix(plan)
            return f"Map {', '.join(map(_output, outputs))}" if prefix is None else f"Rename to {prefix}"
        case Union():
            return "Union all"
        case Join(predicate=predicate):
            return "Join all pairs" if predicate == TRUE else f"Join on {to_sql(predicate)}"
        case KeyedJoin(edges=edges):
            return "Keyed join on " + "; ".join(edge_words(plan, edge, " → ") for edge in edges)
        case SimilarityJoin():
            kind = "Join by comparison" if plan.likeness is None else "Similarity join"
            words = pair_words(plan)
            return f"{kind} of all pairs" if words is None else f"{kind} on {words}"
        case Aggregate(keys=keys, calls=calls):
            by = f" by {', '.join(keys)}" if keys else ""
            return f"Aggregate {', '.join(map(_call, calls))}{by}"
        case Distinct():
            return "Distinct"
        case ThresholdJoin(alerts=alerts):
            return "Threshold join " + "; ".join(f"{a.name} when {to_sql(a.condition)}" for a in alerts)
        case TotalThreshold(source=source, keys=keys, waiting=waiting, threshold=threshold):
            per = f" of each {', '.join(keys)}" if keys else ""
            return f"Total threshold {_reached(waiting, source, str(threshold))}{per}{_waiting(waiting)}"
        case RangeThreshold():
            return f"Subscriptions {_subscribed(plan)}"


def edge_words(join: KeyedJoin, edge: JoinEdge, between: str) -> str:
    """Return the keys of an edge, pair by pair: first that of the parent, then that of the child."""
    parent, child = join.inputs[edge.parent], join.inputs[edge.child]
    pairs = zip(edge.parent_keys, edge.child_keys, strict=True)
    return " and ".join(f"{shown(parent, own)}{between}{shown(child, other)}" for own, other in pairs)


def pair_words(join: SimilarityJoin) -> str | None:
    """Return the condition on pairs, with the similarity condition first; None if there is no condition.

    A similarity condition that the predicate repeats appears once.
    """
    terms = conjuncts(join.predicate)
    if join.likeness is not None:
        measured = _measured(join)
        again = [term for term in terms if any(each in measured for each in nodes.walk(term))]
        terms = (*(again or [_likeness(join)]), *(term for term in terms if term not in again))
    return to_sql(conjunction(terms)) if terms else None


def _measured(join: SimilarityJoin) -> tuple[Expression, ...]:
    """Return the expressions that a similarity condition measures, in both orders of the sides."""
    assert join.likeness is not None
    measure = join.likeness.measure
    one, other = _meaning(join.left, join.likeness.left), _meaning(join.right, join.likeness.right)
    match measure:
        case Measure.DISTANCE:
            differences = (Call("-", pair, one.type) for pair in ((one, other), (other, one)))
            return tuple(Call("abs", (each,), one.type) for each in differences)
        case Measure.SUBSET | Measure.SUPERSET:
            turned = {Measure.SUBSET: Measure.SUPERSET, Measure.SUPERSET: Measure.SUBSET}[measure]
            ways = ((measure, (one, other)), (turned, (other, one)))
            return tuple(Call(function.value, pair, Type.BOOLEAN) for function, pair in ways)
    type_ = Type.BIGINT if measure is Measure.OVERLAP else Type.DOUBLE
    return tuple(Call(measure.value, pair, type_) for pair in ((one, other), (other, one)))


def _likeness(join: SimilarityJoin) -> Expression:
    assert join.likeness is not None
    measured, bound = _measured(join)[0], Literal(join.likeness.bound, _measured(join)[0].type)
    match join.likeness.measure:
        case Measure.SUBSET | Measure.SUPERSET:
            return measured
        case Measure.DISTANCE:
            return Call("<=", (measured, bound), Type.BOOLEAN)
    return Call(">=", (measured, bound), Type.BOOLEAN)


def _subscribed(plan: RangeThreshold) -> str:
    """Describe the counted elements, the ranges, and how subscriptions begin and end."""
    said = plan.subscribed
    threshold = shown(plan.subscriptions, said.threshold)
    conditions = [_dimension(each, plan) for each in said.dimensions]
    pairs = zip(*plan.keys, strict=True)
    conditions += [f"{shown(plan.elements, own)} = {shown(plan.subscriptions, theirs)}" for own, theirs in pairs]
    within = f" for {', '.join(conditions)}" if conditions else ""
    ended = "" if said.ended is None else f", ended by {shown(plan.subscriptions, said.ended)}"
    reached = _reached(plan.waiting, plan.elements, threshold)
    return f"{reached}{within}{_waiting(plan.waiting)}, of each {said.id}{ended}"


def _reached(waiting: Waiting, elements: Plan, threshold: str) -> str:
    match _meaning(elements, waiting.weight):
        case Literal(value=1):
            return f"{waiting.name} when count >= {threshold}"
    return f"{waiting.name} when total of {shown(elements, waiting.weight)} >= {threshold}"


def _waiting(waiting: Waiting) -> str:
    within = "" if waiting.within is None else f" within {in_words(waiting.within)}"
    return within + (", repeated" if waiting.repeats else "")


def _dimension(dimension: Dimension, plan: RangeThreshold) -> str:
    """Return a range in interval notation: a bracket includes the end, a parenthesis excludes it."""
    low, high = (None if c is None else shown(plan.subscriptions, c) for c in (dimension.low, dimension.high))
    start = "(-∞" if low is None else f"{'(' if dimension.low_open else '['}{low}"
    end = "∞)" if high is None else f"{high}{')' if dimension.high_open else ']'}"
    return f"{shown(plan.elements, dimension.value)} in {start}, {end}"


def shown(plan: Plan, column: str) -> str:
    """Return a column, or its expression if the operator directly below computes it only for this use."""
    match _meaning(plan, column):
        case Cast(argument=argument, type=type_) if not cast_can_fail(argument.type, type_):
            return to_sql(argument)
        case expression:
            return to_sql(expression)


def _meaning(plan: Plan, column: str) -> Expression:
    """Return the expression of a column if the operator directly below computes it; otherwise the column."""
    match plan:
        case Filter(source=source):
            return _meaning(source, column)
        case Map(outputs=outputs) if ":" in column:
            names = {o.expression.name: o.name for o in outputs if isinstance(o.expression, Column)}
            made = next(o.expression for o in outputs if o.name == column)
            return transform(made, lambda e: replace(e, name=names.get(e.name, e.name)) if isinstance(e, Column) else e)
    return Column(column, plan.schema.type_of(column))


def in_words(microseconds: int) -> str:
    """Return a duration as people write it.

    Examples
    --------
    >>> in_words(18_000_000_000), in_words(90_000_000), in_words(0)
    ('5 hours', '1 minute 30 seconds', '0 seconds')
    """
    if microseconds and microseconds % MICROSECONDS["week"] == 0:
        return _amount(microseconds // MICROSECONDS["week"], "week")
    parts, rest = [], microseconds
    for unit in ("day", "hour", "minute", "second", "millisecond", "microsecond"):
        amount, rest = divmod(rest, MICROSECONDS[unit])
        parts += [_amount(amount, unit)] if amount else []
    return " ".join(parts) or _amount(0, "second")


def _amount(amount: int, unit: str) -> str:
    return f"{amount} {unit}" if amount == 1 else f"{amount} {unit}s"


def _output(output: Output) -> str:
    match output.expression:
        case Column(name=name) if name == output.name:
            return name
    return f"{to_sql(output.expression)} AS {output.name}"


def _call(call: AggregateCall) -> str:
    distinct = "distinct " if call.distinct else ""
    arguments = ", ".join([*call.columns, *map(str, call.options)]) or "*"
    return f"{call.function}({distinct}{arguments}) AS {call.name}"


def _order(order: Order) -> str:
    return order.column + (" descending" if order.descending else "") + (", nulls first" if order.nulls_first else "")


def _common_prefix(plan: Map) -> str | None:
    """Return the alias if the map only prefixes all column names with it; otherwise None."""
    names = plan.source.schema.names
    if not names or [o.expression for o in plan.outputs] != [Column(f.name, f.type) for f in plan.source.schema]:
        return None
    prefix = plan.outputs[0].name.removesuffix(names[0])
    fits = all(o.name == prefix + name for o, name in zip(plan.outputs, names, strict=True))
    return prefix[:-1] if fits and prefix.endswith(".") and len(prefix) > 1 else None
