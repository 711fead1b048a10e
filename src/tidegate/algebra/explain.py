"""Plans as text, for people."""

from __future__ import annotations

from dataclasses import replace

from tidegate.algebra.adaptable import granule_chain, is_adaptable
from tidegate.algebra.alert_operators import GroupedTotals, RangeThreshold, ThresholdJoin, TotalThreshold
from tidegate.algebra.equalities import is_by_key
from tidegate.algebra.keyed_join import JoinEdge, KeyedJoin
from tidegate.algebra.plan import (
    EVERY_ROW,
    WHOLE,
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
    Sample,
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
from tidegate.algebra.subscriptions import Dimension, TotalCompletion
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
            moving = "" if slide == 1 else f" slide {duration_text(slide)}"
            extended = " of whole elements" if whole else ""
            shrunk = f", at least {duration_text(plan.least)}" if plan.least is not None and is_adaptable(plan) else ""
            return f"Window range {'unbounded' if size is None else duration_text(size)}{shrunk}{moving}{extended}"
        case CountWindow(rows=rows, slide=slide, keys=keys):
            moving = "" if slide == 1 else f" slide {slide}"
            per = f" by {', '.join(keys)}" if keys else ""
            shrunk = f", at least {plan.least}" if is_adaptable(plan) else ""
            return f"Window rows {'unbounded' if rows is None else rows}{shrunk}{moving}{per}"
        case Granularity(size=size):
            coarsened = f", up to {duration_text(granule_chain(plan)[-1])}" if is_adaptable(plan) else ""
            return f"Granularity {duration_text(size)}{coarsened}"
        case Coalesce(length=length) if length == WHOLE:
            return "Coalesce"
        case Split(length=length) | Coalesce(length=length):
            return f"{type(plan).__name__} to at most {duration_text(length)}"
        case Stamp(column=column):
            return f"Stamp own time as {column}"
        case Sample():
            return f"Sample {rate_text(plan)}, weight as {plan.weight}"
        case Changes(change=change):
            return f"Changes {change.name.lower().replace('_', ' ')}"
        case Limit(order=order, count=count, offset=offset, keys=keys, ties=ties):
            skipped = f" after {offset}" if offset else ""
            tied = " with ties" if ties else ""
            per = f" of each {', '.join(keys)}" if keys else ""
            return f"Limit {count}{tied}{skipped} in order of {', '.join(map(_order_text, order))}{per}"
        case SetOperation(rule=rule):
            return rule.value.capitalize()
        case SemiJoin(predicate=predicate, anti=anti):
            return f"{'Anti' if anti else 'Semi'}-join on {to_sql(predicate)}"
        case Filter(predicate=predicate):
            return f"Filter {to_sql(predicate)}"
        case Map(outputs=outputs):
            prefix = _common_prefix(plan)
            return f"Map {', '.join(map(_output_text, outputs))}" if prefix is None else f"Rename to {prefix}"
        case Union():
            return "Union all"
        case Join(predicate=predicate):
            return "Join all pairs" if predicate == TRUE else f"Join on {to_sql(predicate)}"
        case KeyedJoin(edges=edges):
            return "Keyed join on " + "; ".join(edge_text(plan, edge, " → ") for edge in edges)
        case SimilarityJoin():
            kind = "Join by comparison" if plan.similarity is None else "Similarity join"
            kind = "Join by comparison of equal keys" if is_by_key(plan) else kind
            words = pair_condition_text(plan)
            return f"{kind} of all pairs" if words is None else f"{kind} on {words}"
        case Aggregate(keys=keys, calls=calls):
            by = f" by {', '.join(keys)}" if keys else ""
            return f"Aggregate {', '.join(map(_call_text, calls))}{by}"
        case Distinct():
            return "Distinct"
        case ThresholdJoin(inputs=many, alerts=alerts):
            return f"Threshold {'join' if len(many) > 1 else 'alert'} " + "; ".join(
                f"{a.name} when {to_sql(a.condition)}" for a in alerts
            )
        case TotalThreshold(source=source, keys=keys, waiting=waiting, threshold=threshold):
            per = f" of each {', '.join(keys)}" if keys else ""
            return f"Total threshold {_total_text(waiting, source, str(threshold))}{per}{_within_text(waiting)}"
        case GroupedTotals():
            return f"Total thresholds {_group_text(plan)}"
        case RangeThreshold():
            return f"Subscriptions {_subscriptions_text(plan)}"


def rate_text(plan: Sample) -> str:
    """Describe the share of elements that a sample keeps.

    Examples
    --------
    >>> from tidegate.schema import Schema
    >>> rate_text(Sample(Scan("bid", Schema.of()), "weight", 100_000)), rate_text(Sample(Scan("bid", Schema.of()), "w"))
    ('10 %', 'as many as fit in 1 second a step')
    """
    if plan.rate is None:
        return f"as many as fit in {duration_text(plan.target)} a step"
    return f"{100 * plan.rate / EVERY_ROW:g} %"


def edge_text(join: KeyedJoin, edge: JoinEdge, between: str) -> str:
    """Return the keys of an edge, pair by pair: first that of the parent, then that of the child."""
    parent, child = join.inputs[edge.parent], join.inputs[edge.child]
    pairs = zip(edge.parent_keys, edge.child_keys, strict=True)
    return " and ".join(f"{column_text(parent, own)}{between}{column_text(child, other)}" for own, other in pairs)


def pair_condition_text(join: SimilarityJoin) -> str | None:
    """Return the condition on pairs, with the similarity condition first; None if there is no condition.

    A similarity condition that the predicate repeats appears once.
    """
    terms = conjuncts(join.predicate)
    if join.similarity is not None:
        measured = _measure_calls(join)
        again = [term for term in terms if any(each in measured for each in nodes.walk(term))]
        terms = (*(again or [_similarity_expression(join)]), *(term for term in terms if term not in again))
    return to_sql(conjunction(terms)) if terms else None


def _measure_calls(join: SimilarityJoin) -> tuple[Expression, ...]:
    """Return the expressions that a similarity condition measures, in both orders of the sides."""
    assert join.similarity is not None
    measure = join.similarity.measure
    one, other = _expression_of(join.left, join.similarity.left), _expression_of(join.right, join.similarity.right)
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


def _similarity_expression(join: SimilarityJoin) -> Expression:
    assert join.similarity is not None
    measured, bound = _measure_calls(join)[0], Literal(join.similarity.bound, _measure_calls(join)[0].type)
    match join.similarity.measure:
        case Measure.SUBSET | Measure.SUPERSET:
            return measured
        case Measure.DISTANCE:
            return Call("<=", (measured, bound), Type.BOOLEAN)
    return Call(">=", (measured, bound), Type.BOOLEAN)


def _subscriptions_text(plan: RangeThreshold) -> str:
    """Describe the counted elements, the ranges, and how subscriptions begin and end."""
    said = plan.subscribed
    threshold = column_text(plan.subscriptions, said.threshold)
    conditions = [_range_text(each, plan) for each in said.dimensions]
    pairs = zip(*plan.keys, strict=True)
    conditions += [
        f"{column_text(plan.elements, own)} = {column_text(plan.subscriptions, theirs)}" for own, theirs in pairs
    ]
    within = f" for {', '.join(conditions)}" if conditions else ""
    ended = "" if said.ended is None else f", ended by {column_text(plan.subscriptions, said.ended)}"
    reached = _total_text(plan.waiting, plan.elements, threshold)
    return f"{reached}{within}{_within_text(plan.waiting)}, of each {said.id}{ended}"


def _group_text(plan: GroupedTotals) -> str:
    """Describe what the alerts of a group have in common; their statements say how they differ."""
    weight, within = column_text(plan.source, plan.waiting.weight), _within_text(plan.waiting)
    ranges = ", ".join(column_text(plan.source, each) for each in plan.values)
    per = f" of each {', '.join(plan.keys)}" if plan.keys else ""
    return f"of {len(plan.group)} alerts{f' by ranges of {ranges}' if ranges else ''}, total of {weight}{per}{within}"


def _total_text(waiting: TotalCompletion, elements: Plan, threshold: str) -> str:
    match _expression_of(elements, waiting.weight):
        case Literal(value=1):
            return f"{waiting.name} when count >= {threshold}"
    return f"{waiting.name} when total of {column_text(elements, waiting.weight)} >= {threshold}"


def _within_text(waiting: TotalCompletion) -> str:
    within = "" if waiting.within is None else f" within {duration_text(waiting.within)}"
    return within + (", repeated" if waiting.repeats else "")


def _range_text(dimension: Dimension, plan: RangeThreshold) -> str:
    """Return a range in interval notation: a bracket includes the end, a parenthesis excludes it."""
    low, high = (None if c is None else column_text(plan.subscriptions, c) for c in (dimension.low, dimension.high))
    start = "(-∞" if low is None else f"{'(' if dimension.low_open else '['}{low}"
    end = "∞)" if high is None else f"{high}{')' if dimension.high_open else ']'}"
    return f"{column_text(plan.elements, dimension.value)} in {start}, {end}"


def column_text(plan: Plan, column: str) -> str:
    """Return a column, or its expression if the operator directly below computes it only for this use."""
    match _expression_of(plan, column):
        case Cast(argument=argument, type=type_) if not cast_can_fail(argument.type, type_):
            return to_sql(argument)
        case expression:
            return to_sql(expression)


def _expression_of(plan: Plan, column: str) -> Expression:
    """Return the expression of a column if the operator directly below computes it; otherwise the column."""
    match plan:
        case Filter(source=source):
            return _expression_of(source, column)
        case Map(outputs=outputs) if ":" in column:
            names = {o.expression.name: o.name for o in outputs if isinstance(o.expression, Column)}
            made = next(o.expression for o in outputs if o.name == column)
            return transform(made, lambda e: replace(e, name=names.get(e.name, e.name)) if isinstance(e, Column) else e)
    return Column(column, plan.schema.type_of(column))


def duration_text(microseconds: int) -> str:
    """Return a duration as people write it.

    Examples
    --------
    >>> duration_text(18_000_000_000), duration_text(90_000_000), duration_text(0)
    ('5 hours', '1 minute 30 seconds', '0 seconds')
    """
    if microseconds and microseconds % MICROSECONDS["week"] == 0:
        return _amount_text(microseconds // MICROSECONDS["week"], "week")
    parts, rest = [], microseconds
    for unit in ("day", "hour", "minute", "second", "millisecond", "microsecond"):
        amount, rest = divmod(rest, MICROSECONDS[unit])
        parts += [_amount_text(amount, unit)] if amount else []
    return " ".join(parts) or _amount_text(0, "second")


def _amount_text(amount: int, unit: str) -> str:
    return f"{amount} {unit}" if amount == 1 else f"{amount} {unit}s"


def _output_text(output: Output) -> str:
    match output.expression:
        case Column(name=name) if name == output.name:
            return name
    return f"{to_sql(output.expression)} AS {output.name}"


def _call_text(call: AggregateCall) -> str:
    distinct = "distinct " if call.distinct else ""
    arguments = ", ".join([*call.columns, *map(str, call.options)]) or "*"
    return f"{call.function}({distinct}{arguments}) AS {call.name}"


def _order_text(order: Order) -> str:
    return order.column + (" descending" if order.descending else "") + (", nulls first" if order.nulls_first else "")


def _common_prefix(plan: Map) -> str | None:
    """Return the alias if the map only prefixes all column names with it; otherwise None."""
    names = plan.source.schema.names
    if not names or [o.expression for o in plan.outputs] != [Column(f.name, f.type) for f in plan.source.schema]:
        return None
    prefix = plan.outputs[0].name.removesuffix(names[0])
    fits = all(o.name == prefix + name for o, name in zip(plan.outputs, names, strict=True))
    return prefix[:-1] if fits and prefix.endswith(".") and len(prefix) > 1 else None
